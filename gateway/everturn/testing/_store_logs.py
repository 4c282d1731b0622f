"""What a store owes a log and its snapshots."""

from __future__ import annotations

from itertools import product
from typing import get_args

import anyio
import pytest

from everturn.testing._histories import (
    KEY,
    LOG,
    NO_IDS,
    OTHER_ID,
    SESSION_ID,
    moment,
    next_event,
    replay,
    simple_log,
    started,
    state_in,
)
from everturn.testing._on_a_store import OnAStore
from everturn.testing._running import Row, in_loop
from everturn_actors.errors import (
    CoreError,
    FencedError,
    StaleReadError,
    UnknownSessionError,
    WorkspaceLockedError,
)
from everturn_actors.events import Event, Received
from everturn_actors.model import Compaction
from everturn_actors.ports import SessionStore
from everturn_actors.state.apply import apply

COMPACTIONS: tuple[Compaction, ...] = get_args(Compaction)


_Log = tuple[str, tuple[Event, ...]]


def _log_of(number: int) -> _Log:
    """Return a session of a number, and what happened in it."""
    session_id = f"20261121T2249561{number:02d}-3f9a2c1b"
    return session_id, simple_log(3, session_id=session_id)


class LogContract(OnAStore):
    """Logs are durable, fenced and whole; snapshots take the place of what is before them."""

    @in_loop
    async def test_what_was_appended_is_there_after_a_restart(self) -> None:
        """Accepted means durable: this is the promise that everything else stands on."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG[:1], expected_seq=0)
            await store.append(SESSION_ID, LOG[1:10], expected_seq=1)
            await store.append(SESSION_ID, LOG[10:], expected_seq=10)
        async with self.open_store() as store:
            loaded = await store.load(SESSION_ID)

        assert loaded is not None
        assert (loaded.snapshot, loaded.events, loaded.repairs) == (None, LOG, ())

    @in_loop
    async def test_appending_nothing_does_nothing(self) -> None:
        """A caller with an empty batch must not create a session by it."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, (), expected_seq=0)

            assert await store.load(SESSION_ID) is None

    @in_loop
    async def test_text_that_is_no_utf8_survives(self) -> None:
        """Models and tools send lone surrogates; one of them must not stop a conversation."""
        event = Event(seq=2, at=moment(1), body=Received(text="a\ud800b \x00\u2028"))
        async with self.open_store() as store:
            await store.append(SESSION_ID, (LOG[0], event), expected_seq=0)
        async with self.open_store() as store:
            loaded = await store.load(SESSION_ID)

        assert loaded is not None
        assert loaded.events == (LOG[0], event)

    @in_loop
    async def test_a_session_that_is_not_there_is_none(self) -> None:
        """Callers tell an unknown session from a broken one by it."""
        async with self.open_store() as store:
            await store.append(OTHER_ID, simple_log(1, session_id=OTHER_ID), expected_seq=0)

            assert await store.load(SESSION_ID) is None
            assert await store.read(SESSION_ID, after=0, limit=10) == ()

    @in_loop
    async def test_text_that_is_no_id_finds_and_changes_nothing(self) -> None:
        """Ids come from URLs: one that is a path must not leave the sessions folder."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            for text in NO_IDS:
                with Row(text):
                    with pytest.raises(UnknownSessionError):
                        await store.append(text, (started(text),), expected_seq=0)
                    with pytest.raises(UnknownSessionError):
                        await store.save_snapshot(replay((started(text),)), compaction="archive")
                    with pytest.raises(UnknownSessionError):
                        await store.bind(KEY, text)
                    with pytest.raises(UnknownSessionError):
                        await store.mark_active(text)
                    await store.mark_passive(text)
                    await store.delete(text)

                    assert await store.load(text) is None
                    assert await store.read(text, after=0, limit=10) == ()
                    assert await store.active() == ()
                    assert (await state_in(store)).last_seq == 16

    @in_loop
    async def test_an_append_that_does_not_know_the_end_is_fenced(self) -> None:
        """Two writers must not both believe that they own a conversation."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            for seq, (is_known, row) in enumerate(product((True, False), range(4)), len(LOG)):
                expected_seq = (0, 5, seq - 1, seq + 1)[row]
                with Row(is_known, expected_seq):
                    late = Event(seq=expected_seq + 1, at=moment(99), body=Received(text="late"))
                    if not is_known:
                        await store.mark_passive(SESSION_ID)
                    with pytest.raises(FencedError):
                        await store.append(SESSION_ID, (late,), expected_seq=expected_seq)

                    assert (await state_in(store)).last_seq == seq
                    await store.append(SESSION_ID, (next_event(seq),), expected_seq=seq)

    @in_loop
    async def test_a_session_that_is_not_there_cannot_be_continued(self) -> None:
        """An actor whose session was deleted must find out, not found it anew in the middle."""
        async with self.open_store() as store:
            with pytest.raises(FencedError):
                await store.append(SESSION_ID, LOG[1:], expected_seq=1)

            assert await store.load(SESSION_ID) is None

    @in_loop
    async def test_events_that_leave_a_hole_are_refused(self) -> None:
        """Such a log could never be loaded again."""
        async with self.open_store() as store:
            with pytest.raises(ValueError, match="event 3 cannot follow event 1"):
                await store.append(SESSION_ID, (LOG[0], LOG[2]), expected_seq=0)

            assert await store.load(SESSION_ID) is None

    @in_loop
    async def test_a_snapshot_takes_the_place_of_the_events_before_it(self) -> None:
        """IN-07: replay from the snapshot gives the state that replay from the beginning gives."""
        rows: list[tuple[Compaction, int, _Log]] = [
            (compaction, at, _log_of(number))
            for number, (compaction, at) in enumerate(product(COMPACTIONS, (6, 16)))
        ]
        async with self.open_store() as store:
            for compaction, at, (session_id, log) in rows:
                with Row(compaction, at):
                    await store.append(session_id, log, expected_seq=0)
                    await store.save_snapshot(replay(log[:at]), compaction=compaction)
        async with self.open_store() as store:
            for compaction, at, (session_id, log) in rows:
                with Row(compaction, at):
                    loaded = await store.load(session_id)

                    assert loaded is not None
                    assert (loaded.snapshot, loaded.events) == (replay(log[:at]), log[at:])
                    assert await state_in(store, session_id) == replay(log)

    @in_loop
    async def test_a_session_goes_on_after_its_snapshot(self) -> None:
        """The log may be empty then; where it ends is known from the snapshot."""
        more = next_event(16)
        rows: list[tuple[Compaction, bool, _Log]] = [
            (compaction, is_known, _log_of(number))
            for number, (compaction, is_known) in enumerate(product(COMPACTIONS, (True, False)))
        ]
        async with self.open_store() as store:
            for compaction, is_known, (session_id, log) in rows:
                with Row(compaction, is_known):
                    await store.append(session_id, log, expected_seq=0)
                    await store.save_snapshot(replay(log), compaction=compaction)
                    if not is_known:
                        await store.mark_passive(session_id)
                    with pytest.raises(FencedError):
                        await store.append(session_id, (started(session_id),), expected_seq=0)
                    await store.append(session_id, (more,), expected_seq=16)
        async with self.open_store() as store:
            for compaction, is_known, (session_id, log) in rows:
                with Row(compaction, is_known):
                    assert await state_in(store, session_id) == apply(replay(log), more)

    @in_loop
    async def test_snapshots_follow_each_other(self) -> None:
        """A long conversation is compacted again and again, and its history stays one."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG[:6], expected_seq=0)
            await store.save_snapshot(replay(LOG[:6]), compaction="archive")
            await store.append(SESSION_ID, LOG[6:], expected_seq=6)
            await store.save_snapshot(replay(LOG[:6]), compaction="archive")
            await store.save_snapshot(replay(LOG[:11]), compaction="archive")

            assert await state_in(store) == replay(LOG)
            assert await store.read(SESSION_ID, after=0, limit=100) == LOG

    @in_loop
    async def test_a_snapshot_ahead_of_its_log_is_refused(self) -> None:
        """It would hold events that nobody wrote down."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG[:6], expected_seq=0)
            with pytest.raises(FencedError):
                await store.save_snapshot(replay(LOG), compaction="archive")

            assert await state_in(store) == replay(LOG[:6])

    @in_loop
    async def test_a_snapshot_of_no_session_is_refused(self) -> None:
        """A snapshot that arrives after the session was deleted must not bring it back."""
        async with self.open_store() as store:
            with pytest.raises(UnknownSessionError):
                await store.save_snapshot(replay(LOG), compaction="disabled")

            assert await store.load(SESSION_ID) is None

    @in_loop
    async def test_history_is_read_across_the_archive(self) -> None:
        """Clients page through a history without seeing that part of it was moved."""
        pages = [*product((0, 1, 5, 6, 10, 15, 16, 99), (0, 1, 4, 100))]
        kept: tuple[Compaction, ...] = ("archive", "disabled")
        async with self.open_store() as store:
            for number, compaction in enumerate(kept):
                session_id, log = _log_of(number)
                await store.append(session_id, log, expected_seq=0)
                await store.save_snapshot(replay(log[:6]), compaction=compaction)

                for after, limit in pages:
                    with Row(compaction, after, limit):
                        page = await store.read(session_id, after=after, limit=limit)
                        assert page == log[after:][:limit]

    @in_loop
    async def test_history_that_was_discarded_is_missing(self) -> None:
        """The caller sees by the first number that something is gone."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            await store.save_snapshot(replay(LOG[:6]), compaction="discard")

            assert await store.read(SESSION_ID, after=2, limit=3) == LOG[6:9]

    @in_loop
    async def test_a_reader_is_never_told_less_than_it_knows_to_be_durable(self) -> None:
        """Whoever follows takes what is missing as gone: it must not be what is yet to come."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            assert await store.read(SESSION_ID, after=3, limit=4, at_least=16) == LOG[3:7]
            assert await store.read(SESSION_ID, after=16, limit=4, at_least=16) == ()
            for session_id in (SESSION_ID, OTHER_ID):
                with pytest.raises(StaleReadError):
                    await store.read(session_id, after=14, limit=9, at_least=17)
            await store.save_snapshot(replay(LOG), compaction="discard")
            assert await store.read(SESSION_ID, after=3, limit=4, at_least=16) == ()

    @in_loop
    async def test_inspecting_shows_nothing_that_is_not_durable_yet(self) -> None:
        """Who looks while a session is written sees it before or after, never in between."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG[:1], expected_seq=0)
            seen: list[int] = []

            async def look() -> None:
                for _ in range(20):
                    found = await store.inspect(SESSION_ID)
                    assert found is not None
                    seen.append(len(found.events))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(look)
                for seq in range(1, 16, 5):
                    await store.append(SESSION_ID, LOG[seq : seq + 5], expected_seq=seq)

        assert set(seen) <= {1, 6, 11, 16}

    @in_loop
    async def test_a_second_store_is_refused_while_the_first_is_open(self) -> None:
        """Two processes on one workspace would write over each other."""
        async with self.open_store() as store:
            with pytest.raises(WorkspaceLockedError):
                async with self.open_store():
                    raise AssertionError
            await store.append(SESSION_ID, LOG, expected_seq=0)

        async with self.open_store() as store:
            assert (await state_in(store)).last_seq == 16

    @in_loop
    async def test_a_closed_store_refuses_instead_of_hanging(self) -> None:
        """An actor that is late at shutdown gets an error that it can report."""
        async with self.open_store() as store:
            pass
        with anyio.fail_after(30):
            with pytest.raises(CoreError):
                await store.append(SESSION_ID, LOG, expected_seq=0)

    @in_loop
    async def test_sessions_do_not_disturb_each_other(self) -> None:
        """Appends of many conversations share batches, and each still gets its own."""
        ids = [_log_of(number)[0] for number in range(32)]

        async def talk(store: SessionStore, session_id: str) -> None:
            log = simple_log(3, session_id=session_id)
            for event in log:
                await store.append(session_id, (event,), expected_seq=event.seq - 1)
                if event.seq == 8:
                    await store.save_snapshot(replay(log[:6]), compaction="archive")

        async with self.open_store() as store, anyio.create_task_group() as tasks:
            for session_id in ids:
                tasks.start_soon(talk, store, session_id)
        async with self.open_store() as store:
            for session_id in ids:
                log = simple_log(3, session_id=session_id)

                assert await state_in(store, session_id) == replay(log)
                assert await store.read(session_id, after=0, limit=99) == log
