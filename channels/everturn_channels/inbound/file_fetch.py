"""Gets the files that come with a message, within limits of size, time and memory.

A file that cannot be had costs the message nothing but the file: a few words stand for it.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from mimetypes import guess_extension
from typing import Final

import anyio
from anyio import to_thread
from msgspec import Struct

from everturn_actors.errors import InvalidInputError
from everturn_actors.model import IMAGE_TYPES, Upload
from everturn_actors.state.validation import (
    ATTACHMENT_BYTES,
    ATTACHMENTS_MAX,
    FILE_NAME_CHARS,
    check_uploads,
    sniffed,
    sound_seconds,
)
from everturn_channels.adapter import IncomingFile
from everturn_channels.errors import ConnectionLostError, FileTooLargeError
from everturn_channels.languages import t
from everturn_channels.texts import too_large

logger = logging.getLogger(__name__)

AT_ONCE: Final = 4  # messages whose files are held in memory at a time
FETCH_S: Final = 20  # for all files of a message: 20 MB at 8 Mbit/s; its chat waits meanwhile
TRIES: Final = 3
RETRY_S: Final = 0.5  # before the second try, and twice that before the third
MESSAGE_BYTES: Final = 50 * 1024 * 1024  # of all files of a message, so that memory is bounded

_SHOWN_CHARS: Final = 80  # of a file's name, in words
_UNSAFE: Final = re.compile(r"[^\w.-]+")
_ANY_TYPE: Final = "application/octet-stream"


class Fetched(Struct, frozen=True, kw_only=True):
    """What became of one file: it is here, or words say why it is not."""

    name: str
    "What to call it to people; never empty."
    upload: Upload | None = None
    why_not: Callable[[], str] = str
    "Says it in the language that is spoken, as a part of a sentence: `larger than 20 MB`."


async def fetch_files(
    files: Sequence[IncomingFile], *, limit_bytes: int, retry_s: float = RETRY_S
) -> tuple[Fetched, ...]:
    """Return what became of each file, in their order, within `FETCH_S`.

    What goes wrong with one of them is said in words and logged; nothing is raised.

    Args:
        files: Of one message.
        limit_bytes: The largest that is taken.
        retry_s: How long to wait before the second try.
    """
    # No setting makes it more than a session keeps.
    limit_bytes = min(limit_bytes, ATTACHMENT_BYTES)
    left_bytes = MESSAGE_BYTES
    fetched: list[Fetched] = []
    with anyio.move_on_after(FETCH_S):
        for number, file in enumerate(files, 1):
            name = clean_name(file.file_name)
            shown = shown_name(name, number)
            if number > ATTACHMENTS_MAX:
                # Named all the same: its sender has to know.
                fetched.append(Fetched(name=shown, why_not=_too_many))
                continue
            data, why_not = await _fetch(file, limit_bytes, left_bytes, retry_s)
            if data is None:
                fetched.append(Fetched(name=shown, why_not=why_not))
                continue
            left_bytes -= len(data)
            upload = _upload(data, file, name)
            if upload is None:
                fetched.append(Fetched(name=shown, why_not=_is_empty))
            else:
                fetched.append(Fetched(name=shown, upload=upload))
    for number, file in enumerate(files[len(fetched) :], len(fetched) + 1):
        shown = shown_name(clean_name(file.file_name), number)
        fetched.append(Fetched(name=shown, why_not=_too_late))
    return tuple(fetched)


async def saved_name(upload: Upload) -> str:
    """Return a name for a file that no other has: the same bytes always get the same."""

    def derive() -> str:
        digest = sha256(upload.data).hexdigest()[:12]
        name = _UNSAFE.sub("_", upload.file_name).strip("._")[-_SHOWN_CHARS:]
        # Reads files of the system where it is asked first.
        return f"{digest}-{name}" if name else f"{digest}{guess_extension(upload.media_type) or ''}"

    return await to_thread.run_sync(derive)


def clean_name(name: str) -> str:
    """Return the name of a file as a conversation keeps it: no path, no marks of control."""
    last = re.split(r"[/\\]", name)[-1]  # a path of the sender's machine means nothing here
    kept = "".join(c for c in last if unicodedata.category(c)[0] != "C" and c not in "\u2028\u2029")
    kept = kept.strip()
    if kept in {"", ".", ".."}:
        return ""
    stem, dot, ending = kept.rpartition(".")
    if len(kept) <= FILE_NAME_CHARS:
        return kept
    return f"{stem[: FILE_NAME_CHARS - 20]}{dot}{ending[:19]}" if stem else kept[:FILE_NAME_CHARS]


def shown_name(name: str, number: int) -> str:
    """Return what to call a file in a sentence; `number` is its place in its message, from 1."""
    if not name:
        return f"file {number}"
    return name if len(name) <= _SHOWN_CHARS else f"{name[: _SHOWN_CHARS - 1]}…"


async def _fetch(
    file: IncomingFile, limit_bytes: int, left_bytes: int, retry_s: float
) -> tuple[bytes | None, Callable[[], str]]:
    """Return the bytes of a file, or None and why there are none."""
    why_large = partial(too_large, limit_bytes)
    if left_bytes < limit_bytes:
        limit_bytes = left_bytes
        why_large = partial(too_large, MESSAGE_BYTES, with_others=True)
    # The platform said so: nothing has to be fetched to know it.
    if (file.size_bytes or 0) > limit_bytes:
        return None, why_large
    for tried in range(1, TRIES + 1):
        try:
            data = await file.fetch(limit_bytes)
        except FileTooLargeError:
            return None, why_large
        except ConnectionLostError as error:
            logger.warning(
                "a file could not be fetched", extra={"tried": tried, "error": str(error)}
            )
            if tried < TRIES:
                await anyio.sleep(retry_s * tried)
        except Exception:  # the boundary around one file: its message goes on without it
            logger.exception("a file could not be fetched", extra={"tried": tried})
            break
        else:
            # The platform may have told another size.
            return (data, str) if len(data) <= limit_bytes else (None, why_large)
    return None, _not_fetched


def _too_many() -> str:
    return t("one too many, at most {count} files are taken at once", count=ATTACHMENTS_MAX)


def _is_empty() -> str:
    return t("empty")


def _too_late() -> str:
    return t("not here within {count} seconds", count=int(FETCH_S))


def _not_fetched() -> str:
    return t("it could not be fetched")


def _upload(data: bytes, file: IncomingFile, name: str) -> Upload | None:
    """Return a file in the form that a conversation takes; None for one without any bytes.

    Platforms guess types from names: where the bytes of an image say otherwise, they are believed.
    """
    if not data:
        return None
    told = file.media_type.partition(";")[0].strip().lower()
    found = sniffed(data)
    if found or told in IMAGE_TYPES:
        # Called an image and none: a model's API refuses the whole request for it.
        told = found or _ANY_TYPE
    upload = Upload(
        data=data,
        media_type=told,
        file_name=name,
        is_voice=file.is_voice,
        duration_s=sound_seconds(file.duration_s),
    )
    try:
        check_uploads([upload])
    except InvalidInputError as error:
        logger.info("a file is taken without its type and name", extra={"error": str(error)})
        return Upload(data=data)  # better without a name than not at all
    return upload
