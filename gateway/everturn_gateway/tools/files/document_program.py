"""Makes text of a PDF or an office file. A program of its own: `documents` starts it.

It reads one line of JSON (see `Order`) and then the bytes; it writes one line of JSON (see
`Answer`) and then the text in UTF-8, each page behind a line that tells its number.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from contextlib import suppress
from typing import Any, BinaryIO, Final, TypedDict

MEMORY_BYTES: Final = 2 * 1024**3
CPU_S: Final = 40
_OPTIONS: Final[dict[str, Any]] = {
    "use_cache": False,
    "disable_ocr": True,  # it would look for programs and models on the machine
    "output_format": "markdown",
}
_LOCKED: Final = ("password", "encrypted")


class Order(TypedDict):
    """What is to be done with the bytes."""

    media_type: str
    first: int
    "The first page that is wanted, from 1."
    last: int
    "The last; 0 = to the end."
    is_paged: bool
    "Whether the format has pages: of others, those that are told apart are a guess."
    limit_characters: int
    "Of the text."


class Answer(TypedDict):
    """What stands before the text."""

    pages: int
    "How many there are; 0 where the format knows none."
    is_cut: bool
    "Whether there would be more text than the limit."
    error: str
    "Why there is no text: locked, damaged, or empty where there is one."


def work(order: Order, data: bytes) -> tuple[Answer, str]:
    """Return what stands before the text, and the text."""
    import kreuzberg  # of an extra

    pages_told = kreuzberg.PageConfig(extract_pages=True)
    config = kreuzberg.ExtractionConfig(**_OPTIONS, pages=pages_told)
    try:
        result = kreuzberg.extract_bytes_sync(data, order["media_type"], config)
    except kreuzberg.KreuzbergError as error:
        is_locked = any(word in str(error).lower() for word in _LOCKED)
        return Answer(pages=0, is_cut=False, error="locked" if is_locked else "damaged"), ""
    pages = [(page["page_number"], page["content"]) for page in result.pages or ()]
    if any(text.strip() for _, text in pages) and (len(pages) > 1 or order["is_paged"]):
        last = order["last"] or len(pages)
        shown = [(n, text) for n, text in pages if order["first"] <= n <= last]
        text = "\n\n".join(f"--- page {n} ---\n{text.strip()}" for n, text in shown) + "\n"
    else:
        pages, text = [], result.content
    limit = order["limit_characters"]
    return Answer(pages=len(pages), is_cut=len(text) > limit, error=""), text[:limit]


def load_pdf_library() -> None:
    """Load the native library that reads PDFs, while this process may still write files.

    kreuzberg unpacks the library below the folder for temporary files, by a name that is the same
    for all programs of all users, and loads what it finds there. So it gets a folder of its own,
    which can go as soon as the library is loaded.
    """
    import kreuzberg  # of an extra

    with tempfile.TemporaryDirectory(prefix="everturn-pdf-") as folder:
        os.environ["TMPDIR"] = folder
        with suppress(kreuzberg.KreuzbergError):  # the beginning of a PDF is none
            kreuzberg.extract_bytes_sync(b"%PDF-", "application/pdf")


def limit_itself() -> None:
    """Bound memory, time and reach of this process, as far as the system can."""
    limits = {resource.RLIMIT_CPU: CPU_S, resource.RLIMIT_AS: MEMORY_BYTES}
    for kind, limit in (limits | {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}).items():
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (limit, limit))


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Do one piece of work, within limits. Fails with a traceback, which nobody reads."""
    order: Order = json.loads(source.readline())
    if order["is_paged"]:
        load_pdf_library()
    limit_itself()
    answer, text = work(order, source.read())
    sink.write(json.dumps(answer).encode() + b"\n" + text.encode("utf-8", "replace"))


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
