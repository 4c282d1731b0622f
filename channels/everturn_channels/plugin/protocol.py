"""The protocol `everturn-channel/1`: what a plug-in and the gateway say to each other. Pure.

One JSON object a line, UTF-8, each with a `type`. `docs/plugin-channel.md` describes it, and a test
holds the two together. `reading` turns the lines of a plug-in into these values.
"""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from everturn_channels.adapter import Button, Capabilities, ChatRef, InboundEvent
from everturn_channels.chunks import Unit
from everturn_channels.errors import ChannelError
from everturn_channels.health import Login

PROTOCOL: Final = "everturn-channel/1"
LINE_BYTES: Final = 1024 * 1024
PART_BYTES: Final = 512 * 1024  # of a file in one line; base64 makes 4 of 3
FILE_BYTES: Final = 20 * 1024 * 1024
TIME_MOST_S: Final = 86_400.0
IDLE_S: Final = 300.0
CURSOR_MOST: Final = 4096  # characters
FINDINGS_MOST: Final = 100
LOGIN_MOST: Final = 2000  # characters of a QR code; the largest ones hold little more
NUMBER_MOST: Final = 2**53  # above it JSON's numbers are not exact everywhere
UNITS_LEAST: Final = 100
UNITS_MOST: Final = 100_000
WINDOW: Final = 100  # events that may be unconfirmed at one time

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
ShortText: TypeAlias = Annotated[str, Meta(max_length=256)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=NUMBER_MOST)]
Format: TypeAlias = Literal["markdown", "plain"]
Purpose: TypeAlias = Literal["serve", "check"]
Outcome: TypeAlias = Literal["done", "not_sent", "unknown", "refused"]

# --- the gateway to the plug-in ------------------------------------------------------------------


class Greeting(Struct, frozen=True, kw_only=True):
    """The first line: who is there, and what was kept."""

    type: Literal["hello"] = "hello"
    protocol: str = PROTOCOL
    channel: str
    purpose: Purpose = "serve"
    is_new: bool
    cursor: str
    window: int = WINDOW


class FileHead(Struct, frozen=True, kw_only=True):
    """What a file is called that was uploaded just before."""

    file_name: str
    media_type: str
    size_bytes: int
    is_voice: bool = False
    duration_s: float = 0


class SendMessage(Struct, frozen=True, kw_only=True):
    """Asks for a message to be sent."""

    type: Literal["send"] = "send"
    request: int = 0
    chat_id: str
    topic: str = ""
    text: str
    format: Format
    reply_to: str = ""
    nonce: str = ""
    is_repeat: bool = False
    buttons: tuple[Button, ...] = ()
    file: FileHead | None = None


class EditMessage(Struct, frozen=True, kw_only=True):
    """Asks for a message of the bot to be changed."""

    type: Literal["edit"] = "edit"
    request: int = 0
    chat_id: str
    topic: str = ""
    message_id: str
    text: str
    format: Format
    buttons: tuple[Button, ...] = ()
    "None: those of a question go with its decision."


class ShowTyping(Struct, frozen=True, kw_only=True):
    """Asks for the typing indicator."""

    type: Literal["typing"] = "typing"
    request: int = 0
    chat_id: str
    topic: str = ""


class React(Struct, frozen=True, kw_only=True):
    """Asks for a reaction on somebody's message; an empty emoji takes it away."""

    type: Literal["react"] = "react"
    request: int = 0
    chat_id: str
    message_id: str
    emoji: str


class AnswerEvent(Struct, frozen=True, kw_only=True):
    """Answers a command or the click of a button."""

    type: Literal["answer"] = "answer"
    request: int = 0
    id: int
    "Of the event."
    text: str
    format: Format


class FetchPart(Struct, frozen=True, kw_only=True):
    """Asks for a part of a file that came with a message."""

    type: Literal["fetch"] = "fetch"
    request: int = 0
    file: str
    offset: int
    max_bytes: int


class UploadPart(Struct, frozen=True, kw_only=True):
    """A part of the file that the next `send` with a file sends."""

    type: Literal["upload"] = "upload"
    offset: int
    data: str
    "Base64."


class Taken(Struct, frozen=True, kw_only=True):
    """An event is safe."""

    type: Literal["taken"] = "taken"
    id: int


class NotTaken(Struct, frozen=True, kw_only=True):
    """An event cannot be kept now."""

    type: Literal["not_taken"] = "not_taken"
    id: int
    retry_after_s: float


