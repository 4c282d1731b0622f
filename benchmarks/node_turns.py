"""What a turn costs at the node that has its session, and at one that hands it on.

    python benchmarks/node_turns.py [--turns 200] [--rounds 3]

A gateway on a folder and two nodes on a database, in turns, one conversation after the other, the
model at 0 ms. Then people write while a node is stopped and started: the worst of their turns.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import anyio
import httpx2
import psutil
from harness import show

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.answers import Answer
from support.database import running_server
from support.model_api import Received, open_model_api
from support.node_world import Talk, World, open_world
from support.process import gateway_process, write_workspace

from everturn_actors.cluster.partitions import partition_of

PEOPLE, MODEL_S = 8, 0.2  # of the part with a stop
IDLE_S = 5.0  # in which it is seen what nodes use while nobody writes


def at_once(_request: Received) -> Answer:
    """Answer without a delay."""
    return Answer(text="as you say")


def soon(_request: Received) -> Answer:
    """Answer as a quick model does."""
    return Answer(text="as you say", delay_s=MODEL_S)


def cpu_s(processes: list[psutil.Process]) -> float:
    """Return what processes used so far."""
    used = [each.cpu_times() for each in processes]
    return sum(each.user + each.system for each in used)


async def idle_share(processes: list[psutil.Process]) -> float:
    """Return how much of a core they use while nobody writes."""
    before = cpu_s(processes)
    await anyio.sleep(IDLE_S)
    return (cpu_s(processes) - before) / IDLE_S


async def speak(
    client: httpx2.AsyncClient,
    session: str,
    turns: int,
    processes: list[psutil.Process],
    idle: float,
) -> tuple[float, float]:
    """Return how long a turn takes, p50 in ms, and its CPU in ms, of all `processes`.

    Without the share of a core, `idle`, that they use in any case.
    """
    took: list[float] = []
    before, began_s = cpu_s(processes), time.perf_counter()
    for number in range(turns):
        asked_s = time.perf_counter()
        path = f"/api/v1/sessions/{session}/messages"
        response = await client.post(path, json={"content": f"message {number}"})
        assert response.is_success, response.text
        took.append(1000 * (time.perf_counter() - asked_s))
    used_s = cpu_s(processes) - before - idle * (time.perf_counter() - began_s)
    return statistics.median(took), 1000 * used_s / turns


async def begin(client: httpx2.AsyncClient) -> str:
    """Begin a conversation; return its session."""
    response = await client.post("/api/v1/sessions", json={"agent": "helper"})
    return str(response.json()["id"])


async def compare(
    world: World, alone: httpx2.AsyncClient, folder: int, turns: int
) -> dict[str, tuple[float, float]]:
    """Measure once each."""
    nodes = [
        psutil.Process(each.process.process.pid) for each in world.nodes.values() if each.process
    ]
    one = [psutil.Process(folder)]
    idle, idle_alone = await idle_share(nodes), await idle_share(one)
    found = {"folder": await speak(alone, await begin(alone), turns, one, idle_alone)}
    a, b = (each.url for each in world.nodes.values())
    async with (
        httpx2.AsyncClient(base_url=a, timeout=60) as first,
        httpx2.AsyncClient(base_url=b, timeout=60) as second,
    ):
        session = await begin(first)
        owner = await anyio.to_thread.run_sync(
            world.server.psql,
            f"SELECT node FROM everturn.lease WHERE name = 'partition:{partition_of(session)}'",  # noqa: S608
        )
        own, other = (first, second) if owner == "a" else (second, first)
        found["own session"] = await speak(own, session, turns, nodes, idle)
        found["handed on"] = await speak(other, await begin(own), turns, nodes, idle)
    return found


async def stops(world: World) -> list[list[str]]:
    """Let people write while a node stops and comes again; return rows of the table."""
    talk = Talk(world=world, chance=random.Random(3))  # noqa: S311 - the same each time
    marks: list[tuple[str, float]] = []
    async with anyio.create_task_group() as tasks:

        async def person(number: int) -> None:
            for session in range(1000):
                await talk.converse(number * 100_000 + session, 5)

        for number in range(PEOPLE):
            tasks.start_soon(person, number)
        await talk.until_told(PEOPLE * 10)
        marks.append(("nothing", anyio.current_time()))
        await talk.until_told(PEOPLE * 10)
        for name in world.nodes:
            marks.append((f"{name} stops", anyio.current_time()))
            await world.nodes[name].end(signal.SIGTERM)
            await anyio.sleep(3)
            marks.append((f"{name} joins", anyio.current_time()))
            await world.nodes[name].start()
            await anyio.sleep(6)
        marks.append(("", anyio.current_time()))
        tasks.cancel_scope.cancel()
    rows: list[list[str]] = []
    for (what, from_s), (_, to_s) in pairwise(marks):
        took = sorted(
            each.took_s
            for each in talk.told
            if from_s <= each.ended_at_s and each.ended_at_s - each.took_s <= to_s
        )
        rows.append([what, str(len(took)), f"{took[len(took) // 2]:.2f}", f"{took[-1]:.2f}"])
    return rows


async def measure(folder: Path, turns: int, rounds: int) -> None:
    """Measure all, and print it."""
    found: dict[str, list[tuple[float, float]]] = {}
    with running_server() as server:
        async with open_model_api(default=at_once) as api:
            await anyio.to_thread.run_sync(write_workspace, folder / "alone", api.url)
            async with (
                gateway_process(folder / "alone", imported=None) as alone,
                alone.client() as client,
                open_world(folder, server, api.url, "a", "b") as world,
            ):
                await anyio.sleep(4)
                for _ in range(rounds):
                    for name, pair in (
                        await compare(world, client, alone.process.pid, turns)
                    ).items():
                        found.setdefault(name, []).append(pair)
        await anyio.to_thread.run_sync(server.psql, "DROP SCHEMA everturn CASCADE")
        async with (
            open_model_api(default=soon) as api,
            open_world(folder / "stops", server, api.url, "a", "b", "c") as world,
        ):
            stopped = await stops(world)
    rows: list[list[str]] = []
    for name, pairs in found.items():
        took, used = (statistics.median(each) for each in zip(*pairs, strict=True))
        rows.append([name, f"{took:.1f}", f"{used:.2f}"])
    show("one turn alone", ["", "p50, ms", "CPU of all gateways, ms"], rows)
    show(f"{PEOPLE} people, a model of {MODEL_S:g} s", ["", "turns", "p50, s", "worst, s"], stopped)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, Path(folder), arguments.turns, arguments.rounds)


if __name__ == "__main__":
    main()
