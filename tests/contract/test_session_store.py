"""The durability contract of `SessionStore`: every store keeps it, and no caller can tell which."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import get_args

import anyio
import pytest
from support.histories import (
    KEY,
    OTHER_ID,
    SESSION_ID,
    instant,
    replay,
    simple_log,
    started,
)
from support.stores import FileWorld, MemoryWorld, World

from everturn_actors.errors import (
    CoreError,
    FencedError,
    InvalidInputError,
    UnknownSessionError,
    WorkspaceLockedError,
)
from everturn_actors.events import (
    Event,
    Received,
    SessionEnded,
    SessionShared,
    SessionStarted,
)
from everturn_actors.model import Compaction, ConversationKey
from everturn_actors.ports import SessionFilter, SessionStore
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState, apply

LOG = simple_log(3)  # 16 events
COMPACTIONS: tuple[Compaction, ...] = get_args(Compaction)
NO_IDS = ["", "nope", "../../etc/passwd", f"{SESSION_ID}/x", f"{SESSION_ID}\n", "x" * 5000]


@pytest.fixture(params=["file", "memory"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """Return a disk of each kind."""
    return FileWorld(tmp_path / "workspace") if request.param == "file" else MemoryWorld()


async def state_in(store: SessionStore, session_id: str = SESSION_ID) -> SessionState:
    """Return what a restart would bring back."""
    loaded = await store.load(session_id)
    assert loaded is not None
    recovered = recover(loaded.snapshot, loaded.events)
    assert recovered is not None
    return recovered.state


async def test_what_was_appended_is_there_after_a_restart(world: World) -> None:
    """Accepted means durable: this is the promise that everything else stands on."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG[:1], expected_seq=0)
        await store.append(SESSION_ID, LOG[1:10], expected_seq=1)
        await store.append(SESSION_ID, LOG[10:], expected_seq=10)
    async with world.open() as store:
        loaded = await store.load(SESSION_ID)

    assert loaded is not None
    assert (loaded.snapshot, loaded.events, loaded.repairs) == (None, LOG, ())


async def test_appending_nothing_does_nothing(world: World) -> None:
    """A caller with an empty batch must not create a session by it."""
    async with world.open() as store:
        await store.append(SESSION_ID, (), expected_seq=0)

        assert await store.load(SESSION_ID) is None


async def test_text_that_is_no_utf8_survives(world: World) -> None:
    """Models and tools send lone surrogates; one of them must not stop a conversation."""
    event = Event(seq=2, at=instant(1), body=Received(text="a\ud800b \x00\u2028"))
    async with world.open() as store:
        await store.append(SESSION_ID, (LOG[0], event), expected_seq=0)
    async with world.open() as store:
        loaded = await store.load(SESSION_ID)

    assert loaded is not None
    assert loaded.events == (LOG[0], event)


async def test_a_session_that_is_not_there_is_none(world: World) -> None:
    """Callers tell an unknown session from a broken one by it."""
    async with world.open() as store:
        await store.append(OTHER_ID, simple_log(1, session_id=OTHER_ID), expected_seq=0)

        assert await store.load(SESSION_ID) is None
        assert await store.read(SESSION_ID, after=0, limit=10) == ()


