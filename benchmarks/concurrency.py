"""32 conversations of 10 turns at once: throughput, latency, CPU; beside the bare script's.

.venv/bin/python benchmarks/concurrency.py [--conversations 32] [--turns 10]
"""

from __future__ import annotations

import argparse
import asyncio
import time

from figures import Figure, show_figures
from floor import bare_script
from harness import (
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

LEAST = {0: 150.0, 200: 120.0}
"Turns a second, by the model's milliseconds."


async def measure(
    url: str, conversations: int, turns: int, *, bare: bool = False
) -> tuple[float, list[float]]:
    """Return the seconds that all took, and each turn's milliseconds; `bare` = of the floor."""
    times: list[float] = []

    async def talk(number: int) -> None:
        async with Connection(url) as connection:
            session_id = "" if bare else await new_session(connection)
            for n in range(turns):
                text = f"{number}: {n}"
                if bare:
                    times.append(await timed(connection, "/", {"content": text}))
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


def measured(conversations: int, turns: int) -> tuple[list[tuple[object, ...]], list[Figure]]:
    """Return the rows of the table, and the figures that have a bar."""
    rows: list[tuple[object, ...]] = []
    figures: list[Figure] = []
    for delay_ms, least in LEAST.items():
        with (
            model_api(delay_ms=delay_ms) as model_url,
            workspace(model_url) as folder,
            bare_script(model_url, folder) as script,
            gateway(folder) as running,
        ):
            a_second: list[float] = []
            for name, who in ((f"{delay_ms} ms", running), (f"{delay_ms} ms, floor", script)):
                bare = who is script
                asyncio.run(measure(who.url, 2, 5, bare=bare))  # warm up
                before = who.cpu_s()
                took_s, times = asyncio.run(measure(who.url, conversations, turns, bare=bare))
                cpu_ms = (who.cpu_s() - before) * 1000 / len(times)
                a_second.append(len(times) / took_s)
                rows.append((name, a_second[-1], p50(times), p(times, 0.95), cpu_ms))
        figures.append(
            Figure(
                what=f"{conversations} x {turns}, model at {delay_ms} ms",
                value=a_second[0],
                unit="turns/s",
                bar=least,
                is_least=True,
                floor=a_second[1],
            )
        )
    return rows, figures


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=32)
    parser.add_argument("--turns", type=int, default=10)
    options = parser.parse_args()
    rows, figures = measured(options.conversations, options.turns)
    show(
        f"{options.conversations} conversations x {options.turns} turns",
        ("model", "turns/s", "p50 ms", "p95 ms", "CPU ms a turn"),
        rows,
    )
    show_figures("at once", figures)


if __name__ == "__main__":
    main()
