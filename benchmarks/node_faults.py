"""Three gateways on one PostgreSQL, people who write to any of them, and a fault every few seconds.

    python benchmarks/node_faults.py [--turns 50000] [--minutes 60] [--every 15] [--people 32]

Faults, by chance from a seed: a node is killed, stopped in order, frozen for less or more than a
lease; all connections of the database are ended; the database is killed and started again. People
send 5 % of their messages twice at once, change to another node at every error, and know nothing of
the faults. At the end every log is held against what people were told: each message once, in order,
answered once with what they read, no hole in the numbers.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from harness import show

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.answers import Answer  # noqa: E402 - its place is named above
from support.database import running_server  # noqa: E402
from support.model_api import Received, open_model_api  # noqa: E402
from support.node_world import Talk, World, audit, open_world  # noqa: E402

MESSAGES = 20  # of one session
SHORT_S, LONG_S = 2.0, 7.0  # frozen for less than a lease, and for more
AWAY_S = 5.0  # of a database
AFTER_S = 12.0  # in which a turn counts as hit by a fault
QUIET_S = 5.0  # after a fault is over


@dataclass(slots=True)
class Faults:
    """What was done to the nodes, and when."""

    world: World
    chance: random.Random
    done: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

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

    async def cut(self) -> None:
        """End all connections of the database."""
        ended = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )
        await anyio.to_thread.run_sync(self.world.server.psql, ended)

    async def kill_database(self) -> None:
        """Kill the database, and start it again."""
        await anyio.to_thread.run_sync(self.world.server.kill)
        await anyio.sleep(AWAY_S)
        await anyio.to_thread.run_sync(self.world.server.start)

    def _any(self):  # noqa: ANN202 - of the world
        return self.chance.choice(list(self.world.nodes.values()))

    async def _freeze(self, for_s: float) -> None:
        node = self._any()
        node.send(signal.SIGSTOP)
        await anyio.sleep(for_s)
        node.send(signal.SIGCONT)

    async def run(self, every_s: float) -> None:
        """Do one after the other, until cancelled."""
        kinds: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            ("node killed", self.kill),
            ("node stopped in order", self.stop),
            (f"node frozen {SHORT_S:g} s", self.freeze_shortly),
            (f"node frozen {LONG_S:g} s", self.freeze),
            ("connections of the database ended", self.cut),
            (f"database killed, away {AWAY_S:g} s", self.kill_database),
        )
        while True:
            await anyio.sleep(every_s)
            name, do = self.chance.choice(kinds)
            print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
            self.done.append((name, anyio.current_time()))
            await do()
            await anyio.sleep(QUIET_S)


def reply(request: Received) -> Answer:
    """Answer with what was said last."""
    return Answer(text=f"you said {request.json()['messages'][-1]['content']}", delay_s=0.02)


async def people(talk: Talk, number: int, goal: int, until_s: float) -> None:
    """Write in one session after the other, until all together have said enough, or time is up."""
    session = 0
    while len(talk.told) < goal and anyio.current_time() < until_s:
        session += 1
        await talk.converse(number * 100_000 + session, MESSAGES)


async def measure(arguments: argparse.Namespace, folder: Path) -> int:
    """Run it all; return how many faults were found."""
    chance = random.Random(arguments.seed)  # noqa: S311 - the same each time
    async with open_model_api(default=reply) as api:
        with running_server() as server:
            async with open_world(folder, server, api.url, "a", "b", "c") as world:
                talk, faults = Talk(world=world, chance=chance), Faults(world, chance)
                began_s = anyio.current_time()
                until_s = began_s + arguments.minutes * 60
                async with anyio.create_task_group() as trouble:
                    trouble.start_soon(faults.run, arguments.every)
                    async with anyio.create_task_group() as tasks:
                        for number in range(arguments.people):
                            tasks.start_soon(people, talk, number, arguments.turns, until_s)
                    trouble.cancel_scope.cancel()
                took_s = anyio.current_time() - began_s
                for node in world.nodes.values():  # one may be cut off in the middle of its start
                    if node.process is not None:
                        node.send(signal.SIGCONT)
                found = await audit(talk)
    for fault in found.faults[:20]:
        print("FAULT", fault)
    report(talk, faults, took_s, api.count)
    print(f"{found.turns} turns in {found.sessions} sessions, {len(found.faults)} wrong")
    return len(found.faults)


def report(talk: Talk, faults: Faults, took_s: float, calls: int) -> None:
    """Print what was done, and what people noticed."""
    took = sorted(each.took_s for each in talk.told)
    turns = len(took)
    rows = [["all", "", str(turns), f"{took[turns // 2]:.2f}", f"{took[-1]:.1f}"]]
    for kind in sorted({name for name, _ in faults.done}):
        times = [at_s for name, at_s in faults.done if name == kind]
        hit = sorted(
            each.took_s
            for each in talk.told
            if any(each.ended_at_s >= t and each.ended_at_s - each.took_s <= t for t in times)
        )
        worst = f"{hit[-1]:.1f}" if hit else ""
        middle = f"{hit[len(hit) // 2]:.2f}" if hit else ""
        rows.append([kind, str(len(times)), str(len(hit)), middle, worst])
    show("what people noticed", ["fault", "times", "turns it met", "p50, s", "worst, s"], rows)
    print(f"{turns / took_s:.0f} turns/s; {calls - turns} calls of the model beyond one a turn")
    print("answered in place of an answer:", dict(sorted(talk.errors.items())))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=50_000)
    parser.add_argument("--every", type=float, default=15.0, help="seconds between two faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="no longer than so")
    parser.add_argument("--people", type=int, default=32)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="everturn-nodes-"))
    try:
        sys.exit(1 if anyio.run(measure, arguments, folder) else 0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
