"""Real images, small enough to be written out."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from everturn_actors.model import Upload

PNG_TYPE = "image/png"


def png(shade: int = 0, *, padding_bytes: int = 0) -> bytes:
    """Return an image of one grey pixel; `padding_bytes` makes the file larger, not the image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    padding = chunk(b"paDd", b"x" * padding_bytes) if padding_bytes else b""
    pixels = chunk(b"IDAT", zlib.compress(bytes((0, shade))))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + padding + pixels + chunk(b"IEND", b"")


JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffd9")
GIF = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"
WEBP = bytes.fromhex("524946461a000000574542505650384c0d0000002f00000010071011118888fe0700")


def picture(shade: int = 0, *, name: str = "cat.png", padding_bytes: int = 0) -> Upload:
    """Return an image on its way into a conversation."""
    return Upload(data=png(shade, padding_bytes=padding_bytes), media_type=PNG_TYPE, file_name=name)


def body_of(upload: Upload) -> dict[str, Any]:
    """Return a file as the HTTP API takes it."""
    return {
        "media_type": upload.media_type,
        "data": base64.b64encode(upload.data).decode(),
        "file_name": upload.file_name,
    }
