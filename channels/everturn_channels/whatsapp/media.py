"""Files both ways: as which kind of message they go, and how they are fetched.

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/business-phone-numbers/media
(updated 2026-06-16) and .../messages/audio-messages (2026-07-02), read 2026-11-27: images 5 MB,
sound and film 16 MB, documents 100 MB; a voice message is Ogg with Opus.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from everturn_channels.adapter import IncomingFile, OutgoingFile
from everturn_channels.errors import ConnectionLostError
from everturn_channels.ingestion.json_fields import Json, object_of, text_of
from everturn_channels.names import one_line
from everturn_channels.whatsapp.requests import CloudApi, RequestFailedError

FILES_MAX_BYTES: Final = 50 * 1024 * 1024
"More WhatsApp takes, but no agent sends."
KINDS: Final = frozenset({"image", "video", "audio", "document"})
"Kinds of messages that people send, and that bring a file."
_MEGABYTE: Final = 1024 * 1024
_SHOWN: Final[Mapping[str, tuple[frozenset[str], int]]] = {
    "image": (frozenset({"image/jpeg", "image/png"}), 5 * _MEGABYTE),
    "video": (frozenset({"video/mp4", "video/3gpp"}), 16 * _MEGABYTE),
    "audio": (
        frozenset({"audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", "audio/ogg"}),
        16 * _MEGABYTE,
    ),
}
"By kind, the media types that are shown as such, and up to which size; all else is a document."
_TEXTS: Final = frozenset({"application/json", "application/xml", "application/x-yaml"})
"What WhatsApp does not list, and is text all the same."


class OutgoingMedia(Struct, frozen=True, kw_only=True):
    """As what a file goes."""

    kind: str
    "`image`, `video`, `audio` or `document`."
    media_type: str
    name: str
    is_voice: bool = False

    @property
    def has_caption(self) -> bool:
        """Whether a line can stand below it."""
        return self.kind != "audio"


def media_of(file: OutgoingFile) -> OutgoingMedia:
    """Return as what a file goes."""
    declared = file.media_type.partition(";")[0].strip().lower()
    name = one_line(file.file_name) or "file"
    for kind, (types, most) in _SHOWN.items():
        if declared in types and len(file.data) <= most:
            is_voice = kind == "audio" and file.is_voice and declared == "audio/ogg"
            media_type = "audio/ogg; codecs=opus" if is_voice else declared
            return OutgoingMedia(kind=kind, media_type=media_type, name=name, is_voice=is_voice)
    is_text = declared.startswith("text/") or declared in _TEXTS
    media_type = "text/plain" if is_text else declared or "application/octet-stream"
    return OutgoingMedia(kind="document", media_type=media_type, name=name)


def content_of(media: OutgoingMedia, media_id: str, caption: str = "") -> dict[str, object]:
    """Return the fields of the message that shows a file that was uploaded."""
    shown: dict[str, object] = {"id": media_id}
    if media.kind == "document":
        shown["filename"] = media.name
    if media.is_voice:
        shown["voice"] = True
    if caption and media.has_caption:
        shown["caption"] = caption
    return {"type": media.kind, media.kind: shown}


def file_in(raw: Json, api: CloudApi) -> IncomingFile | None:
    """Return the file that a message brings; None = it brings none."""
    kind = text_of(raw, "type")
    found = object_of(raw, kind)
    media_id = text_of(found, "id")
    if kind not in KINDS or not media_id:
        return None
    return IncomingFile(
        fetch=partial(_fetch, api, media_id),
        file_name=text_of(found, "filename"),
        media_type=text_of(found, "mime_type").partition(";")[0].strip(),
        is_voice=kind == "audio" and found.get("voice") is True,
    )


async def _fetch(api: CloudApi, media_id: str, limit_bytes: int) -> bytes:
    try:
        return await api.download(media_id, limit_bytes)
    except RequestFailedError as error:
        text = f"The file cannot be had from WhatsApp: {error}."
        raise ConnectionLostError(text) from error
