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
    wishes = (wish for line in prefer for wish in line.split(","))
    return any(wish.split(";")[0].strip().lower() == "respond-async" for wish in wishes)
