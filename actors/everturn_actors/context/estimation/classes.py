"""How many characters of each class a text has, by which a model's tokens are predicted. Pure.

The script-aware estimate of `estimates` has one price for each class, for all models. Here a text
is its counts, and each model has prices of its own: one tokenizer has a token for three digits,
another one for each; one has words in capitals, another none. A character that repeats the one
before it, as in indentation and separator lines, costs little anywhere, so it is a class by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import add, mul
from string import ascii_uppercase, digits
from typing import Final

from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN
from everturn_actors.model import AnyMessage, Attachment, Reply, ToolResult, UserMessage

_SAMPLE_CHARACTERS: Final = 32_768  # of a longer text its beginning tells of the rest
_JOINED_CHARACTERS: Final = 1_000  # a longer text is counted by itself
_SHORT_BYTES: Final = 200  # what a turn brings, mostly: counted class by class in all of it
_JOINED_AT_ONCE: Final = _SAMPLE_CHARACTERS // (_JOINED_CHARACTERS + 1)


def _bytes(first: int, last: int) -> bytes:
    return bytes(range(first, last + 1))


_COMMON = b"etaoinsrhl"  # in every word of a language that is written in Latin letters
_RARE = b"kxjqz"  # mostly in what is no word
_LOWER = bytes(set(_bytes(97, 122)) - {*_COMMON, *_RARE})
_PLAIN = b".,'\"-/:_()"
_SIGNS = bytes(b for b in range(33, 127) if not chr(b).isalnum() and b not in _PLAIN)
# The bytes of each class in ASCII, and in UTF-8 the first bytes of its characters; what a text has
# most of comes first, as each class is counted in what the ones before have left.
# Source: RFC 3629; the Unicode blocks by their first code points.
_ASCII: Final = (
    _COMMON,
    b" ",
    _LOWER,
    digits.encode(),
    _PLAIN,
    ascii_uppercase.encode(),
    _RARE,
    b"\n\t\r\v\f",
    _SIGNS,
    bytes(set(range(32)) - {*b"\n\t\r\v\f"}) + b"\x7f",
)
_OTHERS: Final = (
    _bytes(0xE4, 0xE9),  # Chinese characters
    _bytes(0xD0, 0xD5),  # Cyrillic, Armenian
    _bytes(0xD6, 0xDF),  # Hebrew, Arabic, Syriac, N'Ko
    b"\xe3",  # kana, Chinese punctuation
    _bytes(0xEA, 0xED),  # Hangul, and a few others
    b"\xe0",  # the scripts of India, Thai, Lao
    _bytes(0xC2, 0xC9),  # Latin letters with accents
    _bytes(0xCE, 0xCF),  # Greek
    b"\xe1",  # Ethiopic, Georgian, Khmer, Mongolian, Latin letters with two accents
    b"\xe2",  # punctuation, arrows, boxes, symbols
    _bytes(0xCA, 0xCD),  # phonetic letters, combining accents
    b"\xee\xef",  # full-width forms, private use
    _bytes(0xF0, 0xFF),  # emoji, rare Chinese characters
)
_FOLLOWING: Final = _bytes(0x80, 0xBF)
_JOINT: Final = b"\0"  # a control, which stands between texts that are counted together
_CONTROLS: Final = 9
_BLANKS: Final = _ASCII[1] + _ASCII[7]
_WORDS: Final = b"".join(_ASCII[index] for index in (0, 2, 3, 5, 6))
TEXT_CLASSES: Final = len(_ASCII) + len(_OTHERS)
REPEATS: Final = TEXT_CLASSES
"Of the three classes of repeated characters: blanks, letters and digits, others."
MESSAGES: Final = TEXT_CLASSES + 3
CALLS: Final = MESSAGES + 1
TOOLS: Final = MESSAGES + 2
PROMPT: Final = MESSAGES + 3
"1 for a whole prompt: what a provider puts around and before it."
CLASSES: Final = MESSAGES + 4

_ASCII_CLASSES: Final = range(len(_ASCII))
_CLASS_OF: Final = bytes(
    next((at for at, members in enumerate(_ASCII) if byte in members), 0) for byte in range(256)
)
_NOT_ASCII: Final = (0.0,) * (CLASSES - len(_ASCII))

Counts = list[float]
"By class."

# Tokens a character in the middle of seven tokenizers (OpenAI's o200k and cl100k, Gemma 3, Qwen 3,
# Llama 3.1, DeepSeek 3, Claude as reconstructed by the package ctok) over 44 kinds of text.
USUAL: Final = (
    0.20, 0.06, 0.38, 0.72, 0.38, 0.42, 1.30, 0.85, 0.80, 1.00,
    0.72, 0.34, 0.48, 0.76, 0.80, 0.55, 0.60, 0.55, 1.90, 0.55, 1.35, 1.30, 2.30,
    0.03, 0.30, 0.05,
    4.0, 8.0, 1.0, 8.0,
)  # fmt: skip
# No tokenizer needs less. A report below counts something else, such as what was not cached.
LEAST: Final = (
    0.10, 0.00, 0.12, 0.25, 0.05, 0.12, 0.15, 0.05, 0.10, 0.00,
    0.35, 0.15, 0.18, 0.30, 0.30, 0.15, 0.10, 0.18, 0.20, 0.10, 0.10, 0.20, 0.30,
    0.00, 0.00, 0.00,
    0.0, 0.0, 0.3, 0.0,
)  # fmt: skip


def text_counts(text: str) -> Counts:
    """Return the counts of a text; of a very long one those of its beginning, for all of it."""
    if len(text) > _SAMPLE_CHARACTERS:
        share = len(text) / _SAMPLE_CHARACTERS
        return [share * each for each in text_counts(text[:_SAMPLE_CHARACTERS])]
    raw = text.encode("utf-8", "surrogatepass")
    repeated, rest = _repeated(raw)
    counts = _counted(rest)
    if repeated:
        counts[_CONTROLS] -= len(repeated)  # a zero stands in the place of each
        blanks = len(repeated) - len(repeated.translate(None, _BLANKS))
        words = len(repeated) - len(repeated.translate(None, _WORDS))
        others = len(repeated.translate(None, _FOLLOWING)) - blanks - words
        counts[REPEATS : REPEATS + 3] = [blanks, words, others]
    return counts


def _repeated(raw: bytes) -> tuple[bytes, bytes]:
    """Return the bytes that the next one repeats, and all with zeros in the places of these.

    All at once, as numbers of as many bytes: one by one takes five times as long.
    """
    size = len(raw)
    number = int.from_bytes(raw, "little")
    differs = (number ^ (number >> 8)).to_bytes(size, "little")
    if 0 not in differs:
        return b"", raw
    repeated = number & int.from_bytes(differs.translate(_IS_ZERO), "little")
    rest = (number ^ repeated).to_bytes(size, "little")
    return repeated.to_bytes(size, "little").translate(None, b"\0"), rest


_IS_ZERO: Final = b"\xff" + bytes(255)


def _counted(raw: bytes) -> Counts:
    if len(raw) <= _SHORT_BYTES and raw.isascii():
        return [*map(raw.translate(_CLASS_OF).count, _ASCII_CLASSES), *_NOT_ASCII]
    counts = [0.0] * CLASSES
    # First, though few texts have any: short texts come joined by them, and most of these have
    # nothing but letters, blanks and digits besides.
    left = raw.translate(None, _JOINT)
    joints = len(raw) - len(left)
    for index, members in enumerate(_ASCII):
        if not left:
            break
        rest = left.translate(None, members)
        counts[index] = len(left) - len(rest)
        left = rest
    counts[_CONTROLS] += joints
    if not left:
        return counts
    left = left.translate(None, _FOLLOWING)
    for index, members in enumerate(_OTHERS, len(_ASCII)):
        if not left:
            break
        rest = left.translate(None, members)
        counts[index] = len(left) - len(rest)
        left = rest
    return counts


def message_counts(messages: Iterable[AnyMessage]) -> Counts:
    """Return the counts of messages together: their texts, and what a template writes around.

    The sum is the same in whatever pieces it is made.
    """
    parts: list[str] = []
    number = calls = 0
    for message in messages:
        number += 1
        parts.append(message.text)
        match message:
            case Reply():
                for call in message.calls:
                    calls += 1
                    parts += (call.name, call.arguments)
            case UserMessage():
                parts += _told(message.attachments)
            case ToolResult():
                parts.append(message.name)
                parts += _told(message.attachments)
            case _:
                pass
    counts = _together(parts)
    counts[MESSAGES], counts[CALLS] = number, calls
    return counts


def _together(parts: Sequence[str]) -> Counts:
    """Return the counts of texts. What joins short ones is counted as nothing, and repeats none."""
    if len(parts) <= _JOINED_AT_ONCE and max(map(len, parts), default=0) <= _JOINED_CHARACTERS:
        short = parts  # as mostly: what a turn has brought
        counts = text_counts(_JOINT.decode().join((*parts, "")))
    else:
        short = [part for part in parts if len(part) <= _JOINED_CHARACTERS]
        counts = [0.0] * CLASSES
        for part in (*_joined(short), *[p for p in parts if len(p) > _JOINED_CHARACTERS]):
            counts = added(counts, text_counts(part))
    counts[_CONTROLS] = max(counts[_CONTROLS] - len(short), 0.0)
    return counts


def _joined(parts: Sequence[str]) -> list[str]:
    """Return short texts joined, each piece short enough to be counted whole."""
    joint, starts = _JOINT.decode(), range(0, len(parts), _JOINED_AT_ONCE)
    return [joint.join((*parts[start : start + _JOINED_AT_ONCE], "")) for start in starts]


def _told(attached: Sequence[Attachment]) -> Iterable[str]:
    return [f"{each.file_name}{each.media_type}" for each in attached] if attached else ()


@lru_cache(maxsize=64)  # the same few prompts, for session after session
def prompt_counts(system: str, tools_units: int) -> tuple[float, ...]:
    """Return the counts of what stands before messages; tools by their estimate.

    Args:
        system: The system prompt, with all that stands in it.
        tools_units: What the tool definitions cost by the script-aware estimate.
    """
    counts = text_counts(system)
    counts[TOOLS], counts[PROMPT] = tools_units / UNITS_PER_TOKEN, 1
    return tuple(counts)


def added(one: Sequence[float], two: Sequence[float]) -> Counts:
    """Return two counts together."""
    return list(map(add, one, two))


def priced(counts: Sequence[float], prices: Sequence[float]) -> float:
    """Return what counts cost, in tokens."""
    total: float = sum(map(mul, counts, prices))
    return total
