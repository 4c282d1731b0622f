"""What was said, written out: for the model that summarises it, and for people. Pure.

Every line that somebody else wrote is indented or quoted; only what stands at the beginning of a
line is ours. So no text can pass itself off as another message, or as the end of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from textwrap import indent
from typing import Final, assert_never

from everturn_actors.context.estimation.estimates import text_units
from everturn_actors.model import AnyMessage, Notice, Reply, ToolResult, Turn, UserMessage

INDENT: Final = "  "
OMISSION: Final = "[... middle of conversation omitted ...]"

_RESULT_CHARACTERS = 2_000
_ARGUMENTS_CHARACTERS = 1_000
_NAME_CHARACTERS = 80
_HEAD_DIVISOR = 4  # the first quarter stays, and the last three
_PIECE_CHARACTERS = 4_096


def transcript(turns: Iterable[Turn]) -> str:
    """Return all messages of `turns`, long results and arguments shortened to their beginning."""
    return "\n".join(line for turn in turns for line in _told(turn))


def markdown(turns: Iterable[Turn]) -> str:
    """Return all messages of `turns`, whole, as Markdown with a heading for each turn."""
    return "\n\n".join(part for turn in turns for part in _shown(turn))


def quoted(text: str) -> str:
    """Return a text as a quotation in Markdown."""
    return indent(text, "> ", lambda _line: True)


def speaker(message: AnyMessage) -> str:
    """Return who says a message, in one line: `user (alice)`, `result of bash`."""
    match message:
        case UserMessage(sender=sender):
            return f"user ({one_line(sender)})" if sender else "user"
        case Reply():
            return "assistant"
        case ToolResult(name=name, is_error=is_error):
            return f"{'error' if is_error else 'result'} of {one_line(name)}"
        case Notice():
            return "notice"
        case _:
            assert_never(message)


def one_line(text: str) -> str:
    """Return the beginning of a name or another short text, without line ends."""
    return " ".join(text[:_NAME_CHARACTERS].split())


def shortened(text: str, limit_characters: int) -> str:
    """Return the beginning of `text`, and how much more there is."""
    if len(text) <= limit_characters:
        return text
    return f"{text[:limit_characters]} [... {len(text) - limit_characters:,} more characters]"


def without_middle(text: str, limit_units: int) -> str:
    """Return `text` if it costs no more than that, else its first quarter and last three.

    Of the allowed size, that is, around `OMISSION`. Lines that are indented stay it.
    """
    if text_units(text) <= limit_units:
        return text
    room = limit_units - text_units(f"\n{OMISSION}\n{INDENT}")
    if room <= 0:
        return OMISSION
    head = _beginning(text, room // _HEAD_DIVISOR)
    tail = _beginning(text[::-1], room - room // _HEAD_DIVISOR)[::-1]
    begins_inside = text[len(text) - len(tail) - 1] != "\n"
    return f"{head}\n{OMISSION}\n{INDENT if begins_inside else ''}{tail}"


def _beginning(text: str, limit_units: int) -> str:
    """Return the longest beginning of `text` that costs at most so much."""
    for at in range(0, len(text), _PIECE_CHARACTERS):
        piece = text[at : at + _PIECE_CHARACTERS]
        cost = text_units(piece)
        if cost > limit_units:
            sizes = range(len(piece) + 1)
            fits = bisect_right(sizes, limit_units, key=lambda size: text_units(piece[:size]))
            return text[: at + fits - 1]
        limit_units -= cost
    return text


def _told(turn: Turn) -> Iterator[str]:
    ended = "" if turn.outcome == "answered" else f", {turn.outcome}"
    why = f": {one_line(turn.error)}" if turn.error else ""
    yield f"Turn {turn.number}{ended}{why}"
    for message in turn.messages:
        yield f"{speaker(message)}:"
        match message:
            case ToolResult(text=text):
                yield indent(shortened(text, _RESULT_CHARACTERS), INDENT)
            case Reply(text=text, calls=calls):
                yield indent(text, INDENT)
                for call in calls:
                    yield f"assistant calls {one_line(call.name)}:"
                    yield indent(shortened(call.arguments, _ARGUMENTS_CHARACTERS), INDENT)
            case UserMessage(as_text=text) | Notice(text=text):
                yield indent(text, INDENT)
            case _:
                assert_never(message)


def _shown(turn: Turn) -> Iterator[str]:
    yield f"## Turn {turn.number}"
    for message in turn.messages:
        yield f"**{speaker(message)}** (event {message.seq})"
        text = message.as_text if isinstance(message, UserMessage) else message.text
        if text:
            yield quoted(text)
        match message:
            case ToolResult(path=path) if path:
                yield f"The whole text is in `{path}`."
            case Reply(calls=calls):
                for call in calls:
                    yield f"calls `{one_line(call.name)}` (id `{one_line(call.call_id)}`)"
                    yield quoted(call.arguments)
            case _:
                pass
    if turn.outcome != "answered":
        yield f"*{turn.outcome}*"
    if turn.error:
        yield quoted(turn.error)