@pytest.mark.parametrize(
    "text", NO_IDS, ids=["empty", "word", "path", "deeper path", "newline", "long"]
)
async def test_text_that_is_no_id_finds_and_changes_nothing(world: World, text: str) -> None:
    """Ids come from URLs: one that is a path must not leave the sessions folder."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
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


@pytest.mark.parametrize("expected_seq", [0, 5, 15, 17])
@pytest.mark.parametrize("is_known", [True, False], ids=["in use", "at rest"])
async def test_an_append_that_does_not_know_the_end_is_fenced(
    world: World, expected_seq: int, *, is_known: bool
) -> None:
    """Two writers must not both believe that they own a conversation."""
    late = Event(seq=expected_seq + 1, at=instant(99), body=Received(text="late"))
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        if not is_known:
            await store.mark_passive(SESSION_ID)
        with pytest.raises(FencedError):
            await store.append(SESSION_ID, (late,), expected_seq=expected_seq)

        assert (await state_in(store)).last_seq == 16
        await store.append(SESSION_ID, (_next(16),), expected_seq=16)


async def test_a_session_that_is_not_there_cannot_be_continued(world: World) -> None:
    """An actor whose session was deleted must find out, not found it anew in the middle."""
    async with world.open() as store:
        with pytest.raises(FencedError):
            await store.append(SESSION_ID, LOG[1:], expected_seq=1)

        assert await store.load(SESSION_ID) is None


async def test_events_that_leave_a_hole_are_refused(world: World) -> None:
    """Such a log could never be loaded again."""
    async with world.open() as store:
        with pytest.raises(ValueError, match="event 3 cannot follow event 1"):
            await store.append(SESSION_ID, (LOG[0], LOG[2]), expected_seq=0)

        assert await store.load(SESSION_ID) is None


@pytest.mark.parametrize("compaction", COMPACTIONS)
@pytest.mark.parametrize("at", [6, 16], ids=["before the end", "at the end"])
async def test_a_snapshot_takes_the_place_of_the_events_before_it(
    world: World, compaction: Compaction, at: int
) -> None:
    """IN-07: replay from the snapshot gives the state that replay from the beginning gives."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_snapshot(replay(LOG[:at]), compaction=compaction)
    async with world.open() as store:
        loaded = await store.load(SESSION_ID)

        assert loaded is not None
        assert (loaded.snapshot, loaded.events) == (replay(LOG[:at]), LOG[at:])
        assert await state_in(store) == replay(LOG)


@pytest.mark.parametrize("compaction", COMPACTIONS)
@pytest.mark.parametrize("is_known", [True, False], ids=["in use", "at rest"])
async def test_a_session_goes_on_after_its_snapshot(
    world: World, compaction: Compaction, *, is_known: bool
) -> None:
    """The log may be empty then; where it ends is known from the snapshot."""
    more = _next(16)
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_snapshot(replay(LOG), compaction=compaction)
        if not is_known:
            await store.mark_passive(SESSION_ID)
        with pytest.raises(FencedError):
            await store.append(SESSION_ID, (started(),), expected_seq=0)
        await store.append(SESSION_ID, (more,), expected_seq=16)
    async with world.open() as store:
        assert await state_in(store) == apply(replay(LOG), more)


async def test_snapshots_follow_each_other(world: World) -> None:
    """A long conversation is compacted again and again, and its history stays one."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG[:6], expected_seq=0)
        await store.save_snapshot(replay(LOG[:6]), compaction="archive")
        await store.append(SESSION_ID, LOG[6:], expected_seq=6)
        await store.save_snapshot(replay(LOG[:6]), compaction="archive")
        await store.save_snapshot(replay(LOG[:11]), compaction="archive")

        assert await state_in(store) == replay(LOG)
        assert await store.read(SESSION_ID, after=0, limit=100) == LOG


async def test_a_snapshot_ahead_of_its_log_is_refused(world: World) -> None:
    """It would hold events that nobody wrote down."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG[:6], expected_seq=0)
        with pytest.raises(FencedError):
            await store.save_snapshot(replay(LOG), compaction="archive")

        assert await state_in(store) == replay(LOG[:6])


async def test_a_snapshot_of_no_session_is_refused(world: World) -> None:
    """A snapshot that arrives after the session was deleted must not bring it back."""
    async with world.open() as store:
        with pytest.raises(UnknownSessionError):
            await store.save_snapshot(replay(LOG), compaction="disabled")

        assert await store.load(SESSION_ID) is None


