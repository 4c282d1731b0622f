"""The list of sessions and the hourly look for idle ones, with many sessions on disk.

.venv/bin/python benchmarks/listing.py [--sessions 100000]

The sessions are written as plain files, one turn each, a tenth of them with a snapshot. The page is
that of the HTTP API's default, from random places of the list.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
from figures import Figure, show_figures
from harness import ROOT, show

from everturn_actors.events import (
    Event,
    ModelReplied,
    Received,
    SessionStarted,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.ids import new_session_id
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.log.codec import encode
from everturn_actors.journal.opening import open_file_store
from everturn_actors.journal.snapshot.state_yaml import encode_state
from everturn_actors.model import ConversationKey
from everturn_actors.state.recovery import recover

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = 51  # fifty, and whether there are more
PAGES = 50
DUE = 100


def fill(folder: Path, sessions: int) -> list[str]:
    """Write so many sessions; the first `DUE` of them were used last a year ago."""
    long_ago = (NOW - timedelta(days=365)).timestamp()
    ids = [new_session_id(NOW + timedelta(seconds=n), f"{n:08x}") for n in range(sessions)]
    for number, session_id in enumerate(ids):
        key = ConversationKey(channel="http", chat=session_id, agent="bench")
        bodies = (
            SessionStarted(session_id=session_id, key=key),
            Received(text="hello"),
            TurnStarted(turn=1, received=(2,), window_messages=1280),
            StepStarted(turn=1, step=1, model="bench"),
            ModelReplied(text="hello yourself"),
            TurnFinished(turn=1, outcome="answered"),
        )
        events = [Event(seq=seq, at=NOW, body=body) for seq, body in enumerate(bodies, 1)]
        place = folder / "sessions" / session_id
        place.mkdir(parents=True)
        log = place / "events.jsonl"
        log.write_bytes(encode(session_id, events))
        recovered = recover(None, events) if number % 10 == 0 else None
        if recovered is not None:
            (place / "state.yaml").write_bytes(encode_state(recovered.state))
        if number < DUE:
            for path in place.iterdir():
                os.utime(path, (long_ago, long_ago))
    return ids


async def timed_page(store: FileStore, after: str = "") -> float:
    """Return the milliseconds of one page."""
    began = time.perf_counter()
    rows = await store.sessions(after=after, limit=PAGE)
    assert rows
    return (time.perf_counter() - began) * 1000


async def timed_sweep(store: FileStore) -> float:
    """Return the milliseconds of a look for sessions that were idle for half a year."""
    began = time.perf_counter()
    due = 0
    for agent in await store.agents():
        async for _ in store.idle(agent, before=NOW - timedelta(days=180)):
            due += 1
    assert due == DUE, due
    return (time.perf_counter() - began) * 1000


async def measure(folder: Path, ids: list[str]) -> tuple[list[tuple[object, ...]], list[Figure]]:
    """Return the rows of the table, and the figures that have a bar."""
    places = random.Random(1).choices(ids[PAGE:], k=PAGES)  # noqa: S311 - no secret
    async with open_file_store(folder) as store:
        first = await timed_page(store)
        began = time.perf_counter()
        await store.agents()
        read_all = (time.perf_counter() - began) * 1000
        pages = sorted([await timed_page(store, place) for place in places])
        sweeps = sorted([await timed_sweep(store) for _ in range(5)])
    began = time.perf_counter()
    async with open_file_store(folder) as store:
        opened = (time.perf_counter() - began) * 1000
        again = await timed_page(store)
    size_mb = (folder / "index.sqlite").stat().st_size / 1e6
    rows: list[tuple[object, ...]] = [
        ("first page, no index yet", first),
        ("reading all sessions into the index", read_all),
        ("a page, median", pages[len(pages) // 2]),
        ("a page, slowest", pages[-1]),
        (f"a look for idle sessions, {DUE} due, median", sweeps[2]),
        ("opening the store again", opened),
        ("first page then", again),
        ("size of the index, MB", size_mb),
    ]
    what = f"with {len(ids):,} sessions"
    figures = [
        Figure(what=f"a page of the list {what}", value=pages[25], unit="ms", bar=20),
        Figure(what=f"{DUE} idle sessions found {what}", value=sweeps[2], unit="ms", bar=100),
    ]
    return rows, figures


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    count: int = parser.parse_args().sessions
    with tempfile.TemporaryDirectory(dir=ROOT.parent, prefix=".everturn-bench-") as folder:
        ids = fill(Path(folder), count)
        rows, figures = anyio.run(measure, Path(folder), ids)
    show(f"{count} sessions", ("what", "ms"), rows)
    show_figures("listing", figures)


if __name__ == "__main__":
    main()
