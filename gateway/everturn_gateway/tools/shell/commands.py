"""One command of an agent, from its text to the result that the model reads."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread
from msgspec import Struct

from everturn_actors.outside import one_source, together
from everturn_actors.ports import ToolOutput
from everturn_gateway.late_loading import late_pattern
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell.confinement.environment import command_environ
from everturn_gateway.tools.shell.confinement.run_as import give_folder
from everturn_gateway.tools.shell.confinement.sandbox import HOME, Confinement, confine
from everturn_gateway.tools.shell.running import SIGNAL_BASE, Finished, run_process
from everturn_gateway.tools.shell.trees import OWNER, owner_of

OUTPUT_BYTES: Final = 256 * 1024
"What is kept of a command's output, head and tail; a model reads less, and can read it back."

_SOURCE_CHARACTERS: Final = 100  # of a command, named as where a text is from
_FETCHES: Final = late_pattern(
    r"://|/dev/(?:tcp|udp)/|(?:^|[\s;|&(`'\"])(?:curl|wget|aria2c|lynx|w3m|http|https|xh|nc|ncat|netcat"
    r"|socat|telnet|ftp|sftp|scp|rsync|ssh|gh|glab"
    r"|git\s+(?:\S+\s+){0,4}(?:clone|fetch|pull|submodule))(?=[\s;|&)`'\"]|$)"
)


class Command(Struct, frozen=True, kw_only=True):
    """What to run; `words`, `cwd` and `readable` are those of `sandbox.command_line`."""

    words: str | Sequence[str]
    cwd: Path | None = None
    readable: Sequence[Path] = ()
    environ: Mapping[str, str] | None = None
    "Added to what `sandbox.command_environ` gives."
    outside: Sequence[str] = ()
    "What was shown to the model that wrote it, by source."


async def run_command(
    environment: ToolEnvironment,
    confinement: Confinement,
    command: Command,
    *,
    timeout_s: float,
) -> ToolOutput:
    """Run a command for an agent and return what it gave, secrets masked.

    Where text from outside is behind the command, the files that changed meanwhile are marked with
    it (`MarkedFiles`). Output of a command that opened a marked file, or that fetched something, is
    not trusted.

    Raises:
        ToolFailedError: It cannot be confined as it has to be, or cannot be started.
    """
    argv = await confine(
        environment, confinement, command.words, cwd=command.cwd, readable=command.readable
    )
    line = command.words if isinstance(command.words, str) else " ".join(command.words)
    said = repr(line[:_SOURCE_CHARACTERS])
    behind = tuple(command.outside)
    if confinement.reaches_network:
        behind = together(behind, (one_source(f"what the command {said} wrote, with network"),))
    async with environment.marks.running(behind) as run, _home(confinement) as home:
        done = await run_process(
            argv,
            cwd=command.cwd or environment.files,
            env={
                **command_environ(environment, home, command.environ),
                OWNER: owner_of(environment.state),
            },
            timeout_s=timeout_s,
            limit_bytes=OUTPUT_BYTES,
        )
    text = await to_thread.run_sync(environment.secrets.mask, done.text)
    untrusted = bool(run.opened) or (confinement.reaches_network and fetches(command.words))
    printed = f"what the command {said} printed"
    source = f"{printed}, with text from: {', '.join(run.opened)}" if run.opened else printed
    return ToolOutput(
        text=result_text(text, done, timeout_s=timeout_s),
        is_error=done.is_error,
        untrusted=untrusted,
        source=one_source(source) if untrusted else "",
    )


def result_text(text: str, done: Finished, *, timeout_s: float) -> str:
    """Return what the model reads: the output, and how it ended unless that was well. Pure."""
    text = text.rstrip("\n")
    if done.timed_out:
        end = f"[stopped: it was not done after {timeout_s:g} s]"
    elif done.exit_code == 0:
        end = "" if text.strip() else "[done; it printed nothing]"
    else:
        end = f"[exit code {done.exit_code}{_ended_by(done.exit_code)}]"
    return "\n".join(part for part in (text, end) if part)


def fetches(command: str | Sequence[str]) -> bool:
    """Return whether a command looks like one that prints what others wrote on the network. Pure.

    A guard against the plain case, not a wall: a script can hide what it does.
    """
    return _FETCHES.search(command if isinstance(command, str) else " ".join(command)) is not None


@asynccontextmanager
async def _home(confinement: Confinement) -> AsyncGenerator[str]:
    """Give a command an empty home, which is removed with all that it wrote there."""
    if confinement.sandbox == "bwrap":
        yield HOME
        return
    folder = await to_thread.run_sync(_made_home, confinement)
    try:
        yield folder
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))


def _made_home(confinement: Confinement) -> str:
    """Make an empty home that belongs to whom the command runs as."""
    folder = tempfile.mkdtemp(prefix="everturn-home-")
    if confinement.sandbox == "plain":
        give_folder(Path(folder), confinement.run_as)
    return folder


def _ended_by(exit_code: int) -> str:
    try:
        name = signal.Signals(exit_code - SIGNAL_BASE).name
    except ValueError:
        return ""
    return f": ended by {name}"