@pytest.mark.parametrize("compaction", ["archive", "disabled"])
async def test_history_is_read_across_the_archive(world: World, compaction: Compaction) -> None:
    """Clients page through a history without seeing that part of it was moved."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_snapshot(replay(LOG[:6]), compaction=compaction)

        for after, limit in product((0, 1, 5, 6, 10, 15, 16, 99), (0, 1, 4, 100)):
            assert await store.read(SESSION_ID, after=after, limit=limit) == LOG[after:][:limit]


async def test_history_that_was_discarded_is_missing(world: World) -> None:
    """The caller sees by the first number that something is gone."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_snapshot(replay(LOG[:6]), compaction="discard")

        assert await store.read(SESSION_ID, after=2, limit=3) == LOG[6:9]


async def test_a_torn_line_is_cut_off_and_reported(world: World) -> None:
    """Nobody was told that it was accepted; what was accepted is all there, and goes on."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
    world.tear(SESSION_ID)
    async with world.open() as store:
        first, second = await store.load(SESSION_ID), await store.load(SESSION_ID)

        assert first is not None
        assert second is not None
        assert (first.events, second.events) == (LOG, LOG)
        assert len(first.repairs) == 1
        assert second.repairs == ()
        await store.append(SESSION_ID, (_next(16),), expected_seq=16)


@pytest.mark.parametrize("snapshot_at", [0, 10, 16])
@pytest.mark.parametrize("torn", [False, True])
async def test_inspecting_shows_what_a_load_would_and_changes_nothing(
    world: World, snapshot_at: int, *, torn: bool
) -> None:
    """Looking at a session is no act: not even what a crash left behind is tidied up by it."""
    async with world.open() as store:
        assert await store.inspect(SESSION_ID) is None
        await store.append(SESSION_ID, LOG, expected_seq=0)
        if snapshot_at:
            state = replay(LOG[:snapshot_at])
            await store.save_snapshot(state, compaction="archive")
    if torn:
        world.tear(SESSION_ID)
    before = world.marks()
    async with world.open() as store:
        first = await store.inspect(SESSION_ID)
        again = await store.inspect(SESSION_ID)
        events = await store.read(SESSION_ID, after=0, limit=100)
        during = world.marks()
        loaded = await store.load(SESSION_ID)

    assert before == during
    assert events == LOG
    assert first is not None
    assert loaded is not None
    assert first == again
    assert (first.snapshot, first.events) == (loaded.snapshot, loaded.events)
    assert bool(first.repairs) == bool(loaded.repairs) == torn


async def test_inspecting_shows_nothing_that_is_not_durable_yet(world: World) -> None:
    """Who looks while a session is written sees it before or after, never in between."""
    async with world.open() as store:
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


async def test_a_torn_line_is_not_appended_to(world: World) -> None:
    """Appended to, a torn line would swallow the event that was promised to be kept."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.mark_passive(SESSION_ID)
        world.tear(SESSION_ID)
        with pytest.raises(FencedError):
            await store.append(SESSION_ID, (_next(16),), expected_seq=16)
        with pytest.raises(FencedError):
            await store.save_snapshot(replay(LOG), compaction="archive")

        assert (await state_in(store)).last_seq == 16


async def test_a_second_store_is_refused_while_the_first_is_open(world: World) -> None:
    """Two processes on one workspace would write over each other."""
    async with world.open() as store:
        with pytest.raises(WorkspaceLockedError, match=str(os.getpid())) as caught:
            async with world.open():
                raise AssertionError
        await store.append(SESSION_ID, LOG, expected_seq=0)

    assert caught.value.pid == os.getpid()
    async with world.open() as store:
        assert (await state_in(store)).last_seq == 16


async def test_a_closed_store_refuses_instead_of_hanging(world: World) -> None:
    """An actor that is late at shutdown gets an error that it can report."""
    async with world.open() as store:
        pass
    with anyio.fail_after(30):
        with pytest.raises(CoreError):
            await store.append(SESSION_ID, LOG, expected_seq=0)


