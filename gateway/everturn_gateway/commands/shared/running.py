"""The note that a running gateway leaves in its workspace, so that other commands find it."""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import anyio
import anyio.to_thread
from msgspec import Struct, structs

from everturn_actors.ports import Clock
from everturn_actors.supervisor import Backoff, contain
from everturn_gateway.clock import SystemClock
from everturn_gateway.workspace_files import NOTE_NAME

logger = logging.getLogger(__name__)

_NOTE_MAX_BYTES = 10_000
_RETRY = Backoff(longest_s=30.0)  # of a note that could not be written


class Running(Struct, frozen=True, kw_only=True):
    """A gateway that serves a workspace."""

    pid: int
    url: str
    "Where it can be reached from this machine, `http://127.0.0.1:8080`."


def from_here(url: str) -> str:
    """Return the address by which this machine reaches what listens on `url`."""
    parts = urlsplit(url)
    try:
        everywhere = ip_address(parts.hostname or "").is_unspecified
    except ValueError:
        everywhere = False
    if not everywhere:
        return url
    host = "[::1]" if ":" in (parts.hostname or "") else "127.0.0.1"
    return urlunsplit(parts._replace(netloc=f"{host}:{parts.port}"))


@asynccontextmanager
async def noted(
    workspace: Path, running: Running, clock: Clock | None = None
) -> AsyncGenerator[None]:
    """Leave the note as long as the block runs. Only the owner of the workspace can read it.

    Where it cannot be written, on a full disk, the gateway serves all the same, and it is written
    as soon as that is possible.

    Args:
        workspace: Of the gateway.
        running: What the note says.
        clock: The pauses between tries; by default the machine's.
    """
    path = workspace / NOTE_NAME
    fault = await anyio.to_thread.run_sync(_write_fault, workspace, running)
    async with anyio.create_task_group() as tasks:
        if fault:
            logger.warning(
                "other commands on this machine do not find this gateway: the note of its address"
                " cannot be written; it is tried again",
                extra={"path": str(path), "error": fault},
            )
            later = partial(_write_later, workspace, running, clock or SystemClock())
            tasks.start_soon(contain, "note of the gateway", later)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove_note, workspace, running.pid)


async def _write_later(workspace: Path, running: Running, clock: Clock) -> None:
    failures, fault = 0, "it was not tried again"
    while fault:
        failures += 1
        await clock.sleep(_RETRY.pause_s(failures, random.random()))  # noqa: S311 - a pause
        fault = await anyio.to_thread.run_sync(_write_fault, workspace, running)
    logger.info("the note of this gateway's address is written now")


def _write_fault(workspace: Path, running: Running) -> str:
    """Write the note; return why that failed, empty where it did not."""
    try:
        _write(workspace, running)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def remove_note(workspace: Path, pid: int) -> None:
    """Remove the note, if it is that of process `pid`."""
    note = read_note(workspace)
    if note is not None and note.pid == pid:
        (workspace / NOTE_NAME).unlink(missing_ok=True)


def _write(workspace: Path, running: Running) -> None:
    path = workspace / NOTE_NAME
    draft = path.with_name(f"{NOTE_NAME}.{running.pid}")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(structs.asdict(running), file)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def read_note(workspace: Path) -> Running | None:
    """Return what the note says, whether it still holds or not; None where there is none."""
    path = workspace / NOTE_NAME
    try:
        if not path.is_file() or path.stat().st_size > _NOTE_MAX_BYTES:
            return None  # it was not written here: a pipe would be waited for
        data = json.loads(path.read_bytes())
        return Running(pid=int(data["pid"]), url=str(data["url"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
