"""Images that a model makes: kept, told in words, and sent to people once."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import orjson
import pytest
from support.delivering import delivering

from everturn_actors.events import ModelReplied
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import ModelRequest, Reply, ToolDefinition, Upload
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.providers.responses.reading import ReplyReader as ResponsesReader
from everturn_gateway.providers.responses.wire import BodyWriter as ResponsesWriter
from everturn_gateway.providers.transport.parts import Reader
from everturn_gateway.providers.transport.reading import ReplyReader
from everturn_gateway.providers.transport.wire import BodyWriter

PNG = b"\x89PNG\r\n\x1a\nrest"
BASE64 = b64encode(PNG).decode()
MARKER = "[image made by the model: image-1.png, image/png, 12 bytes]"


def image(data: bytes = PNG) -> Upload:
    """Return an image as a provider hands it over."""
    return Upload(data=data, media_type="image/png", file_name="image-1.png")


@pytest.mark.parametrize("text", ["Here it is.", ""])
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
    bad = (image(b"rubbish"), image(b""), image())
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


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        (
            ReplyReader,
            [
                {
                    "choices": [
                        {
                            "delta": {
                                "content": "",
                                "images": [
                                    {"image_url": {"url": f"data:image/png;base64,{BASE64}"}}
                                ],
                            }
                        }
                    ]
                },
                END,
            ],
        ),
        (
            ReplyReader,
            [
                {
                    "choices": [
                        {
                            "message": {
                                "content": [
                                    {"type": "image_url", "image_url": {"url": f"data:,{BASE64}"}}
                                ]
                            },
                            "finish_reason": "stop",
                        }
                    ]
                }
            ],
        ),
        (
            ResponsesReader,
            [
                {
                    "type": "response.output_item.done",
                    "output_index": 0,
                    "item": {"type": "image_generation_call", "id": "ig_1", "result": BASE64},
                },
                {"type": "response.completed", "response": {"status": "completed"}},
            ],
        ),
    ],
    ids=["openrouter", "part", "responses"],
)
def test_each_api_has_its_own_form(kind: type[Reader], events: list[object]) -> None:
    """However it comes, it is the same file."""
    reader = kind(where="m at host", model="m", on_text=lambda _: None)
    for event in events:
        reader.take(b"", orjson.dumps(event))
    assert reader.reply().images == (image(),)


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


def test_rubbish_in_the_place_of_an_image_is_handed_on_to_be_named() -> None:
    """And an address elsewhere is not fetched."""
    reader = ReplyReader(where="m at host", model="m", on_text=lambda _: None)
    for url in ("data:image/png;base64,&&&", "http://169.254.169.254/latest"):
        images = [{"image_url": {"url": url}}]
        reader.take(b"", orjson.dumps({"choices": [{"delta": {"content": "", "images": images}}]}))
    reader.take(b"", orjson.dumps(END))
    assert [each.data for each in reader.reply().images] == [b"&&&", url.encode()]