async def test_sessions_do_not_disturb_each_other(world: World) -> None:
    """Appends of many conversations share batches, and each still gets its own."""
    ids = [f"20261121T2249561{number:02d}-3f9a2c1b" for number in range(32)]

    async def talk(store: SessionStore, session_id: str) -> None:
        log = simple_log(3, session_id=session_id)
        for event in log:
            await store.append(session_id, (event,), expected_seq=event.seq - 1)
            if event.seq == 8:
                await store.save_snapshot(replay(log[:6]), compaction="archive")

    async with world.open() as store, anyio.create_task_group() as tasks:
        for session_id in ids:
            tasks.start_soon(talk, store, session_id)
    async with world.open() as store:
        for session_id in ids:
            log = simple_log(3, session_id=session_id)

            assert await state_in(store, session_id) == replay(log)
            assert await store.read(session_id, after=0, limit=99) == log


async def test_a_conversation_points_to_its_latest_session(world: World) -> None:
    """After /reset the next message must not land in the old session."""
    async with world.open() as store:
        assert await store.bound(KEY) == ""
        await store.bind(KEY, SESSION_ID)
        await store.bind(KEY, OTHER_ID)
    async with world.open() as store:
        assert await store.bound(KEY) == OTHER_ID


@pytest.mark.parametrize(
    "other",
    [
        ConversationKey(channel="http", chat="c1", agent="assistant", topic="t"),
        ConversationKey(channel="http", chat="c2", agent="assistant"),
        ConversationKey(channel="http", chat="c1", agent="digest"),
        ConversationKey(channel="httpc", chat="1", agent="assistant"),
        ConversationKey(channel="\ud800/../\x00", chat="ü" * 500, agent="assistant"),
    ],
    ids=["topic", "chat", "agent", "shifted", "hostile"],
)
async def test_each_conversation_has_its_own_pointer(world: World, other: ConversationKey) -> None:
    """Two chats that share a session would read each other's messages."""
    async with world.open() as store:
        await store.bind(KEY, SESSION_ID)

        assert await store.bound(other) == ""
        await store.bind(other, OTHER_ID)
        assert (await store.bound(KEY), await store.bound(other)) == (SESSION_ID, OTHER_ID)


async def test_who_is_awake_is_known_without_reading_sessions(world: World) -> None:
    """Open turns are resumed at start-up by themselves, however many sessions there are."""
    async with world.open() as store:
        await store.mark_active(OTHER_ID)
        await store.mark_active(SESSION_ID)
        await store.mark_active(SESSION_ID)
    async with world.open() as store:
        assert await store.active() == (SESSION_ID, OTHER_ID)
        await store.mark_passive(SESSION_ID)
        await store.mark_passive(SESSION_ID)
        assert await store.active() == (OTHER_ID,)
        await store.mark_active(SESSION_ID)
        assert await store.active() == (SESSION_ID, OTHER_ID)


async def test_a_deleted_session_leaves_nothing(world: World) -> None:
    """A person who deletes a conversation must not meet it again anywhere."""
    async with world.open() as store:
        for session_id in (SESSION_ID, OTHER_ID):
            await store.append(session_id, simple_log(1, session_id=session_id), expected_seq=0)
            await store.mark_active(session_id)
            await store.save_result(session_id, "call_1", session_id)
        await store.bind(KEY, SESSION_ID)
        await store.save_snapshot(replay(LOG[:6]), compaction="archive")
        await store.delete(SESSION_ID)
        await store.delete(SESSION_ID)
    async with world.open() as store:
        listed = await store.sessions(after="", limit=10)

        assert await store.load(SESSION_ID) is None
        assert await store.read(SESSION_ID, after=0, limit=9) == ()
        assert await store.read_result(SESSION_ID, "call_1") is None
        assert await store.read_result(OTHER_ID, "call_1") == OTHER_ID
        assert [row.session_id for row in listed] == [OTHER_ID]
        assert await store.active() == (OTHER_ID,)
        assert await store.bound(KEY) == ""
        assert (await state_in(store, OTHER_ID)).last_seq == 6


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("a", "", id="empty"),
        pytest.param("call_1.txt", "plain", id="short"),
        pytest.param("x" * 100, "a\ud800b \x00\u2028\r\n", id="hostile"),
        pytest.param("a.b-C_9", "\ud83d\ude00", id="surrogates that stand as a pair"),
        pytest.param("a..b", "漢字👩‍👩‍👧" * 50_000, id="large"),
    ],
)
async def test_a_result_is_there_after_a_restart(world: World, name: str, text: str) -> None:
    """The event that names it comes right after: what it names must not be lost before it."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_result(SESSION_ID, name, text)
    async with world.open() as store:
        assert await store.read_result(SESSION_ID, name) == text
        assert await state_in(store) == replay(LOG)


async def test_a_result_of_the_same_name_is_replaced(world: World) -> None:
    """A call that is run again after a crash gives its result anew."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_result(SESSION_ID, "call_1", "a long first text")
        await store.save_result(SESSION_ID, "call_2", "another")
        await store.save_result(SESSION_ID, "call_1", "second")

        assert await store.read_result(SESSION_ID, "call_1") == "second"
        assert await store.read_result(SESSION_ID, "call_2") == "another"