class Complaint(Struct, frozen=True, kw_only=True):
    """A line of the plug-in cannot be used."""

    type: Literal["error"] = "error"
    field: str
    why: str
    of: str = ""
    "The type of the line, where that could be read."
    id: int | None = None
    request: int | None = None


Request: TypeAlias = SendMessage | EditMessage | ShowTyping | React | AnswerEvent | FetchPart
ToPlugin: TypeAlias = Greeting | Request | UploadPart | Taken | NotTaken | Complaint


def write_line(message: ToPlugin) -> bytes:
    """Return the line that says it."""
    text = json.dumps(message, default=structs.asdict, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


# --- the plug-in to the gateway ------------------------------------------------------------------


class HelloCapabilities(Struct, frozen=True, kw_only=True):
    """What the platform of a plug-in can do, as the plug-in says it."""

    edits: bool = False
    typing_s: Annotated[float, Meta(ge=0, le=TIME_MOST_S)] = 0
    preview_s: Annotated[float, Meta(ge=0, le=TIME_MOST_S)] = 0
    buttons: bool = False
    files_max_bytes: Annotated[int, Meta(ge=0, le=FILE_BYTES)] = 0
    reactions: bool = False
    chunk_units: Annotated[int, Meta(ge=UNITS_LEAST, le=UNITS_MOST)]
    unit: Unit = "characters"
    idle_s: Annotated[float, Meta(ge=0, le=TIME_MOST_S)] = IDLE_S
    markdown: bool = False
    nonces: bool = False
    "Whether a message with the same nonce is shown once."


class Hello(HelloCapabilities, frozen=True, kw_only=True):
    """The first line of a plug-in: what it is and what its platform can do."""

    protocol: str
    name: str
    version: str = ""

    @property
    def capabilities(self) -> Capabilities:
        """What its platform can do, as every channel says it."""
        return Capabilities(
            edits=self.edits,
            typing_s=self.typing_s,
            preview_s=self.preview_s,
            buttons=self.buttons,
            nonces=self.nonces,
            files_max_bytes=self.files_max_bytes,
            reactions=self.reactions,
            chunk_units=self.chunk_units,
            idle_s=self.idle_s,
        )


class Arrived(Struct, frozen=True, kw_only=True):
    """Something arrived; it is confirmed by its number."""

    id: int
    event: InboundEvent


class Deleted(Struct, frozen=True, kw_only=True):
    """A message was deleted; it is confirmed by its number."""

    id: int
    chat: ChatRef
    message_id: str


class PluginLine(Struct, frozen=True, kw_only=True, tag_field="type"):
    """What a plug-in says in one line."""


class Connected(PluginLine, frozen=True, kw_only=True, tag="connected"):
    """The login worked."""

    account: ShortText = ""
    findings: Annotated[tuple[str, ...], Meta(max_length=FINDINGS_MOST)] = ()


class Received(PluginLine, frozen=True, kw_only=True, tag="received"):
    """The platform was heard from."""


class CursorSet(PluginLine, frozen=True, kw_only=True, tag="cursor_set"):
    """What the plug-in wants to be told at its next start."""

    value: Annotated[str, Meta(min_length=1, max_length=CURSOR_MOST)]


class Failed(PluginLine, frozen=True, kw_only=True, tag="failed"):
    """It cannot work."""

    kind: Literal["setup", "connection"]
    why: str = ""


class Result(PluginLine, frozen=True, kw_only=True, tag="result"):
    """What became of a request."""

    request: Number
    outcome: Outcome
    message_id: ShortText = ""
    data: Annotated[bytes, Meta(max_length=PART_BYTES)] | None = None
    why: str = ""
    retry_after_s: Annotated[float, Meta(ge=0, le=TIME_MOST_S)] | None = None
    chat_gone: bool = False


class Skipped(Struct, frozen=True, kw_only=True):
    """Messages of a chat were not read."""

    chat: ChatRef
    count: int
    why: str


FromPlugin: TypeAlias = (
    Hello | Arrived | Deleted | Login | Connected | Received | Skipped | CursorSet | Failed | Result
)


class BadLineError(ChannelError):
    """A line of a plug-in cannot be used.

    Attributes:
        complaint: What the plug-in is told.
    """

    def __init__(self, complaint: Complaint) -> None:
        self.complaint = complaint
        of = f" of {complaint.of!r}" if complaint.of else ""
        where = f"{complaint.field}{of}: " if complaint.field else ""
        super().__init__(f"{where}{complaint.why}")
