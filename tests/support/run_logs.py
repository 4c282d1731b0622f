"""Run logs on a real disk, and system calls that do not do what they should."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.patience import WAIT_S

from everturn_actors.journal.keyed import FileKeyedStore
from everturn_gateway.scheduler.jobs import JobState
from everturn_gateway.scheduler.run_logs.files import RunLogs


async def opened(folder: Path) -> RunLogs:
    """Return the run logs as a gateway finds them that starts now."""
    logs = RunLogs(FileKeyedStore(folder), "")
    await logs.load()
    return logs


async def started_anew(folder: Path, job_id: str = "job") -> JobState:
    """Return how far a job is for a gateway that starts now."""
    logs = await opened(folder)
    assert logs.faults() == ()
    return logs.job_state(job_id)


def put(folder: Path, data: bytes, name: str = "job.jsonl") -> Path:
    """Write a log as it may be found."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(data)
    return path


def names_in(folder: Path) -> set[str]:
    """Return the names of all files."""
    return {path.name for path in folder.iterdir()}


@contextmanager
def edge(monkeypatch: pytest.MonkeyPatch, name: str, double: Callable[..., Any]) -> Iterator[None]:
    """Put a double in the place of a system call."""
    with monkeypatch.context() as patch:
        patch.setattr(os, name, double)
        yield


def failing(error: int, *, times: int = 1) -> Callable[..., Any]:
    """Return a system call that fails so often."""
    left = [times]

    def double(*_: object) -> None:
        left[0] -= 1
        assert left[0] >= 0
        raise OSError(error, os.strerror(error))

    return double


def modes_in(folder: Path) -> dict[str, int]:
    """Return who may use what, by name."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


@contextmanager
def stuck(
    monkeypatch: pytest.MonkeyPatch, job_id: str, call: str = "pwrite"
) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Let a disk hang for one job: the first event says that it does, the second lets it go on."""
    begun, free = threading.Event(), threading.Event()
    real: Callable[..., Any] = getattr(os, call)

    def double(target: int | Path, *arguments: Any, **named: Any) -> Any:
        path = Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else target
        if path.name.startswith(f"{job_id}.jsonl"):
            begun.set()
            assert free.wait(WAIT_S)
        return real(target, *arguments, **named)

    with edge(monkeypatch, call, double):
        yield begun, free