async def test_a_result_that_is_not_there_is_none(world: World) -> None:
    """The model may ask for what has gone meanwhile, or for what never was."""
    async with world.open() as store:
        assert await store.read_result(SESSION_ID, "call_1") is None
        await store.append(SESSION_ID, LOG, expected_seq=0)
        assert await store.read_result(SESSION_ID, "call_1") is None
        await store.append(OTHER_ID, simple_log(1, session_id=OTHER_ID), expected_seq=0)
        await store.save_result(OTHER_ID, "call_1", "of the other")

        assert await store.read_result(SESSION_ID, "call_1") is None
        assert await store.read_result(SESSION_ID, "call_2") is None


NO_NAMES = ["", ".", "..", "../x", "a/b", "/etc/passwd", f"../{OTHER_ID}/events.jsonl", "a\\b"]
NO_NAMES += [".hidden", "end.", "a b", "a\n", "a\x00", "ä", "a:b", "x" * 101]


async def test_a_result_under_what_is_no_name_is_refused(world: World) -> None:
    """Names are made from what a model wrote: one that is a path must not leave its folder."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.append(OTHER_ID, simple_log(1, session_id=OTHER_ID), expected_seq=0)
        for name in NO_NAMES:
            with pytest.raises(InvalidInputError, match="is no name for a result"):
                await store.save_result(SESSION_ID, name, "text")
            assert await store.read_result(SESSION_ID, name) is None

        assert await state_in(store) == replay(LOG)


async def test_a_result_of_no_session_is_refused(world: World) -> None:
    """A tool that ends after its session was deleted must not bring a part of it back."""
    async with world.open() as store:
        with pytest.raises(UnknownSessionError):
            await store.save_result(SESSION_ID, "call_1", "text")
        for text in NO_IDS:
            with pytest.raises(UnknownSessionError):
                await store.save_result(text, "call_1", "text")
            assert await store.read_result(text, "call_1") is None

        assert await store.load(SESSION_ID) is None
        assert await store.sessions(after="", limit=9) == ()


async def test_the_oldest_results_go_when_all_together_are_too_large(world: World) -> None:
    """A long session must not fill the disk, and what is asked for is mostly recent."""
    async with world.open(results_max_bytes=100) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.append(OTHER_ID, simple_log(1, session_id=OTHER_ID), expected_seq=0)
        await store.save_result(OTHER_ID, "a", "o" * 100)
        for name in "edcba":
            await store.save_result(SESSION_ID, name, name * 20)
        await store.save_result(SESSION_ID, "e", "e" * 20)  # saved again, it is the newest
        whole = await held(store, "abcde")
        await store.save_result(SESSION_ID, "f", "f" * 20)
    async with world.open(results_max_bytes=100) as store:
        less = await held(store, "abcdef")
        await store.save_result(SESSION_ID, "g", "漢" * 20)

        assert (whole, less) == ("abcde", "abcef")
        assert await held(store, "abcdefg") == "efg"
        assert await store.read_result(OTHER_ID, "a") == "o" * 100


async def test_the_result_just_saved_stays_whatever_its_size(world: World) -> None:
    """The marker that the model reads next names it."""
    async with world.open(results_max_bytes=10) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_result(SESSION_ID, "a", "a" * 5)
        await store.save_result(SESSION_ID, "b", "b" * 5000)
        first = await held(store, "ab")
        await store.save_result(SESSION_ID, "a", "a" * 5)

        assert first == "b"
        assert await held(store, "ab") == "a"


async def held(store: SessionStore, names: str) -> str:
    """Return those of the names, each one letter, under which there is a result."""
    found = [name for name in names if await store.read_result(SESSION_ID, name) is not None]
    return "".join(found)


# --- files that came with messages ---


async def test_a_file_is_there_after_a_restart_as_it_was(world: World) -> None:
    """The log names it; any byte may be in it."""
    data = bytes(range(256)) * 1000
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_media(SESSION_ID, "a.png", data)
        await store.save_media(SESSION_ID, "b.bin", b"first")
        await store.save_media(SESSION_ID, "b.bin", b"")
    async with world.open() as store:
        assert await store.read_media(SESSION_ID, "a.png") == data
        assert await store.read_media(SESSION_ID, "b.bin") == b""
        assert await store.read_media(SESSION_ID, "c.png") is None
        assert await store.read_media(OTHER_ID, "a.png") is None
        assert await store.read_result(SESSION_ID, "a.png") is None


async def test_a_file_under_what_is_no_name_is_refused(world: World) -> None:
    """A name comes back over HTTP: one that is a path must not leave its folder."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        for name in NO_NAMES:
            with pytest.raises(InvalidInputError, match="is no name for a file"):
                await store.save_media(SESSION_ID, name, b"data")
            assert await store.read_media(SESSION_ID, name) is None


