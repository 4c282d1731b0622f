"""Has PDFs and office files read as text by a process of its own, see `document_program`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final, cast

import anyio.to_thread
from msgspec import Struct

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.files.document_program import Answer
from everturn_gateway.tools.helper_process import HelperFailedError, run_helper
from everturn_gateway.tools.wording import counted, shown

READ_MAX_BYTES: Final = 32 * 1024 * 1024  # of one document
TEXT_CHARACTERS: Final = 2_000_000
DEADLINE_S: Final = 45.0  # below that of the call
INSTALL: Final = "pip install 'everturn[documents]'"
_PROGRAM: Final = Path(__file__).with_name("document_program.py")
_HEAD_BYTES: Final = 16_384
_BYTES_PER_CHARACTER: Final = 4
_PDF: Final = "application/pdf"
_OPEN_XML: Final = "application/vnd.openxmlformats-officedocument."
_OPEN_DOCUMENT: Final = "application/vnd.oasis.opendocument."
_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".pdf": _PDF,
        ".docx": f"{_OPEN_XML}wordprocessingml.document",
        ".pptx": f"{_OPEN_XML}presentationml.presentation",
        ".xlsx": f"{_OPEN_XML}spreadsheetml.sheet",
        ".odt": f"{_OPEN_DOCUMENT}text",
        ".ods": f"{_OPEN_DOCUMENT}spreadsheet",
        ".odp": f"{_OPEN_DOCUMENT}presentation",
        ".epub": "application/epub+zip",
    }
)
_BEGINNINGS: Final = (b"%PDF", b"PK\x03\x04")
_HEAD: Final = 1024  # where a PDF may begin; readers are lenient
_PAGES: Final = re.compile(r"([0-9]{1,6})(?:\s*-\s*([0-9]{0,6}))?")


class Pages(Struct, frozen=True, kw_only=True):
    """Which pages are wanted."""

    first: int = 1
    last: int = 0
    "0 = to the end."


def is_named_document(path: str) -> bool:
    """Return whether the name of a file is that of a document."""
    return PurePosixPath(path).suffix.lower() in _TYPES


def is_document(path: str, data: bytes) -> bool:
    """Return whether a file is a document by its name and its beginning."""
    return is_named_document(path) and any(each in data[:_HEAD] for each in _BEGINNINGS)


def pages_of(text: str) -> Pages:
    """Return the pages that a call asks for: `3`, `2-5`, `7-`, or all where it names none.

    Raises:
        ToolFailedError: It is none of these.
    """
    if not text.strip():
        return Pages()
    found = _PAGES.fullmatch(text.strip())
    if found is None or int(found[1]) < 1:
        msg = "pages: write 3, 2-5 or 7-"
        raise ToolFailedError(msg)
    first = int(found[1])
    last = first if found[2] is None else int(found[2] or 0)
    if last and last < first:
        msg = f"pages: {last} comes before {first}"
        raise ToolFailedError(msg)
    return Pages(first=first, last=last)


async def text_of(
    path: str, data: bytes, wanted: Pages, environ: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """Return the text of a document, and what a reader has to know of it.

    Args:
        path: The file, for its kind and for errors.
        data: Its bytes.
        wanted: Which of its pages.
        environ: The gateway's environment, see `run_helper`.

    Raises:
        ToolFailedError: It cannot be read; the text says why.
    """
    name, size = shown(path), counted(len(data), "byte")
    if await anyio.to_thread.run_sync(find_spec, "kreuzberg") is None:
        msg = f"{name} ({size}) is a document; to read it, its owner has to install: {INSTALL}"
        raise ToolFailedError(msg)
    media_type = _TYPES[PurePosixPath(path).suffix.lower()]
    order = {
        "media_type": media_type,
        "is_paged": media_type == _PDF,
        "first": wanted.first,
        "last": wanted.last,
        "limit_characters": TEXT_CHARACTERS,
    }
    limit_bytes = TEXT_CHARACTERS * _BYTES_PER_CHARACTER + _HEAD_BYTES
    try:
        head, text = await run_helper(
            _PROGRAM, order, data, environ, limit_bytes=limit_bytes, deadline_s=DEADLINE_S
        )
    except TimeoutError as error:
        msg = f"{name} ({size}) could not be read within {DEADLINE_S:g} s"
        raise ToolFailedError(msg) from error
    except HelperFailedError as error:
        msg = f"{name} ({size}) is more than the reader can bear, and cannot be read"
        raise ToolFailedError(msg) from error
    answer = cast("Answer", head)
    _check(name, size, answer, wanted)
    return text.decode("utf-8", "replace"), tuple(_notes(answer, wanted, text))


def _check(name: str, size: str, answer: Answer, wanted: Pages) -> None:
    if answer["error"] == "locked":
        msg = f"{name} ({size}) is locked with a password, and cannot be read"
        raise ToolFailedError(msg)
    if answer["error"]:
        msg = f"{name} ({size}) is damaged or not what its name says, and cannot be read"
        raise ToolFailedError(msg)
    if wanted != Pages() and not answer["pages"]:
        msg = f"pages: {name} has no pages that could be told apart; use offset"
        raise ToolFailedError(msg)
    if wanted.first > max(answer["pages"], 1):
        msg = f"pages: {name} has {counted(answer['pages'], 'page')}"
        raise ToolFailedError(msg)


def _notes(answer: Answer, wanted: Pages, text: bytes) -> list[str]:
    notes = ["its text alone, made for reading; the file itself looks different"]
    if answer["pages"] and wanted == Pages():
        notes.append(f"{counted(answer['pages'], 'page')}; `pages` gives some of them")
    elif answer["pages"]:
        notes.append(f"of {counted(answer['pages'], 'page')}")
    if answer["is_cut"]:
        notes.append(f"only the first {TEXT_CHARACTERS:,} characters")
    if not text.strip():
        notes.append("there is no text in it: its pages may be pictures")
    return notes
