"""What of a mail's text its sender wrote now, and what is quoted from before. Pure.

An answer with the quote below it is the answer alone. Where somebody answers between quoted lines
these stay, since the answer means nothing without them. A mail that passes another one on stays
whole: what is passed on is what it is about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

_QUOTED: Final = re.compile(r"[ \t]{0,3}(>|\|(?= ))")
_SIGNATURE: Final = re.compile(r"--\s?|\\?-\\?-")
_SIGNATURE_LINES: Final = 20
_SENT_FROM: Final = re.compile(
    r"(sent from (my )?|get outlook for |von meinem .* gesendet|gesendet (von|mit) "
    r"|envoyé (de|depuis) |enviado desde |发自我的).{0,60}",
    re.IGNORECASE,
)
_ATTRIBUTION: Final = re.compile(
    r"(on|am|le|el|op|den|em|il) .{5,200}(wrote|schrieb|a écrit|escribió|schreef|skrev|escreveu"
    r"|ha scritto)( .{0,100})?\s?:|.{2,120}(写道|schrieb am .{5,60})\s?[:\uff1a]",
    re.IGNORECASE | re.DOTALL,
)
_ORIGINAL: Final = re.compile(
    r"-{2,}\s*(original message|original appointment|ursprüngliche nachricht|message d'origine"
    r"|mensaje original|原始邮件)\s*-{2,}|_{20,}",
    re.IGNORECASE,
)
_HEADERS: Final = (
    re.compile(r"\**(from|von|de|发件人)\s?[:\uff1a]\**\s?\S", re.IGNORECASE),
    re.compile(
        r"\**(sent|date|gesendet|datum|envoyé|enviado|fecha|发送时间)\s?[:\uff1a]\**", re.IGNORECASE
    ),
)
_PASSED_ON: Final = re.compile(
    r"-{2,}\s*(forwarded message|weitergeleitete nachricht|message transféré"
    r"|mensaje reenviado)\s*-{2,}"
    r"|begin forwarded message:|anfang der weitergeleiteten nachricht:",
    re.IGNORECASE,
)
_PASSING_ON: Final = re.compile(r"\s*(fwd?|wg|tr|rv|转发)\s?[:\uff1a]", re.IGNORECASE)
_BLOCK_LINES: Final = 20
_BLOCK_KEPT: Final = 8


class Written(Struct, frozen=True, kw_only=True):
    """A mail's text, as its sender wrote it now."""

    text: str
    quoted_lines: int = 0
    "Lines of earlier mails that were left out."
    has_signature: bool = False
    "Whether a signature was left out."
    is_forward: bool = False
    "Whether it passes on what somebody else wrote."


def written_in(text: str, subject: str) -> Written:
    """Return what of a text was written now."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if _PASSING_ON.match(subject) or any(_PASSED_ON.match(line.strip()) for line in lines):
        return Written(text="\n".join(lines).strip(), is_forward=True)
    end = _original_at(lines)
    end = _quote_at(lines[:end])
    own = lines[:end]
    left = _count(lines[end:])
    signed = _signature_at(own)
    own, shortened = _shortened(own[:signed])
    return Written(
        text="\n".join(own).strip(),
        quoted_lines=left + shortened,
        has_signature=signed < end,
    )


def _original_at(lines: Sequence[str]) -> int:
    """Return where a mail is copied below the text, with its header fields; the end = nowhere."""
    for at, line in enumerate(lines):
        bare = line.strip()
        following = [each.strip() for each in lines[at + 1 : at + 4] if each.strip()]
        if _ORIGINAL.fullmatch(bare) and following and _HEADERS[0].match(following[0]):
            return at
        if _HEADERS[0].match(bare) and following and any(map(_HEADERS[1].match, following[:2])):
            return at
    return len(lines)


def _quote_at(lines: Sequence[str]) -> int:
    """Return where the quote begins behind which nothing else follows, with who wrote it."""
    at = len(lines)
    while at and (not lines[at - 1].strip() or _QUOTED.match(lines[at - 1])):
        at -= 1
    # A signature may stand below the quote.
    if at == len(lines) or not any(_QUOTED.match(line) for line in lines[at:]):
        signed = _signature_at(lines)
        if signed == len(lines) or not any(_QUOTED.match(each) for each in lines[:signed]):
            return _attribution_at(lines, len(lines)) if at == len(lines) else len(lines)
        found = _quote_at(lines[:signed])
        return found if found < signed else len(lines)
    return _attribution_at(lines, at)


def _attribution_at(lines: Sequence[str], at: int) -> int:
    """Return where the words "… wrote:" begin that stand before a place; else that place."""
    before = at
    while before and not lines[before - 1].strip():
        before -= 1
    for count in (1, 2, 3):  # some programs break them
        first = before - count
        if first >= 0 and _ATTRIBUTION.fullmatch(" ".join(lines[first:before]).strip()):
            return first
    return at


def _signature_at(lines: Sequence[str]) -> int:
    """Return where a signature begins; the end = there is none."""
    first = max(len(lines) - _SIGNATURE_LINES, 0)
    for at in range(len(lines) - 1, first - 1, -1):
        if _SIGNATURE.fullmatch(lines[at].rstrip("\n")) and lines[at].strip():
            return at
    last = len(lines)
    while last and not lines[last - 1].strip():
        last -= 1
    if last and _SENT_FROM.fullmatch(lines[last - 1].strip()):
        return last - 1
    return len(lines)


def _shortened(lines: Sequence[str]) -> tuple[list[str], int]:
    """Return lines with long quotes between them cut to their ends, and how many went."""
    kept: list[str] = []
    block: list[str] = []
    left = 0
    for line in (*lines, None):
        if line is not None and _QUOTED.match(line):
            block.append(line)
            continue
        if len(block) > _BLOCK_LINES:
            left += len(block) - _BLOCK_KEPT
            block = ["> […]", *block[-_BLOCK_KEPT:]]
        kept += block
        block = []
        if line is not None:
            kept.append(line)
    return kept, left


def _count(lines: Sequence[str]) -> int:
    return sum(bool(line.strip()) for line in lines)