async def test_a_file_belongs_to_a_session_and_goes_with_it(world: World) -> None:
    """A deleted conversation leaves no picture behind, and none comes after it."""
    async with world.open() as store:
        for session_id in (SESSION_ID, OTHER_ID):
            with pytest.raises(UnknownSessionError):
                await store.save_media(session_id, "a.png", b"early")
            await store.append(session_id, simple_log(1, session_id=session_id), expected_seq=0)
            await store.save_media(session_id, "a.png", session_id.encode())
        await store.delete(SESSION_ID)
        with pytest.raises(UnknownSessionError):
            await store.save_media(SESSION_ID, "a.png", b"late")

        assert await store.read_media(SESSION_ID, "a.png") is None
        assert await store.read_media(OTHER_ID, "a.png") == OTHER_ID.encode()
        for text in NO_IDS:
            assert await store.read_media(text, "a.png") is None


async def test_files_have_a_limit_of_their_own(world: World) -> None:
    """Pictures must not push out results, nor fill the disk; the newest is never let go."""
    async with world.open(results_max_bytes=100, media_max_bytes=50) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_result(SESSION_ID, "result", "r" * 100)
        for name in "abc":
            await store.save_media(SESSION_ID, name, name.encode() * 20)
        await store.save_media(SESSION_ID, "b", b"b" * 20)  # saved again, it is the newest
    async with world.open(results_max_bytes=100, media_max_bytes=50) as store:
        await store.save_media(SESSION_ID, "d", b"d" * 20)
        first = [n for n in "abcd" if await store.read_media(SESSION_ID, n) is not None]
        await store.save_media(SESSION_ID, "e", b"e" * 500)

        assert first == ["b", "d"]
        assert [n for n in "bde" if await store.read_media(SESSION_ID, n)] == ["e"]
        assert await store.read_result(SESSION_ID, "result") == "r" * 100


