"""Files that come with a message, and files that are given back."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import quote

from anyio.to_thread import run_sync
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from everturn_actors.model import IMAGE_TYPES, Attachment, Upload
from everturn_actors.state.validation import ATTACHMENTS_MAX, FILE_NAME_CHARS
from everturn_gateway.http.problems import ProblemError, invalid

# What a browser can do no harm with, even where it forgets that this is a download.
SAFE_TYPES: Final = (
    *sorted(IMAGE_TYPES),
    "application/pdf",
    "application/json",
    "text/plain",
    "text/csv",
    "text/markdown",
)
UNKNOWN_TYPE: Final = "application/octet-stream"

_LARGE_CHARACTERS = 256 * 1024  # of base64; more is decoded beside the event loop
_NAME = "[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
_FILE_NAME: Final[dict[str, object]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": FILE_NAME_CHARS,
    "pattern": "^[^/\\\\\\u0000-\\u001f\\u007f-\\u009f\\u2028-\\u202e\\u2066-\\u2069]+$",
    "not": {"enum": [".", ".."]},
}
_BASE64: Final[dict[str, object]] = {
    "type": "string",
    "minLength": 4,
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    "contentEncoding": "base64",
    "examples": ["SGVsbG8="],
}


class NewAttachment(BaseModel):
    """A file that comes with a message."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    media_type: str = Field(
        pattern=f"^{_NAME}/{_NAME}$",
        description="For example `image/png`. PNG, JPEG, GIF and WebP images are shown to a model"
        " that sees; it is told of everything else. What is no image of its type is refused.",
        examples=["text/plain"],
    )
    data: Annotated[str, WithJsonSchema(_BASE64)] = Field(
        repr=False, description="The bytes in base64; at most 20 MiB before that."
    )
    file_name: Annotated[str, Field(min_length=1), WithJsonSchema(_FILE_NAME)] | None = Field(
        default=None, description="Its name, without a path.", examples=["notes.txt"]
    )


Attachments = Annotated[
    tuple[NewAttachment, ...],
    Field(max_length=ATTACHMENTS_MAX, description="Files that come with it."),
]


class AttachmentBody(BaseModel):
    """A file that came with a message."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        description="The SHA-256 of the bytes, and an ending; after `made-` where a turn made it."
    )
    media_type: str
    file_name: str = Field(description="As the sender called it; empty where they did not.")
    size_bytes: int
    url: str = Field(description="Path under which it can be fetched, as long as it is kept.")

    @staticmethod
    def of(attachment: Attachment, session_id: str) -> AttachmentBody:
        """Return the body of `attachment`."""
        return AttachmentBody(
            name=attachment.name,
            media_type=attachment.media_type,
            file_name=attachment.file_name,
            size_bytes=attachment.size_bytes,
            url=f"/api/v1/sessions/{session_id}/media/{attachment.name}",
        )


async def uploads_of(attachments: Sequence[NewAttachment]) -> tuple[Upload, ...]:
    """Return the files of a message.

    Raises:
        ProblemError: The bytes of one are not in base64 (422).
    """
    if not attachments:
        return ()

    def decode() -> tuple[Upload, ...]:
        return tuple(_upload(each, index) for index, each in enumerate(attachments))

    # A thread costs more than a small one takes.
    is_large = sum(len(each.data) for each in attachments) > _LARGE_CHARACTERS
    return await run_sync(decode) if is_large else decode()


def from_base64(data: str) -> bytes:
    """Return what a text stands for.

    Raises:
        ValueError: It is not in base64, as RFC 4648 has it; says why.
    """
    try:
        # What is not strict would be read as other bytes.
        return binascii.a2b_base64(data, strict_mode=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def download_headers(file_name: str) -> dict[str, str]:
    """Return the headers with which a file is given back: to be kept, never to be run.

    Source: RFC 6266, section 4.3, and RFC 8187 for the name.
    """
    return {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file_name, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }


def download_type(attachment: Attachment) -> str:
    """Return the Content-Type with which a file is given back."""
    kind = attachment.media_type
    # A page or a script of a stranger must not open at this address.
    return kind if kind in SAFE_TYPES else UNKNOWN_TYPE


def _upload(attachment: NewAttachment, index: int) -> Upload:
    try:
        data = from_base64(attachment.data)
    except ValueError as error:
        pointer = f"#/attachments/{index}/data"
        detail = f"this is not base64: {error}"
        fault = {"detail": detail, "pointer": pointer}
        raise ProblemError(invalid(f"{pointer}: {detail}", fault)) from error
    return Upload(data=data, media_type=attachment.media_type, file_name=attachment.file_name or "")
