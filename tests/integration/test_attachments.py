"""Images and files in a conversation: kept before they are named, shown to the model, replayed."""

from __future__ import annotations

import base64
import errno
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from msgspec import structs
from support.model_api import ModelApi, open_model_api, overflow
from support.pictures import picture, png
from support.tables import table

from everturn_actors.context.estimation.estimates import MEDIA_UNITS
from everturn_actors.context.render import render
from everturn_actors.errors import (
    ContextOverflowError,
    InvalidInputError,
    JournalWriteError,
    SessionEndedError,
    UnknownAgentError,
    UnknownSessionError,
)
from everturn_actors.events import Received
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.log.layout import Layout
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import (
    Attachment,
    IncomingMessage,
    ModelRequest,
    Reply,
    ToolCall,
    ToolDefinition,
    Turn,
    Upload,
    Usage,
    UserMessage,
)
from everturn_actors.ports import Agent, ToolCapabilities, ToolContext
from everturn_actors.service import History, Submission
from everturn_actors.spec import ModelSpec
from everturn_actors.state.recovery import recover
from everturn_actors.state.validation import attachment_of
from everturn_actors.testing import (
    ScriptedProvider,
    TestService,
    calling,
    make_spec,
    open_test_service,
)
from everturn_actors.turn.model_statistics import InMemoryModelStatistics
from everturn_gateway.providers import (
    connected,  # noqa: F401 - loaded here, not on the event loop
    open_providers,
)

CAT, DOG = picture(1, name="cat.png"), picture(2, name="dog.png")
NOTES = Upload(data=b"buy milk", media_type="text/plain", file_name="notes.txt")


@asynccontextmanager
async def open_on_disk(
    folder: Path, provider: ScriptedProvider | None = None
) -> AsyncGenerator[TestService]:
    """Open a service over files; opened again on the same folder, it is a restart."""
    async with (
        open_file_store(folder) as store,
        open_test_service(store=store, provider=provider) as test,
    ):
        yield test


def saying(test: TestService, text: str, *uploads: Upload, key: str = "") -> IncomingMessage:
    """Return a message with files, for the conversation of the test."""
    return IncomingMessage(text=text, key=test.key(), attachments=uploads, idempotency_key=key)


def shown(request: ModelRequest) -> dict[str, list[str]]:
    """Return which files each text of a request comes with: those whose bytes are there."""
    return {
        message.text: [a.file_name for a in message.attachments if a.name in request.media]
        for message in request.messages
        if isinstance(message, UserMessage)
    }


async def test_an_image_reaches_the_model_in_its_turn_and_in_later_ones(tmp_path: Path) -> None:
    """A person asks about the picture again, also after the gateway was restarted.

    Whoever reads the conversation can fetch each file, by what its sender called it.
    """
    name = attachment_of(NOTES).name
    async with open_on_disk(tmp_path) as test:
        first = await test.service.submit(saying(test, "who is this?", CAT, NOTES))
        await first.result()
        one = test.provider.requests[0]
        found = await test.service.reader.media(first.session_id, name)
        none = await test.service.reader.media(first.session_id, "events.jsonl")
    async with open_on_disk(tmp_path) as test:
        second = await test.service.submit(saying(test, "and now?"))
        await second.result()
        two = test.provider.requests[0]

    assert shown(one) == {"who is this?": ["cat.png"]}
    assert shown(two) == {"who is this?": ["cat.png"], "and now?": []}
    assert list(one.media.values()) == list(two.media.values()) == [CAT.data]
    assert one.messages[0] == two.messages[0]
    [message] = [m for m in one.messages if isinstance(m, UserMessage)]
    assert [a.media_type for a in message.attachments] == ["image/png", "text/plain"]
    assert found == (
        Attachment(name=name, media_type="text/plain", file_name="notes.txt", size_bytes=8),
        NOTES.data,
    )
    assert none is None


