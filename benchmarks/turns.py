"""Sequential turns in one conversation: what a turn costs at its beginning and after thousands.

.venv/bin/python benchmarks/turns.py [--turns 5000]

The floor is a bare script that does what no gateway can avoid: one HTTP request in, one call of the
same model API, one synced append.
"""

from __future__ import annotations

import argparse
import asyncio

from floor import bare_script, floor_ms
from harness import (
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


async def measure(running: Running, turns: int) -> tuple[list[float], list[float]]:
    """Return each turn's milliseconds, and the gateway's CPU milliseconds of each."""
    times: list[float] = []
    cpu: list[float] = []
    async with Connection(running.url) as connection:
        session_id = await new_session(connection)
        for number in range(turns):
            before = running.cpu_s()
            times.append(await turn(connection, session_id, f"message {number}"))
            cpu.append((running.cpu_s() - before) * 1000)
    return times, cpu


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5000)
    turns = parser.parse_args().turns
    with model_api() as model_url, workspace(model_url) as folder:
        with bare_script(model_url, folder) as url:
            floor = asyncio.run(floor_ms(url, 220))[20:]
        with gateway(folder) as running:
            times, cpu = asyncio.run(measure(running, turns))
            memory = running.memory_mb()
    rows = []
    for start in sorted({20, 100, 1000, turns - 200}):
        if start > 0 and start + 200 <= turns:
            part, used = times[start : start + 200], cpu[start : start + 200]
            rows.append(
                (
                    f"{start}-{start + 200}",
                    p50(part),
                    p(part, 0.95),
                    sum(used) / len(used),
                    p50(part) / p50(floor),
                    p50(part) / p50(times[20:220]),
                )
            )
    show(
        f"{turns} turns in one conversation, model at 0 ms; floor p50 {p50(floor):.2f} ms; "
        f"resident {memory:.0f} MB",
        ("turns", "p50 ms", "p95 ms", "CPU ms", "x floor", "x turn 20"),
        rows,
    )


if __name__ == "__main__":
    main()
