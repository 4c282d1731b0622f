"""Files of messages and results: which a model is shown, and words for the others. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from everturn_actors.model import (
    IMAGE_TYPES,
    AnyMessage,
    Attachment,
    ModelRequest,
    ToolResult,
    UserMessage,
)
from everturn_gateway.providers.transport.encoding import dumps

LARGE_BYTES = 4 * 1024 * 1024  # of images in one request; more are encoded beside the event loop


class Parts(Struct, frozen=True, kw_only=True):
    """How an API has the parts of a message that comes with images."""

    text_type: str
    "What it calls a part that is text."
    picture: bytes
    "A part that is an image, with `%b` for its media type and its base64."


def pictures(
    message: UserMessage | ToolResult,
    media: Mapping[str, bytes],
    types: Collection[str] = IMAGE_TYPES,
) -> tuple[Attachment, ...]:
    """Return the attachments that the model is shown: images of these types whose bytes are there.

    The others are told in words, see `told`.
    """
    if not media:
        return ()
    return tuple(a for a in message.attachments if a.media_type in types and a.name in media)


def text_with_files(message: UserMessage | ToolResult, shown: Collection[Attachment] = ()) -> str:
    """Return the text of a message with a line for each attachment that is not among `shown`."""
    lines = [message.text] if message.text.strip() else []
    lines += [_words(each) for each in message.attachments if each not in shown]
    return "\n".join(lines)


def with_pictures(
    message: UserMessage,
    shown: Collection[Attachment],
    media: Mapping[str, bytes],
    parts: Parts,
) -> bytes:
    """Return a message as JSON: its text, where it has one, and then the images that are shown.

    Args:
        message: What a person wrote.
        shown: Its attachments that the model is shown.
        media: Their bytes, by name.
        parts: How the API has them.
    """
    text = text_with_files(message, shown)
    found = [dumps({"type": parts.text_type, "text": text})] if text else []
    # Megabytes of base64 need no escapes: they are put in as they are.
    found += [
        parts.picture % (each.media_type.encode(), base64(media[each.name])) for each in shown
    ]
    return b'{"role":"user","content":[%b]}' % b",".join(found)


def images_apart(
    request: ModelRequest, types: Collection[str] = IMAGE_TYPES
) -> Sequence[AnyMessage]:
    """Return the messages for an API whose results of tools hold no images.

    Those of a step's results stand in a message of their own behind them: nothing may stand between
    the results.
    """
    if not request.media:
        return request.messages
    messages: list[AnyMessage] = []
    waiting: list[Attachment] = []
    for message in request.messages:
        if waiting and not isinstance(message, ToolResult):
            messages.append(_of_results(waiting))
            waiting = []
        if isinstance(message, ToolResult) and message.attachments:
            waiting += pictures(message, request.media, types)
        messages.append(message)
    return (*messages, _of_results(waiting)) if waiting else messages


def _of_results(images: Sequence[Attachment]) -> UserMessage:
    names = ", ".join(each.file_name or each.name for each in images)
    return UserMessage(text=f"[Images of the results above: {names}]", attachments=tuple(images))


def size_bytes(request: ModelRequest) -> int:
    """Return how many bytes of images a request comes with."""
    return sum(map(len, request.media.values()))


def base64(data: bytes) -> bytes:
    """Return `data` in base64, which needs no escapes in JSON."""
    return b64encode(data)


def _words(attachment: Attachment) -> str:
    begin = "attached, but not shown" if attachment.is_image else "attached"
    return f"[{begin}: {attachment.described}]"
