"""The question how many tokens a request has, and how an answer is read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from everturn_actors.json_values import is_object
from everturn_gateway.providers.transport.encoding import loads

_TOKENS: Final = range(1, 100_000_001)  # what is outside is no count


class CountQuestion(Struct, frozen=True, kw_only=True):
    """What is posted where, and in which member of the answer the number stands."""

    path: str
    body: bytes
    member: str = "input_tokens"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    "Beside those of every request; one of the same name takes its place, or, empty, leaves it out."


def counted(answer: bytes, member: str) -> int | None:
    """Return the number in an answer; None where it has none.

    >>> counted(b'{"input_tokens": 12}', "input_tokens")
    12
    """
    try:
        told: object = loads(answer)
    except ValueError:
        return None
    number = told.get(member) if is_object(told) else None
    return number if type(number) is int and number in _TOKENS else None
