"""Good input made bad: what a damaged disk, a hostile server or a hasty person makes of it.

`mutated` changes a JSON value at a few places, `torn` changes bytes. Both keep most of what they
are given, so that the fault stands where a reader has begun to trust.
"""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

_DEEP: Final = "\ue000deep"
"Stands for lists in lists, which Python's own writer cannot write; see `as_json`."
_HUGE: Final = "\ue000huge"
"Stands for a number of so many digits that Python does not read it."
_INSIDES: Final = {
    f'"{_DEEP}{depth}"'.encode(): b"[" * depth + b"]" * depth for depth in (60, 300, 3_000, 60_000)
} | {f'"{_HUGE}"'.encode(): b"9" * 5_000}

HOSTILE_TEXTS: Final = (
    *("", " ", "\0", "\r\n", "\r", "\n\n", "\x1b[2J", "\x7f", "\x85", "\u2028", "\ufeff", "\ufffe"),
    *(
        "\ud800",
        "\udc00",
        "a\ud83d",
        "\U0001f600",
        "e\u0301" * 40,
        "\u202e\u2066abc",
        "\u200b\u200d",
    ),
    *(
        "\U000e0041",
        "0",
        "-1",
        "1e9999",
        "nan",
        "true",
        "null",
        "~",
        "2026-13-45",
        "0x_",
        "=",
        "<<",
    ),
    *("../../etc/passwd", "/etc/passwd", "${HOME}", "${", "%s%n", "{{7*7}}", "x" * 5_000),
    *('"', "'", "\\", "`" * 40, "*" * 40, "<" * 40, "[" * 40, "(((((((((" * 9, "a@b", "&a *a"),
    *("9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00", "2026-11-21T22:49:56", "Z"),
)
_NUMBERS: Final = (
    *(0, -1, 1, 2, 100, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 10**300),
    *(0.5, -0.0, 1e17, 1e300, -1e308, float("inf"), float("-inf"), float("nan")),
)
ODD_VALUES: Final[SearchStrategy[Any]] = st.one_of(
    st.sampled_from([None, True, False, [], {}, [[]], [None], {"": None}, {"a": {"a": 1}}]),
    st.sampled_from(_NUMBERS),
    st.sampled_from(HOSTILE_TEXTS),
    st.sampled_from([*(f"{_DEEP}{n}" for n in (60, 300, 3_000, 60_000)), _HUGE]),
)
"What stands where something else is expected. To be written by `as_json`."

_Place = tuple[Any, Any]
"A list or mapping, and an index or key of it."


def as_json(value: object) -> bytes:
    """Return a value as JSON, whatever stands in it: half characters, NaN, very deep lists."""
    data = json.dumps(value, separators=(",", ":")).encode()
    for mark, inside in _INSIDES.items():
        data = data.replace(json.dumps(json.loads(mark)).encode(), inside)
    return data


@st.composite
def mutated(draw: st.DrawFn, value: Any, *, most: int = 3) -> Any:
    """Return a JSON value, changed at one to `most` places. To be written by `as_json`."""
    root = [copy.deepcopy(value)]
    for _ in range(draw(st.integers(1, most))):
        places = _places(root)
        is_whole = len(places) == 1 or draw(st.integers(0, 40)) == 0
        holder, at = places[0 if is_whole else draw(st.integers(1, len(places) - 1))]
        _change(draw, holder, at, places)
    return root[0]


def _change(draw: st.DrawFn, holder: Any, at: Any, places: list[_Place]) -> None:
    old = holder[at]
    match draw(st.integers(0, 9)):
        case 0 | 1 | 2:
            holder[at] = copy.deepcopy(draw(ODD_VALUES))
        case 3:
            other, key = places[draw(st.integers(0, len(places) - 1))]
            holder[at] = copy.deepcopy(other[key])
        case 4 if isinstance(holder, dict):
            del holder[at]
        case 5 if isinstance(holder, dict):
            names = [str(key) for _, key in places]
            name = draw(st.sampled_from([*names, *HOSTILE_TEXTS]))
            holder[name] = holder.pop(at)
        case 4 | 5 if len(holder) > 1:
            del holder[at]
        case 6 if isinstance(holder, list):
            holder.insert(at, copy.deepcopy(old))
        case 7:
            holder[at] = draw(st.sampled_from([[old], {"a": old}, [old, copy.deepcopy(old)]]))
        case 8 if isinstance(old, str):
            cut = draw(st.integers(0, len(old)))
            holder[at] = old[:cut] + draw(st.sampled_from(HOSTILE_TEXTS)) + old[cut:]
        case _ if isinstance(old, int | float) and not isinstance(old, bool):
            holder[at] = draw(
                st.sampled_from([-old, old + 1, old - 1, float(old), str(old), *_NUMBERS])
            )
        case _:
            holder[at] = copy.deepcopy(draw(ODD_VALUES))


def _places(root: list[Any]) -> list[_Place]:
    """Return every place of a value, the whole one first."""
    found: list[_Place] = []
    left: list[Any] = [root]
    while left:
        holder = left.pop()
        keys = range(len(holder)) if isinstance(holder, list) else list(holder)
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], list | dict):
                left.append(holder[key])
    return found


@st.composite
def torn(draw: st.DrawFn, data: bytes, *, tokens: tuple[bytes, ...] = (), most: int = 4) -> bytes:
    """Return bytes with one to `most` of: a bit flipped, a part cut, repeated, moved, put in.

    Args:
        draw: Given by hypothesis.
        data: What is good.
        tokens: What means something to its reader, and may stand anywhere.
        most: The most changes.
    """
    pieces = (*tokens, *(text.encode("utf-8", "surrogatepass") for text in HOSTILE_TEXTS), b"\xff")
    for _ in range(draw(st.integers(1, most))):
        size = len(data)
        begin = draw(st.integers(0, size))
        end = min(size, begin + draw(st.integers(0, 64)))
        match draw(st.integers(0, 6)):
            case 0 if begin < size:
                flipped = data[begin] ^ (1 << draw(st.integers(0, 7)))
                data = data[:begin] + bytes([flipped]) + data[begin + 1 :]
            case 1:
                data = data[:begin] + data[end:]
            case 2:
                times = draw(st.sampled_from([1, 2, 50]))
                data = data[:end] + data[begin:end] * times + data[end:]
            case 3:
                data = data[:begin]
            case 4:
                to = draw(st.integers(0, size))
                data = data[:to] + data[begin:end] + data[to:]
            case _:
                data = data[:begin] + draw(st.sampled_from(pieces)) + data[end:]
    return data


@st.composite
def in_pieces(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Return bytes in pieces, as a network may bring them."""
    cuts = sorted({draw(st.integers(0, len(data))) for _ in range(draw(st.integers(0, 4)))})
    bounds = [0, *cuts, len(data)]
    return [data[a:b] for a, b in pairwise(bounds)]
