"""What was sent back to a platform and comes again: what follows it in its chat waits. No IO."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Final

CHATS_MAX: Final = 1_000
"Chats of which something is awaited; the one that sent back longest ago goes."


class Redelivery:
    """The events that one platform was told to bring again."""

    def __init__(self, within_s: float = 0.0) -> None:
        """Await what was sent back for so long; 0 = as long as the platform was told to wait."""
        self._within_s = within_s
        self._awaited: OrderedDict[str, dict[int, datetime]] = OrderedDict()
        "By chat, the positions that were sent back, and until when each is awaited."

    def wait_s(self, chat: str, position: int, now: datetime) -> float:
        """Return how long an event waits for those before it; 0 = it may be taken."""
        before = (until for other, until in self._awaited.get(chat, {}).items() if other < position)
        return max(0.0, max(((until - now).total_seconds() for until in before), default=0.0))

    def note(self, chat: str, position: int, now: datetime, retry_after_s: float) -> None:
        """Note that an event is sent back."""
        until = now + timedelta(seconds=self._within_s or retry_after_s)
        self._awaited.setdefault(chat, {})[position] = until
        self._awaited.move_to_end(chat)
        if len(self._awaited) > CHATS_MAX:
            self._awaited.popitem(last=False)

    def taken(self, chat: str, position: int, now: datetime) -> None:
        """Note that an event was taken, and forget those that did not come again in time."""
        awaited = self._awaited.pop(chat, {})
        awaited.pop(position, None)
        if left := {other: until for other, until in awaited.items() if now < until}:
            self._awaited[chat] = left
