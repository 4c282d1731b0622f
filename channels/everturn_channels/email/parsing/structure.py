"""The parts of a mail, read in good time whatever its sender made of it. Pure."""

from __future__ import annotations

import re
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from typing import Final

WORK_MAX: Final = 12_000_000
"Lines times the parts that each may end: some seconds. A mail of 40 MiB that people send has less."
_EVERY_LINE: Final = 4

_KIND: Final = re.compile(
    rb"^content-(type|disposition):[ \t]*([\w./+-]*)", re.MULTILINE | re.ASCII
)
_TEXTS: Final = frozenset({b"text/plain", b"text/html", b"multipart/alternative", b"inline"})


def has_files(raw: bytes) -> bool:
    """Whether a mail may hold anything but the text of a person.

    >>> has_files(b"Content-Type: image/png"), has_files(b"Content-Type: text/plain")
    (True, False)
    """
    lower = raw.lower()
    return (
        b"name=" in lower
        or b"name*" in lower
        or any(kind not in _TEXTS for _, kind in _KIND.findall(lower))
    )


def parsed(raw: bytes, work_max: int = WORK_MAX) -> tuple[Message, bool]:
    """Return a mail, and whether only its beginning was read.

    The library compares each line with the boundary of each part that is open: a mail of parts
    within parts, with short lines, would take it hours.
    """
    lines_max = work_max // (raw.lower().count(b"boundary") + _EVERY_LINE)
    is_cut = _lines(raw) > lines_max
    if is_cut:
        raw = b"\n".join(raw.split(b"\n", lines_max)[:lines_max])
        if _lines(raw) > lines_max:  # it ends lines in another way
            raw = raw[:lines_max]
    return BytesParser(policy=compat32).parsebytes(raw), is_cut


def _lines(raw: bytes) -> int:
    return raw.count(b"\n") + raw.count(b"\r") - raw.count(b"\r\n")
