"""Reads the lines of a plug-in. Pure.

Nothing of a line gets further than the values read here. Fields that are not known are passed over,
so that a newer plug-in of the same protocol can say more.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, TypeAlias, cast

from everturn_channels.adapter import (
    ButtonClick,
    ChatRef,
    ChatType,
    Command,
    Edit,
    InboundEvent,
    IncomingFile,
    Message,
    Person,
)
from everturn_channels.chunks import Unit
from everturn_channels.plugin.fields import BadFieldError, Fields
from everturn_channels.plugin.protocol import (
    FILE_BYTES,
    LINE_BYTES,
    PART_BYTES,
    Arrived,
    BadLineError,
    Complaint,
    Connected,
    CursorSet,
    Failed,
    FromPlugin,
    Hello,
    Outcome,
    Received,
    Result,
    Skipped,
)

CURSOR_MOST: Final = 4096  # characters
FILES_MOST: Final = 100  # of one message
FINDINGS_MOST: Final = 100
WORDS_MOST: Final = 1000  # characters of an explanation
UNITS_LEAST: Final = 100
UNITS_MOST: Final = 100_000
DATA_MOST: Final = 64  # bytes of a button's data
TIME_MOST_S: Final = 86_400.0
IDLE_S: Final = 300.0
NUMBER_MOST: Final = 2**53  # above it JSON's numbers are not exact everywhere
_CHATS: Final[tuple[ChatType, ...]] = ("dm", "group", "channel")
_UNITS: Final[tuple[Unit, ...]] = ("characters", "utf16", "bytes")
_OUTCOMES: Final[tuple[Outcome, ...]] = ("done", "not_sent", "unknown", "refused")

Fetch: TypeAlias = Callable[[int], Awaitable[bytes]]
Answer: TypeAlias = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What events are given to act with, and the time for what does not tell it."""

    fetch: Callable[[str], Fetch]
    "Gets a file, by the plug-in's name for it."
    answer: Callable[[int], Answer]
    "Answers a command or a click, by the number of the event."
    now: Callable[[], datetime]


def read_line(line: bytes, hands: Hands) -> FromPlugin:
    """Return what a line says.

    Raises:
        BadLineError: It cannot be used.
    """
    found = _object(line)
    fields = Fields(found)
    try:
        read = _READERS.get(fields.text("type"))
        if read is None:
            unknown = fields.wrong("type", f"is none of {', '.join(_READERS)}")
            raise unknown
        return read(fields, hands)
    except BadFieldError as error:
        raise BadLineError(_complaint(fields, error)) from error


def kept_hello(hello: Hello) -> str:
    """Return a text to be kept, from which `read_kept_hello` makes the same again."""
    outer = {"type": "hello", "protocol": hello.protocol, "name": hello.name}
    capabilities = {
        name: value
        for name, value in asdict(hello).items()
        if name not in {"protocol", "name", "version"}
    }
    return json.dumps({**outer, "version": hello.version, "capabilities": capabilities})


def read_kept_hello(kept: str) -> Hello:
    """Return what a plug-in said when it ran before.

    Raises:
        BadLineError: It cannot be read.
    """
    fields = Fields(_object(kept.encode()))
    try:
        return _hello(fields)
    except BadFieldError as error:
        raise BadLineError(_complaint(fields, error)) from error


def _object(line: bytes) -> dict[str, object]:
    if len(line) > LINE_BYTES:  # the stream's reader keeps the beginning alone
        raise BadLineError(Complaint(field="", why=f"the line has more than {LINE_BYTES:,} bytes"))
    try:
        found: object = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        why = "the line is not one JSON object in UTF-8"
        raise BadLineError(Complaint(field="", why=why)) from error
    if not isinstance(found, dict):
        raise BadLineError(Complaint(field="", why="the line is not a JSON object"))
    return cast("dict[str, object]", found)


def _complaint(fields: Fields, error: BadFieldError) -> Complaint:
    """Return what to tell the plug-in, with whatever tells it which line it was."""
    of, number, request = "", None, None
    with suppress(BadFieldError):
        of = fields.text("type")
    with suppress(BadFieldError):
        number = _number(fields, "id")
    with suppress(BadFieldError):
        request = _number(fields, "request")
    return Complaint(field=error.field, why=error.why, of=of, id=number, request=request)


def _number(fields: Fields, name: str) -> int:
    return fields.number(name, least=0, most=NUMBER_MOST)


def _said_hello(fields: Fields, _hands: Hands) -> Hello:
    return _hello(fields)


def _hello(fields: Fields) -> Hello:
    capabilities = fields.part("capabilities")
    hello = Hello(
        protocol=fields.text("protocol"),
        name=fields.text("name", most=64),
        version=fields.text("version", "", most=64),
        edits=capabilities.flag("edits"),
        typing_s=capabilities.seconds("typing_s", 0, most=TIME_MOST_S) or 0,
        preview_s=capabilities.seconds("preview_s", 0, most=TIME_MOST_S) or 0,
        buttons=capabilities.flag("buttons"),
        files_max_bytes=capabilities.number("files_max_bytes", 0, least=0, most=FILE_BYTES),
        reactions=capabilities.flag("reactions"),
        chunk_units=capabilities.number("chunk_units", least=UNITS_LEAST, most=UNITS_MOST),
        unit=capabilities.one_of("unit", _UNITS, "characters"),
        idle_s=capabilities.seconds("idle_s", IDLE_S, most=TIME_MOST_S) or IDLE_S,
        markdown=capabilities.flag("markdown"),
        nonces=capabilities.flag("nonces"),
    )
    if hello.preview_s and not hello.edits:
        useless = capabilities.wrong("preview_s", "has to be 0 where messages cannot be edited")
        raise useless
    return hello


