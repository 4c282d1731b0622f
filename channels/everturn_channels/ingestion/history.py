"""The bounds of a backlog: how much of what was written during an absence is taken. No IO."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from everturn_channels.adapter import ChatRef
from everturn_channels.ingestion.events import Backfill, PlatformEvent

COUNTED: Final = 1_000
"Messages beyond those that are taken are counted up to so many."


class BacklogLimits(Struct, frozen=True, kw_only=True):
    """The settings `backlog` of a channel."""

    max_messages: int = 100
    "Of what was written in a chat, the newest so many."
    max_age_s: float = 86_400.0
    "And nothing older than this."


class History:
    """What was written in one chat, read from its newest message backwards."""

    def __init__(self, limits: BacklogLimits, now: datetime) -> None:
        self._limits = limits
        self._oldest = now - timedelta(seconds=limits.max_age_s)
        self._kept: list[PlatformEvent] = []
        self._too_old = self._too_many = 0

    @property
    def left(self) -> int:
        """How many more messages are looked at; the rest is neither taken nor counted."""
        seen = len(self._kept) + self._too_old + self._too_many
        return self._limits.max_messages + COUNTED - seen

    def add(self, event: PlatformEvent, at: datetime) -> None:
        """Add the message that was written before all that were added."""
        if at < self._oldest:
            self._too_old += 1
        elif len(self._kept) >= self._limits.max_messages:
            self._too_many += 1
        else:
            self._kept.append(event)

    def backfill(self, chat: ChatRef | None, *last: PlatformEvent) -> Backfill:
        """Return what is taken, and in the end `last`, which move cursors; `chat` is told of it."""
        hours = self._limits.max_age_s / 3600
        return Backfill(
            events=(*reversed(self._kept), *last),
            chat=chat,
            skipped=(
                (self._too_old, f"more than {hours:g} hours old"),
                (self._too_many, "too many messages came while the bot was away"),
            ),
        )
