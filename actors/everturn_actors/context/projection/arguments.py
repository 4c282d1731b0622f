"""Making the arguments of a call shorter, so that they stay the JSON of an object. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable

from msgspec.structs import replace

from everturn_actors.context.projection.markers import is_shortened_argument
from everturn_actors.json_values import is_list, is_object
from everturn_actors.model import ToolCall

_LEFT_OUT = "left_out"
_NEAR_CHARACTERS = 100  # a text that is hardly longer than its head and a marker stays


def shorten_call(
    call: ToolCall,
    *,
    limit_characters: int,
    head_characters: int,
    marker: Callable[[int], str],
) -> ToolCall:
    """Return the call with its long texts cut, where its arguments are longer than the limit.

    Where that is not enough, or they are no object, the marker is all that stays of them. What was
    shortened before stays as it is, and so does what would not become shorter.

    Args:
        call: As the model made it.
        limit_characters: Of all arguments together, as JSON.
        head_characters: What stays of each long text.
        marker: From the characters left out, to what stands for them.
    """
    given = call.arguments
    if len(given) <= limit_characters or is_shortened_argument(given):
        return call
    short = _shortened(given, head_characters, marker)
    if short is None or len(short) > limit_characters:
        short = json.dumps({_LEFT_OUT: marker(len(given))})
    return replace(call, arguments=short) if len(short) < len(given) else call


def _shortened(given: str, head: int, marker: Callable[[int], str]) -> str | None:
    """Return the JSON with long texts cut; None where it is not the JSON of an object."""
    try:
        arguments: object = json.loads(given)
        if not is_object(arguments):
            return None
        return _json(_cut(arguments, head, marker))
    except (ValueError, RecursionError):
        return None


def _cut(value: object, head: int, marker: Callable[[int], str]) -> object:
    if isinstance(value, str) and len(value) > head + _NEAR_CHARACTERS:
        return value[:head] + marker(len(value) - head)
    if is_list(value):
        return [_cut(item, head, marker) for item in value]
    if is_object(value):
        return {name: _cut(item, head, marker) for name, item in value.items()}
    return value


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, which only an escape can carry
        return json.dumps(value)
    return text
