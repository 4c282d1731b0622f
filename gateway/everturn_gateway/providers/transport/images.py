"""The images of one reply while they arrive, as text that holds them. Pure: no IO."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from typing import Final

from everturn_actors.errors import ModelTransientError
from everturn_actors.json_values import is_list, is_object
from everturn_actors.model import Upload
from everturn_actors.state.validation import sniffed

IMAGES_MOST: Final = 100  # of one reply; no model makes that many
IMAGES_LIMIT_CHARS: Final = 32 * 1024 * 1024  # of all images of a reply, as base64
_READ_CHARS: Final = 4 * IMAGES_LIMIT_CHARS  # with those that come again, or are too many
_PART_CHARS: Final = 64  # what each counts for beside its text, so that empty ones end as well
LARGE_CHARS: Final = 256 * 1024  # more takes a millisecond to decode
_SLICE_CHARS: Final = 256 * 1024  # of base64, as 4 characters are 3 bytes
_TOO_LARGE: Final = f"the images of one reply may have {IMAGES_LIMIT_CHARS >> 20} MiB as base64"


class ReplyImages:
    """Collects the images of one reply. Each counts once, however often it comes.

    Whatever comes in the place of an image, the reply goes on: what cannot be used is told.
    Errors begin with `where`.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._read_chars = 0
        self.chars = 0
        "Of those that are kept."
        self._encoded: list[str] = []
        "As they came."
        self._lost: dict[object, str] = {}
        self._over = 0
        self._decoded: tuple[Upload, ...] | None = None

    def take_all(self, images: object) -> None:
        """Take a list of parts that hold an image each; see `image_in`.

        Raises:
            ModelTransientError: See `take`.
        """
        listed = images if is_list(images) else [images] if images else []
        for each in listed[:IMAGES_MOST]:
            self.take(image_in(each))
        self._over += len(listed[IMAGES_MOST:])

    def take(self, encoded: object) -> None:
        """Take an image: base64, or an address that holds it (`data:...`). None is fetched.

        Raises:
            ModelTransientError: They do not end.
        """
        if not isinstance(encoded, str):
            self.lose("it came in a form that is not understood")
            return
        self._read_chars += _PART_CHARS + len(encoded)
        if self._read_chars > _READ_CHARS:
            msg = f"{self._where}: its images do not end"
            raise ModelTransientError(msg)
        if encoded in self._encoded:  # compares the lengths first, and needs no hash of megabytes
            return
        if len(self._encoded) == IMAGES_MOST:
            self._over += 1
        elif self.chars + len(encoded) > IMAGES_LIMIT_CHARS:
            self.lose(_TOO_LARGE, len(encoded))
        else:
            self.chars += len(encoded)
            self._encoded.append(encoded)

    def lose(self, why: str, which: object = None) -> None:
        """Take note of an image that cannot be had; the same one is told of once."""
        if len(self._lost) < IMAGES_MOST:
            self._lost.setdefault((why, which), why)

    def decode(self) -> None:
        """Make bytes of them, once all have come. For 20 MiB, 60 ms: call it in a thread."""
        self._decoded = tuple(self._made())
        self._encoded.clear()

    @property
    def made(self) -> tuple[Upload, ...]:
        """The images; nobody has looked whether they are any."""
        if self._decoded is None:
            self.decode()
        assert self._decoded is not None
        return self._decoded

    @property
    def lost(self) -> tuple[str, ...]:
        """Why there are not more, in words for people."""
        if self._decoded is None:
            self.decode()
        over = f"{self._over} more than {IMAGES_MOST} were not looked at"
        return (*self._lost.values(), *((over,) if self._over else ()))

    def _made(self) -> Iterable[Upload]:
        number = 0
        for text in self._encoded:
            try:
                data = _bytes_of(text)
            except ValueError:
                is_address = text[:8].lower().startswith(("http://", "https://"))
                self.lose("it is an address" if is_address else "it is no base64", text)
                continue
            number += 1
            kind = sniffed(data) or "image/png"
            name = f"image-{number}.{kind.removeprefix('image/')}"
            yield Upload(data=data, media_type=kind, file_name=name)


def _bytes_of(encoded: str) -> bytes:
    """Return the bytes in base64, or in an address that holds them.

    In slices: while one is decoded, the event loop does nothing either.

    Raises:
        ValueError: It is no base64.
    """
    begin = encoded.index(",") + 1 if encoded.startswith("data:") else 0
    slices = range(begin, len(encoded), _SLICE_CHARS)
    return b"".join([b64decode(encoded[at : at + _SLICE_CHARS], validate=True) for at in slices])


def image_in(part: object) -> object:
    """Return what a part of type `image_url` holds: an object with the address, or that alone."""
    image = part.get("image_url") if is_object(part) else part
    return image.get("url") if is_object(image) else image