async def test_the_log_and_the_snapshot_give_the_same_request(tmp_path: Path) -> None:
    """IN-07: replay from zero or from a snapshot renders the same bytes."""
    async with open_on_disk(tmp_path) as test:
        submission = await test.service.submit(saying(test, "Hello"))
        await submission.result()
        for number in range(30):
            name = f"{number}.png"
            submission = await test.service.submit(
                saying(test, f"look {number}", picture(number, name=name))
            )
            await submission.result()
        session_id = submission.session_id
        events = await test.store.read(session_id, after=0, limit=10_000)
        live = await test.service.view(session_id)
    async with open_file_store(tmp_path) as store:
        loaded = await store.load(session_id)
        assert loaded is not None
        assert loaded.snapshot is not None
        from_snapshot = recover(loaded.snapshot, loaded.events)
        from_zero = recover(None, events)
    assert from_snapshot is not None
    assert from_zero is not None
    rendered = [
        render(state.conversation, make_spec())
        for state in (live, from_snapshot.state, from_zero.state)
    ]

    assert rendered[0].request.messages == rendered[1].request.messages
    assert rendered[0].request.messages == rendered[2].request.messages
    assert len({each.fingerprint.prefix for each in rendered}) == 1
    assert len({tuple(each.pictures.shown) for each in rendered}) == 1
    assert 0 < len(rendered[0].pictures.shown) <= 20


async def test_files_are_on_disk_before_the_message_is_accepted(tmp_path: Path) -> None:
    """The event names them: one that names what is not there would lie for ever."""
    kept: list[tuple[str, bool]] = []

    class Watching(FileStore):
        async def append(self, session_id: str, events: object, *, expected_seq: int) -> None:
            for event in events:  # type: ignore[attr-defined]
                if isinstance(event.body, Received):
                    folder = self.layout.session(session_id).media
                    for attached in event.body.attachments:
                        is_there = await anyio.Path(folder / attached.name).is_file()
                        kept.append((attached.file_name, is_there))
            await super().append(session_id, events, expected_seq=expected_seq)  # type: ignore[arg-type]

    async with open_file_store(tmp_path) as store:
        store.__class__ = Watching
        async with open_test_service(store=store) as test:
            submission = await test.service.submit(saying(test, "", CAT, NOTES))
            await submission.result()

    assert kept == [("cat.png", True), ("notes.txt", True)]


async def test_a_crash_between_file_and_event_leaves_no_dangling_name(tmp_path: Path) -> None:
    """The message was not accepted and is sent again; nothing refers to what is not there."""

    class Full(FileStore):
        async def append(self, session_id: str, events: object, *, expected_seq: int) -> None:
            if expected_seq:
                raise JournalWriteError(errno.errorcode[errno.ENOSPC])
            await super().append(session_id, events, expected_seq=expected_seq)  # type: ignore[arg-type]

    async with open_file_store(tmp_path) as store:
        store.__class__ = Full
        async with open_test_service(store=store) as test:
            with pytest.raises(JournalWriteError):
                await test.service.submit(saying(test, "look", CAT, key="k"))
            session_id = await test.store.bound(test.key())
    left = [file.name for file in Layout(workspace=tmp_path).session(session_id).media.iterdir()]
    async with open_on_disk(tmp_path) as test:
        before = await test.store.read(session_id, after=0, limit=9)
        submission = await test.service.submit(saying(test, "look", CAT, key="k"))
        await submission.result()
        request = test.provider.requests[0]

    assert left == [attachment_of(CAT).name]
    assert not [event for event in before if isinstance(event.body, Received)]
    assert not submission.duplicate
    assert shown(request) == {"look": ["cat.png"]}


async def test_a_repeat_is_the_same_message_with_the_same_files(tmp_path: Path) -> None:
    """A client that lost its connection sends all of it once more."""
    async with open_on_disk(tmp_path) as test:
        first = await test.service.submit(saying(test, "look", CAT, key="k"))
        await first.result()
        again = await test.service.submit(saying(test, "look", CAT, key="k"))
        events = await test.store.read(first.session_id, after=0, limit=99)

    assert (again.seq, again.duplicate) == (first.seq, True)
    assert again.attachments == first.attachments
    assert len([e for e in events if isinstance(e.body, Received)]) == 1
    assert len(test.provider.requests) == 1


