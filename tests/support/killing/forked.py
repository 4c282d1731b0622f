"""Work that is ended by SIGKILL at one operation on files: `python -m support.killing.forked`.

It reads an order a line, does it in a process of its own, which is forked and so begins at once,
and writes how that ended: 0, or the number of the signal below it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream
from support.checkpoint_work import Work, others
from support.killing.hook import kill_points
from support.killing.hook.kill_points import KillPoint
from support.mcp_world import open_world

# Besides those two: what the work loads late, and each child would load anew.
import everturn_gateway.tools.mcp.oauth.renewal
import everturn_gateway.tools.mcp.wire  # noqa: F401
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_gateway.tools.mcp import McpOAuthSettings, McpServerSettings

_LINE_BYTES: Final = 1000


async def change(folder: Path) -> None:
    """Change files in a turn of two calls: one is written, one made, one removed."""
    work = Work(folder)
    gone = (work.files / "cup.txt").unlink
    await work.turn(1, lambda: work.write(tea="black", pot="new"), gone)


async def undo(folder: Path) -> None:
    """Take the last turn back."""
    await Work(folder).checkpoints.undo()


async def renew(folder: Path) -> None:
    """Use an MCP server whose token holds no more."""
    url = await others((folder / "url").read_text)
    settings = McpServerSettings(name="web", url=url, oauth=McpOAuthSettings())
    async with open_world(folder, settings, keyed=FileKeyedStore(folder / "kept")) as world:
        await world.text("web_pid")


DEEDS: Final[Mapping[str, tuple[Callable[[Path], Awaitable[None]], str]]] = {
    "change": (change, ""),
    "undo": (undo, ""),
    "renew": (renew, "kept"),
}
"What can be ordered, and the part of its folder in which operations count."


def main() -> None:
    """Do what is ordered, one after the other."""
    gc.freeze()  # a collection would write to pages that all children share
    for line in sys.stdin:
        deed, folder, trace, number, moment = json.loads(line)
        process = os.fork()
        if not process:
            at = KillPoint(number=number, moment=moment)
            deed_of, counted = DEEDS[deed]
            root = Path(folder) / counted
            kill_points.install(dict(kill_points.environment(root, Path(trace), at)))
            anyio.run(deed_of, Path(folder))
            os._exit(0)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 - this is how it is told


class Forks:
    """Orders work, and says how it ended."""

    def __init__(self, process: anyio.abc.Process) -> None:
        """Order it from `process`."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, BufferedByteReceiveStream(process.stdout)

    async def do(self, deed: str, folder: Path, trace: Path, at: KillPoint) -> int:
        """Do it, and end it at a point; return its exit code, below 0 where a signal ended it."""
        order = [deed, str(folder), str(trace), at.number, at.moment]
        await self._stdin.send(json.dumps(order).encode() + b"\n")
        return int(await self._stdout.receive_until(b"\n", _LINE_BYTES))


@asynccontextmanager
async def open_forks() -> AsyncGenerator[Forks]:
    """Open one that does what is ordered."""
    paths = os.pathsep.join(sys.path)
    async with await anyio.open_process(
        [sys.executable, "-m", "support.killing.forked"],
        env={**os.environ, "PYTHONPATH": paths},
        stderr=None,
    ) as process:
        yield Forks(process)
        assert process.stdin is not None
        await process.stdin.aclose()


if __name__ == "__main__":
    main()
