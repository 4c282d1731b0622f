"""What a person types after `/prompt`, and the list that they see. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from everturn_actors.errors import InvalidInputError
from everturn_channels.terminal.client import OfferedPrompt


def read_prompt(typed: str) -> tuple[str, dict[str, str]]:
    """Return the name of a prompt, and what stands in its places.

    >>> read_prompt("wiki:summarize topic='big cats'")
    ('wiki:summarize', {'topic': 'big cats'})

    Raises:
        InvalidInputError: A place has no `=`, or a quote is not closed.
    """
    try:
        name, *places = shlex.split(typed)
    except ValueError as error:
        msg = f"/prompt: a quote is not closed: {typed}"
        raise InvalidInputError(msg) from error
    arguments: dict[str, str] = {}
    for each in places:
        place, equals, text = each.partition("=")
        if not equals:
            msg = f"/prompt NAME PLACE=TEXT: {each!r} has no ="
            raise InvalidInputError(msg)
        arguments[place] = text
    return name, arguments


def prompts_text(prompts: Sequence[OfferedPrompt]) -> str:
    """Return the list of prompts, one a line."""
    lines = [
        " ".join(
            (
                f"/prompt {each.name}",
                *(f"{place}=..." for place in each.required),
                *(f"[{place}=...]" for place in each.optional),
                *(("-", each.description) if each.description else ()),
            )
        )
        for each in prompts
    ]
    return "\n".join(lines) or "(no MCP server of the agent has a prompt)"
