"""Three gateways on one PostgreSQL, people who write to any of them, and a fault every few seconds.

    python benchmarks/node_faults.py [--turns 50000] [--minutes 60] [--every 15] [--people 32]
        [--model 0.02] [--only standby]

Faults, by chance from a seed, are the methods of `node_trouble.Trouble`: nodes that die, stop or
freeze, a database that dies, is promoted, full, away or silent, networks that part, answers of
commits that are lost, connections that are spent. People send 5 % of their messages twice at once,
change to another node at every error, and know nothing of the faults. At the end every log is held
against what people were told: each message once, in order, answered once with what they read, no
hole in the numbers.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import httpx2
from harness import show

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from node_trouble import Trouble, open_databases, open_links, places  # noqa: E402 - found above
from support.answers import Answer  # noqa: E402
from support.model_api import Received, open_model_api  # noqa: E402
from support.node_world import Talk, World, audit, open_world  # noqa: E402

from everturn_actors.cluster.partitions import lease_of, partition_of  # noqa: E402

MESSAGES = 20  # of one session
AFTER_S = 12.0  # in which a turn counts as hit by a fault
QUIET_S = 5.0  # after a fault is over
_LOOKS = (
    "SELECT name, instance, until - now() FROM node",
    "SELECT node, count(*), min(until - now()) FROM lease GROUP BY node",
    "SELECT * FROM lease WHERE name = '{lease}'",
    "SELECT 'marked', session FROM active WHERE session = '{session}'",
    "SELECT id, last_seq, updated, now() FROM session WHERE id = '{session}'",
    """SELECT seq, left(convert_from(line, 'UTF8'), 300) FROM event
    WHERE session = '{session}' ORDER BY seq DESC LIMIT 6""",
    """SELECT application_name, state, wait_event, now() - query_start, left(query, 60)
    FROM pg_stat_activity WHERE backend_type = 'client backend'""",
)
"What is asked of the tables about a session that does not answer."


@dataclass(slots=True)
class Faults:
    """What was done to the nodes, and when."""

    trouble: Trouble
    only: str = ""
    "Part of the names of those that are done; empty = all."
    done: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    async def run(self, every_s: float) -> None:
        """Do one after the other, until cancelled: all in a row, each round in another order."""
        kinds = {name: do for name, do in self.trouble.kinds().items() if self.only in name}
        while True:
            names = list(kinds)
            self.trouble.chance.shuffle(names)
            for name in names:
                await anyio.sleep(every_s)
                print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
                self.done.append((name, anyio.current_time()))
                await kinds[name]()
                await anyio.sleep(QUIET_S)


def reply(delay_s: float, request: Received) -> Answer:
    """Answer with what was said last."""
    return Answer(text=f"you said {request.json()['messages'][-1]['content']}", delay_s=delay_s)


async def people(talk: Talk, number: int, goal: int, until_s: float) -> None:
    """Write in one session after the other, until all together have said enough, or time is up."""
    session = 0
    while len(talk.told) < goal and anyio.current_time() < until_s:
        session += 1
        await talk.converse(number * 100_000 + session, MESSAGES)


async def measure(arguments: argparse.Namespace, folder: Path) -> int:
    """Run it all; return how many faults were found."""
    chance = random.Random(arguments.seed)  # noqa: S311 - the same each time
    names = ("a", "b", "c")
    async with (
        open_model_api(default=partial(reply, arguments.model)) as api,
        open_databases(*names) as databases,
        open_links(*names) as links,
        open_world(
            folder, databases.primary, api.url, *names, places=places(databases, links)
        ) as world,
    ):
        trouble = Trouble(world=world, chance=chance, databases=databases, links=links)
        talk, faults = Talk(world=world, chance=chance), Faults(trouble, arguments.only)
        talk.on_unanswered = partial(tell, world, talk)
        began_s = anyio.current_time()
        until_s = began_s + arguments.minutes * 60
        async with anyio.create_task_group() as happening:
            happening.start_soon(faults.run, arguments.every)
            async with anyio.create_task_group() as tasks:
                for number in range(arguments.people):
                    tasks.start_soon(people, talk, number, arguments.turns, until_s)
            happening.cancel_scope.cancel()
        took_s = anyio.current_time() - began_s
        for node in world.nodes.values():  # one may be cut off in the middle of its start
            if node.process is not None:
                node.send(signal.SIGCONT)
        world.server = databases.primary
        await anyio.to_thread.run_sync(databases.mend)
        found = await audit(talk)
    for fault in found.faults[:20]:
        print("FAULT", fault)
    report(talk, faults, took_s, api.count)
    for each in talk.unforeseen:
        print("UNFORESEEN", each)
    for name, node in world.nodes.items() if talk.unforeseen else ():
        lines = (node.folder / "serve.log").read_text(errors="replace").splitlines()
        for number in [n for n, line in enumerate(lines) if line.startswith("Traceback")][:5]:
            print(f"  {name}:", *lines[max(number - 2, 0) : number + 60], sep="\n    ")
    print(f"{found.turns} turns in {found.sessions} sessions, {len(found.faults)} wrong")
    return len(found.faults)


async def tell(world: World, talk: Talk, path: str, key: str) -> None:
    """Print of a message that nobody answered what the tables and each node say, and who waits."""
    now_s = anyio.current_time()
    print(f"{time.strftime('%H:%M:%S')} UNANSWERED {key} at {path}", flush=True)
    for other, (where, name, since_s) in sorted(talk.asked.items()):
        print(f"  waits: {other} at node {name} since {now_s - since_s:.1f} s: {where}")
    session = path.split("/")[4] if path.endswith("/messages") else ""
    lease = lease_of(partition_of(session))
    for query in _LOOKS:
        asked = query.format(lease=lease, session=session)
        statement = f"SET search_path = everturn; {asked}"
        try:
            print(await anyio.to_thread.run_sync(world.server.psql, statement), flush=True)
        except (OSError, subprocess.SubprocessError) as error:  # it is away, perhaps
            print(f"  {query[:40]}: {error!r}")
    for name, node in world.nodes.items():
        async with httpx2.AsyncClient(base_url=node.url, timeout=5.0) as client:
            for what in ("/readyz", "/api/v1/admin/nodes", f"/api/v1/sessions/{session}"):
                try:
                    print(f"  {name} {what}: {(await client.get(what)).text[:1500]}")
                except httpx2.HTTPError as error:
                    print(f"  {name} {what}: {error!r}")
        lines = (node.folder / "serve.log").read_text(errors="replace").splitlines()
        own = [line for line in lines[:-30] if session and session in line]
        print(f"  {name} log:", *own[-20:], *lines[-30:], sep="\n    ", flush=True)


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
    parser.add_argument("--model", type=float, default=0.02, help="seconds of a model call")
    parser.add_argument("--only", default="", help="a part of the names of faults")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="everturn-nodes-"))
    try:
        sys.exit(1 if anyio.run(measure, arguments, folder) else 0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
