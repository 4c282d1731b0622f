"""What can happen to nodes and their database, one method a fault; see `node_faults.py`."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from support.database import Server
from support.lines import Line, open_line
from support.node_world import Places, World
from support.ports import free_port

SHORT_S, LONG_S = 2.0, 7.0  # less than a lease, and more
AWAY_S = 5.0  # of a database
DISK_MB = 1000


@dataclass(slots=True)
class Databases:
    """A primary and its synchronous standby, each in a slot; lines lead to the slots."""

    folder: Path
    slots: list[Server]
    lines: dict[str, list[Line]] = field(default_factory=dict[str, list[Line]])
    "By node: to each slot."
    first: int = 0
    "The slot of the primary."

    @property
    def primary(self) -> Server:
        """The server that takes writes."""
        return self.slots[self.first]

    def promote(self) -> None:
        """Make the standby the primary; there is no standby then."""
        self.first = 1 - self.first
        self.primary.promote()
        self._await_standby("RESET synchronous_standby_names")  # nobody confirms a commit now

    def follow(self) -> None:
        """Give the primary a synchronous standby, in the other slot. Takes seconds."""
        other = 1 - self.first
        shutil.rmtree(self.folder / f"slot{other}", ignore_errors=True)
        self.slots[other] = standby = make_server(self.folder, other, copy_of=self.primary)
        standby.start()
        for lines in self.lines.values():
            lines[other].target = standby.port
        self._await_standby("SET synchronous_standby_names = '*'")

    def _await_standby(self, change: str) -> None:
        self.primary.psql(f"ALTER SYSTEM {change}")
        self.primary.psql("SELECT pg_reload_conf()")

    def url(self, name: str) -> str:
        """Return the address by which a node reaches whichever takes writes."""
        hosts = ",".join(f"127.0.0.1:{line.port}" for line in self.lines[name])
        more = "sslmode=disable&target_session_attrs=read-write"
        return f"postgresql://everturn@{hosts}/postgres?{more}"

    def mend(self) -> None:
        """Let the primary run, whatever was done to it last."""
        (self.folder / "filler").unlink(missing_ok=True)
        if not self.primary.is_running:
            self.primary.kill()
            self.primary.start()

    def stop(self) -> None:
        """End both."""
        for each in self.slots:
            each.kill()


def make_server(folder: Path, slot: int, *, copy_of: Server | None = None) -> Server:
    """Return a server with files of its own."""
    own = folder / f"slot{slot}"
    own.mkdir()
    return Server(own, copy_of=copy_of)


@asynccontextmanager
async def open_databases(*names: str) -> AsyncGenerator[Databases]:
    """Run a primary and a standby, with lines from nodes to them; as root, on a small disk."""
    folder = Path(tempfile.mkdtemp(prefix="everturn-databases-"))
    is_mounted = os.geteuid() == 0 and _mount(folder)
    os.chmod(folder, 0o755)  # noqa: S103 - the servers run as somebody else
    found = Databases(folder, [await anyio.to_thread.run_sync(make_server, folder, 0)] * 2)
    try:
        await anyio.to_thread.run_sync(found.primary.start)
        async with AsyncExitStack() as stack:
            for name in names:
                found.lines[name] = [
                    await stack.enter_async_context(open_line(each.port)) for each in found.slots
                ]
            await anyio.to_thread.run_sync(found.follow)
            yield found
    finally:
        await anyio.to_thread.run_sync(found.stop)
        if is_mounted:
            await anyio.run_process(["umount", "-l", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _mount(folder: Path) -> bool:
    options = ["-t", "tmpfs", "-o", f"size={DISK_MB}m", "everturn", str(folder)]
    return subprocess.run(["mount", *options], check=False).returncode == 0


@asynccontextmanager
async def open_links(*names: str) -> AsyncGenerator[dict[str, Line]]:
    """Open lines over which the others reach each node, which listens at their target."""
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(open_line(free_port())) for name in names}


def places(databases: Databases, links: Mapping[str, Line]) -> dict[str, Places]:
    """Return where nodes find the database and each other."""
    return {
        name: Places(
            database=databases.url(name),
            listen=f"127.0.0.1:{line.target}",
            advertise=f"127.0.0.1:{line.port}",
        )
        for name, line in links.items()
    }


@dataclass(slots=True)
class Trouble:
    """What is done to nodes, by chance."""

    world: World
    chance: random.Random
    databases: Databases
    links: Mapping[str, Line]

    def kinds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return all faults by name."""
        found = {
            "node killed": self.kill,
            "node stopped in order": self.stop,
            f"node frozen {SHORT_S:g} s": self.freeze_shortly,
            f"node frozen {LONG_S:g} s": self.freeze,
            "connections of the database ended": self.end_connections,
            f"database killed, away {AWAY_S:g} s": self.kill_database,
            "standby promoted 2 s after the primary was killed": self.promote,
            f"node cut off from the database {LONG_S:g} s": self.cut_database,
            f"database silent to a node {LONG_S:g} s": self.silence_database,
            "answers of commits lost": self.lose_answers,
            f"node cut off from the others {LONG_S:g} s": self.cut_links,
            f"node silent to the others {LONG_S:g} s": self.silence_links,
            "connections of the server spent 5 s": self.spend_connections,
        }
        if os.path.ismount(self.databases.folder):
            found["disk of the server full 3 s"] = self.fill_disk
        return found

    async def kill(self) -> None:
        """End a node without a word."""
        node = self._any()
        await node.end(signal.SIGKILL)
        await node.start()

    async def stop(self) -> None:
        """Stop a node in order."""
        node = self._any()
        await node.end(signal.SIGTERM)
        await node.start()

    async def freeze_shortly(self) -> None:
        """Freeze a node for less than a lease."""
        await self._freeze(SHORT_S)

    async def freeze(self) -> None:
        """Freeze a node for more than a lease."""
        await self._freeze(LONG_S)

    async def end_connections(self) -> None:
        """End all connections of people to the database, some in the middle of a commit."""
        ended = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        for _ in range(5):
            await self._do(self.databases.primary.psql, ended)

    async def kill_database(self) -> None:
        """Kill the primary, and start it again."""
        server = self.databases.primary
        await self._do(server.kill)
        await anyio.sleep(AWAY_S)
        await self._do(server.start)

    async def promote(self) -> None:
        """Lose the primary for good; its standby takes its place, and gets one of its own."""
        await self._do(self.databases.primary.kill)
        await anyio.sleep(2.0)
        await self._do(self.databases.promote)
        self.world.server = self.databases.primary
        await anyio.sleep(3.0)
        await self._do(self.databases.follow)

    async def cut_database(self) -> None:
        """Break what one node has of the database."""
        await self._lines(self._some_lines(), "cut", LONG_S)

    async def silence_database(self) -> None:
        """Let nothing pass between one node and the database, without a word."""
        await self._lines(self._some_lines(), "silent", LONG_S)

    async def lose_answers(self) -> None:
        """Let commits of one node be done and not answered; then its connections break."""
        lines = self._some_lines()
        await self._lines(lines, "deaf", 0.5, then="cut")
        await anyio.sleep(0.2)
        await self._lines(lines, "open", 0.0)

    async def cut_links(self) -> None:
        """Let the others not reach a node."""
        await self._lines([self.links[self._any().name]], "cut", LONG_S)

    async def silence_links(self) -> None:
        """Let what the others say to a node get lost."""
        await self._lines([self.links[self._any().name]], "silent", LONG_S)

    async def spend_connections(self) -> None:
        """Break all connections, and take those that the server has before the nodes do."""
        await self.end_connections()
        greedy = [self.databases.primary.sleeper(AWAY_S) for _ in range(40)]
        await anyio.sleep(AWAY_S)
        for each in greedy:
            each.kill()
            each.wait()

    async def fill_disk(self) -> None:
        """Leave no room where the servers write."""
        filler = self.databases.folder / "filler"
        with suppress(OSError):
            await self._do(_fill, filler)
        await anyio.sleep(3.0)
        filler.unlink(missing_ok=True)
        for server in self.databases.slots:
            if not server.is_running:
                await self._do(server.kill)
                await self._do(server.start)

    def _any(self):  # noqa: ANN202 - of the world
        return self.chance.choice(list(self.world.nodes.values()))

    def _some_lines(self) -> list[Line]:
        return self.databases.lines[self._any().name]

    async def _freeze(self, for_s: float) -> None:
        node = self._any()
        node.send(signal.SIGSTOP)
        await anyio.sleep(for_s)
        node.send(signal.SIGCONT)

    async def _lines(self, lines, state, for_s: float, then="open") -> None:  # noqa: ANN001 - see Line
        for line in lines:
            line.set(state)
        await anyio.sleep(for_s)
        for line in lines:
            if state == "silent" and then == "open":
                line.set("cut")  # what waited for an answer for so long would be mixed up
            line.set(then)

    @staticmethod
    async def _do(function, *args: object) -> None:  # noqa: ANN001 - anything that blocks
        await anyio.to_thread.run_sync(function, *args)


def _fill(path: Path) -> None:
    with path.open("wb") as file:
        while True:
            file.write(b"x" * 1_000_000)
            file.flush()
