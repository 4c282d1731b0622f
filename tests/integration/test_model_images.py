"""Images that a model makes: kept, told in words, and sent to people once."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace

import orjson
import pytest
from support.answers import Answer
from support.delivering import delivering
from support.model_api import open_model_api
from support.provider_kinds import OPENAI, RESPONSES, Kind, ignore, open_kind, request
from support.tables import table

from everturn_actors.errors import ModelTransientError
from everturn_actors.events import ModelReplied
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import ModelRequest, Reply, ToolDefinition, Upload
from everturn_actors.state.validation import ATTACHMENT_BYTES
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.providers.responses.reading import ReplyReader as ResponsesReader
from everturn_gateway.providers.responses.wire import BodyWriter as ResponsesWriter
from everturn_gateway.providers.transport.images import IMAGES_LIMIT_CHARS, ReplyImages
from everturn_gateway.providers.transport.parts import Reader
from everturn_gateway.providers.transport.reading import ReplyReader
from everturn_gateway.providers.transport.sse import IMAGE_EVENT_BYTES
from everturn_gateway.providers.transport.wire import BodyWriter

PNG = b"\x89PNG\r\n\x1a\nrest"
BASE64 = b64encode(PNG).decode()
MARKER = "[image made by the model: image-1.png, image/png, 12 bytes]"


def image(data: bytes = PNG) -> Upload:
    """Return an image as a provider hands it over."""
    return Upload(data=data, media_type="image/png", file_name="image-1.png")


@table("text", ["Here it is.", ""])
async def test_an_image_is_sent_once_and_told_in_words(text: str) -> None:
    """People get the picture itself; the model reads that it made one, after a restart as well."""
    disk, provider = MemoryDisk(), ScriptedProvider(Reply(text=text, images=(image(),)))
    async with (
        open_memory_store(disk) as store,
        delivering(store=store, provider=provider) as world,
    ):
        submission = await world.say()
        await world.until_delivered(submission.session_id)
        sent = [each.message for each in world.adapter.world.messages.values()]
        log = await world.log(submission.session_id)
    async with (
        open_memory_store(disk) as store,
        delivering(store=store, provider=provider) as world,
    ):
        again = await world.say()
        await world.until_delivered(again.session_id)
        seen = provider.requests[-1].messages

    assert [each.file.data for each in sent if each.file is not None] == [PNG]
    assert [each.payload for each in sent if each.file is None] == ([text] if text else [])
    (reply,) = [each.body for each in log if isinstance(each.body, ModelReplied)]
    assert (reply.text, reply.said) == (f"{text}\n\n{MARKER}" if text else MARKER, text)
    assert reply.images[0].media_type == "image/png"
    assert [each.text for each in seen if isinstance(each, Reply)] == [reply.text]


async def test_what_is_no_image_is_named_and_costs_nothing_else() -> None:
    """The answer and the good images arrive."""
    bad = (image(b"rubbish"), image(b""), replace(image(), media_type="image/jpeg"), image())
    provider = ScriptedProvider(Reply(text="Two of three failed.", images=bad))
    async with delivering(provider=provider) as world:
        submission = await world.say()
        await world.until_delivered(submission.session_id)
        sent = [each.message for each in world.adapter.world.messages.values()]

    assert [each.file.data for each in sent if each.file is not None] == [PNG]
    text = " ".join(each.payload for each in sent if each.file is None)
    assert text.startswith("Two of three failed.\n\n[an image")
    assert text.count("cannot be used") == 2
    assert "are no such image" in text
    assert "is empty" in text


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
ADDRESS = f"data:image/png;base64,{BASE64}"


UNKNOWN = "it came in a form that is not understood"
FAILED = "none came: its making ended as 'failed'"


def chat(*images: object, content: object = "") -> object:
    """Return a chunk of a chat completion."""
    return {"choices": [{"delta": {"content": content, "images": images}}]}


def at(address: object) -> object:
    """Return an image as a part of a chat completion."""
    return {"type": "image_url", "image_url": address}


def call(result: object, name: str = "ig_1", status: str = "completed") -> object:
    """Return an image as an item of the Responses API."""
    return {"type": "image_generation_call", "id": name, "status": status, "result": result}


def done(item: object) -> object:
    """Return the event with which an item is whole."""
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def completed(*output: object) -> object:
    """Return the event with which a response ends."""
    response = {"status": "completed", "output": [*output]}
    return {"type": "response.completed", "response": response}


def read(kind: type[Reader], *events: object) -> Reply:
    """Return the reply that these events are."""
    reader = kind(where="m at host", model="m", on_text=lambda _: None)
    for event in events:
        reader.take(b"", orjson.dumps(event))
    return reader.reply()


@table(
    ("kind", "events"),
    [
        (ReplyReader, [chat(at({"url": ADDRESS})), END]),
        (ReplyReader, [chat(at(ADDRESS)), END]),
        (ReplyReader, [chat(ADDRESS), END]),
        (ReplyReader, [chat(at({"url": ADDRESS})), chat(at({"url": ADDRESS})), END]),
        (ReplyReader, [chat(content=[at({"url": f"data:,{BASE64}"})]), END]),
        (ReplyReader, [chat(at(ADDRESS), content=[at(ADDRESS)]), END]),
        (ResponsesReader, [done(call(BASE64)), completed()]),
        (ResponsesReader, [completed(call(BASE64))]),
        (ResponsesReader, [done(call(BASE64)), completed(call(BASE64))]),
        (ResponsesReader, [{"object": "response", "output": [call(BASE64)]}]),
    ],
)
def test_each_api_has_its_own_form(kind: type[Reader], events: list[object]) -> None:
    """However it comes, and however often, it is the same file, once."""
    reply = read(kind, *events)
    assert (reply.images, reply.lost_images) == ((image(),), ())


GOOD: Mapping[type[Reader], list[object]] = {
    ReplyReader: [chat(at(ADDRESS)), END],
    ResponsesReader: [done(call(BASE64)), completed()],
}


@table(
    ("kind", "event", "lost"),
    [
        (ReplyReader, chat(at("data:image/png;base64,&&&")), {"it is no base64"}),
        (ReplyReader, chat(at("data:image/png")), {"it is no base64"}),
        (ReplyReader, chat(at("http://169.254.169.254/latest")), {"it is an address"}),
        (ReplyReader, chat(at(None), at(1)), {UNKNOWN}),
        (ReplyReader, chat(content=[{"type": "image_url"}]), {UNKNOWN}),
        (ResponsesReader, done(call(None, status="failed")), {FAILED}),
        (ResponsesReader, completed(call(None, status="failed")), {FAILED}),
        (ResponsesReader, completed("nonsense"), set[str]()),
    ],
)
def test_what_cannot_be_used_is_told_and_costs_nothing_else(
    kind: type[Reader], event: object, lost: set[str]
) -> None:
    """The reply has its good image, and nothing is fetched."""
    reply = read(kind, event, event, *GOOD[kind])
    assert (reply.images, {*reply.lost_images}) == ((image(),), lost)
    assert len(reply.lost_images) == len(lost)


def test_many_and_large_images_have_bounds_that_are_told() -> None:
    """A list of them holds the loop up no longer than to parse it, and memory is not filled."""
    empty, large = [at("")] * 90_000, "A" * (IMAGES_LIMIT_CHARS - 4)
    many = read(ReplyReader, chat(at(ADDRESS), *empty), *GOOD[ReplyReader])
    apart = [chat(at(f"{n:04}")) for n in range(101)]
    several = read(ReplyReader, *GOOD[ReplyReader][:1], *apart, END)
    two = read(ReplyReader, *GOOD[ReplyReader][:1], chat(at(large), at(large)), END)

    assert [len(each.images) for each in (many, several, two)] == [2, 100, 1]
    assert many.lost_images == ("89901 more than 100 were not looked at",)
    assert several.lost_images == ("2 more than 100 were not looked at",)
    assert two.lost_images == ("the images of one reply may have 32 MiB as base64",)

    # Those that come again, and are not kept, are read all the same.
    chunk, piece = chat(at("A" * 1_000_000)), "its images do not end"
    with pytest.raises(ModelTransientError, match=piece):
        read(ReplyReader, *[chunk] * 200)


def stream(*events: object) -> Answer:
    """Return these events as the stream that a server sends."""
    return Answer(body=b"".join(b"data: %b\n\n" % orjson.dumps(each) for each in events))


def test_a_model_is_asked_for_images_where_its_agent_says_so() -> None:
    """By the way of its API; tools of the agent stay beside the provider's own."""
    tool = ToolDefinition(name="look", description="Looks.", parameters={"type": "object"})
    asked = ModelRequest(model="m", system="", messages=(), makes_images=True)
    both = replace(asked, tools=(tool,))

    chat = BodyWriter().body(asked, max_tokens_field="max_tokens")
    assert orjson.loads(chat)["modalities"] == ["image", "text"]
    tools = [
        [each["type"] for each in orjson.loads(ResponsesWriter().body(each))["tools"]]
        for each in (asked, both)
    ]
    assert tools == [["image_generation"], ["function", "image_generation"]]
    assert b"image" not in ResponsesWriter().body(replace(both, makes_images=False))


