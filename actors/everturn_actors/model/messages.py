"""Messages: what people, models and tools say, once it is durable. Pure."""

from __future__ import annotations

from typing import TypeAlias

from everturn_actors.codec import Timestamp, Value
from everturn_actors.model.incoming import Upload
from everturn_actors.model.options import CallOptions
from everturn_actors.model.remembering import Remembering
from everturn_actors.model.words import Joins, Usage

_KIB = 1024
_TOLD_CHARS = 255  # of a file's name, in words
_TYPE_CHARS = 100  # of its media type, in words: none that is registered has more


class ToolCall(Value, frozen=True, kw_only=True, omit_defaults=False):
    """One call that a model asks for."""

    call_id: str
    name: str
    arguments: str = "{}"
    "JSON text of an object, as the model wrote it."


class Message(Remembering, frozen=True, kw_only=True, tag_field="role"):
    """What all messages share."""

    seq: int = 0
    "The event this message came from; 0 for one that stands in no log."


class PendingAmbient(Value, frozen=True, kw_only=True):
    """What was said in a conversation beside its turns, until one is told of it."""

    seq: int
    text: str
    until: Timestamp
    "UTC. No turn that begins later is told of it."
    sender: str = ""
    untrusted: bool = False
    "Whether nobody vouches for it."
    own: bool = False
    "Whether it was said in the agent's name: an announcement."


class Attachment(Value, frozen=True, kw_only=True):
    """A file that came with a message or a result; its bytes are kept with the session."""

    name: str
    """Under the session's media: the SHA-256 of the bytes in hex, and an ending; `made-` before it
    where a turn of the session made the file."""
    media_type: str
    "For example `image/png`."
    file_name: str = ""
    "As the sender called it."
    size_bytes: int = 0
    is_voice: bool = False
    "Whether somebody spoke it, for whoever is there: a voice note, as platforms have it."
    duration_s: float = 0
    "How long it sounds, as its platform says; 0 = it does not say."

    @property
    def is_audio(self) -> bool:
        """Whether it is sound, in which there may be words."""
        return self.media_type.startswith("audio/") or self.media_type == "application/ogg"

    @property
    def is_image(self) -> bool:
        """Whether it is a picture; a model is shown those of `IMAGE_TYPES`."""
        return self.media_type.startswith("image/")

    @property
    def described(self) -> str:
        """What it is, in a few words: `cat.png, image/png, 12 KB`.

        >>> len(Attachment(name="a", media_type="image/" + 1200 * "x").described)
        112
        """
        size = self.size_bytes
        large = f"{size / _KIB / _KIB:.1f} MB" if size >= _KIB * _KIB else f"{size / _KIB:.0f} KB"
        told = large if size >= _KIB else f"{size} bytes"
        name = _cut(self.file_name or self.name, _TOLD_CHARS)
        return f"{name}, {_cut(self.media_type, _TYPE_CHARS)}, {told}"


class UserMessage(Message, frozen=True, kw_only=True, tag="user"):
    """Text from a person or a program."""

    text: str
    sender: str = ""
    attachments: tuple[Attachment, ...] = ()
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for, such as a program's output."
    reply_to: str = ""
    "The message on its platform that an answer replies to; empty = none."
    joins: Joins = "all"
    "Which turn answers it."
    ambient: bool = False
    "Whether it begins no turn: the next one reads it."
    retry_for_s: int = -1
    "For how long its sender wants calls made again in an outage; -1 = as the agent has it."
    options: CallOptions | None = None
    "What its sender asks of the model; None = nothing, and in a turn that is over."
    is_spoken: bool = False
    "Whether it came as a voice note, whose words stand in the text."

    @property
    def as_text(self) -> str:
        """The text, and a line for each attachment: for whoever reads words alone."""
        lines = [self.text] if self.text.strip() or not self.attachments else []
        return "\n".join((*lines, *(f"[attached: {each.described}]" for each in self.attachments)))


class Reply(Message, frozen=True, kw_only=True, tag="assistant"):
    """One complete model reply."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop_reason: str = "stop"
    model: str = ""
    opaque: str = ""
    """JSON that the provider wants back unchanged with this reply, such as signed thinking.

    Only the provider that gave it understands it; every other one leaves it out.
    """
    fallback: str = ""
    "The model that answered in place of the agent's own, as `provider/name`; empty = its own."
    outside: tuple[str, ...] = ()
    "The text from outside that was shown to the model as it wrote this, by source; see `outside`."
    retells: bool = False
    "Whether no such text was shown itself any more, but what the agent wrote while it was."
    images: tuple[Upload, ...] = ()
    """What the model made, as its provider hands it over: unchecked, and in no log.

    A turn keeps them as files, and has a line for each in the text.
    """
    lost_images: tuple[str, ...] = ()
    "Why others that it made are not there, in words; in no log either."


class ToolResult(Message, frozen=True, kw_only=True, tag="tool"):
    """What one call gave."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    path: str = ""
    "Under the session's results, the file that holds the whole text; empty where this is it."
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for: a web page, another's message."
    source: str = ""
    "untrusted: what that text is, in words: `the page https://...`; empty = not told."
    is_refused: bool = False
    "Whether the call did not run: the policy refuses it, or nobody allowed it in time."
    attachments: tuple[Attachment, ...] = ()
    "Images that the model is shown with it."


class Notice(Message, frozen=True, kw_only=True, tag="notice"):
    """A line of the gateway to the model, for example how much of the conversation is left out."""

    text: str
    opaque: str = ""
    "What is sent in its place to the provider that gave it; all others read the text."


AnyMessage: TypeAlias = UserMessage | Reply | ToolResult | Notice


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
