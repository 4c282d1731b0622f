"""What a turn is told of what was said before it and not to it, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from everturn_actors.model import PendingAmbient, UserMessage

_HEAD = "[Said here before, not to you:]"
_FOOT = "[Now to you:]"
_LEFT_OUT = "[{} before these are left out.]"
_SHORTENED = "[shortened]"
_TOKEN_BYTES = 4  # of plain text, roughly
_TOLD_BYTES = (1_000, 64_000)  # the least and the most, whatever the window
_TOLD_AT_LEAST = 4  # messages: none takes more than such a part of what a turn is told
_TITLE_CHARACTERS: Final = 80
_ROUND: Final = str.maketrans("[]", "()")
_BLANKS: Final = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")  # letters that show nothing


def with_ambient(
    users: tuple[UserMessage, ...], told: Sequence[PendingAmbient], limit_bytes: int = 0
) -> tuple[UserMessage, ...]:
    """Return the messages of a turn, the first of them with what was said before and not to it.

    Args:
        users: What is said to it.
        told: What was not, oldest first.
        limit_bytes: Of that, as UTF-8: the newest is told, and how many are not; 0 = all is.
    """
    if not told:
        return users
    first = users[0]
    texts = _newest([each.text for each in told], limit_bytes)
    lines = "\n".join((_HEAD, *texts, _FOOT))
    text = f"{lines}\n{first.text}" if first.text else lines
    untrusted = first.untrusted or any(each.untrusted for each in told)
    return (replace(first, text=text, untrusted=untrusted), *users[1:])


def ambient_bytes(window_tokens: int) -> int:
    """Return how much a turn is told of what was not said to it, as UTF-8: an eighth of the window.

    What is said to it stands behind that in one message, and must not be what is shortened.
    """
    return min(max(window_tokens * _TOKEN_BYTES // 8, _TOLD_BYTES[0]), _TOLD_BYTES[1])


def _newest(texts: Sequence[str], limit_bytes: int) -> list[str]:
    """Return the newest texts that fit, oldest first, and a line for those that do not."""
    if not limit_bytes:
        return list(texts)
    kept: list[str] = []
    left_bytes = limit_bytes
    for text in reversed(texts):
        short = _shortened(text, limit_bytes // _TOLD_AT_LEAST)
        left_bytes -= len(short.encode("utf-8", "replace")) + 1  # and the end of its line
        if left_bytes < 0:
            break
        kept.append(short)
    left = len(texts) - len(kept)
    return [*([_LEFT_OUT.format(left)] if left else []), *reversed(kept)]


def _shortened(text: str, most_bytes: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= most_bytes:
        return text
    return f"{data[:most_bytes].decode('utf-8', 'ignore')} {_SHORTENED}"


def as_announced(title: str, text: str) -> str:
    """Return how a turn is told of an announcement: that it was said, and that the agent did.

    Lines in brackets are ours: one of the text that could pass for such a line gets a backslash.
    """
    shown = "".join(char for char in title if char.isprintable()).translate(_ROUND)
    name = " ".join(shown[:_TITLE_CHARACTERS].split())
    head = f"[{name} said here, in your name:]" if name else "[Said here, in your name:]"
    said = "\n".join(map(_guarded, text.splitlines()))
    return f"{head} {said}"


def _guarded(line: str) -> str:
    seen = (n for n, char in enumerate(line) if char.isprintable() and not _is_blank(char))
    start = next(seen, len(line))
    if line.startswith("[", start) and "]" in line:
        return f"{line[:start]}\\{line[start:]}"
    return line


def _is_blank(char: str) -> bool:
    return char.isspace() or char in _BLANKS
