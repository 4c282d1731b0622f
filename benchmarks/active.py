"""What long conversations take while they are active: memory, the loop, the collector, loading.

    .venv/bin/python benchmarks/active.py [--conversations 200] [--turns 2000] [--rounds 3]

Messages have 600 bytes and replies 400, and the agent's model has the largest window there is. The
gateway runs in this process, so that its loop and its collector can be timed; whoever writes the
conversations down beforehand, and whoever talks in them, is a process of its own. Memory is what
the process grows by while all of them are loaded and talk, beside the bytes of the texts that they
hold.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_process
import psutil
from figures import Figure, show_figures
from harness import LONG_MESSAGE, LONG_REPLY, ROOT, Connection, model_api, show, turn, workspace
from loop import Blocks, serving

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
from everturn_actors.model import ConversationKey, Usage
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState
from everturn_gateway.clock import SystemClock

WINDOW_MESSAGES, WINDOW_TOKENS = 2000, 1_000_000
AT_ONCE = 8
WARM_UP = 4
MEMORY_BAR_MB, LOOP_BAR_MS = 1.5, 20.0
WAKING_BARS_MS = {"from its log": 150.0, "from a snapshot": 20.0}
WAKINGS = 7


def history(session_id: str, turns: int) -> list[Event]:
    """Return the log of a conversation of long messages."""
    key = ConversationKey(channel="api", chat=session_id, agent="bench")
    bodies: list[Body] = [SessionStarted(session_id=session_id, key=key)]
    for number in range(1, turns + 1):
        bodies += [
            Received(text=f"message {number}{LONG_MESSAGE}", idempotency_key=uuid4().hex),
            TurnStarted(turn=number, received=(len(bodies) + 1,), window_messages=WINDOW_MESSAGES),
            StepStarted(turn=number, step=1, model="bench"),
            ModelReplied(
                text=f"{number}: {LONG_REPLY}",
                usage=Usage(input_tokens=900, output_tokens=50),
                model="bench",
            ),
            TurnFinished(turn=number, outcome="answered"),
        ]
    now = SystemClock().now()  # else they would have expired
    return [Event(seq=seq, at=now, body=body) for seq, body in enumerate(bodies, 1)]


def session_name(number: int) -> str:
    """Return the id of a conversation."""
    return f"20260101T000000000-{number:08x}"


def texts_of(state: SessionState) -> int:
    """Return the bytes of the texts that a session holds."""
    return sum(len(m.text.encode()) for turn in state.held_turns for m in turn.messages)


async def write_down(workspace: Path, names: Sequence[str], turns: int) -> int:
    """Write conversations with their snapshots; return the bytes of the texts that each holds."""
    texts = 0
    async with open_file_store(workspace) as store:
        for name in names:
            events = history(name, turns)
            await store.append(name, events, expected_seq=0)
            recovered = recover(None, events)
            assert recovered is not None
            await store.save_snapshot(recovered.state, compaction="discard")
            texts = texts_of(recovered.state)
    return texts


def prepare(workspace: Path, names: Sequence[str], turns: int) -> int:
    """Do as `write_down` does, from a process without a loop."""
    return asyncio.run(write_down(workspace, names, turns))


async def _converse(url: str, names: Sequence[str], rounds: int) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def talk(name: str, number: int) -> None:
        async with limit, Connection(url) as connection:
            await turn(connection, name, f"again {number}{LONG_MESSAGE}")

    for number in range(rounds):
        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(talk(name, number))


def converse(url: str, names: Sequence[str], rounds: int) -> None:
    """Talk in all conversations, some at a time, from a process without a loop."""
    asyncio.run(_converse(url, names, rounds))


@dataclass(slots=True)
class Collections:
    """What the collector of this process took, by generation."""

    runs: list[int] = field(default_factory=lambda: [0, 0, 0])
    longest_ms: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    @contextmanager
    def timing(self) -> Generator[None]:
        """Time each of its rounds for a block."""
        began = 0.0

        def note(phase: str, info: Mapping[str, Any]) -> None:
            nonlocal began
            if phase == "start":
                began = time.thread_time()
                return
            generation, took_ms = int(info["generation"]), (time.thread_time() - began) * 1000
            self.runs[generation] += 1
            self.longest_ms[generation] = max(self.longest_ms[generation], took_ms)

        gc.callbacks.append(note)
        try:
            yield
        finally:
            gc.callbacks.remove(note)


@dataclass(slots=True, kw_only=True)
class Awake:
    """What was found of conversations that are active."""

    texts: int = 0
    "Bytes, of one of them."
    grown: float = 0.0
    "Bytes, by each of them."
    blocks: Blocks = field(default_factory=Blocks)
    collections: Collections = field(default_factory=Collections)
    full_ms: float = 0.0
    "What one more full collection takes while all of them are active."


async def run(folder: Path, names: Sequence[str], turns: int, rounds: int) -> Awake:
    """Wake all conversations, let them talk; return what that took."""
    found = Awake()
    store = folder / ".everturn"
    found.texts = await anyio.to_process.run_sync(prepare, store, names, turns)
    warm_up, names = names[:WARM_UP], names[WARM_UP:]
    async with serving(folder) as url:
        await anyio.to_process.run_sync(converse, url, warm_up, rounds)
        before = psutil.Process().memory_info().rss
        with found.blocks.timing(LOOP_BAR_MS), found.collections.timing():
            await anyio.to_process.run_sync(converse, url, names, rounds)
        found.grown = (psutil.Process().memory_info().rss - before) / len(names)
        began = time.thread_time()
        gc.collect()
        found.full_ms = (time.thread_time() - began) * 1000
    return found


async def waking(folder: Path, turns: int, *, saved: bool) -> float:
    """Return the milliseconds of CPU that it takes to load one conversation, the median."""
    name = session_name(0)
    events = history(name, turns)
    async with open_file_store(folder) as store:
        await store.append(name, events, expected_seq=0)
        if saved:
            recovered = recover(None, events)
            assert recovered is not None
            assert recovered.checkpoint is not None
            await store.save_snapshot(recovered.checkpoint, compaction="archive")
        del events
        gc.collect()
        took: list[float] = []
        for _ in range(WAKINGS):
            began = time.process_time()
            loaded = await store.load(name)
            assert loaded is not None
            recovered = recover(loaded.snapshot, loaded.events)
            took.append((time.process_time() - began) * 1000)
    return sorted(took)[WAKINGS // 2]


def agent_of(folder: Path) -> None:
    """Give the agent of a workspace a model with a large window."""
    file = folder / "agents" / "bench" / "agent.yaml"
    text = file.read_text()
    file.write_text(
        text.replace(
            "name: bench, base_url", f"name: bench, context_window: {WINDOW_TOKENS}, base_url"
        )
    )


def measured(
    conversations: int, turns: int, rounds: int
) -> tuple[list[tuple[object, ...]], list[Figure]]:
    """Return the rows of the table, and the figures that have a bar."""
    names = [session_name(number) for number in range(conversations + WARM_UP)]
    with model_api(reply=LONG_REPLY) as model_url, workspace(model_url) as folder:
        agent_of(folder)
        found = anyio.run(run, folder, names, turns, rounds)
    blocks, collections = found.blocks, found.collections
    rows: list[tuple[object, ...]] = [
        (f"collections of generation {number}", count, longest_ms)
        for number, (count, longest_ms) in enumerate(
            zip(collections.runs, collections.longest_ms, strict=True)
        )
    ]
    rows.append(("a full one in the end", 1, found.full_ms))
    rows += [(where, "", ms) for ms, _, where in sorted(blocks.slow, reverse=True)[:5]]
    beyond = (found.grown - found.texts) / 1e6
    what = f"active conversation of {turns:,} turns"
    longest_ms = blocks.longest_cpu_ms
    figures = [
        Figure(what=f"{what}, MB", value=found.grown / 1e6, unit="MB"),
        Figure(what=f"{what}, beyond its texts", value=beyond, unit="MB", bar=MEMORY_BAR_MB),
        Figure(
            what=f"loop blocked by {conversations} such, CPU",
            value=longest_ms,
            unit="ms",
            bar=LOOP_BAR_MS,
        ),
        Figure(
            what="collector, longest", value=max(collections.longest_ms), unit="ms", bar=LOOP_BAR_MS
        ),
    ]
    for (which, bar_ms), saved in zip(WAKING_BARS_MS.items(), (False, True), strict=True):
        with tempfile.TemporaryDirectory(dir=ROOT.parent, prefix=".everturn-bench-") as folder:
            took_ms = anyio.run(partial(waking, Path(folder), turns, saved=saved))
        what = f"waking {5 * turns:,} events {which}, CPU"
        figures.append(Figure(what=what, value=took_ms, unit="ms", bar=bar_ms))
    return rows, figures


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows, figures = measured(options.conversations, options.turns, options.rounds)
    show(f"{options.conversations} conversations active", ("what", "times", "longest ms"), rows)
    show_figures("active", figures)


if __name__ == "__main__":
    main()
