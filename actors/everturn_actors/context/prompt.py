"""The system prompt. Pure.

Source: the seed design's prompt order: soul, system prompt, instructions, directives, skills.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from everturn_actors.spec import PromptSpec


def system_prompt(prompt: PromptSpec, *, instructions: str = "", at: datetime | None = None) -> str:
    """Return the system prompt: the agent's texts, the caller's, the directives, the skills.

    Blocks are joined by a blank line; empty ones are left out, and no block gives an empty prompt.

    Args:
        prompt: The agent's own texts. `{{date}}` and `{{time}}` in them become the day and the
            minute of `at`, in UTC.
        instructions: What the caller adds for this session; taken as it is.
        at: When the turn started, not when the request is made, so that a restart gives the same
            bytes. None leaves the placeholders standing.
    """
    texts = (prompt.soul, prompt.system_prompt, prompt.instructions, *prompt.directives)
    dated = [text for text in texts if "{{" in text]
    return _joined(prompt, instructions, at if dated else None)


@lru_cache(maxsize=64)  # each request asks for it, and mostly it is what it was
def _joined(prompt: PromptSpec, instructions: str, at: datetime | None) -> str:
    parts = [_dated(text, at) for text in (prompt.soul, prompt.system_prompt, prompt.instructions)]
    parts.append(instructions)
    lines = [_item(text) for text in prompt.directives if text.strip()]
    if lines:
        parts.append(_dated("\n".join(("## Directives", *lines)), at))
    parts.append(prompt.skills)
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _dated(text: str, at: datetime | None) -> str:
    if at is None or "{{" not in text:
        return text
    moment = at.astimezone(UTC)
    return text.replace("{{date}}", f"{moment:%Y-%m-%d}").replace("{{time}}", f"{moment:%H:%M} UTC")


def _item(directive: str) -> str:
    """Return a directive as one item of a list; its further lines are indented."""
    return "- " + "\n".join(
        f"  {line}" if number and line.strip() else line
        for number, line in enumerate(directive.strip().splitlines())
    )
