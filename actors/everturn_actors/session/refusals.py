"""What a turn was refused, for whoever gets its result and was not there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from everturn_actors.model import ToolCall, Turn
from everturn_actors.outside import one_source

REFUSALS_MOST: Final = 5  # that are told word for word
_REASON_CHARACTERS: Final = 400
_HEADING: Final = "Not done, because it was refused:"


def refusal(call: ToolCall | None, reason: str) -> str:
    """Return one refused call and why, in a line."""
    asked = one_source(f"{call.name} {call.arguments}") if call is not None else "a call"
    why = " ".join(reason.split())
    return f"{asked}: {why if len(why) <= _REASON_CHARACTERS else why[:_REASON_CHARACTERS] + '…'}"


def refusals_of(turn: Turn) -> tuple[str, ...]:
    """Return what a turn was refused, oldest first; see `refusal`."""
    found: list[str] = []
    for step in turn.steps:
        calls: Mapping[str, ToolCall] = {call.call_id: call for call in step.reply.calls}
        found += [
            refusal(calls.get(result.call_id), result.text)
            for result in step.results
            if result.is_refused
        ]
    return tuple(found)


def with_refusals(text: str, refused: Iterable[str]) -> str:
    """Return the answer of a turn in which nobody could be asked, and what it was refused.

    A model may keep that to itself, or be made to; whoever relies on the answer has to know.
    """
    each = list(dict.fromkeys(refused))
    if not each:
        return text
    lines = [f"- {line}" for line in each[:REFUSALS_MOST]]
    if len(each) > REFUSALS_MOST:
        lines.append(f"- and {len(each) - REFUSALS_MOST} more")
    told = "\n".join((_HEADING, *lines))
    return f"{text}\n\n{told}" if text else told
