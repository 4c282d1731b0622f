"""Files that came with a message: which a model is shown, and the words for the others. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping

from everturn_actors.model import IMAGE_TYPES, Attachment, ModelRequest, UserMessage

LARGE_BYTES = 4 * 1024 * 1024  # of images in one request; more are encoded beside the event loop


def pictures(
    message: UserMessage, media: Mapping[str, bytes], types: Collection[str] = IMAGE_TYPES
) -> tuple[Attachment, ...]:
    """Return the attachments that the model is shown: images of these types whose bytes are there.

    The others are told in words, see `told`.
    """
    if not media:
        return ()
    return tuple(a for a in message.attachments if a.media_type in types and a.name in media)


def told(message: UserMessage, shown: Collection[Attachment] = ()) -> str:
    """Return the text of a message with a line for each attachment that is not among `shown`."""
    lines = [message.text] if message.text.strip() else []
    lines += [_words(each) for each in message.attachments if each not in shown]
    return "\n".join(lines)


def size_bytes(request: ModelRequest) -> int:
    """Return how many bytes of images a request comes with."""
    return sum(map(len, request.media.values()))


def base64(data: bytes) -> bytes:
    """Return `data` in base64, which needs no escapes in JSON."""
    return b64encode(data)


def _words(attachment: Attachment) -> str:
    begin = "attached, but not shown" if attachment.is_image else "attached"
    return f"[{begin}: {attachment.described}]"