async def test_a_file_that_is_refused_begins_no_session(tmp_path: Path) -> None:
    """Bad input costs nothing: no session, no file."""
    lie = Upload(data=b"<html>", media_type="image/png", file_name="x.png")
    async with open_on_disk(tmp_path) as test:
        with pytest.raises(InvalidInputError, match=r"attachment 1 \('x.png'\)"):
            await test.service.submit(saying(test, "look", lie))
        nobody = structs.replace(test.key(), agent="nobody")
        with pytest.raises(UnknownAgentError):
            await test.service.submit(IncomingMessage(text="look", key=nobody, attachments=(CAT,)))
        with pytest.raises(UnknownSessionError):
            unknown = "20261121T224956123-3f9a2c1b"
            await test.service.submit(
                IncomingMessage(text="", session_id=unknown, attachments=(CAT,))
            )

        assert await test.service.reader.sessions() == ()


async def test_an_ended_session_takes_no_files_and_a_conversation_begins_a_new_one(
    tmp_path: Path,
) -> None:
    """The files belong to the session in which the message is."""
    async with open_on_disk(tmp_path) as test:
        first = await test.service.submit(saying(test, "one", CAT))
        await first.result()
        await test.service.reset(first.session_id)
        with pytest.raises(SessionEndedError):
            late = IncomingMessage(text="late", session_id=first.session_id, attachments=(DOG,))
            await test.service.submit(late)
        second = await test.service.submit(saying(test, "two", DOG))
        await second.result()
        name = attachment_of(DOG).name

        assert second.session_id != first.session_id
        assert await test.store.read_media(first.session_id, name) is None
        assert await test.store.read_media(second.session_id, name) == DOG.data
        assert shown(test.provider.requests[-1]) == {"two": ["dog.png"]}


async def test_a_picture_that_comes_during_a_turn_is_seen_by_its_next_call() -> None:
    """Who steers a running turn may do it with a picture."""
    from_tool = calling(("c1", "wait"))
    provider = ScriptedProvider(from_tool, "I see")
    submitted: list[Submission] = []

    class Wait:
        definition = ToolDefinition(name="wait", description="Waits", parameters={})
        capabilities = ToolCapabilities(read_only=True)

        async def run(self, _call: ToolCall, _context: ToolContext) -> str:
            submitted.append(await test.service.submit(saying(test, "this one", DOG)))
            return "done"

    async with open_test_service(provider=provider, tools={"wait": Wait()}) as test:
        result = await (await test.service.submit(saying(test, "which?", CAT))).result()
        steered = await submitted[0].result()

    assert result.turn == steered.turn == 1
    assert shown(provider.requests[1]) == {"which?": ["cat.png"], "this one": ["dog.png"]}


