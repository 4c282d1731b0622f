"""What a look at a workspace finds."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Verdict: TypeAlias = Literal["ok", "note", "repaired", "problem"]


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    verdict: Verdict
    subject: str
    text: str


class JournalNote(Struct, frozen=True, kw_only=True):
    """One thing that was found in the journals, or done to them."""

    text: str
    is_repair: bool = False
    "Whether it was done, and not only found."
    is_problem: bool = True
    "Whether its owner has to do something."