def _chat(fields: Fields) -> ChatRef:
    return ChatRef(
        id=fields.text("id"),
        type=fields.one_of("type", _CHATS, "dm"),
        topic=fields.text("topic", ""),
        title=fields.text("title", ""),
    )


def _sender(fields: Fields) -> Person:
    sender = fields.part("sender", required=False)
    return Person(
        id=sender.text("id", ""), name=sender.text("name", ""), is_bot=sender.flag("is_bot")
    )


def _arrived(fields: Fields, event: InboundEvent) -> Arrived:
    return Arrived(id=_number(fields, "id"), event=event)


def _message(fields: Fields, hands: Hands) -> Arrived:
    message = Message(
        id=fields.text("message_id"),
        chat=_chat(fields.part("chat")),
        sender=_sender(fields),
        text=fields.text("text", "", most=LINE_BYTES),
        at=fields.instant("at", hands.now()),
        is_addressed=fields.flag("is_addressed"),
        files=tuple(_file(file, hands) for file in fields.parts("files", FILES_MOST)),
        quoted=fields.text("quoted", "", most=LINE_BYTES),
        quoted_name=fields.text("quoted_name", ""),
        forwarded_from=fields.text("forwarded_from", ""),
        unsupported=fields.text("unsupported", ""),
        is_album=fields.flag("is_album"),
    )
    return _arrived(fields, message)


def _file(fields: Fields, hands: Hands) -> IncomingFile:
    size = fields.number("size_bytes", -1, least=0, most=NUMBER_MOST)
    return IncomingFile(
        fetch=hands.fetch(fields.text("file")),
        file_name=fields.text("file_name", ""),
        media_type=fields.text("media_type", ""),
        size_bytes=None if size < 0 else size,
    )


def _edited(fields: Fields, hands: Hands) -> Arrived:
    edit = Edit(
        id=fields.text("message_id"),
        chat=_chat(fields.part("chat")),
        sender=_sender(fields),
        text=fields.text("text", "", most=LINE_BYTES),
        at=fields.instant("at", hands.now()),
        is_addressed=fields.flag("is_addressed"),
    )
    return _arrived(fields, edit)


def _command(fields: Fields, hands: Hands) -> Arrived:
    command = Command(
        id=fields.text("message_id"),
        name=fields.text("name", most=64).removeprefix("/").lower(),
        argument=fields.text("argument", "", most=LINE_BYTES),
        chat=_chat(fields.part("chat")),
        sender=_sender(fields),
        at=fields.instant("at", hands.now()),
        is_addressed=fields.flag("is_addressed"),
        is_typed=True,  # a plug-in says `command` of nothing else, see docs/plugin-channel.md
        answer=hands.answer(_number(fields, "id")),
    )
    return _arrived(fields, command)


def _click(fields: Fields, hands: Hands) -> Arrived:
    click = ButtonClick(
        data=fields.text("data", most=DATA_MOST),
        chat=_chat(fields.part("chat")),
        sender=_sender(fields),
        at=fields.instant("at", hands.now()),
        answer=hands.answer(_number(fields, "id")),
    )
    return _arrived(fields, click)


def _connected(fields: Fields, _hands: Hands) -> Connected:
    findings = fields.lines("findings", FINDINGS_MOST, long=WORDS_MOST)
    return Connected(account=fields.text("account", ""), findings=findings)


def _received(_fields: Fields, _hands: Hands) -> Received:
    return Received()


def _skipped(fields: Fields, _hands: Hands) -> Skipped:
    return Skipped(
        chat=_chat(fields.part("chat")),
        count=fields.number("count", least=1, most=NUMBER_MOST),
        why=fields.words("why", WORDS_MOST),
    )


def _cursor_set(fields: Fields, _hands: Hands) -> CursorSet:
    return CursorSet(value=fields.text("value", most=CURSOR_MOST))


def _failed(fields: Fields, _hands: Hands) -> Failed:
    return Failed(
        kind=fields.one_of("kind", ("setup", "connection")),
        why=fields.words("why", WORDS_MOST) or "it does not say why",
    )


def _result(fields: Fields, _hands: Hands) -> Result:
    return Result(
        request=_number(fields, "request"),
        outcome=fields.one_of("outcome", _OUTCOMES),
        message_id=fields.text("message_id", ""),
        data=fields.data("data", PART_BYTES),
        why=fields.words("why", WORDS_MOST),
        retry_after_s=fields.seconds("retry_after_s", None, most=TIME_MOST_S),
        chat_gone=fields.flag("chat_gone"),
    )


_READERS: Final[dict[str, Callable[[Fields, Hands], FromPlugin]]] = {
    "hello": _said_hello,
    "connected": _connected,
    "message": _message,
    "edited": _edited,
    "command": _command,
    "click": _click,
    "received": _received,
    "skipped": _skipped,
    "cursor_set": _cursor_set,
    "failed": _failed,
    "result": _result,
}
