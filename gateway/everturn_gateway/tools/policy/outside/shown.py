"""What a call may do while text from outside is shown to the model that wrote it. Pure.

Such text may be behind the call, so it is judged by what it can leak or change. Reading that the
agent's owner has allowed goes on: from outside it can only bring more text. What sends, writes or
runs asks, and so does an address that was not given to the model word for word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from everturn_actors.json_values import is_list, is_object
from everturn_actors.model import ToolCall
from everturn_actors.outside import AND_MORE
from everturn_actors.ports import ToolCapabilities, ToolContext
from everturn_gateway.tools.policy.outside.given import (
    Given,
    address_key,
    addresses_in,
    fetches_before,
)
from everturn_gateway.tools.policy.subjects import Subject, arguments_of
from everturn_gateway.tools.web import FETCH, SEARCH

CHOICE_BITS: Final = 512
"""How much the choice of pages may tell between two messages of people: 40 pages out of 4,000 each.

A page can list a thousand addresses of its own; which of them is asked for tells ten bits.
Sixty-four bytes for each message of a person is what is left to whoever wrote the page.
"""
_BEHIND: Final = "{verb} shown to the model, and may be behind this call"
_MADE_UP: Final = (
    "its address stands, letter for letter, neither in what was written here nor in a result, so it"
    " may carry what this conversation says"
)
_TOO_MANY: Final = (
    "it is page {count} since a person spoke, and which pages are asked for can tell what this"
    " conversation says"
)
_PLACES: Final = frozenset(("address", "domain", "endpoint", "host", "link", "uri", "url"))
"Arguments of these names are addresses, however they are written."
_DEPTH: Final = 20  # of arguments that are looked into; deeper ones count as made up


def shown(sources: Iterable[str], context: ToolContext) -> str:
    """Return in words why a call is asked about: which text may be behind it."""
    named = list(sources)
    has_more = AND_MORE in named
    named = [each for each in named if each != AND_MORE]
    listed = f"{', '.join(named)}{f' {AND_MORE}' if has_more else ''}"
    if _is_retold(context):
        return f"what the agent wrote when it had read {listed} {_BEHIND.format(verb='is')}"
    verb = "are" if has_more or len(named) > 1 else "is"
    return f"{listed} {_BEHIND.format(verb=verb)}"


def why_not_read(call: ToolCall, subject: Subject, context: ToolContext, given: Given) -> str:
    """Return why a call that only reads is asked about all the same; empty where it goes on."""
    arguments = arguments_of(call)
    if call.name == SEARCH and subject.kind == "builtin":
        return ""  # the words go to the provider that the owner chose
    if call.name == FETCH and subject.kind == "builtin":
        key = address_key(str(arguments.get("url", "")))
        if key is None or key not in given:
            return _MADE_UP
        count = fetches_before(call, context.conversation, FETCH)
        return _TOO_MANY.format(count=count) if count * given.bits > CHOICE_BITS else ""
    named = _addresses(arguments, _DEPTH)
    return "" if named is not None and all(key in given for key in named) else _MADE_UP


def only_reads(capabilities: ToolCapabilities, subject: Subject, *, is_told: bool) -> bool:
    """Return whether a call only reads: its tool says so, or the owner does (`is_told`)."""
    return subject.line is None and (capabilities.read_only or is_told)


def _addresses(value: object, depth: int) -> frozenset[str] | None:
    """Return the addresses in arguments; None where they are nested too deeply to be read."""
    if isinstance(value, str):
        return _in_argument(value)
    parts: list[object]
    if is_object(value):
        parts = [
            f"https://{each}" if name.lower() in _PLACES and _is_bare(each) else each
            for name, each in value.items()
        ]
        parts += list(value)
    elif is_list(value):
        parts = value
    else:
        return frozenset()
    if depth == 0:
        return None
    found = frozenset[str]()
    for part in parts:
        inner = _addresses(part, depth - 1)
        if inner is None:
            return None
        found |= inner
    return found


def _is_bare(value: object) -> bool:
    """Return whether a value in the place of an address is written without its scheme."""
    return isinstance(value, str) and "." in value and "://" not in value


def _in_argument(text: str) -> frozenset[str]:
    """Return the addresses that an argument holds, `a.example/b` included.

    A dot alone makes none: `report.md` is a file.
    """
    whole = address_key(text)
    if whole is not None:
        return frozenset((whole,))
    bare = addresses_in(text, bare=True)
    return addresses_in(text) | {key for key in bare if key.partition("/")[2]}


def _is_retold(context: ToolContext) -> bool:
    current = context.conversation.current
    step = current.step if current is not None else None
    return step is not None and step.reply is not None and step.reply.retells
