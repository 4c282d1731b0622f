"""Start to ready and idle memory, with no session on disk and with many; memory of rested sessions.

.venv/bin/python benchmarks/startup.py [--sessions 10000]

`--woken N` also wakes N of them over HTTP and lets them rest, and shows what memory that leaves.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from functools import partial
from pathlib import Path

import anyio
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
from everturn_actors.journal.files import open_file_store
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
            await store.mark_resting(session_id)

        for start in range(0, sessions, 500):
            async with anyio.create_task_group() as tasks:
                for session_id in ids[start : start + 500]:
                    tasks.start_soon(write, session_id)
    return ids


async def wake(running: Running, ids: list[str]) -> None:
    """Look at each session, which loads it; then wait until the first ones rest again."""
    async with Connection(running.url) as connection:
        for session_id in ids:
            status, body = await connection.request("GET", f"/api/v1/sessions/{session_id}")
            assert status == 200, body


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--woken", type=int, default=10_000)
    options = parser.parse_args()
    rows = []
    with model_api() as model_url:
        for sessions in (0, options.sessions):
            with workspace(model_url) as folder:
                (folder / "everturn.yaml").write_text(
                    "server: {port: 0}\nsessions: {idle_rest_seconds: 1}\n"
                )
                ids = anyio.run(partial(fill, folder, sessions))
                ready, memory, woken = [], 0.0, 0.0
                for start in range(STARTS):
                    with gateway(folder) as running:
                        ready.append(running.ready_s)
                        memory = running.memory_mb()
                        if start == STARTS - 1 and ids:
                            asyncio.run(wake(running, ids[: options.woken]))
                            time.sleep(5)  # the rest time, and what it takes to put things away
                            woken = running.memory_mb()
                rows.append((sessions, min(ready), sorted(ready)[STARTS // 2], memory, woken))
    show(
        f"start to ready, {STARTS} starts",
        ("sessions", "min s", "median s", "idle MB", f"MB after {options.woken} woke and rested"),
        rows,
    )


if __name__ == "__main__":
    main()
