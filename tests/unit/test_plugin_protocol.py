"""What the page about plug-ins says is what the gateway reads and writes."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import Struct
from msgspec.structs import fields
from support.tables import table

from everturn_channels.adapter import Message
from everturn_channels.chats.cursors import VALUE_LIMIT
from everturn_channels.plugin import protocol, reading
from everturn_channels.plugin.protocol import (
    LINE_BYTES,
    PROTOCOL,
    Arrived,
    BadLineError,
    Greeting,
    Hello,
    Request,
    ToPlugin,
    write_line,
)
from everturn_channels.plugin.reading import Hands, kept_hello, read_kept_hello, read_line

PAGE = (Path(__file__).parents[2] / "docs/plugin-channel.md").read_text(encoding="utf-8")
EXAMPLES = [
    line
    for block in re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]


def default_of(kind: type[Struct], name: str) -> object:
    """Return the value that a field of a line has where nobody names another."""
    return next(field.default for field in fields(kind) if field.name == name)


WRITTEN: dict[str, type[Any]] = {str(default_of(kind, "type")): kind for kind in get_args(ToPlugin)}
NOW = datetime(2026, 11, 5, tzinfo=UTC)


def answer(_number: int) -> Callable[[str], Awaitable[None]]:
    """Return a way to answer that is not used."""

    async def say(_text: str) -> None:
        raise NotImplementedError

    return say


HANDS = Hands(fetch=lambda _file: _get, answer=answer, now=lambda: NOW)


async def _get(_limit: int) -> bytes:
    return b""


def is_written(example: dict[str, Any]) -> bool:
    """Tell whether it is the gateway that says it."""
    return example["type"] in WRITTEN and (example["type"] != "hello" or "channel" in example)


@table("line", EXAMPLES)
def test_every_example_of_the_page_is_a_line_of_the_protocol(line: str) -> None:
    """People write plug-ins from them."""
    example = json.loads(line)
    if not is_written(example):
        assert read_line(line.encode(), HANDS) is not None
        return
    written = write_line(WRITTEN[example["type"]](**example))

    assert json.loads(written) == example


def test_the_page_shows_every_kind_of_line() -> None:
    """What stands nowhere is not found."""
    examples = [json.loads(line) for line in EXAMPLES]

    assert {each["type"] for each in examples if is_written(each)} == set(WRITTEN)
    assert {each["type"] for each in examples if not is_written(each)} == {
        kind.__struct_config__.tag for kind in get_args(reading._AnyLine)
    }


def test_the_page_names_every_trait_and_its_default() -> None:
    """A capability that nobody knows of is never used."""
    table = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE, re.MULTILINE))
    least = {
        "type": "hello",
        "protocol": PROTOCOL,
        "name": "x",
        "capabilities": {"chunk_units": 100},
    }
    read = read_line(json.dumps(least).encode(), HANDS)
    assert isinstance(read, Hello)
    for field in fields(Hello):
        if field.name not in {"protocol", "name", "version", "chunk_units"}:
            default = getattr(read, field.name)
            shown = f"`{default}`".lower() if isinstance(default, bool | str) else f"{default:g}"

            assert table[field.name] == shown


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    """A plug-in that keeps to them must not be refused."""
    greeting = Greeting(channel="tcp", is_new=True, cursor="")

    assert write_line(greeting).decode().strip() in EXAMPLES
    for words in (
        "at most 1 MiB",
        "up to 512 KiB",
        "up to 20 MiB",
        "4,096 characters",
        "up to 100",
    ):
        assert words in PAGE
    assert (LINE_BYTES, protocol.PART_BYTES) == (1024**2, 512 * 1024)
    assert (protocol.FILE_BYTES, protocol.CURSOR_MOST) == (20 * 1024**2, 4096)
    assert protocol.CURSOR_MOST <= VALUE_LIMIT  # else it is taken, and not kept
    assert {default_of(kind, "request") for kind in get_args(Request)} == {0}


ARRIVAL = {"type": "message", "id": 7, "message_id": "m", "chat": {"id": "c"}}
HELLO = {"type": "hello", "protocol": PROTOCOL, "name": "x"}


@table(
    ("line", "field"),
    [
        ({}, "type"),
        ({"type": 3}, "type"),
        ({"type": "massage"}, "type"),
        ({**ARRIVAL, "chat": None}, "chat"),
        ({**ARRIVAL, "chat": []}, "chat"),
        ({**ARRIVAL, "chat": {"id": ""}}, "chat.id"),
        ({**ARRIVAL, "chat": {"id": "c" * 257}}, "chat.id"),
        ({**ARRIVAL, "chat": {"id": "c", "type": "crowd"}}, "chat.type"),
        ({**ARRIVAL, "chat": {"id": "c", "type": []}}, "chat.type"),
        ({**ARRIVAL, "id": True}, "id"),
        ({**ARRIVAL, "id": -1}, "id"),
        ({**ARRIVAL, "at": "yesterday"}, "at"),
        ({**ARRIVAL, "at": "2026-11-05T12:30:00"}, "at"),
        ({**ARRIVAL, "at": "0001-01-01T00:00:00+14:00"}, "at"),
        ({**ARRIVAL, "at": 1}, "at"),
        ({**ARRIVAL, "is_addressed": "yes"}, "is_addressed"),
        ({**ARRIVAL, "files": [{"file": "f"}, 3]}, "files[1]"),
        ({**ARRIVAL, "files": [{"file": "f"}, {}]}, "files[1].file"),
        ({**ARRIVAL, "files": [{}] * 101}, "files"),
        ({**ARRIVAL, "files": "f"}, "files"),
        ({**ARRIVAL, "type": "click", "data": "d" * 65}, "data"),
        ({**ARRIVAL, "type": "reaction", "emoji": ""}, "emoji"),
        ({**HELLO, "capabilities": {}}, "capabilities.chunk_units"),
        ({**HELLO, "capabilities": {"chunk_units": 10}}, "capabilities.chunk_units"),
        ({**HELLO, "capabilities": {"chunk_units": 100, "preview_s": 1}}, "capabilities.preview_s"),
        ({**HELLO, "capabilities": {"chunk_units": 100, "typing_s": "5"}}, "capabilities.typing_s"),
        ({**HELLO, "capabilities": {"chunk_units": 100, "idle_s": -1}}, "capabilities.idle_s"),
        ({"type": "connected", "findings": ["x", 3]}, "findings[1]"),
        ({"type": "result", "request": 1, "outcome": "maybe"}, "outcome"),
        ({"type": "result", "request": 1, "outcome": "done", "data": "!"}, "data"),
        ({"type": "result", "request": 1, "outcome": "done", "data": 3}, "data"),
        ({"type": "result", "request": 1, "outcome": "done", "why": 3}, "why"),
        ({"type": "cursor_set", "value": "x" * 4097}, "value"),
    ],
)
def test_a_line_that_cannot_be_used_names_the_field(line: dict[str, Any], field: str) -> None:
    """Whoever writes a plug-in has nothing else to go by."""
    with pytest.raises(BadLineError) as caught:
        read_line(json.dumps(line).encode(), HANDS)

    assert caught.value.complaint.field == field
    assert caught.value.complaint.why
    assert field in str(caught.value)


@table(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"\xff{}",
        b"[" * 500_000,
        b'{"type":' + b"9" * 5000 + b"}",
        b'"' + b"x" * LINE_BYTES,
    ],
)
def test_what_is_no_object_is_told_as_such(line: bytes) -> None:
    """Nothing that a program writes may end the gateway."""
    with pytest.raises(BadLineError, match="the line"):
        read_line(line, HANDS)


def test_a_complaint_says_which_line_it_is_about() -> None:
    """A plug-in with hundreds under way has to find it."""
    with pytest.raises(BadLineError) as caught:
        read_line(json.dumps({**ARRIVAL, "chat": {}}).encode(), HANDS)

    assert (caught.value.complaint.of, caught.value.complaint.id) == ("message", 7)


def test_half_characters_are_replaced() -> None:
    """JSON can hold half an emoji; a file cannot, and the message would be lost at the journal."""
    read = read_line(json.dumps({**ARRIVAL, "text": "a\ud83d b\ud83d\ude00"}).encode(), HANDS)

    assert isinstance(read, Arrived)
    assert isinstance(read.event, Message)
    assert read.event.text == "a\ufffd b\U0001f600"
    assert read.event.at == NOW


def test_what_a_plugin_said_of_itself_can_be_kept() -> None:
    """After a restart replies are cut to its size before it runs again."""
    line = next(line for line in EXAMPLES if '"capabilities"' in line)
    hello = read_line(line.encode(), HANDS)
    assert isinstance(hello, Hello)

    assert read_kept_hello(kept_hello(hello)) == hello