@pytest.mark.parametrize("compaction", COMPACTIONS)
async def test_results_stay_when_the_log_is_compacted(world: World, compaction: Compaction) -> None:
    """What was summarised stays readable, also where its events are gone."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_result(SESSION_ID, "call_1", "text")
        await store.save_snapshot(replay(LOG), compaction=compaction)
        await store.mark_passive(SESSION_ID)

        assert await store.read_result(SESSION_ID, "call_1") == "text"
        await store.append(SESSION_ID, (_next(16),), expected_seq=16)


async def test_results_saved_side_by_side_are_all_kept(world: World) -> None:
    """Calls that run side by side end side by side, while the session is written to."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG[:6], expected_seq=0)
        async with anyio.create_task_group() as tasks:
            for name in "abcdefgh":
                tasks.start_soon(store.save_result, SESSION_ID, name, name * 1000)
            for event in LOG[6:]:
                await store.append(SESSION_ID, (event,), expected_seq=event.seq - 1)

        assert await held(store, "abcdefgh") == "abcdefgh"
        assert await state_in(store) == replay(LOG)


async def test_deleting_an_old_session_keeps_the_pointer_to_the_new_one(world: World) -> None:
    """Clearing out yesterday's session must not cut today's conversation off."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.bind(KEY, OTHER_ID)
        await store.delete(SESSION_ID)

        assert await store.bound(KEY) == OTHER_ID


async def test_a_deleted_session_can_be_written_anew(world: World) -> None:
    """What the store remembered of the old one must not stand in the way."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_result(SESSION_ID, "call_1", "of the old one")
        await store.delete(SESSION_ID)
        await store.append(SESSION_ID, LOG[:6], expected_seq=0)

        assert (await state_in(store)).last_seq == 6
        assert await store.read_result(SESSION_ID, "call_1") is None


async def test_sessions_are_listed_newest_first_page_by_page(world: World) -> None:
    """A list of thousands is read in pages, and the newest are wanted first."""
    ids = [f"2026112{day}T224956123-3f9a2c1b" for day in (3, 1, 5, 2, 4)]
    async with world.open() as store:
        for session_id in ids:
            await store.append(session_id, (started(session_id),), expected_seq=0)
        pages: list[list[str]] = []
        after = ""
        while page := await store.sessions(after=after, limit=2):
            pages.append([row.session_id for row in page])
            after = pages[-1][-1]

    newest = sorted(ids, reverse=True)
    assert pages == [newest[:2], newest[2:4], newest[4:]]


async def test_a_row_of_the_list_says_whose_session_it_is(world: World) -> None:
    """`sessions list` shows the conversation, its status and when it began."""
    ended = Event(seq=17, at=instant(99), body=SessionEnded(reason="reset"))
    key = ConversationKey(channel="cli", chat="x: #y", agent="digest", topic="t")
    begun = Event(
        seq=1, at=instant(5), body=SessionStarted(session_id=OTHER_ID, key=key, instructions="i")
    )
    async with world.open() as store:
        await store.append(SESSION_ID, (*LOG, ended), expected_seq=0)
        await store.save_snapshot(replay((*LOG, ended)), compaction="discard")
        await store.append(OTHER_ID, (begun,), expected_seq=0)
        rows = await store.sessions(after="", limit=10)

    assert [(row.session_id, row.key, row.status, row.created_at) for row in rows] == [
        (OTHER_ID, key, "active", instant(5)),
        (SESSION_ID, KEY, "ended", LOG[0].at),
    ]
    assert all(row.updated_at.tzinfo is not None for row in rows)


async def test_idle_sessions_are_found_by_their_agent(world: World) -> None:
    """Conversations that nobody goes on with expire, each after the time of its own agent."""
    ids = [f"2026112{day}T224956123-3f9a2c1b" for day in range(1, 6)]
    long_after = datetime(9999, 1, 1, tzinfo=UTC)
    async with world.open() as store:
        for session_id, agent in zip(ids, ("a", "b", "a", "a", "a"), strict=True):
            key = ConversationKey(channel="cli", chat=session_id, agent=agent)
            begun = Event(seq=1, at=instant(1), body=SessionStarted(session_id=session_id, key=key))
            await store.append(session_id, (begun,), expected_seq=0)
        await store.append(
            ids[2],
            (Event(seq=2, at=instant(2), body=SessionEnded(reason="reset")),),
            expected_seq=1,
        )
        ended = replay(await history(store, ids[2]))
        await store.save_snapshot(ended, compaction="disabled")
        await store.delete(ids[3])
        agents = await store.agents()
        of_a = [row.session_id async for row in store.idle("a", before=long_after)]
        of_b = [row.session_id async for row in store.idle("b", before=long_after)]
        early = [row async for row in store.idle("a", before=instant(0))]

    assert sorted(agents) == ["a", "b"]
    assert sorted(of_a) == [ids[0], ids[4]]
    assert of_b == [ids[1]]
    assert early == []


