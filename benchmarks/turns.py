"""Sequential turns in one conversation: what a turn costs at its beginning and after thousands.

.venv/bin/python benchmarks/turns.py [--turns 5000] [--rounds 5]

The floor is a bare script: one HTTP request in, one call of the same model API with the whole
history, both messages appended and synced. Both are asked by turns, so that what else the machine
does falls on both. Messages are short, or of 600 bytes with replies of 400. CPU is that of all
threads, and the mean: what is done every so many turns is part of what a turn costs.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from figures import Figure, show_figures
from floor import bare_script
from harness import (
    LONG_MESSAGE,
    LONG_REPLY,
    SHORT_REPLY,
    Connection,
    Running,
    gateway,
    model_api,
    new_session,
    p50,
    show,
    timed,
    turn,
    workspace,
)

WARM_UP_TURNS = 20
PART = 40  # turns whose mean is compared
YOUNG_TURNS = 420
KINDS = {"short": ("", SHORT_REPLY), "long": (LONG_MESSAGE, LONG_REPLY)}
CPU_BAR = 1.7  # times the bare script's
GROWTH_BAR = 1.15


@dataclass(slots=True)
class Took:
    """What each turn took."""

    times_ms: list[float] = field(default_factory=list[float])
    cpu_ms: list[float] = field(default_factory=list[float])


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The turns of a conversation from one number to another, in all rounds."""

    kind: str
    first: int
    ours: Took
    floor: Took

    def row(self) -> tuple[object, ...]:
        """Return it as a row of the table."""
        return (
            self.kind,
            f"{self.first}-{self.first + PART}",
            *(p50(took.times_ms) for took in (self.ours, self.floor)),
            *(mean(took.cpu_ms) for took in (self.ours, self.floor)),
            mean(self.ours.cpu_ms) / mean(self.floor.cpu_ms),
        )


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return sum(values) / len(values)


async def talk(
    running: Running, script: Running, turns: int, *, more: str, name: str
) -> tuple[Took, Took]:
    """Hold one conversation with the gateway and one with the bare script, by turns."""
    ours, floor = Took(), Took()
    both = [(ours, running), (floor, script)]
    async with Connection(running.url) as there, Connection(script.url) as bare:
        session_id = await new_session(there)
        for number in range(turns):
            for into, who in both if number % 2 else reversed(both):
                text, before = f"message {number}{more}", who.cpu_s()
                if who is script:
                    took_ms = await timed(bare, f"/{name}", {"content": text})
                else:
                    took_ms = await turn(there, session_id, text)
                into.times_ms.append(took_ms)
                into.cpu_ms.append((who.cpu_s() - before) * 1000)
    return ours, floor


def conversations(kind: str, turns: int, rounds: int) -> tuple[list[tuple[Took, Took]], float]:
    """Return what each turn of each round took, and the gateway's memory in the end."""
    more, reply = KINDS[kind]
    with (
        model_api(reply=reply) as model_url,
        workspace(model_url) as folder,
        bare_script(model_url, folder) as script,
        gateway(folder) as running,
    ):
        asyncio.run(talk(running, script, WARM_UP_TURNS, more=more, name="warm-up"))
        found = [
            asyncio.run(talk(running, script, turns, more=more, name=f"round-{number}"))
            for number in range(rounds)
        ]
        return found, running.memory_mb()


def parts(kind: str, turns: int, found: list[tuple[Took, Took]]) -> Iterator[Part]:
    """Yield the first turns, those at about 400, and the last."""
    firsts = (0, YOUNG_TURNS - PART, turns - PART)
    for first in sorted({first for first in firsts if 0 <= first <= turns - PART}):
        chosen = slice(first, first + PART)
        both = tuple(
            Took(
                times_ms=[ms for each in found for ms in each[who].times_ms[chosen]],
                cpu_ms=[ms for each in found for ms in each[who].cpu_ms[chosen]],
            )
            for who in (0, 1)
        )
        yield Part(kind=kind, first=first, ours=both[0], floor=both[1])


def figures_of(made: list[Part]) -> list[Figure]:
    """Return the figures of one kind of messages that have a bar."""
    early, *later = made
    figures: list[Figure] = []
    for part in made:
        own, bare = mean(part.ours.cpu_ms), mean(part.floor.cpu_ms)
        what = f"CPU of a turn, {part.kind} messages, turn {part.first + PART:,}"
        figures.append(
            Figure(what=what, value=own, unit="ms", bar=round(CPU_BAR * bare, 2), floor=bare)
        )
    for part in later:
        figures += [
            Figure(
                what=f"turn {part.first + PART:,} to the first, {part.kind} messages, {what}",
                value=measure(part.ours) / measure(early.ours),
                unit="x",
                bar=GROWTH_BAR,
                floor=measure(part.floor) / measure(early.floor),
            )
            for what, measure in (
                ("CPU", lambda took: mean(took.cpu_ms)),
                ("p50", lambda took: p50(took.times_ms)),
            )
        ]
    return figures


def measured(turns: int, rounds: int) -> tuple[list[tuple[object, ...]], list[Figure]]:
    """Return the rows of the table, and the figures that have a bar.

    A conversation of `turns` turns is held once, those of 420 in as many rounds.
    """
    rows: list[tuple[object, ...]] = []
    figures: list[Figure] = []
    for kind in KINDS:
        young, _ = conversations(kind, YOUNG_TURNS, rounds)
        made = list(parts(kind, YOUNG_TURNS, young))
        if turns > YOUNG_TURNS:
            old, _ = conversations(kind, turns, 1)
            made.append(list(parts(kind, turns, old))[-1])
        rows += [part.row() for part in made]
        figures += figures_of(made)
    return rows, figures


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows, figures = measured(options.turns, options.rounds)
    show(
        "turns one after another, model at 0 ms",
        ("messages", "turns", "p50 ms", "floor's", "CPU ms", "floor's", "CPU, x floor"),
        rows,
    )
    show_figures("a turn", figures)


if __name__ == "__main__":
    main()