@table("kind", [OPENAI, RESPONSES])
async def test_the_largest_image_comes_in_one_event(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its frame; it is decoded beside the event loop."""
    threads, decode = list[str](), ReplyImages.decode

    def decoded(images: ReplyImages) -> None:
        threads.append(threading.current_thread().name)
        decode(images)

    monkeypatch.setattr(ReplyImages, "decode", decoded)
    data = PNG + bytes(ATTACHMENT_BYTES - len(PNG))
    text = b64encode(data).decode()
    events = [chat(at(f"data:image/png;base64,{text}")), END]
    if kind is RESPONSES:
        events = [done(call(text)), completed(call(text))]
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        api.script(stream(*events))
        reply = await adapter.complete(request(), ignore)

    assert [each.data == data for each in reply.images] == [True]
    assert threads
    assert "MainThread" not in threads


async def test_what_is_no_image_may_not_be_so_large() -> None:
    """Neither as one event nor as one body, and not as a million small values either."""
    endless = stream("A" * (IMAGE_EVENT_BYTES + 1_000_000))
    async with open_model_api() as api, open_kind(OPENAI, api) as adapter:
        api.script(endless, replace(endless, headers={"content-type": "application/json"}))
        for why in ("event of the stream is larger than 36 MiB", "reply is larger than 36 MiB"):
            with pytest.raises(ModelTransientError, match=why):
                await adapter.complete(request(), ignore)
    with pytest.raises(ModelTransientError, match="is large, and no image"):
        read(ReplyReader, chat(*[[]] * 1_400_000))
