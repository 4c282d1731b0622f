"""Start to ready and idle memory, with no session on disk and with many; memory of rested sessions.

.venv/bin/python benchmarks/startup.py [--sessions 10000]

`--woken N` also wakes N of them over HTTP and lets them rest, and shows what memory that leaves.
The API is loaded with its first request: idle is before it, asked is after it.
The floor is the bare script: an interpreter, a server and a client.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
from figures import Figure, show_figures
from floor import bare_script
from harness import Connection, Running, gateway, model_api, show, workspace
from recovery import NOW

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
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import ConversationKey

STARTS = 5


async def fill(folder: Path, sessions: int) -> list[str]:
    """Write sessions of one turn each; return their ids."""
    ids = [new_session_id(NOW, f"{number:08x}") for number in range(sessions)]
    async with open_file_store(folder / ".everturn") as store:

        async def write(session_id: str) -> None:
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
            await store.append(session_id, events, expected_seq=0)
            await store.mark_passive(session_id)

        for start in range(0, sessions, 500):
            async with anyio.create_task_group() as tasks:
                for session_id in ids[start : start + 500]:
                    tasks.start_soon(write, session_id)
    return ids


async def ask(running: Running) -> None:
    """Load the API."""
    async with Connection(running.url) as connection:
        status, body = await connection.request("GET", "/version")
        assert status == 200, body


async def wake(running: Running, ids: list[str]) -> None:
    """Look at each session, which loads it; then wait until the first ones rest again."""
    async with Connection(running.url) as connection:
        for session_id in ids:
            status, body = await connection.request("GET", f"/api/v1/sessions/{session_id}")
            assert status == 200, body


@dataclass(slots=True)
class Starts:
    """What several starts took."""

    ready_s: list[float] = field(default_factory=list[float])
    cpu_s: list[float] = field(default_factory=list[float])
    idle_mb: float = 0.0
    asked_mb: float = 0.0
    "After the first request to the API."
    rested_mb: float = 0.0
    "After sessions woke and rested."

    def note(self, running: Running) -> None:
        """Take note of a process that is ready now."""
        self.ready_s.append(running.ready_s)
        self.cpu_s.append(running.ready_cpu_s)
        self.idle_mb = running.memory_mb()

    def row(self, sessions: int) -> tuple[object, ...]:
        """Return it as a row of the table."""
        ready = sorted(self.ready_s)
        median = ready[len(ready) // 2]
        return (
            sessions,
            ready[0],
            median,
            min(self.cpu_s),
            self.idle_mb,
            self.asked_mb,
            self.rested_mb,
        )


def bare_starts(model_url: str) -> Starts:
    """Return what the bare script takes."""
    took = Starts()
    with workspace(model_url) as folder:
        for _ in range(STARTS):
            with bare_script(model_url, folder) as script:
                took.note(script)
    return took


def starts(model_url: str, sessions: int, woken: int) -> Starts:
    """Return what the gateway takes, with so many sessions on disk."""
    took = Starts()
    with workspace(model_url) as folder:
        (folder / "everturn.yaml").write_text(
            "server: {port: 0}\nsessions: {passivate_after_seconds: 1}\n"
        )
        ids = anyio.run(partial(fill, folder, sessions))
        for start in range(STARTS):
            with gateway(folder) as running:
                took.note(running)
                if start < STARTS - 1:
                    continue
                asyncio.run(ask(running))
                took.asked_mb = running.memory_mb()
                if ids:
                    asyncio.run(wake(running, ids[:woken]))
                    time.sleep(5)  # the rest time, and what it takes to put things away
                    took.rested_mb = running.memory_mb()
    return took


def measured(sessions: int, woken: int) -> tuple[list[tuple[object, ...]], list[Figure]]:
    """Return the rows of the table, and the figures that have a bar."""
    with model_api() as model_url:
        floor = bare_starts(model_url)
        empty, full = starts(model_url, 0, 0), starts(model_url, sessions, woken)
    floor_s, floor_cpu_s = min(floor.ready_s), min(floor.cpu_s)
    figures = [
        Figure(what="idle memory", value=empty.idle_mb, unit="MB", bar=60, floor=floor.idle_mb),
        Figure(
            what=f"memory that {sessions:,} sessions add, {woken:,} woke and rested",
            value=full.rested_mb - empty.asked_mb,
            unit="MB",
            bar=20,
        ),
    ]
    for what, took, bar in (
        ("start to ready", empty, 0.6),
        (f"start to ready, {sessions:,} sessions", full, 0.65),
    ):
        ready, cpu = min(took.ready_s), min(took.cpu_s)
        figures += [
            Figure(what=what, value=ready, unit="s", bar=bar, floor=floor_s),
            Figure(what=f"{what}, CPU", value=cpu, unit="s", floor=floor_cpu_s),
        ]
    return [floor.row(0), empty.row(0), full.row(sessions)], figures


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--woken", type=int, default=10_000)
    options = parser.parse_args()
    rows, figures = measured(options.sessions, options.woken)
    show(
        f"start to ready, {STARTS} starts; the first line is the floor's",
        (
            "sessions",
            "min s",
            "median s",
            "CPU s",
            "idle MB",
            "asked MB",
            f"MB after {options.woken} woke and rested",
        ),
        rows,
    )
    show_figures("start and memory", figures)


if __name__ == "__main__":
    main()
