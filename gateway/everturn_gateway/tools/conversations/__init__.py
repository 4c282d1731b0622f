"""`delegate` and `session`: what one conversation can have to do with another."""

from __future__ import annotations

from everturn_gateway.tools.conversations.origins import (
    is_asked_by_person,
    is_person,
    is_tainted,
    name_of_call,
    sources_behind,
)
from everturn_gateway.tools.places import DELEGATE

__all__ = [
    "DELEGATE",
    "is_asked_by_person",
    "is_person",
    "is_tainted",
    "name_of_call",
    "sources_behind",
]
