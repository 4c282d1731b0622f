"""32 conversations of 10 turns at once: throughput, latency, CPU.

.venv/bin/python benchmarks/concurrency.py [--conversations 32] [--turns 10]
"""

from __future__ import annotations

import argparse
import asyncio
import time

from harness import (
    Connection,
    gateway,
    model_api,
    new_session,
    p,
    p50,
    show,
    turn,
    workspace,
)


async def measure(url: str, conversations: int, turns: int) -> tuple[float, list[float]]:
    """Return the seconds that all took, and each turn's milliseconds."""
    times: list[float] = []

    async def talk(number: int) -> None:
        async with Connection(url) as connection:
            session_id = await new_session(connection)
            times.extend(
                [await turn(connection, session_id, f"{number}: {n}") for n in range(turns)]
            )

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in range(conversations):
            tasks.create_task(talk(number))
    return time.perf_counter() - began, times


def talk(url: str, conversations: int, turns: int) -> tuple[float, list[float]]:
    """Do as `measure` does, from a process without a loop."""
    return asyncio.run(measure(url, conversations, turns))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=32)
    parser.add_argument("--turns", type=int, default=10)
    options = parser.parse_args()
    rows = []
    for delay_ms in (0, 200):
        with (
            model_api(delay_ms=delay_ms) as model_url,
            workspace(model_url) as folder,
            gateway(folder) as running,
        ):
            talk(running.url, 2, 5)  # warm up
            before = running.cpu_s()
            took_s, times = talk(running.url, options.conversations, options.turns)
            cpu_ms = (running.cpu_s() - before) * 1000 / len(times)
        rows.append((f"{delay_ms} ms", len(times) / took_s, p50(times), p(times, 0.95), cpu_ms))
    show(
        f"{options.conversations} conversations x {options.turns} turns",
        ("model", "turns/s", "p50 ms", "p95 ms", "CPU ms a turn"),
        rows,
    )


if __name__ == "__main__":
    main()