async def history(store: SessionStore, session_id: str) -> tuple[Event, ...]:
    """Return all events of a session."""
    return await store.read(session_id, after=0, limit=1_000)


def _next(last_seq: int) -> Event:
    return Event(seq=last_seq + 1, at=instant(10**9), body=Received(text="and more"))


async def test_a_principal_lists_what_it_began_and_what_it_was_given(world: World) -> None:
    """Pages are as full as those of all sessions, whoever else has some in between."""
    ids = [f"2026112{day}T224956123-3f9a2c1b" for day in range(1, 8)]
    given = Event(seq=2, at=instant(2), body=SessionShared(principal="alice", by="bob"))
    taken = Event(
        seq=3, at=instant(3), body=SessionShared(principal="alice", by="bob", is_withdrawn=True)
    )
    alice = SessionFilter(seen_by="alice")
    async with world.open() as store:
        for session_id, name in zip(ids, ("alice", "bob", "alice", "", "bob", "a"), strict=False):
            await store.append(session_id, (_begun_by(session_id, name),), expected_seq=0)
        for session_id, events in ((ids[1], (given,)), (ids[4], (given, taken))):
            await store.append(session_id, events, expected_seq=1)
            state = replay((_begun_by(session_id, "bob"), *events))
            await store.save_snapshot(state, compaction="archive")
        first = await store.sessions(after="", limit=2, wanted=alice)
        rest = await store.sessions(after=first[-1].session_id, limit=2, wanted=alice)
        await store.append(ids[6], (_begun_by(ids[6], "alice"),), expected_seq=0)
        later = await store.sessions(after="", limit=9, wanted=alice)
        nobody = await store.sessions(after="", limit=9, wanted=SessionFilter(seen_by="x"))

    assert [row.session_id for row in first] == [ids[2], ids[1]]
    assert first[1].shared_with == ("alice",)
    assert [row.session_id for row in rest] == [ids[0]]
    assert [row.session_id for row in later] == [ids[6], ids[2], ids[1], ids[0]]
    assert nobody == ()
    async with world.open() as store:  # as they stand on disk
        again = await store.sessions(after="", limit=9, wanted=alice)
    assert [(row.session_id, row.principal, row.shared_with) for row in again] == [
        (row.session_id, row.principal, row.shared_with) for row in later
    ]


async def test_sessions_are_listed_by_their_agents(world: World) -> None:
    """Who may know one agent alone is told of no session of another."""
    ids = [f"2026112{day}T224956123-3f9a2c1b" for day in range(1, 5)]
    async with world.open() as store:
        for session_id, agent in zip(ids, ("a", "b", "a", "c"), strict=True):
            begun = _begun_by(session_id, "alice", agent=agent)
            await store.append(session_id, (begun,), expected_seq=0)
        of_some = SessionFilter(agents=frozenset({"a", "c"}))
        rows = await store.sessions(after="", limit=2, wanted=of_some)
        of_one = SessionFilter(seen_by="alice", agents=frozenset({"b"}))
        own = await store.sessions(after="", limit=2, wanted=of_one)
        none = await store.sessions(after="", limit=2, wanted=SessionFilter(agents=frozenset()))

    assert [row.session_id for row in rows] == [ids[3], ids[2]]
    assert [row.session_id for row in own] == [ids[1]]
    assert none == ()


def _begun_by(session_id: str, principal: str, *, agent: str = "digest") -> Event:
    key = ConversationKey(channel="http", chat=session_id, agent=agent)
    body = SessionStarted(session_id=session_id, key=key, principal=principal)
    return Event(seq=1, at=instant(1), body=body)
