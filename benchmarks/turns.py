"""Sequential turns in one conversation: what a turn costs at its beginning and after thousands.

.venv/bin/python benchmarks/turns.py [--turns 5000] [--pairs 600]

The floor is a bare script that does what no gateway can avoid: one HTTP request in, one call of the
same model API, one synced append. Both are asked by turns, so that what else the machine does falls
on both. On a busy machine the best quarter tells more than the median.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass, field

from figures import Figure, show_figures
from floor import bare_script
from harness import (
    Connection,
    Running,
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

WARM_UP_TURNS = 20
YOUNG_TURNS = 200  # then a new conversation begins


@dataclass(slots=True)
class Took:
    """What each turn took."""

    times_ms: list[float] = field(default_factory=list[float])
    cpu_ms: list[float] = field(default_factory=list[float])


async def compare(running: Running, script: Running, pairs: int) -> tuple[Took, Took]:
    """Ask the gateway and the bare script by turns."""
    ours, floor = Took(), Took()
    async with Connection(running.url) as there, Connection(script.url) as bare:
        session_id = ""
        for number in range(WARM_UP_TURNS + pairs):
            if number % YOUNG_TURNS == 0:
                session_id = await new_session(there)
            both = [(ours, running), (floor, script)]
            for into, who in both if number % 2 else reversed(both):
                text, before = f"message {number}", who.cpu_s()
                if who is script:
                    took_ms = await timed(bare, "/", {"content": text})
                else:
                    took_ms = await turn(there, session_id, text)
                if number >= WARM_UP_TURNS:
                    into.times_ms.append(took_ms)
                    into.cpu_ms.append((who.cpu_s() - before) * 1000)
    return ours, floor


def side_by_side(pairs: int) -> list[Figure]:
    """Return what a turn takes, beside the bare script; in a conversation that is young."""
    with (
        model_api() as model_url,
        workspace(model_url) as folder,
        bare_script(model_url, folder) as script,
        gateway(folder) as running,
    ):
        ours, floor = asyncio.run(compare(running, script, pairs))
    figures: list[Figure] = []
    for what, share in (("median", 0.5), ("best quarter", 0.25)):
        own, bare = p(ours.times_ms, share), p(floor.times_ms, share)
        own_cpu, bare_cpu = p(ours.cpu_ms, share), p(floor.cpu_ms, share)
        figures += [
            Figure(what=f"turn, {what}", value=own, unit="ms", bar=8, floor=bare),
            Figure(what=f"turn to the floor's, {what}", value=own / bare, unit="x", bar=3),
            Figure(what=f"CPU of a turn, {what}", value=own_cpu, unit="ms", bar=5, floor=bare_cpu),
        ]
    return figures


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


def long_conversation(turns: int) -> tuple[list[float], list[float], float]:
    """Return the milliseconds and CPU milliseconds of each turn, and the memory after the last."""
    with model_api() as model_url, workspace(model_url) as folder, gateway(folder) as running:
        times, cpu = asyncio.run(measure(running, turns))
        return times, cpu, running.memory_mb()


def late_to_early(turns: int, times: list[float], cpu: list[float]) -> list[Figure]:
    """Return how much more a late turn takes than an early one."""
    late, early = slice(-200, None), slice(WARM_UP_TURNS, WARM_UP_TURNS + 200)
    what = f"turn {turns:,} to turn {WARM_UP_TURNS}"
    return [
        Figure(what=what, value=p50(times[late]) / p50(times[early]), unit="x", bar=1.3),
        Figure(what=f"{what}, CPU", value=sum(cpu[late]) / sum(cpu[early]), unit="x", bar=1.3),
    ]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5000)
    parser.add_argument("--pairs", type=int, default=600)
    options = parser.parse_args()
    turns: int = options.turns
    figures = side_by_side(options.pairs)
    times, cpu, memory = long_conversation(turns)
    rows = []
    for start in sorted({WARM_UP_TURNS, 100, 1000, turns - 200}):
        if start > 0 and start + 200 <= turns:
            part, used = times[start : start + 200], cpu[start : start + 200]
            rows.append(
                (
                    f"{start}-{start + 200}",
                    p50(part),
                    p(part, 0.95),
                    sum(used) / len(used),
                    p50(part) / p50(times[WARM_UP_TURNS : WARM_UP_TURNS + 200]),
                )
            )
    show(
        f"{turns} turns in one conversation, model at 0 ms; resident {memory:.0f} MB",
        ("turns", "p50 ms", "p95 ms", "CPU ms", f"x turn {WARM_UP_TURNS}"),
        rows,
    )
    show_figures("a turn", [*figures, *late_to_early(turns, times, cpu)])


if __name__ == "__main__":
    main()