async def test_an_image_that_is_gone_is_told_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The rendered view can lose the picture; the log, and the conversation, cannot."""
    async with open_on_disk(tmp_path) as test:
        first = await test.service.submit(saying(test, "look", CAT, DOG))
        await first.result()
    media = Layout(workspace=tmp_path).session(first.session_id).media
    (media / attachment_of(CAT).name).unlink()
    (media / attachment_of(DOG).name).unlink()
    (media / attachment_of(DOG).name).symlink_to("/etc/passwd")
    with caplog.at_level(logging.WARNING):
        async with open_on_disk(tmp_path) as test:
            second = await test.service.submit(saying(test, "again"))
            result = await second.result()
            found = await test.service.reader.media(first.session_id, attachment_of(CAT).name)
            request = test.provider.requests[0]

    assert result.outcome == "answered"
    assert request.media == {}
    assert shown(request) == {"look": [], "again": []}
    assert found is None
    assert "an image cannot be read; the model is told of it in words" in caplog.messages


async def test_a_stateless_turn_has_its_images_and_those_before() -> None:
    """A client that sends the whole conversation sends its pictures with it."""
    async with open_test_service() as test:
        before = UserMessage(text="who?", attachments=(attachment_of(CAT),))
        submission = await test.service.stateless.submit(
            IncomingMessage(text="and this?", attachments=(DOG,)),
            History(turns=(Turn(number=1, users=(before,)),), uploads=(CAT,)),
            agent="test",
        )
        result = await submission.result()

    assert result.outcome == "answered"
    assert shown(test.provider.requests[0]) == {"who?": ["cat.png"], "and this?": ["dog.png"]}


async def test_a_request_that_was_too_long_is_sent_again_with_its_image() -> None:
    """Halving keeps an image with its message, or loses both."""
    provider = ScriptedProvider(*("yes",) * 6, ContextOverflowError("too long"), "a cat")
    async with open_test_service(provider=provider) as test:
        for number in range(6):
            old = picture(number, name=f"{number}.png")
            await (await test.service.submit(saying(test, f"turn {number}", old))).result()
        result = await (await test.service.submit(saying(test, "who?", CAT))).result()
    long, halved = test.provider.requests[-2:]

    assert result.text == "a cat"
    assert len(shown(long)) == 7
    assert 1 < len(shown(halved)) < 7
    assert shown(halved)["who?"] == ["cat.png"]
    texts = [m.text for m in halved.messages if isinstance(m, UserMessage) and m.attachments]
    assert {text: shown(halved)[text] for text in texts} == {
        text: shown(long)[text] for text in texts
    }
    assert set(halved.media) < set(long.media)


async def test_many_images_in_a_small_window_leave_room_for_the_words() -> None:
    """A model with 4,000 tokens and ten pictures still reads the question."""
    spec = structs.replace(
        make_spec(), model=ModelSpec(provider="scripted", name="scripted", max_input_tokens=8_000)
    )
    async with open_test_service(spec=spec) as test:
        pictures = tuple(picture(n, name=f"{n}.png") for n in range(10))
        result = await (await test.service.submit(saying(test, "which?", *pictures))).result()
        report = await test.service.reader.context(result.session_id)
    request = test.provider.requests[0]

    assert result.outcome == "answered"
    assert shown(request) == {"which?": ["9.png"]}
    assert report.used_tokens <= report.window_tokens


async def test_images_are_counted_and_teach_nothing_about_words() -> None:
    """What an image costs differs tenfold between providers; the scale is that of words."""
    model_statistics = InMemoryModelStatistics()
    said = [
        Reply(text=text, usage=Usage(input_tokens=tokens, output_tokens=1))
        for text, tokens in (("one", 900), ("two", 1_800), ("three", 2_300))
    ]
    observed: list[int] = []
    async with open_test_service(
        provider=ScriptedProvider(*said), model_statistics=model_statistics
    ) as test:
        for text, uploads in (
            ("words " * 400, (CAT,)),
            ("more " * 400, (DOG,)),
            ("end " * 400, ()),
        ):
            await (await test.service.submit(saying(test, text, *uploads))).result()
            observed.append(model_statistics.of(make_spec().model).reports)
        [session] = await test.service.reader.sessions()
        state = await test.service.view(session.session_id)

    assert observed == [0, 0, 1]
    assert state.conversation.fingerprint.units > 2 * MEDIA_UNITS


# --- up to the provider's body ---


@asynccontextmanager
async def open_with_model(api: ModelApi, provider: str = "openai") -> AsyncGenerator[TestService]:
    """Open a service whose agent asks a model behind a real socket."""
    base_url = api.url if provider == "openai" else api.address
    model = ModelSpec(provider=provider, name="fake-1", base_url=base_url)
    spec = structs.replace(make_spec(), model=model)
    async with (
        open_providers(
            environ={"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"}, models_dir=Path("none")
        ) as providers,
        open_test_service(spec=spec) as test,
    ):
        test.agents.agents["test"] = Agent(spec=spec, provider=providers.make(spec.model, Path()))
        yield test


@table("provider", ["openai", "anthropic", "ollama"])
async def test_the_bytes_arrive_in_the_provider_s_body(provider: str) -> None:
    """All the way: from the entry point to the wire, in the form of each API."""
    async with open_model_api() as api, open_with_model(api, provider) as test:
        result = await (await test.service.submit(saying(test, "who?", CAT, NOTES))).result()
        body = next(r.body for r in api.requests if b"who?" in r.body)

    assert result.outcome == "answered"
    assert base64.b64encode(CAT.data) in body
    assert b"[attached: notes.txt, text/plain, 8 bytes]" in body
    assert b"cat.png" not in body


async def test_the_image_is_there_again_after_an_overflow() -> None:
    """The request that is made anew is a whole one."""
    async with open_model_api() as api, open_with_model(api) as test:
        for number in range(4):
            await (
                await test.service.submit(saying(test, f"turn {number} " + "word " * 100))
            ).result()
        api.script(overflow())
        result = await (await test.service.submit(saying(test, "who?", CAT))).result()
        long, halved = (request.body for request in [*api.requests][-2:])

    assert result.outcome == "answered"
    assert base64.b64encode(png(1)) in long
    assert base64.b64encode(png(1)) in halved
    assert len(halved) < len(long)
