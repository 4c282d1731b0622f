"""How many turns a second two nodes give, to those of one, each with the same share of a core.

    python benchmarks/node_scaling.py [--share 0.4] [--people 32] [--seconds 20] [--rounds 3]

As root, on Linux: each node is bounded by a control group, so that the database, the model (at 0
ms) and those who write always find a processor free, as on machines of their own. People write to
the node where they began, as behind a proxy that keeps people apart; and to the nodes in turns, so
that half of what two take is handed on.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import anyio
import httpx2
from harness import show
from node_turns import at_once, begin
from support.database import Server, running_server
from support.model_api import open_model_api
from support.node_world import World, open_world

GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 20_000
SETTLE_S = 8.0  # until each node has its half of the leases
WARM_S = 5.0  # until every conversation has begun


@asynccontextmanager
async def bounded(world: World, share: float) -> AsyncGenerator[None]:
    """Give each node a share of a core, while the block runs."""
    parent = GROUPS / "cpu" if (GROUPS / "cpu").is_dir() else GROUPS
    quota = int(PERIOD_US * share)
    groups = [parent / f"everturn-{name}" for name in world.nodes]
    try:
        for group, node in zip(groups, world.nodes.values(), strict=True):
            group.mkdir(exist_ok=True)
            if parent == GROUPS:
                (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            else:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(quota))
            assert node.process is not None
            (group / "cgroup.procs").write_text(str(node.process.process.pid))
        yield
    finally:
        for group in groups:
            for pid in (group / "cgroup.procs").read_text().split():
                (parent / "cgroup.procs").write_text(pid)
            group.rmdir()


async def rate(world: World, people: int, seconds: float, *, stays: bool) -> float:
    """Let people write, where they began or to all; return how many turns a second are answered."""
    answered, is_over = 0, False
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        clients = [
            await stack.enter_async_context(httpx2.AsyncClient(base_url=node.url, timeout=60))
            for node in world.nodes.values()
        ]

        async def person(number: int) -> None:
            nonlocal answered
            session = await begin(clients[number % len(clients)])
            for turn in count():
                if is_over:
                    return
                client = clients[(number + (0 if stays else turn)) % len(clients)]
                path = f"/api/v1/sessions/{session}/messages"
                response = await client.post(path, json={"content": f"message {turn}"})
                assert response.is_success, response.text
                answered += 1

        for number in range(people):
            tasks.start_soon(person, number)
        await anyio.sleep(WARM_S)
        before, began_s = answered, anyio.current_time()
        await anyio.sleep(seconds)
        found = (answered - before) / (anyio.current_time() - began_s)
        is_over = True
    return found


async def measure(folder: Path, server: Server, options: argparse.Namespace) -> None:
    """Measure one node and two, in turns, and print it."""
    found: dict[tuple[str, bool], list[float]] = {
        ("a", True): [],
        ("ab", True): [],
        ("ab", False): [],
    }
    async with open_model_api(default=at_once) as api:
        for number in range(options.rounds):
            for (names, stays), rates in found.items():
                where = folder / f"{number}-{names}-{stays}"
                async with open_world(where, server, api.url, *names) as world:
                    await anyio.sleep(SETTLE_S)
                    async with bounded(world, options.share):
                        found_now = await rate(world, options.people, options.seconds, stays=stays)
                rates.append(found_now)
                await anyio.to_thread.run_sync(server.psql, "DROP SCHEMA everturn CASCADE")
    one, *_ = medians = [statistics.median(rates) for rates in found.values()]
    what = ("one node", "two, people stay", "two, people go round")
    show(
        f"{options.people} people, {options.share:g} of a core a node",
        ["", "turns a second", "to one (bar 1.7)"],
        [
            [name, f"{each:.0f}", f"{each / one:.2f} x"]
            for name, each in zip(what, medians, strict=True)
        ],
    )


def main() -> None:
    """Read the options, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--share", type=float, default=0.4, help="of a core, for each node")
    parser.add_argument("--people", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        anyio.run(measure, Path(folder), server, options)


if __name__ == "__main__":
    main()
