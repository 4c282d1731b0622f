"""A session against crashes: whatever happens in between, what comes back is what was.

Hypothesis plays the life of one session - batches of legal events, snapshots, compaction, rest,
restarts, large results, crashes in the middle of a write - and compares the store with a model in
memory: the state after each acknowledged event, and the events and results that have to be
readable.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from support.examples import examples
from support.histories import next_bodies
from support.stores import FileWorld, MemoryWorld, World

from everturn.testing._histories import SESSION_ID, moment
from everturn_actors.errors import JournalError
from everturn_actors.events import Event, SessionEnded
from everturn_actors.journal.log.layout import Layout
from everturn_actors.model import Compaction
from everturn_actors.ports import Loaded, SessionStore
from everturn_actors.state.apply import apply
from everturn_actors.state.recovery import Recovered, recover
from everturn_actors.state.session_state import SessionState

COMPACTIONS: tuple[Compaction, ...] = get_args(Compaction)
RESULTS_MAX_BYTES = 40
names = st.sampled_from(["call_1", "call_2", "3-1.txt"])
results = st.sampled_from(["", "short", "\ud800", "x" * 15, "漢" * 10, "larger than all" * 4])


class Session(RuleBasedStateMachine):
    """One session on one disk, with what should be there."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = ExitStack()
        # One loop in a thread of its own: the store's tasks outlive each single step.
        self.portal = self.closing.enter_context(start_blocking_portal())
        self.world = self.make_world()
        self.open = ExitStack()
        self.store = self.start()
        self.state: SessionState | None = None
        self.checkpoint: SessionState | None = None
        self.saved: SessionState | None = None
        self.archive: list[Event] = []
        self.log: list[Event] = []
        self.results: dict[str, str] = {}
        "Oldest first."

    def make_world(self) -> World:
        """Return an empty disk."""
        raise NotImplementedError

    def start(self) -> SessionStore:
        """Open a store on what the disk holds."""
        opening = self.world.open(results_max_bytes=RESULTS_MAX_BYTES)
        opened = self.portal.wrap_async_context_manager(opening)
        return self.open.enter_context(opened)

    def stop(self) -> None:
        """Close the store; nothing of it is left but the disk."""
        self.open.close()

    def teardown(self) -> None:
        """Let go of everything."""
        self.stop()
        self.closing.close()

    # --- the life of a session ---

    def draw_events(self, data: st.DataObject) -> list[Event]:
        """Draw some events that may follow."""
        events: list[Event] = []
        state = self.state
        for _ in range(data.draw(st.integers(1, 5), label="events")):
            bodies = next_bodies(state, may_end=False)
            assert bodies is not None
            seq = state.last_seq + 1 if state else 1
            event = Event(seq=seq, at=moment(seq * 1000), body=data.draw(bodies))
            state = apply(state, event)
            events.append(event)
        return events

    def accept(self, events: list[Event]) -> None:
        """Move the model on: these events are durable."""
        for event in events:
            self.state = apply(self.state, event)
            self.log.append(event)
            if self.state.checkpoint_seq == self.state.last_seq:
                self.checkpoint = self.state

    @property
    def last_seq(self) -> int:
        """The last event that was acknowledged."""
        return self.state.last_seq if self.state else 0

    @property
    def is_going_on(self) -> bool:
        """Whether events may follow."""
        return self.state is None or self.state.status != "ended"

    def append(self, events: list[Event]) -> None:
        """Append as an actor does."""

        async def append() -> None:
            await self.store.append(SESSION_ID, events, expected_seq=self.last_seq)

        self.portal.call(append)

    def load(self) -> Loaded | None:
        """Load as an actor does."""
        return self.portal.call(self.store.load, SESSION_ID)

    @precondition(lambda self: self.is_going_on)
    @rule(data=st.data())
    def events_are_appended(self, data: st.DataObject) -> None:
        events = self.draw_events(data)
        self.append(events)
        self.accept(events)

    @precondition(lambda self: self.state is not None)
    @rule(compaction=st.sampled_from(COMPACTIONS), now=st.booleans())
    def a_snapshot_is_saved(self, compaction: Compaction, *, now: bool) -> None:
        state = self.state if now else self.checkpoint
        if state is None or (self.saved and state.last_seq < self.saved.last_seq):
            return

        async def save() -> None:
            await self.store.save_snapshot(state, compaction=compaction)

        self.portal.call(save)
        self.saved = state
        if compaction != "disabled":
            behind = [event for event in self.log if event.seq <= state.last_seq]
            self.log = self.log[len(behind) :]
            self.archive += behind if compaction == "archive" else []

    def save_result(self, name: str, text: str) -> None:
        """Save as a turn does."""
        self.portal.call(self.store.save_result, SESSION_ID, name, text)

    def keep_result(self, name: str, text: str) -> None:
        """Move the model on: this result is durable, and the oldest others go."""
        self.results.pop(name, None)
        self.results[name] = text
        while len(self.results) > 1 and self.results_bytes > RESULTS_MAX_BYTES:
            del self.results[next(iter(self.results))]

    @property
    def results_bytes(self) -> int:
        """How much room the results take."""
        return sum(len(text.encode(errors="surrogatepass")) for text in self.results.values())

    @precondition(lambda self: self.state is not None)
    @rule(name=names, text=results)
    def a_result_is_saved(self, name: str, text: str) -> None:
        self.save_result(name, text)
        self.keep_result(name, text)

    @rule(name=names)
    def a_result_is_read(self, name: str) -> None:
        found = self.portal.call(self.store.read_result, SESSION_ID, name)
        assert found == self.results.get(name)

    @rule()
    def it_goes_to_rest(self) -> None:
        self.portal.call(self.store.mark_passive, SESSION_ID)

    @precondition(lambda self: self.state and self.state.open_turn is None and self.is_going_on)
    @precondition(lambda self: self.last_seq > 20)
    @rule()
    def it_ends(self) -> None:
        seq = self.last_seq + 1
        events = [Event(seq=seq, at=moment(seq * 1000), body=SessionEnded(reason="reset"))]
        self.append(events)
        self.accept(events)

    @precondition(lambda self: not self.is_going_on)
    @rule()
    def it_is_deleted(self) -> None:
        self.portal.call(self.store.delete, SESSION_ID)
        self.state = self.checkpoint = self.saved = None
        self.archive, self.log, self.results = [], [], {}

    # --- what befalls it ---

    @rule()
    def the_process_is_started_anew(self) -> None:
        self.stop()
        self.store = self.start()
        self.compare(self.load(), may_repair=False)

    @precondition(lambda self: self.log or self.saved)
    @rule()
    def half_a_line_is_left(self) -> None:
        self.stop()
        self.world.tear(SESSION_ID)
        self.store = self.start()
        loaded = self.load()
        assert loaded is not None
        assert len(loaded.repairs) == 1
        self.compare(loaded, may_repair=True)

    @precondition(lambda self: self.is_going_on)
    @rule(data=st.data())
    def the_power_goes_during_an_append(self, data: st.DataObject) -> None:
        events = self.draw_events(data)
        self.lose_power(events, data)
        self.store = self.start()
        loaded = self.load()
        kept = self.recovered(loaded)
        survived = (kept.state.last_seq if kept else 0) - self.last_seq
        assert 0 <= survived <= len(events)  # never acknowledged: any beginning of them may stay
        self.accept(events[:survived])
        self.compare(loaded, may_repair=True)

    @precondition(lambda self: self.state is not None)
    @rule(name=names, text=results, kept=st.booleans())
    def the_power_goes_during_a_save(self, name: str, text: str, *, kept: bool) -> None:
        self.lose_power_at_save(name, text, kept=kept)
        self.store = self.start()
        if kept:
            self.keep_result(name, text)
        self.a_result_is_read(name)
        self.compare(self.load(), may_repair=False)

    def lose_power(self, events: list[Event], data: st.DataObject) -> None:
        """Begin to append `events` and crash before that is acknowledged; the store is closed."""
        raise NotImplementedError

    def lose_power_at_save(self, name: str, text: str, *, kept: bool) -> None:
        """Begin to save a result and crash just before or just after it is in its place."""
        raise NotImplementedError

    # --- what has to be true ---

    def recovered(self, loaded: Loaded | None) -> Recovered | None:
        """Replay what was loaded."""
        return recover(loaded.snapshot, loaded.events) if loaded else None

    def compare(self, loaded: Loaded | None, *, may_repair: bool) -> None:
        """Check that what came back is what the model holds."""
        back = self.recovered(loaded)
        if back is None or loaded is None:
            assert self.state is None
            return
        assert back.state == self.state
        assert loaded.snapshot == self.saved
        assert not loaded.repairs or may_repair
        latest = max((self.checkpoint, self.saved), key=lambda s: s.last_seq if s else 0)
        assert back.checkpoint == latest

    @rule()
    def it_is_loaded(self) -> None:
        self.compare(self.load(), may_repair=False)

    @rule(after=st.integers(0, 80), limit=st.integers(0, 20))
    def history_is_read(self, after: int, limit: int) -> None:
        async def read() -> tuple[Event, ...]:
            return await self.store.read(SESSION_ID, after=after, limit=limit)

        readable = [event for event in (*self.archive, *self.log) if event.seq > after]
        assert self.portal.call(read) == tuple(readable[:limit])


