"""Reads the lines of a plug-in. Pure.

Nothing of a line gets further than the values read here. Fields that are not known are passed over,
so that a newer plug-in of the same protocol can say more; one that is null counts as absent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct, structs

from everturn_actors.codec import Codec, CodecError, Timestamp, encode, load_json
from everturn_actors.json_values import Json, is_list, is_object
from everturn_actors.state.serialization import in_utc
from everturn_channels.adapter import (
    EMOJI_CHARS,
    ButtonClick,
    ChatRef,
    ChatType,
    Command,
    Edit,
    InboundEvent,
    IncomingFile,
    Message,
    Person,
    Reaction,
)
from everturn_channels.health import Login
from everturn_channels.plugin.protocol import (
    IDLE_S,
    LINE_BYTES,
    LOGIN_MOST,
    NUMBER_MOST,
    Arrived,
    BadLineError,
    Complaint,
    Connected,
    CursorSet,
    Deleted,
    Failed,
    FromPlugin,
    Hello,
    HelloCapabilities,
    Id,
    Number,
    PluginLine,
    Received,
    Result,
    ShortText,
    Skipped,
)

FILES_MOST: Final = 100  # of one message
DESCRIBED_MOST: Final = 20  # things of one message
WORDS_MOST: Final = 1000  # characters of an explanation

Fetch: TypeAlias = Callable[[int], Awaitable[bytes]]
Answer: TypeAlias = Callable[[str], Awaitable[None]]

_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]


class Hands(Struct, frozen=True, kw_only=True):
    """What events are given to act with, and the time for what does not tell it."""

    fetch: Callable[[str], Fetch]
    "Gets a file, by the plug-in's name for it."
    answer: Callable[[int], Answer]
    "Answers a command or a click, by the number of the event."
    now: Callable[[], datetime]


# --- what a line looks like ----------------------------------------------------------------------


class _Hello(PluginLine, frozen=True, kw_only=True, tag="hello"):
    protocol: Id
    name: _Name
    version: Annotated[str, Meta(max_length=64)] = ""
    capabilities: HelloCapabilities


class _Chat(Struct, frozen=True, kw_only=True):
    id: Id
    type: ChatType = "dm"
    topic: ShortText = ""
    title: ShortText = ""


class _Sender(Struct, frozen=True, kw_only=True):
    id: ShortText = ""
    name: ShortText = ""
    is_bot: bool = False
    language: ShortText = ""


class _File(Struct, frozen=True, kw_only=True):
    file: Id
    file_name: ShortText = ""
    media_type: ShortText = ""
    size_bytes: Number | None = None
    is_voice: bool = False
    duration_s: float = 0


class _Event(PluginLine, frozen=True, kw_only=True):
    id: Number
    chat: _Chat
    sender: _Sender = _Sender()
    at: Timestamp | None = None


class _Written(_Event, frozen=True, kw_only=True):
    message_id: Id
    is_addressed: bool = False


class _Message(_Written, frozen=True, kw_only=True, tag="message"):
    text: str = ""
    files: Annotated[tuple[_File, ...], Meta(max_length=FILES_MOST)] = ()
    quoted: str = ""
    quoted_name: ShortText = ""
    forwarded_from: ShortText = ""
    described: Annotated[tuple[ShortText, ...], Meta(max_length=DESCRIBED_MOST)] = ()
    unsupported: ShortText = ""
    is_album: bool = False


class _Edited(_Written, frozen=True, kw_only=True, tag="edited"):
    text: str = ""


class _Command(_Written, frozen=True, kw_only=True, tag="command"):
    name: _Name
    argument: str = ""


class _Click(_Event, frozen=True, kw_only=True, tag="click"):
    data: Annotated[str, Meta(min_length=1, max_length=64)]


class _Reaction(_Event, frozen=True, kw_only=True, tag="reaction"):
    message_id: Id
    emoji: Annotated[str, Meta(min_length=1, max_length=EMOJI_CHARS)]


class _Deleted(_Event, frozen=True, kw_only=True, tag="deleted"):
    message_id: Id


class _Login(PluginLine, frozen=True, kw_only=True, tag="login"):
    text: Annotated[str, Meta(min_length=1)]
    qr: Annotated[str, Meta(max_length=LOGIN_MOST)] = ""


class _Skipped(PluginLine, frozen=True, kw_only=True, tag="skipped"):
    chat: _Chat
    count: Annotated[int, Meta(ge=1, le=NUMBER_MOST)]
    why: str = ""


_AnyEvent: TypeAlias = _Message | _Edited | _Command | _Click | _Reaction
_AnyLine: TypeAlias = (
    _Hello
    | _AnyEvent
    | _Deleted
    | _Login
    | _Skipped
    | Connected
    | Received
    | CursorSet
    | Failed
    | Result
)
_LINE: Final = Codec[_AnyLine](_AnyLine)
_HELLO: Final = Codec[_Hello](_Hello)


# --- reading -------------------------------------------------------------------------------------


def read_line(line: bytes, hands: Hands) -> FromPlugin:
    """Return what a line says.

    Raises:
        BadLineError: It cannot be used.
    """
    found = _object(line)
    try:
        return _said(_LINE.load(found), hands)
    except CodecError as error:
        raise BadLineError(_complaint(found, error)) from error


def kept_hello(hello: Hello) -> str:
    """Return a text to be kept, from which `read_kept_hello` makes the same again."""
    values = structs.asdict(hello)
    own = {name: values.pop(name) for name in ("protocol", "name", "version")}
    return encode(_Hello(**own, capabilities=HelloCapabilities(**values))).decode()


def read_kept_hello(kept: str) -> Hello:
    """Return what a plug-in said when it ran before.

    Raises:
        BadLineError: It cannot be read.
    """
    try:
        return _hello(_HELLO.decode(kept.encode()))
    except CodecError as error:
        raise BadLineError(Complaint(field=error.path, why=error.why, of="hello")) from error


def _object(line: bytes) -> Mapping[str, object]:
    if len(line) > LINE_BYTES:  # the stream's reader keeps the beginning alone
        raise BadLineError(Complaint(field="", why=f"the line has more than {LINE_BYTES:,} bytes"))
    try:
        found = load_json(line)
    except CodecError as error:
        why = "the line is not one JSON object in UTF-8"
        raise BadLineError(Complaint(field="", why=why)) from error
    if not is_object(found):
        raise BadLineError(Complaint(field="", why="the line is not a JSON object"))
    return _without_null(found)


def _whole(found: object) -> object:
    """Return JSON without what is null, and without halves of characters."""
    if isinstance(found, str) and not found.isascii():
        return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if is_list(found):
        return [_whole(each) for each in found]
    return _without_null(found) if is_object(found) else found


def _without_null(found: Json) -> Json:
    return {name: _whole(value) for name, value in found.items() if value is not None}


def _complaint(found: Mapping[str, object], error: CodecError) -> Complaint:
    """Return what to tell the plug-in, with whatever tells it which line it was."""
    of, number, request = found.get("type"), found.get("id"), found.get("request")
    return Complaint(
        field=error.path,
        why=error.why,
        of=of if isinstance(of, str) else "",
        id=number if isinstance(number, int) else None,
        request=request if isinstance(request, int) else None,
    )


def _said(line: _AnyLine, hands: Hands) -> FromPlugin:
    match line:
        case _Hello():
            return _hello(line)
        case _Skipped(count=count, why=why):
            return Skipped(chat=_chat(line), count=count, why=_words(why))
        case _Deleted(id=number, message_id=message_id):
            return Deleted(id=number, chat=_chat(line), message_id=message_id)
        case _Login(text=text, qr=qr):
            return Login(text=_words(text) or "log in", qr=qr)
        case Connected(findings=findings):
            return structs.replace(line, findings=tuple(map(_words, findings)))
        case Failed(why=why):
            return structs.replace(line, why=_words(why) or "it does not say why")
        case Result(why=why):
            return structs.replace(line, why=_words(why))
        case Received() | CursorSet():
            return line
        case _:
            return Arrived(id=line.id, event=_event(line, hands))


def _hello(line: _Hello) -> Hello:
    capabilities = line.capabilities
    if capabilities.preview_s and not capabilities.edits:
        why = "has to be 0 where messages cannot be edited"
        raise CodecError(why, "capabilities.preview_s")
    values = structs.asdict(capabilities)
    values["idle_s"] = capabilities.idle_s or IDLE_S
    return Hello(protocol=line.protocol, name=line.name, version=line.version, **values)


def _event(line: _AnyEvent, hands: Hands) -> InboundEvent:
    """Return the event that a line of a program tells of."""
    chat, at = _chat(line), _timestamp(line, hands)
    told = line.sender
    sender = Person(id=told.id, name=told.name, is_bot=told.is_bot, language=told.language)
    match line:
        case _Message():
            return Message(
                id=line.message_id,
                chat=chat,
                sender=sender,
                text=line.text,
                at=at,
                is_addressed=line.is_addressed,
                files=tuple(_file(file, hands) for file in line.files),
                quoted=line.quoted,
                quoted_name=line.quoted_name,
                forwarded_from=line.forwarded_from,
                described=line.described,
                is_outside=bool(line.forwarded_from),
                unsupported=line.unsupported,
                is_album=line.is_album,
            )
        case _Edited():
            return Edit(
                id=line.message_id,
                chat=chat,
                sender=sender,
                text=line.text,
                at=at,
                is_addressed=line.is_addressed,
            )
        case _Command():
            return Command(
                id=line.message_id,
                name=line.name.removeprefix("/").lower(),
                argument=line.argument,
                chat=chat,
                sender=sender,
                at=at,
                is_addressed=line.is_addressed,
                is_typed=True,  # a plug-in says `command` of nothing else, see its page
                answer=hands.answer(line.id),
            )
        case _Click():
            return ButtonClick(
                data=line.data, chat=chat, sender=sender, at=at, answer=hands.answer(line.id)
            )
        case _Reaction():
            return Reaction(
                message_id=line.message_id, emoji=line.emoji, chat=chat, sender=sender, at=at
            )


def _chat(line: _AnyEvent | _Deleted | _Skipped) -> ChatRef:
    chat = line.chat
    return ChatRef(id=chat.id, type=chat.type, topic=chat.topic, title=chat.title)


def _timestamp(line: _AnyEvent, hands: Hands) -> datetime:
    try:
        return in_utc(line.at) if line.at is not None else hands.now()
    except ValueError as error:
        why = "has to be a time with its zone, as 2026-11-05T12:30:00Z"
        raise CodecError(why, "at") from error


def _file(file: _File, hands: Hands) -> IncomingFile:
    return IncomingFile(
        fetch=hands.fetch(file.file),
        file_name=file.file_name,
        media_type=file.media_type,
        size_bytes=file.size_bytes,
        is_voice=file.is_voice,
        duration_s=file.duration_s,
    )


def _words(text: str) -> str:
    """Return an explanation in one line, shortened where it is long."""
    words = " ".join(text.split())
    return words if len(words) <= WORDS_MOST else f"{words[: WORDS_MOST - 1]}…"
