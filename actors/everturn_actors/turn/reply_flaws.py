"""What is wrong with a reply of a model: withheld, empty, or calls that cannot be read. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from everturn_actors.errors import ModelRefusedError
from everturn_actors.model import Reply, ToolCall

# Stop reasons of a reply that was not given, in the words of the formats that are spoken here.
_WITHHELD: Final[Mapping[str, str]] = MappingProxyType(
    {
        "refusal": "the model declined to give one",
        "content_filter": "the content filter of the model's provider held it back",
    }
)


def check_withheld(reply: Reply) -> None:
    """Check that nobody held the whole answer back.

    Raises:
        ModelRefusedError: The model declined, or its provider's filter did, without a word. Asked
            again, it would do the same.
    """
    why = _WITHHELD.get(reply.stop_reason)
    if why and not reply.calls and not has_words(reply.text):
        msg = f"there is no answer: {why}"
        raise ModelRefusedError(msg)


def has_words(text: str) -> bool:
    """Whether a person who is shown this text sees anything."""
    return any(char.isprintable() and not char.isspace() for char in text)


def flaw_of(reply: Reply, *, sent_files: bool) -> str:
    """Return why a reply cannot be used; empty for one that can.

    One without calls ends the turn, so it has to say something. A file that the turn has sent is
    said enough: a model that ends such a turn without a word means it so. Text beside calls is
    not: it was written before the model knew what they give.
    """
    if not reply.calls:
        return "" if sent_files or has_words(reply.text) else _emptiness(reply)
    if reply.stop_reason == "length":
        return "it was cut off at the output limit before its calls were complete"
    ids = {call.call_id for call in reply.calls}
    if len(ids) < len(reply.calls) or "" in ids:
        return "its calls share an id or have none"
    return next((flaw for call in reply.calls if (flaw := _call_flaw(call))), "")


def _emptiness(reply: Reply) -> str:
    """Return what is wrong with a reply that neither says nor does anything."""
    if reply.stop_reason == "length":
        return "it reached the output limit before it said anything"
    if has_words(reply.reasoning):
        return "it was empty after its thinking"
    return "it was empty"


def _call_flaw(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments, parse_constant=_no_number)
    except ValueError as error:
        return f"the arguments of its call of {call.name!r} are not JSON: {error}"
    except RecursionError:
        return f"the arguments of its call of {call.name!r} are nested too deeply"
    if not isinstance(arguments, dict):
        return f"the arguments of its call of {call.name!r} are no JSON object"
    return ""


def _no_number(name: str) -> None:
    """Refuse what Python reads and JSON does not have: NaN and the infinities."""
    msg = f"{name} is no number in JSON"
    raise ValueError(msg)
