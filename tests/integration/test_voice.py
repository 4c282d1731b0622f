"""Voice notes: heard once, by an event, and told where they are not; servers may say anything."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.lowlevel import checkpoint
from msgspec import structs
from msgspec.structs import replace
from support.delivering import delivering
from support.scripted_adapter import ScriptedAdapter, capabilities
from support.tables import table
from support.voice_api import HEARD, KEY, SPOKEN, Said, open_voice_api

from everturn_actors.errors import NotSpokenError, NotTranscribedError
from everturn_actors.events import Announced, Received, Spoken, Transcribed
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import Attachment, IncomingMessage, Upload, UserMessage
from everturn_actors.ports import Speech, Transcriber, Transcript
from everturn_actors.service.branches import Copied
from everturn_actors.spec import SpokenReplies
from everturn_actors.state.recovery import recover
from everturn_actors.state.serialization import to_record
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.config.voice import EndpointSettings, SpeechSettings
from everturn_gateway.providers.passing_on import PassingOn
from everturn_gateway.retention.scrubbing import Person, Scrubbing, Traces
from everturn_gateway.tools.recall.messages import said
from everturn_gateway.voice.aloud import aloud
from everturn_gateway.voice.endpoint import EndpointEngine
from everturn_gateway.voice.sound import ogg_duration_s
from everturn_gateway.voice.speech import EndpointSpeaker
from everturn_gateway.voice.transcription import Bounded

NOTE = Upload(
    data=b"OggS ten seconds",
    media_type="audio/ogg",
    file_name="voice-1.ogg",
    is_voice=True,
    duration_s=10,
)
FILE = Attachment(name="a" * 64 + ".ogg", media_type="audio/ogg", size_bytes=16)


@dataclass(kw_only=True)
class Ears:
    """A `Transcriber` that hears what it is told to hear."""

    text: str = "what is the weather [like]?"
    error: Exception | None = None
    is_shown: bool = False
    holds: anyio.Event | None = None
    heard: list[bytes] = field(default_factory=list[bytes])
    begun: anyio.Event = field(default_factory=anyio.Event)

    async def transcribe(
        self, file: Attachment, read: Callable[[], Awaitable[bytes]]
    ) -> Transcript:
        """Hear a file."""
        self.heard.append(await read())
        self.begun.set()
        if self.holds is not None:
            await self.holds.wait()
        if self.error is not None:
            raise self.error
        return Transcript(text=self.text, model="ear", source="here", is_shown=self.is_shown)


def given(data: bytes) -> Callable[[], Awaitable[bytes]]:
    """Return what reads these bytes."""

    async def read() -> bytes:
        await checkpoint()
        return data

    return read


def spoken(key: object, *, text: str = "", upload: Upload = NOTE) -> IncomingMessage:
    """Return a message that is a voice note."""
    return IncomingMessage(text=text, key=key, sender="ann", attachments=(upload,))  # type: ignore[arg-type]


async def test_a_voice_note_is_text_by_an_event_and_is_heard_once() -> None:
    """The model reads its words; a replay has them, and asks nobody."""
    ears, disk, provider = Ears(), MemoryDisk(), ScriptedProvider()
    async with (
        open_memory_store(disk) as store,
        delivering(transcriber=ears, store=store, provider=provider) as world,
    ):
        submission = await world.service.submit(spoken(world.key()))
        await world.until_delivered(submission.session_id)
        again = await world.service.submit(
            spoken(
                world.key(),
                text="[Ann] and this?",
                upload=Upload(data=b"ID3", media_type="audio/mpeg", file_name="song.mp3"),
            )
        )
        await world.until_delivered(again.session_id)
        log = await world.log(submission.session_id)
        state = await world.state(submission.session_id)

    first, second = (request.messages[-1] for request in provider.requests)
    assert isinstance(first, UserMessage)
    assert isinstance(second, UserMessage)
    assert first.text == '[voice note, 0:10: "what is the weather (like)?"]'
    assert second.text == '[Ann] and this?\n[audio file song.mp3: "what is the weather (like)?"]'
    assert not first.attachments, "the model is told of it once"
    assert (first.is_spoken, second.is_spoken) == (True, False)
    events = [event.body for event in log if isinstance(event.body, Transcribed)]
    assert [(each.text, each.model, each.source, each.duration_s) for each in events] == [
        ("what is the weather [like]?", "ear", "here", 10),
        ("what is the weather [like]?", "ear", "here", 0),
    ]
    recovered = recover(None, log)
    assert recovered is not None
    assert recovered.state.turns == state.turns
    assert [user.text for turn in recovered.state.held_turns for user in turn.heard] == [
        first.text,
        second.text,
    ]
    assert len(ears.heard) == 2


@table(
    ("ears", "reads", "told"),
    [
        (
            Ears(error=NotTranscribedError("it is too long, 20:03")),
            "[voice note, 0:10: not transcribed: it is too long, 20:03]",
            "Your voice note (0:10) could not be transcribed: it is too long, 20:03.",
        ),
        (
            Ears(error=RuntimeError("secret")),
            "[voice note, 0:10: not transcribed: hearing it failed by a fault]",
            "Your voice note (0:10) could not be transcribed: hearing it failed by a fault.",
        ),
        (Ears(text=""), "[voice note, 0:10: no words in it]", ""),
        (Ears(text="yes", is_shown=True), '[voice note, 0:10: "yes"]', "“yes”"),
    ],
)
async def test_what_is_not_heard_is_told_to_the_model_and_to_its_sender(
    ears: Ears, reads: str, told: str
) -> None:
    """The turn goes on; nobody is left to wonder."""
    provider = ScriptedProvider()
    async with delivering(transcriber=ears, provider=provider) as world:
        submission = await world.service.submit(spoken(world.key()))
        await world.until_delivered(submission.session_id)
        said = [text.removeprefix("~") for text in world.adapter.world.texts]

    read = provider.requests[0].messages[-1]
    assert isinstance(read, UserMessage)
    assert read.text == reads
    assert said == ([told] if told else []) + ["reply 1"]
    assert "secret" not in reads


async def test_a_crash_in_the_middle_repeats_the_transcription_alone() -> None:
    """What was taken is heard after the restart, and answered once."""
    disk, ears = MemoryDisk(), Ears(holds=anyio.Event())
    async with (
        open_memory_store(disk) as store,
        delivering(transcriber=ears, store=store) as world,
    ):
        submission = await world.service.submit(spoken(world.key()))
        await ears.begun.wait()
    ears.holds = None
    provider = ScriptedProvider()
    async with (
        open_memory_store(disk) as store,
        delivering(transcriber=ears, store=store, provider=provider) as world,
    ):
        await world.until_delivered(submission.session_id)
        log = await world.log(submission.session_id)

    assert len(ears.heard) == 2
    assert len(provider.requests) == 1
    assert sum(isinstance(event.body, Transcribed) for event in log) == 1


# --- a server that speaks OpenAI's API ---


class _Free:
    def check(self) -> None:
        """Let all pass."""

    def add(self, heard: Transcript, duration_s: float) -> None:
        """Count nothing."""


@asynccontextmanager
async def hearing(
    url: str, *, key: str = KEY, deadline_s: float = 10, **settings: object
) -> AsyncGenerator[Transcriber]:
    """Give what transcribes by the server at `url`."""
    section = EndpointSettings.model_validate(
        {"kind": "openai", "base_url": url, "api_key": key, **settings}
    )
    section = section.model_copy(update={"timeout_seconds": deadline_s})
    async with aclosing(PassingOn({"OPENAI_API_KEY": "sk-of-another"}, str)) as to:
        engine = EndpointEngine(section, to, retry_s=0)
        slots = anyio.CapacityLimiter(1)
        yield Bounded(engine=engine, settings=section, account=_Free(), slots=slots)


BUSY = Said(status=503, body=b"<html>")


@table(
    ("script", "outcome", "asked"),
    [
        ([], "what is it?", 1),
        ([Said(status=429, headers={"retry-after": "0"}), BUSY], "what is it?", 3),
        ([BUSY] * 3, "too much to do", 3),
        ([Said(status=429, headers={"retry-after": "3600"})], "too much to do", 1),
        ([Said(status=413)], "too large for whoever", 1),
        ([Said(status=400, body={"error": {"message": "sk-x"}})], r"refused it \(status 400\)", 1),
        ([Said(body=b"<html>welcome</html>")], "no transcript", 1),
        ([Said(body={"text": None})], "no transcript", 1),
        ([Said(body=["text"])], "no transcript", 1),
        ([Said(body={**HEARD, "text": "la " * 400})], "no transcript", 1),
        ([Said(body={**HEARD, "text": "a\x1b[2J\n b", "duration": "x"})], r"^a \[2J b$", 1),
        ([Said(body={**HEARD, "duration": 1e300})], "what is it?", 1),
        ([Said(body=b"x" * 9_000_000)], "too large", 1),
    ],
)
async def test_a_server_is_asked_as_documented_and_believed_within_reason(
    script: list[Said], outcome: str, asked: int
) -> None:
    """A refusal is told in words of ours, garbage is none, and what may pass is tried again."""
    async with open_voice_api() as api, hearing(api.url, language="en", prompt="Everturn") as ears:
        api.script.extend(script)
        try:
            found = (await ears.transcribe(replace(FILE, duration_s=2.5), given(b"OggS"))).text
        except NotTranscribedError as error:
            found = str(error)
    assert re.search(outcome, found)
    assert "sk-x" not in found
    assert len(api.heard) == asked
    assert api.heard[0] == {
        "model": "whisper-1",
        "response_format": "verbose_json",
        "language": "en",
        "prompt": "Everturn",
        "name": "audio.ogg",
        "file": b"OggS",
    }


async def test_limits_keys_and_silence_of_a_server() -> None:
    """What is too long is not sent; a wrong key and a silent server are told."""
    async with open_voice_api() as api:
        async with hearing(api.url, max_seconds=60, max_megabytes=0.001) as ears:
            with pytest.raises(NotTranscribedError, match=r"too long, 1:01, and 1:00"):
                await ears.transcribe(replace(FILE, duration_s=61), given(b"OggS"))
            with pytest.raises(NotTranscribedError, match=r"too long, 1:40"):
                await ears.transcribe(FILE, given(opus(100)))
            with pytest.raises(NotTranscribedError, match=r"too long, 1:40"):  # whatever is said
                await ears.transcribe(replace(FILE, duration_s=1), given(opus(100)))
            with pytest.raises(NotTranscribedError, match=r"larger than 0\.001 MB"):
                await ears.transcribe(FILE, given(bytes(2000)))
        assert not api.heard
        async with hearing(api.url, key="sk-wrong") as ears:
            with pytest.raises(NotTranscribedError, match="refuses the key"):
                await ears.transcribe(FILE, given(b"OggS"))
        async with hearing(api.url, model="gpt-4o-transcribe") as ears:
            assert (await ears.transcribe(FILE, given(b"OggS"))).duration_s == 2.5
        async with hearing(api.url, deadline_s=0.2) as ears:
            api.holds = anyio.Event()
            with pytest.raises(NotTranscribedError, match="longer than"):
                await ears.transcribe(FILE, given(b"OggS"))
    async with hearing("http://127.0.0.1:9/v1") as ears:
        with pytest.raises(NotTranscribedError, match="cannot be reached"):
            await ears.transcribe(FILE, given(b"OggS"))


def opus(seconds: int) -> bytes:
    """Return the first and the last page of a file of Opus that says that it is so long."""
    head = b"OggS" + bytes(24) + b"OpusHead\x01\x01" + (312).to_bytes(2, "little") + bytes(7)
    position = (seconds * 48_000 + 312).to_bytes(8, "little")
    return head + b"OggS\x00\x04" + position + bytes(20)


@table(
    ("data", "seconds"),
    [(opus(10), 10), (opus(0), 0), (opus(10)[:30], 0), (b"", 0), (b"OggS", 0), (b"ID3", 0)],
)
def test_ogg_says_how_long_it_sounds(data: bytes, seconds: float) -> None:
    """And what is none, or damaged, says nothing."""
    assert ogg_duration_s(data) == pytest.approx(seconds)


# --- answers as sound ---


@dataclass(kw_only=True)
class Mouth:
    """A `Speaker` that speaks, or does not."""

    error: Exception | None = None
    said: list[str] = field(default_factory=list[str])

    async def speak(self, markdown: str) -> Speech | None:
        """Speak."""
        self.said.append(markdown)
        if self.error is not None:
            raise self.error
        return Speech(data=b"OggS" + markdown.encode(), model="mouth", source="here", duration_s=2)


@table(
    ("rule", "upload", "mouth", "shown"),
    [
        ("when_spoken_to", NOTE, Mouth(), ["reply 1", "<reply.ogg>"]),
        ("when_spoken_to", None, Mouth(), ["reply 1"]),
        ("always", None, Mouth(), ["reply 1", "<reply.ogg>"]),
        ("never", NOTE, Mouth(), ["reply 1"]),
        (
            "always",
            None,
            Mouth(error=NotSpokenError("whoever speaks refuses the key")),
            ["reply 1", "~This could not be spoken: whoever speaks refuses the key."],
        ),
        (
            "always",
            None,
            Mouth(error=RuntimeError("secret")),
            ["reply 1", "~This could not be spoken: speaking failed by a fault."],
        ),
    ],
)
async def test_who_speaks_is_answered_aloud_once_and_in_text(
    rule: SpokenReplies, upload: Upload | None, mouth: Mouth, shown: list[str]
) -> None:
    """The text comes first; the sound is an event, and its bytes were kept before."""
    async with delivering(transcriber=Ears(), speaker=mouth, spoken_replies=rule) as world:
        message = IncomingMessage(
            text="hello",
            key=world.key(),
            sender="ann",
            attachments=(upload,) if upload is not None else (),
        )
        submission = await world.service.submit(message)
        await world.until_delivered(submission.session_id)
        log = await world.log(submission.session_id)
        texts = world.adapter.world.texts
        files = [
            each.message.file
            for each in world.adapter.world.messages.values()
            if each.message.file is not None
        ]

    assert texts == shown
    kinds = [type(event.body).__name__ for event in log]
    assert kinds.count("TurnFinished") == 1
    assert kinds.count("Spoken") == (len(shown) > 1)
    for file in files:
        assert (file.data, file.is_voice, file.duration_s) == (b"OggSreply 1", True, 2)


async def test_where_no_files_go_an_answer_is_text_and_nobody_is_told_so() -> None:
    """With each answer people would read that a file cannot be sent, which they never asked for."""
    adapter = ScriptedAdapter(able=capabilities(files_max_bytes=0))
    mouth = Mouth()
    async with delivering(speaker=mouth, spoken_replies="always", adapter=adapter) as world:
        submission = await world.say()
        await world.until_delivered(submission.session_id)
        assert world.adapter.world.texts == ["reply 1"]
    assert not mouth.said  # nor is it paid for


async def test_of_a_person_neither_words_nor_the_sound_that_may_quote_them_is_left() -> None:
    """The log can be read from its beginning all the same: a fork and an account of it do so."""
    ears = Ears(text="the code [of the door] is 4711")
    async with delivering(transcriber=ears, speaker=Mouth(), spoken_replies="always") as world:
        submission = await world.say()
        await world.until_delivered(submission.session_id)
        note = spoken(world.key())
        await world.service.submit(structs.replace(note, sender="eve-7", untrusted=True))
        await world.until_delivered(submission.session_id)
        log = await world.log(submission.session_id)
        *_, last = (event.seq for event in log if isinstance(event.body, Received))
        fork = await world.service.branches.begin(
            world.key("fork"), copied=Copied(session_id=submission.session_id, last=last)
        )
        sounds = [each.body.attachments[0] for each in log if isinstance(each.body, Spoken)]
        copies = [await world.store.read_media(fork, sound.name) for sound in sounds]

    assert copies == [b"OggSreply 1", b"OggSreply 2"]
    (heard,) = [event for event in log if isinstance(event.body, Transcribed)]
    assert next(said([heard])).sources, "nobody vouches for it, read back later neither"
    traces, person = Traces(), Person("test", "eve-7")
    for event in log:
        traces.see(event, person)
    scrubbing = Scrubbing(person, traces)
    erased = [scrubbing.event(event) for event in log]
    assert recover(None, erased) is not None
    assert not re.findall("4711|eve-7|voice-1", "".join(str(to_record(each)) for each in erased))
    assert scrubbing.event(
        replace(log[0], body=Announced(text="So the code (of the door) is 4711."))
    ).body == Announced(text="So [erased].")
    assert [scrubbing.keeps_media(sound.name) for sound in sounds] == [True, False]


async def test_a_crash_before_the_sound_makes_it_again_and_after_it_sends_the_same() -> None:
    """The text is there already, and is not sent twice."""
    disk, mouth = MemoryDisk(), Mouth()
    asked, holds = anyio.Event(), anyio.Event()

    class Slow(Mouth):
        async def speak(self, markdown: str) -> Speech | None:
            asked.set()
            await holds.wait()
            return await super().speak(markdown)

    async with (
        open_memory_store(disk) as store,
        delivering(store=store, speaker=Slow(), spoken_replies="always") as world,
    ):
        submission = await world.say()
        await asked.wait()
        before = world.adapter
    async with (
        open_memory_store(disk) as store,
        delivering(store=store, speaker=mouth, spoken_replies="always", adapter=before) as world,
    ):
        await world.until_delivered(submission.session_id)
        texts = world.adapter.world.texts

    assert texts == ["reply 1", "<reply.ogg>"]
    assert mouth.said == ["reply 1"]


class _FreeSpeech:
    def check(self) -> None:
        """Let all pass."""

    def add(self, characters: int) -> None:
        """Count nothing."""


@table(
    ("markdown", "script", "outcome"),
    [
        ("It is **warm**.", [], "It is warm."),
        ("```sh\nls\n```", [], ""),
        ("word " * 500, [], ""),
        ("hello", [Said(status=503), Said(status=401)], "refuses the key"),
        ("hello", [Said(body=b"<html>")], "no sound"),
        ("hello", [Said(status=500)] * 3, "out of order"),
    ],
)
async def test_a_server_speaks_as_documented(
    markdown: str, script: list[Said], outcome: str
) -> None:
    """What nobody would listen to is not sent there; what comes back is sound, or told."""
    section = SpeechSettings.model_validate({"kind": "openai", "api_key": KEY})
    async with open_voice_api() as api, aclosing(PassingOn({}, str)) as to:
        api.script.extend(script)
        mouth = EndpointSpeaker(
            settings=section.model_copy(update={"base_url": api.url}),
            passing_on=to,
            account=_FreeSpeech(),
            slots=anyio.CapacityLimiter(1),
            retry_s=0,
        )
        speech, problem = None, ""
        try:
            speech = await mouth.speak(markdown)
        except NotSpokenError as error:
            problem = str(error)
    if script:
        assert re.search(outcome, problem)
    assert (speech is not None) == (not script and bool(outcome))
    if speech is not None:
        assert speech.data == SPOKEN
        assert api.spoken == [
            {
                "model": "gpt-4o-mini-tts",
                "voice": "alloy",
                "input": outcome,
                "response_format": "opus",
            }
        ]


@table(
    ("markdown", "words"),
    [
        (
            "# Weather\n\nIt is **warm**, see [here](https://a.example) or https://b.example/x.",
            "Weather.\nIt is warm, see here or.",
        ),
        (
            "| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- `two`\n\n```sh\nls\n```\n",
            "one.\ntwo.",
        ),
        ("![cat](c.png)", ""),
        ("<b>hi</b> there", "hi there."),
        ("Write to <mailto:ann@a.example> today", "Write to today."),
        ("***", ""),
        ("", ""),
    ],
)
def test_words_are_read_aloud_and_neither_code_nor_addresses(markdown: str, words: str) -> None:
    """Nobody wants to hear a table."""
    assert aloud(markdown) == words


def test_of_a_long_voice_note_the_beginning_is_shown() -> None:
    """Who spoke for twenty minutes need not read all of it in ten messages."""
    note = Transcribed(turn=1, message=1, file="f", text="word " * 1_000, is_shown=True)

    assert note.line == f"“{('word ' * 200)}…”"
    assert len(note.heard) > 5_000