class SessionOnDisk(Session):
    """The file store; a crash is a log that is cut at any byte of what was being appended."""

    def make_world(self) -> World:
        folder = Path(tempfile.mkdtemp())
        self.closing.callback(shutil.rmtree, folder)
        self.workspace = folder
        return FileWorld(folder)

    def lose_power(self, events: list[Event], data: st.DataObject) -> None:
        log = Layout(workspace=self.workspace).session(SESSION_ID).log
        before = log.stat().st_size if log.exists() else 0
        self.append(events)
        self.stop()
        written = log.read_bytes()
        log.write_bytes(written[: data.draw(st.integers(before, len(written)), label="cut at")])

    def lose_power_at_save(self, name: str, text: str, *, kept: bool) -> None:
        folder = Layout(workspace=self.workspace).session(SESSION_ID).results
        if kept:
            self.save_result(name, text)
        self.stop()
        if not kept:
            folder.mkdir(exist_ok=True)
            (folder / f".{name}.tmp").write_bytes(b"half of it")


class SessionInMemory(Session):
    """The memory store, told to fail."""

    def make_world(self) -> World:
        self.memory = MemoryWorld()
        return self.memory

    def lose_power(self, events: list[Event], data: st.DataObject) -> None:
        kept = data.draw(st.integers(0, len(events)), label="kept")
        self.memory.disk.lose_power_at_append(kept_events=kept, tear=data.draw(st.booleans()))
        with pytest.raises(JournalError):
            self.append(events)
        self.stop()

    def lose_power_at_save(self, name: str, text: str, *, kept: bool) -> None:
        self.memory.disk.lose_power_at_result(kept=kept)
        with pytest.raises(JournalError):
            self.save_result(name, text)
        self.stop()


SessionOnDisk.TestCase.settings = examples(10, steps=30)
SessionInMemory.TestCase.settings = examples(20, steps=30)
TestSessionOnDisk = SessionOnDisk.TestCase
TestSessionInMemory = SessionInMemory.TestCase
