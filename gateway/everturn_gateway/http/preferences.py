"""What a client prefers of an answer: `Prefer: respond-async`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from fastapi import Header

Prefer: TypeAlias = Annotated[
    list[str] | None,
    Header(
        description="`respond-async`: answer 202 as soon as it is accepted; a message, on disk."
    ),
]


def wants_async(prefer: Sequence[str] | None) -> bool:
    """Read `Prefer` headers. Source: RFC 7240, section 2."""
    if not prefer:
        return False
    named = (each for line in prefer for each in line.split(","))
    return any(each.split(";")[0].strip().lower() == "respond-async" for each in named)
