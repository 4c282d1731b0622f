"""The folder and a database in turns: 32 conversations of 10 turns at once, and one turn alone.

EVERTURN_DATABASE_URL=postgresql://… .venv/bin/python benchmarks/database.py [--rounds 5]

The model answers at once; messages have 600 bytes, replies 400. The database should be empty: a
schema is left there. What its server computes is measured where it runs on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

import psutil
from concurrency import measure
from figures import Figure, show_figures
from harness import (
    LONG_MESSAGE,
    LONG_REPLY,
    Connection,
    Running,
    gateway,
    model_api,
    new_session,
    p50,
    show,
    turn,
    workspace,
)

CONVERSATIONS, TURNS, ALONE = 32, 10, 50
LEAST = 0.8  # of the turns a second that files give
MORE_CPU_MS, MORE_MS = 0.5, 4.0
"What a turn may take beyond files: CPU of the gateway, and its time alone."
SCHEMA = "everturn_benchmark"


def server_cpu_s() -> float:
    """Return what the servers of PostgreSQL on this machine have computed so far."""
    total = 0.0
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "postgres":
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


async def alone(url: str) -> float:
    """Return the milliseconds of a turn while nobody else talks: the median."""
    async with Connection(url) as connection:
        session_id = await new_session(connection)
        times = [await turn(connection, session_id, f"{n}{LONG_MESSAGE}") for n in range(ALONE)]
    return p50(times)


def one_round(who: Running) -> tuple[float, ...]:
    """Return turns a second, CPU of gateway and server for each, and the time of one alone."""
    before, server = who.cpu_s(), server_cpu_s()
    took_s, times = asyncio.run(measure(who.url, CONVERSATIONS, TURNS))
    count = len(times)
    gateway_ms = (who.cpu_s() - before) * 1000 / count
    server_ms = (server_cpu_s() - server) * 1000 / count
    return count / took_s, p50(times), gateway_ms, server_ms, asyncio.run(alone(who.url))


def use_database(folder: Path, url: str) -> None:
    """Let a workspace keep all in the database."""
    store = f'store: {{type: postgres, url: "{url}", schema: {SCHEMA}}}\n'
    (folder / "everturn.yaml").write_text(f"server: {{port: 0}}\n{store}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    found: dict[str, list[tuple[float, ...]]] = {"folder": [], "database": []}
    with (
        model_api(delay_ms=0, reply=LONG_REPLY) as model_url,
        workspace(model_url) as plain,
        workspace(model_url) as kept,
    ):
        use_database(kept, os.environ["EVERTURN_DATABASE_URL"])
        with gateway(plain) as folder, gateway(kept) as database:
            for number in range(-1, options.rounds):
                for name, who in (("folder", folder), ("database", database)):
                    figures = one_round(who)
                    if number >= 0:  # the first round warms up
                        found[name].append(figures)
    rows = {name: tuple(map(p50, zip(*rounds, strict=True))) for name, rounds in found.items()}
    show(
        f"{CONVERSATIONS} conversations x {TURNS} turns, model at 0 ms",
        ("store", "turns/s", "p50 ms", "CPU ms a turn", "of the server", "one alone, p50 ms"),
        [(name, *row) for name, row in rows.items()],
    )
    files, other = rows["folder"], rows["database"]
    show_figures(
        "database beside the folder",
        [
            Figure(what="turns/s", value=other[0], unit="turns/s", bar=round(LEAST * files[0], 1),
                   is_least=True, floor=files[0]),
            Figure(what="CPU a turn", value=other[2], unit="ms", bar=files[2] + MORE_CPU_MS,
                   floor=files[2]),
            Figure(what="one turn alone", value=other[4], unit="ms", bar=files[4] + MORE_MS,
                   floor=files[4]),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
