"""What the responder says of the results of its calls. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from everturn_actors.model import ToolResult
from everturn_gateway.providers.builtin.wishes import Plan

_SHOWN_CHARACTERS: Final = 4_000  # of one result
_NUMBERED: Final = re.compile(r"^\d+\t", re.MULTILINE)
_MARKS: Final = re.compile(
    r"^(?:\[(?:end of )?outside text [^\n]*\]|</?quote-[0-9a-f]+>)\n?", re.MULTILINE
)
"What tells a language model where text from outside begins and ends."
_FROM_OUTSIDE: Final = "Nobody vouches for this; it comes from outside:"


def told(results: Sequence[ToolResult], plan: Plan) -> str:
    """Return what came of the calls of the present turn, in their order."""
    return "\n\n".join(_told(result, plan, number) for number, result in enumerate(results))


def _told(result: ToolResult, plan: Plan, number: int) -> str:
    text = result.text.strip()
    if result.is_error:
        return f"{result.name} did not work: {_bounded(text)}"
    if result.name == "read_skill" and number == 0 and len(plan.steps) > 1:
        return _heading(text)
    if plan.about and result.name == "recall":
        return _about(text, plan.about)
    if result.name == "read_file":
        text = _NUMBERED.sub("", text)
    cleaned = _bounded(_MARKS.sub("", text).strip()) or "(nothing)"
    outside = f"{_FROM_OUTSIDE}\n" if result.untrusted else ""
    between = "\n" if "\n" in cleaned or outside else " "
    return f"{result.name}:{between}{outside}{cleaned}"


def _heading(text: str) -> str:
    """Return that a skill was read; which one, its first line says."""
    return f"I read: {text.splitlines()[0].rstrip(':')}." if text else "I read the skill."


def _about(text: str, word: str) -> str:
    found = [line.strip() for line in text.splitlines() if word.casefold() in line.casefold()]
    if not found:
        return f"My notes say nothing of “{word}”."
    return _bounded("\n".join((f"My notes say of “{word}”:", *found)))


def _bounded(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]}… ({len(text) - _SHOWN_CHARACTERS:,} more characters)"
