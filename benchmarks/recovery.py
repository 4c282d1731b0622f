"""Recovery of one session of 10,000 events, from its log alone and from snapshot and log.

The floor reads the file, checks every line's checksum and parses it, and keeps nothing.

.venv/bin/python benchmarks/recovery.py [--events 10000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zlib
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import orjson
from figures import Figure, show_figures
from harness import ROOT, show

from everturn_actors.events import (
    Body,
    Event,
    ModelReplied,
    Received,
    SessionStarted,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import Compaction, ConversationKey, Usage
from everturn_actors.state.recovery import recover

SESSION = "20260101T000000000-00000000"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def history(events: int) -> list[Event]:
    """Return the log of a plain conversation."""
    key = ConversationKey(channel="bench", chat="bench", agent="bench")
    bodies: list[Body] = [SessionStarted(session_id=SESSION, key=key)]
    turn = 0
    while len(bodies) < events:
        turn += 1
        bodies += [
            Received(text=f"question {turn} " + "word " * 20, idempotency_key=f"key-{turn}"),
            TurnStarted(turn=turn, received=(len(bodies) + 1,), window_messages=1280),
            StepStarted(turn=turn, step=1, model="bench"),
            ModelReplied(text="answer " * 40, usage=Usage(input_tokens=900, output_tokens=50)),
            TurnFinished(turn=turn, outcome="answered"),
        ]
    return [Event(seq=seq, at=NOW, body=body) for seq, body in enumerate(bodies, 1)]


async def measure(folder: Path, events: list[Event], compaction: Compaction | None) -> list[float]:
    """Return the milliseconds of five recoveries."""
    async with open_file_store(folder) as store:
        await store.append(SESSION, events, expected_seq=0)
        if compaction is not None:
            state = recover(None, events[:-40])
            assert state is not None
            await store.save_snapshot(state.state, compaction=compaction)
    times: list[float] = []
    for _ in range(5):
        async with open_file_store(folder) as store:
            began = time.perf_counter()
            loaded = await store.load(SESSION)
            assert loaded is not None
            recovered = recover(loaded.snapshot, loaded.events)
            times.append((time.perf_counter() - began) * 1000)
            assert recovered is not None
            assert recovered.state.last_seq == events[-1].seq
    return times


def bare_read(folder: Path) -> float:
    """Return the milliseconds of reading and parsing the log, the best of five."""
    (log,) = folder.glob("sessions/*/events.jsonl")
    times: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        for line in log.read_bytes().splitlines():
            zlib.crc32(line)
            orjson.loads(line)
        times.append((time.perf_counter() - began) * 1000)
    return min(times)


def measured(count: int) -> tuple[list[tuple[object, ...]], list[Figure]]:
    """Return the rows of the table, and the figures that have a bar."""
    events = history(count)
    rows: list[tuple[object, ...]] = []
    figures: list[Figure] = []
    cases: list[tuple[str, Compaction | None]] = [
        ("log alone", None),
        ("snapshot, log kept", "disabled"),
        ("snapshot, log archived", "archive"),
    ]
    for name, compaction in cases:
        with tempfile.TemporaryDirectory(dir=ROOT.parent, prefix=".everturn-bench-") as folder:
            times = anyio.run(partial(measure, Path(folder), events, compaction))
            rows.append((name, min(times), sorted(times)[2], max(times)))
            if compaction is None:
                figures.append(
                    Figure(
                        what=f"recovery of {count:,} events, log alone",
                        value=min(times) / 1000,
                        unit="s",
                        bar=0.3,
                        floor=bare_read(Path(folder)) / 1000,
                    )
                )
    return rows, figures


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    count: int = parser.parse_args().events
    rows, figures = measured(count)
    show(f"recovery of {count} events", ("from", "min ms", "median ms", "max ms"), rows)
    show_figures("recovery", figures)


if __name__ == "__main__":
    main()
