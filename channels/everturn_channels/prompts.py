"""Prompts of MCP servers: what a person types after `/prompt`, and the list that they see. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from everturn_actors.errors import InvalidInputError

_QUOTES: Final = str.maketrans("\u201c\u201d\u201e", '"""')
"What a telephone makes of quotation marks."


class OfferedPrompt(Struct, frozen=True, kw_only=True):
    """A text that an MCP server has for people to send."""

    name: str
    description: str
    required: tuple[str, ...]
    "The places that have to be filled in."
    optional: tuple[str, ...]

    @property
    def typed_name(self) -> str:
        """Its name as it is typed; one with blanks stands in quotation marks."""
        return shlex.quote(self.name)

    @property
    def usage(self) -> str:
        """How it is typed."""
        places = (*(f"{p}=..." for p in self.required), *(f"[{p}=...]" for p in self.optional))
        return " ".join((f"/prompt {self.typed_name}", *places))


def read_prompt(typed: str) -> tuple[str, dict[str, str]]:
    """Return the name of a prompt, and what stands in its places.

    >>> read_prompt("wiki:summarize topic='big cats'")
    ('wiki:summarize', {'topic': 'big cats'})

    Raises:
        InvalidInputError: A place has no `=`, or a quote is not closed.
    """
    try:
        name, *places = shlex.split(typed.translate(_QUOTES))
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
    lines = [" - ".join(filter(None, (each.usage, each.description))) for each in prompts]
    return "\n".join(lines) or "(no MCP server of the agent has a prompt)"
