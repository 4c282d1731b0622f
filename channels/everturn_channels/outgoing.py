"""What goes out to a platform, and what a platform can do. Values that know of nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

ChatType: TypeAlias = Literal["dm", "group", "channel"]
"A chat with one person; one of several people; one in which only its owners write."


class Button(Struct, frozen=True, kw_only=True):
    """A button below a message."""

    label: str
    data: str
    "At most 64 bytes of ASCII."


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingFile:
    """A file to send."""

    data: bytes = field(repr=False)
    file_name: str
    media_type: str
    is_voice: bool = False
    "Whether it is the agent's voice, in Ogg Opus: a voice note, where the platform has them."
    duration_s: float = 0
    "How long it sounds; 0 = nobody knows, or it is no sound."


class Outbound(Struct, frozen=True, kw_only=True):
    """One message to send."""

    chat_id: str
    topic: str = ""
    payload: str = ""
    "One of those that `render` gave; empty with a file."
    reply_to: str = ""
    "The message it replies to; where that is gone it is sent without."
    nonce: str = ""
    "At most 25 ASCII characters, the same for the same message: where a platform knows it, twice."
    is_repeat: bool = False
    "It may be there already. Where the platform cannot tell, the message says so."
    is_late: bool = False
    """It is pending for longer than platforms remember nonces: minutes.

    Where it may be there already, a platform that knows nonces cannot tell any more.
    """
    since: datetime | None = None
    "Since when it is owed; None = that is not known. A preview of it may be older."
    buttons: tuple[Button, ...] = ()
    file: OutgoingFile | None = None
    more_files: tuple[OutgoingFile, ...] = ()
    "Those that go with it as one message, see `Capabilities.files_at_once`."

    @property
    def files(self) -> tuple[OutgoingFile, ...]:
        """All of its files."""
        return () if self.file is None else (self.file, *self.more_files)


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a platform can do. What is not said it cannot."""

    chunk_units: int = 4000
    "The size of a message, in the platform's unit; for people."
    edits: bool = False
    "Whether a message of the bot can be changed."
    preview_s: float = 0
    "The least time between two states of a reply that is shown as it comes; 0 = it cannot be."
    drafts: tuple[ChatType, ...] = ()
    "The chats in which previews are drafts, which vanish by themselves."
    typing_s: float = 0
    "How long its typing indicator lasts; 0 = it has none."
    buttons: bool = False
    reactions: bool = False
    files_max_bytes: int = 0
    "The largest file that it takes from the bot; 0 = none."
    files_at_once: int = 1
    "So many files one message takes, pictures beside pictures and others beside others."
    nonces: bool = False
    "Whether a message that is sent again with the same nonce is there once, as it was first sent."
    idle_s: float = 0
    """A channel that was not heard from for so long counts as broken.

    0 = nobody expects to hear from it: it works for as long as it is connected.
    """
