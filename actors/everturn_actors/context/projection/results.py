"""Making one text shorter, with a marker that says so. Pure.

Source: the seed designs "Context Window Management", layer 3a (head, tail, both), and "Context
Management" of BaseAgent (middle-out); the markers are exact. `keep_ends` is the default policy's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, text_units
from everturn_actors.context.estimation.tokens import BYTES_PER_TOKEN, estimate_text
from everturn_actors.context.projection.markers import whole_tokens

Shape: TypeAlias = Literal["head", "tail", "both"]
"Which part of a long text stays."

MIDDLE_MARKER = "\n\n[...truncated...]\n\n"
_MIDDLE_ROOM_CHARACTERS = 50  # of each half, for the marker
_NEAR = 8  # a line that ends in the last eighth is a better place to cut
_CUT = re.compile(r"\[truncated: kept (?:first|last|first\+last) ~(\d+) of ~\d+ tokens \((\w+)\)\]")


def truncate_head(text: str, max_tokens: int) -> str:
    """Return `text` if it is at most `max_tokens`, else its head of that size and the marker.

    The marker comes on top of `max_tokens`.
    """
    size = estimate_text(text)
    if size <= max_tokens:
        return text
    return _head(_bytes(text), max_tokens * BYTES_PER_TOKEN) + _marker(max_tokens, size)


def truncate(text: str, max_tokens: int, shape: Shape) -> str:
    """Return `text` if it is at most `max_tokens`, else its part of that size and the marker.

    A text that was cut to the same size before comes back as it is, so that cutting twice is
    cutting once.
    """
    size = estimate_text(text)
    if size <= max_tokens or _is_truncated(text, max_tokens, shape):
        return text
    keep, raw = max_tokens * BYTES_PER_TOKEN, _bytes(text)
    match shape:
        case "head":
            return truncate_head(text, max_tokens)
        case "tail":
            marker = f"[truncated: kept last ~{max_tokens} of ~{size} tokens (tail)]"
            return f"{marker}\n\n{_tail(raw, keep)}"
        case "both":
            marker = f"[truncated: kept first+last ~{max_tokens} of ~{size} tokens (both)]"
            return f"{_head(raw, keep // 2)}\n\n{marker}\n\n{_tail(raw, keep // 2)}"


def middle_out(text: str, max_tokens: int) -> str:
    """Return `text` if it has at most four characters for each token, else its two ends.

    Each end has half the characters less 50; where that leaves none, only the marker stays.
    """
    max_characters = max_tokens * BYTES_PER_TOKEN
    if len(text) <= max_characters or text == MIDDLE_MARKER:
        return text
    keep = max(max_characters // 2 - _MIDDLE_ROOM_CHARACTERS, 0)
    return f"{text[:keep]}{MIDDLE_MARKER}{text[-keep:] if keep else ''}"


def keep_ends(text: str, max_units: int, shape: Shape, marker: Callable[[int, int], str]) -> str:
    """Return `text` if it costs at most `max_units`, else its ends of that cost, and the marker.

    The marker is part of what it may cost; where it alone costs more, it alone stays. An end is cut
    between lines, where one ends near.

    Args:
        text: Of any length.
        max_units: Of the script-aware estimate.
        shape: Which end stays.
        marker: From the tokens that stay, and those of the text, to the marker.
    """
    size = text_units(text)
    if size <= max_units:
        return text
    whole = whole_tokens(text) or -(-size // UNITS_PER_TOKEN)
    room = max_units - text_units(marker(whole, whole)) - text_units("\n\n\n\n")
    keep = len(text) if room > 0 else 0
    head = tail = ""
    cost = size
    while keep > 0 and cost > room:
        keep = min(keep * room // cost, keep - 1)
        head, tail = _ends(text, keep, shape)
        cost = text_units(head) + text_units(tail)
    shown = marker(-(-cost // UNITS_PER_TOKEN) if keep > 0 else 0, whole)
    return "\n\n".join(part for part in (head, shown, tail) if part)


def _ends(text: str, keep: int, shape: Shape) -> tuple[str, str]:
    """Return the beginning and the end of `text`, `keep` characters or a little less."""
    first = {"head": keep, "tail": 0, "both": keep - keep // 2}[shape]
    head, tail = text[:first], text[len(text) - (keep - first) :]
    near = head.rfind("\n", first - first // _NEAR)
    head = head[:near] if near > 0 else head
    near = tail.find("\n", 0, len(tail) // _NEAR)
    return head, tail[near + 1 :]


def shorten(text: str, *, excess_tokens: int, floor_tokens: int) -> str:
    """Return the head of `text` and the marker, cheaper than `text` by at least `excess_tokens`.

    At least `floor_tokens` of it stay, so that it may be cheaper by less. Where it would not be
    cheaper at all, it comes back as it is.
    """
    size = estimate_text(text)
    marker_tokens = (
        estimate_text(_marker(size, size)) + 1
    )  # 1: floors of two parts and of their sum
    kept = max(size - excess_tokens - marker_tokens, floor_tokens)
    return text if kept + marker_tokens >= size else truncate_head(text, kept)


def _marker(kept_tokens: int, size_tokens: int) -> str:
    return f"\n\n[truncated: kept first ~{kept_tokens} of ~{size_tokens} tokens (head)]"


def _is_truncated(text: str, max_tokens: int, shape: Shape) -> bool:
    """Say whether `truncate` made `text` with the same numbers."""
    return any(
        match[1] == str(max_tokens)
        and match[2] == shape
        and len(_bytes(text[: match.start()] + text[match.end() :]))
        <= max_tokens * BYTES_PER_TOKEN + len("\n\n\n\n")
        for match in _CUT.finditer(text)
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _head(raw: bytes, keep: int) -> str:
    # Bytes cut inside a character: what is left of it goes too.
    return raw[:keep].decode("utf-8", "ignore")


def _tail(raw: bytes, keep: int) -> str:
    return raw[max(len(raw) - keep, 0) :].decode("utf-8", "ignore")
