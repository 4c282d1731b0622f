"""32 conversations of 10 turns at once: throughput, latency, CPU; beside the bare script's.

.venv/bin/python benchmarks/concurrency.py [--conversations 32] [--turns 10] [--rounds 5]

Each conversation is made, then talks; messages have 600 bytes, replies 400. The gateway and the
bare script are asked in turns; the figures are the medians of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from figures import Figure, show_figures
from floor import bare_script
from harness import (
    LONG_MESSAGE,
    LONG_REPLY,
    Connection,
    gateway,
    model_api,
    new_session,
    p,
    p50,
    show,
    timed,
    turn,
    workspace,
)

LEAST = {0: 0.6, 200: 0.95}
"What the bare script does a second, by the model's milliseconds."


async def measure(
    url: str, conversations: int, turns: int, *, bare: bool = False
) -> tuple[float, list[float]]:
    """Return the seconds that all took, and each turn's milliseconds; `bare` = of the floor."""
    times: list[float] = []
    named = time.monotonic_ns()

    async def talk(number: int) -> None:
        async with Connection(url) as connection:
            session_id = "" if bare else await new_session(connection)
            for n in range(turns):
                text = f"{number}: {n}{LONG_MESSAGE}"
                if bare:
                    path = f"/{named}-{number}"
                    times.append(await timed(connection, path, {"content": text}))
                else:
                    times.append(await turn(connection, session_id, text))

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in range(conversations):
            tasks.create_task(talk(number))
    return time.perf_counter() - began, times


def talk(url: str, conversations: int, turns: int) -> tuple[float, list[float]]:
    """Do as `measure` does, from a process without a loop."""
    return asyncio.run(measure(url, conversations, turns))


def measured(
    conversations: int, turns: int, rounds: int
) -> tuple[list[tuple[object, ...]], list[Figure]]:
    """Return the rows of the table, and the figures that have a bar."""
    rows: list[tuple[object, ...]] = []
    figures: list[Figure] = []
    for delay_ms, least in LEAST.items():
        with (
            model_api(delay_ms=delay_ms, reply=LONG_REPLY) as model_url,
            workspace(model_url) as folder,
            bare_script(model_url, folder) as script,
            gateway(folder) as running,
        ):
            found: dict[str, list[tuple[float, ...]]] = {}
            for number in range(-1, rounds):
                for name, who in (("", running), (", floor", script)):
                    before = who.cpu_s()
                    took_s, times = asyncio.run(
                        measure(who.url, conversations, turns, bare=who is script)
                    )
                    cpu_ms = (who.cpu_s() - before) * 1000 / len(times)
                    if number >= 0:  # the first round warms up
                        took = (len(times) / took_s, p50(times), p(times, 0.95), cpu_ms)
                        found.setdefault(f"{delay_ms} ms{name}", []).append(took)
        made = [(name, *map(p50, zip(*took, strict=True))) for name, took in found.items()]
        rows += made
        ours, floor = float(made[0][1]), float(made[1][1])
        figures.append(
            Figure(
                what=f"{conversations} x {turns}, model at {delay_ms} ms",
                value=ours,
                unit="turns/s",
                bar=round(least * floor, 1),
                is_least=True,
                floor=floor,
            )
        )
    return rows, figures


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=32)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows, figures = measured(options.conversations, options.turns, options.rounds)
    show(
        f"{options.conversations} conversations x {options.turns} turns",
        ("model", "turns/s", "p50 ms", "p95 ms", "CPU ms a turn"),
        rows,
    )
    show_figures("at once", figures)


if __name__ == "__main__":
    main()
