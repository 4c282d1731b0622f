"""Scales one image to what models take. A program of its own: `scaling` starts it.

It reads one line of JSON (see `Order`) and then the bytes; it writes one line of JSON (see
`Answer`) and then the image, or nothing where the bytes may stay as they are.
"""

from __future__ import annotations

import io
import json
import resource
import sys
from contextlib import suppress
from typing import BinaryIO, Final, TypedDict

MEMORY_BYTES: Final = 2 * 1024**3
CPU_S: Final = 20
PIXELS_MAX: Final = 120_000_000  # what decoding takes stays below the memory
_QUALITIES: Final = (90, 75, 55)


class Order(TypedDict):
    """What is to be done with the bytes."""

    side_pixels: int
    "The longer side, at most."
    limit_bytes: int
    "Of the image."
    types: list[str]
    "Media types that may stay as they are."


class Answer(TypedDict):
    """What stands before the bytes."""

    width: int
    height: int
    "Of the image as it was."
    error: str
    "Why it cannot be shown; empty where it can."


def work(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Return what stands before the bytes, and the bytes; none where they may stay."""
    from PIL import Image, ImageOps, UnidentifiedImageError  # of an extra

    Image.MAX_IMAGE_PIXELS = PIXELS_MAX
    try:
        image = Image.open(io.BytesIO(data))
    except UnidentifiedImageError:
        return Answer(width=0, height=0, error="is no image that can be read here"), b""
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return Answer(width=0, height=0, error="has too many pixels"), b""
    width, height = image.size
    if width * height > PIXELS_MAX:
        return Answer(width=width, height=height, error="has too many pixels"), b""
    answer = Answer(width=width, height=height, error="")
    kind = Image.MIME.get(image.format or "", "")
    turned = image.getexif().get(0x0112, 1) != 1
    fits = max(width, height) <= order["side_pixels"] and len(data) <= order["limit_bytes"]
    image.load()  # what breaks off fails here, and not at the model's provider
    if fits and kind in order["types"] and not turned:
        return answer, b""
    shown = ImageOps.exif_transpose(image)
    shown.thumbnail((order["side_pixels"], order["side_pixels"]), Image.Resampling.LANCZOS)
    return answer, _written(shown, order["limit_bytes"])


def _written(image: object, limit_bytes: int) -> bytes:
    """Return an image as a PNG where that is small enough, else as a JPEG."""
    from PIL import Image  # of an extra

    assert isinstance(image, Image.Image)
    sink = io.BytesIO()
    has_alpha = image.has_transparency_data
    if has_alpha or image.mode in {"1", "L", "P"}:
        image.convert("RGBA" if has_alpha else "RGB").save(sink, "PNG", optimize=False)
        if sink.tell() <= limit_bytes:
            return sink.getvalue()
    for quality in _QUALITIES:
        sink = io.BytesIO()
        image.convert("RGB").save(sink, "JPEG", quality=quality)
        if sink.tell() <= limit_bytes:
            break
    return sink.getvalue()


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Do one piece of work and end. Fails with a traceback, which nobody reads."""
    order: Order = json.loads(source.readline())
    answer, image = work(order, source.read())
    sink.write(json.dumps(answer).encode() + b"\n" + image)


def limit_itself() -> None:
    """Bound memory and time of this process, as far as the system can."""
    for kind, limit in ((resource.RLIMIT_CPU, CPU_S), (resource.RLIMIT_AS, MEMORY_BYTES)):
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (limit, limit))


if __name__ == "__main__":
    limit_itself()
    main(sys.stdin.buffer, sys.stdout.buffer)
