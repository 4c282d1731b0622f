"""What a turn costs in two trees: CPU and time, asked in turns, and calls of Python functions.

.venv/bin/python benchmarks/compare.py ../before [--pairs 700] [--turns 200]

The other tree has an environment of its own in `.venv`. Both answer one client, now the one first
and now the other, so that what else the machine does falls on both: read the ratio. The calls are
counted in runs of their own, which are slower; what a gateway does by itself meanwhile is measured
before and taken off.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness import (
    ROOT,
    START_S,
    Connection,
    Running,
    gateway,
    model_api,
    new_session,
    p,
    p50,
    show,
    turn,
    workspace,
)

COUNTING = Path(__file__).with_name("counting")
WARM_UP_TURNS = 20
YOUNG_TURNS = 200  # then a new conversation begins
IDLE_S = 4.0


@dataclass(slots=True, kw_only=True)
class Took:
    """What each turn of one tree took."""

    running: Running
    cpu_ms: list[float] = field(default_factory=list[float])
    wall_ms: list[float] = field(default_factory=list[float])


async def ask_in_turns(trees: Sequence[Took], pairs: int) -> None:
    """Ask one tree after the other, each of them first as often as the others."""
    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(Connection(each.running.url)) for each in trees
        ]
        sessions = [""] * len(trees)
        for number in range(WARM_UP_TURNS + pairs):
            if number % YOUNG_TURNS == 0:
                sessions = [await new_session(each) for each in connections]
            for place in range(len(trees)):
                at = (place + number) % len(trees)
                tree, before = trees[at], trees[at].running.cpu_s()
                wall_ms = await turn(connections[at], sessions[at], f"message {number}")
                if number >= WARM_UP_TURNS:
                    tree.cpu_ms.append((tree.running.cpu_s() - before) * 1000)
                    tree.wall_ms.append(wall_ms)


def counted(running: Running, file: Path) -> int:
    """Return how many calls a gateway has made."""
    file.unlink(missing_ok=True)
    running.process.send_signal(signal.SIGUSR1)
    deadline = time.perf_counter() + START_S
    while not file.exists() and time.perf_counter() < deadline:
        time.sleep(0.01)
    return int(file.read_text())


async def calls_of_a_turn(running: Running, file: Path, turns: int) -> float:
    """Return how many calls of Python functions a turn makes."""
    async with Connection(running.url) as connection:
        session_id = await new_session(connection)
        for number in range(WARM_UP_TURNS):
            await turn(connection, session_id, f"message {number}")
        await asyncio.sleep(1)  # what follows the last turn
        idle_calls, idle_s = -counted(running, file), -time.perf_counter()
        await asyncio.sleep(IDLE_S)
        idle_calls += counted(running, file)
        idle_s += time.perf_counter()
        calls, took_s = -counted(running, file), -time.perf_counter()
        for number in range(turns):
            await turn(connection, session_id, f"message {number}")
        calls += counted(running, file)
        took_s += time.perf_counter()
        return (calls - idle_calls / idle_s * took_s) / turns


def measured(trees: Sequence[Path], model_url: str, pairs: int) -> list[Took]:
    """Return what turns took in each tree."""
    with ExitStack() as stack:
        took = [
            Took(
                running=stack.enter_context(
                    gateway(stack.enter_context(workspace(model_url)), everturn=command(tree))
                )
            )
            for tree in trees
        ]
        asyncio.run(ask_in_turns(took, pairs))
    return took


def calls_in(tree: Path, model_url: str, turns: int) -> float:
    """Return how many calls of Python functions a turn makes in a tree."""
    with workspace(model_url) as folder, tempfile.TemporaryDirectory() as beside:
        file = Path(beside) / "calls"
        environ = {"PYTHONPATH": str(COUNTING), "EVERTURN_COUNT_TO": str(file)}
        with gateway(folder, everturn=command(tree), environ=environ) as running:
            return asyncio.run(calls_of_a_turn(running, file, turns))


def command(tree: Path) -> Path:
    """Return the installed command of a tree."""
    return tree / ".venv" / "bin" / "everturn"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the tree to compare this one with")
    parser.add_argument("--pairs", type=int, default=700)
    parser.add_argument("--turns", type=int, default=200, help="over which calls are counted")
    options = parser.parse_args()
    trees: tuple[Path, ...] = (options.other.absolute(), ROOT)
    with model_api() as model_url:
        took = measured(trees, model_url, options.pairs)
        calls = [calls_in(tree, model_url, options.turns) for tree in trees]
    rows: list[tuple[object, ...]] = []
    for name, tree, number in zip(("the other", "this one"), took, calls, strict=True):
        cpu, wall = tree.cpu_ms, tree.wall_ms
        rows.append((name, p(cpu, 0.25), p50(cpu), p(wall, 0.25), p50(wall), f"{number:,.0f}"))
    before, after = took
    ratios: list[float] = []
    for then, now in ((before.cpu_ms, after.cpu_ms), (before.wall_ms, after.wall_ms)):
        ratios += (p(now, 0.25) / p(then, 0.25), p50(now) / p50(then))
    rows.append(("this one to the other", *ratios, f"{calls[1] / calls[0]:.2f}"))
    show(
        f"a turn over HTTP, {options.pairs} in each tree; {os.getloadavg()[0]:.0f} tasks wanted"
        " this machine at the end",
        ("tree", "CPU p25 ms", "CPU p50", "wall p25 ms", "wall p50", "calls"),
        rows,
    )


if __name__ == "__main__":
    main()
