"""What is cleaned and erased of one session: in files and in a database alike."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec.structs import replace
from support.database import Server, needs_database
from support.stores import open_postgres_store, postgres_setup
from support.tables import table

from everturn.testing._histories import SESSION_ID, moment, replay, simple_log, state_in
from everturn_actors.events import (
    AmbientStored,
    Body,
    CallFinished,
    Event,
    Labelled,
    ModelReplied,
    Received,
    Summarised,
)
from everturn_actors.gaps import Gap
from everturn_actors.journal.doctor import check
from everturn_actors.journal.files import FileStore
from everturn_actors.model import (
    Attachment,
    Labels,
    Reply,
    Step,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from everturn_actors.ports.maintenance import StoredSizes
from everturn_gateway.builtin.stores import FILE
from everturn_gateway.plugins import OpenedStore, StoreSettings
from everturn_gateway.retention.scrubbing import ERASED, Person, Scrubbing, Traces

KINDS = ["file", pytest.param("postgres", marks=needs_database)]
SECRET = "the door code is 4711"


@asynccontextmanager
async def open_kind(
    kind: str, folder: Path, request: pytest.FixtureRequest
) -> AsyncGenerator[OpenedStore]:
    """Open an empty store of a kind."""
    if kind == "file":
        async with FILE.open(postgres_setup(StoreSettings(), folder)) as opened:
            yield opened
        return
    server: Server = request.getfixturevalue("database_server")
    async with open_postgres_store(server.section(f"t{uuid4().hex}"), folder) as opened:
        yield opened


@pytest.mark.parametrize("kind", KINDS)
async def test_parts_of_a_session_go_and_it_loads_as_before(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """What went from its history is told as discarded on purpose; twice is once."""
    log = simple_log(4)
    async with open_kind(kind, tmp_path, request) as opened:
        store = opened.store
        assert opened.maintenance is not None
        maintenance = opened.maintenance()
        assert await maintenance.sizes(SESSION_ID) == StoredSizes()
        assert await maintenance.drop(SESSION_ID, "media", "archive") == 0
        await store.append(SESSION_ID, log, expected_seq=0)
        await store.save_result(SESSION_ID, "r1", "x" * 1000)
        await store.save_media(SESSION_ID, "m1.png", b"y" * 2000)
        assert await maintenance.drop(SESSION_ID, "archive") == 0  # there is none
        await store.save_snapshot(replay(log[:11]), compaction="archive")
        before, sizes = await state_in(store), await maintenance.sizes(SESSION_ID)
        freed = [
            await maintenance.drop(SESSION_ID, "media"),
            await maintenance.drop(SESSION_ID, "results", "media"),
            await maintenance.drop(SESSION_ID, "archive"),
            await maintenance.drop(SESSION_ID, "archive", "results"),
        ]
        after, left = await state_in(store), await maintenance.sizes(SESSION_ID)
        loaded = await store.load(SESSION_ID)
        gaps = await store.explain_gap(SESSION_ID, 1, 11)
        read = await store.read(SESSION_ID, after=0, limit=99)
        # It goes on, and is archived again behind the gap.
        more = Event(seq=22, at=moment(10**9), body=Received(text="more"))
        await store.mark_active(SESSION_ID)
        await store.append(SESSION_ID, (more,), expected_seq=21)
        await store.save_snapshot(replay((*log, more)), compaction="archive")
        again = await store.load(SESSION_ID)
        still = await store.explain_gap(SESSION_ID, 1, 11)
        if isinstance(store, FileStore):
            assert [f.text for f in await check(tmp_path, SESSION_ID)] == []

    assert (sizes.results, sizes.media) == (1000, 2000)
    assert freed == [2000, 1000, sizes.archive, 0]
    assert left.total == left.log
    assert after == before
    assert loaded is not None
    assert again is not None
    assert loaded.losses == again.losses == ()
    assert gaps == still == (Gap(first=1, last=11, cause="discarded"),)
    assert [each.seq for each in read] == [*range(12, 22)]


def group_log() -> tuple[Event, ...]:
    """Return a conversation of two, in which one speaks of a secret and the other quotes it."""
    picture = Attachment(name="plan.png", media_type="image/png", size_bytes=3)
    first, *rest = simple_log(3)
    bodies = {
        2: Received(text=f"[Bob] {SECRET}", sender="7", attachments=(picture,)),
        7: Received(text=f'[Ann] [in reply to Bob: "{SECRET[:9]}"]\nreally?', sender="8"),
        12: Received(text="[Ann] so it is", sender="8"),
    }
    log = [first, *(replace(e, body=bodies.get(e.seq, e.body)) for e in rest)]
    told = log[9].body
    assert isinstance(told, ModelReplied)
    log[9] = replace(log[9], body=replace(told, text=f"Yes: {SECRET}."))
    tail: tuple[Body, ...] = (
        AmbientStored(text="[Bob] never mind", sender="7"),
        Labelled(labels=Labels(title="Bob's door"), by="7"),
        Summarised(last_turn=2, messages=4, text="They spoke of a door code."),
    )
    log += [Event(seq=17 + n, at=moment((17 + n) * 10**6), body=b) for n, b in enumerate(tail)]
    return tuple(log)


def test_a_providers_own_form_of_a_summary_is_erased_with_its_text() -> None:
    """It would go on to be sent to the model: the same words, signed."""
    body = Summarised(last_turn=1, messages=2, text="Ann's PIN is 4711", opaque='{"kept": "4711"}')
    scrubbing = Scrubbing(Person("http", "7"), Traces(seqs={2}))
    erased = scrubbing.event(Event(seq=9, at=moment(9), body=body)).body
    assert isinstance(erased, Summarised)
    assert "4711" not in f"{erased.text} {erased.opaque}"


def test_what_a_turn_made_stays_while_a_snapshot_or_an_event_names_it() -> None:
    """The events of old turns may be gone, and a model is shown the image all the same."""
    chart = Attachment(name="made-chart.png", media_type="image/png")
    made = CallFinished(call_id="c", text="see", images=(chart,))
    shown = Step(
        reply=Reply(calls=(ToolCall(call_id="c", name="draw"),)),
        results=(ToolResult(call_id="c", name="draw", text="see", attachments=(chart,)),),
    )
    turn = Turn(number=1, users=(UserMessage(text="draw"),), steps=(shown,), outcome="answered")
    person, by_event, by_state = Person("http", "7"), Traces(), Traces()
    by_event.see(Event(seq=9, at=moment(9), body=made), person)
    by_state.see_state(replace(replay(simple_log(1)), checkpointed=(turn,)))
    for traces, stays in ((by_event, True), (by_state, True), (Traces(), False)):
        assert Scrubbing(person, traces).keeps_media(chart.name) is stays


@pytest.mark.parametrize("kind", KINDS)
@table("snapshot_at", [0, 11, 19])
async def test_words_of_a_person_are_taken_out_of_a_session(
    kind: str, snapshot_at: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """From the log, its archive, the snapshot and the files beside it; all else stays."""
    log, person = group_log(), Person("http", "7")
    traces = Traces()
    for event in log:
        traces.see(event, person)
    async with open_kind(kind, tmp_path, request) as opened:
        store = opened.store
        assert opened.maintenance is not None
        maintenance = opened.maintenance()
        await store.append(SESSION_ID, log, expected_seq=0)
        for name in ("plan.png", "made-left.png", "upload-on-its-way.png"):
            await store.save_media(SESSION_ID, name, b"abc")
        await store.save_result(SESSION_ID, "r1", f"found: {SECRET}")
        await store.save_result(SESSION_ID, "r2", "found: nothing")
        if snapshot_at:
            await store.save_snapshot(replay(log[:snapshot_at]), compaction="archive")
        for _ in range(2):
            await maintenance.rewrite(SESSION_ID, Scrubbing(person, traces))
        events = await store.read(SESSION_ID, after=0, limit=99)
        state, loaded = await state_in(store), await store.load(SESSION_ID)
        kept = [await store.read_result(SESSION_ID, name) for name in ("r1", "r2")]
        names = ("plan.png", "made-left.png", "upload-on-its-way.png")
        media = [await store.read_media(SESSION_ID, name) for name in names]
        if isinstance(store, FileStore):
            assert [f.text for f in await check(tmp_path, SESSION_ID)] == []

    assert [each.seq for each in events] == [*range(1, 20)]
    assert loaded is not None
    assert loaded.losses == loaded.repairs == ()
    assert state == replay(events)
    said = [e.body.text for e in events if isinstance(e.body, Received | AmbientStored)]
    assert said == [ERASED, "[Ann] [in reply to erased]\nreally?", "[Ann] so it is", ERASED]
    assert (kept, media) == ([None, "found: nothing"], [None, None, b"abc"])
    text = str(events) + str(state)
    assert not any(word in text for word in ("4711", "door", "plan.png", "sender='7'", "by='7'"))
    assert f"Yes: {ERASED}." in text
    assert state.labels.title == ""
