"""What is known of each chat while the gateway runs: its last message, and whether it takes more.

Nothing of it is durable: Meta says again what a start forgot.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, TypeVar

import anyio
from msgspec import Struct

T = TypeVar("T")
KNOWN_MAX: Final = 5_000
DOUBT_S: Final = 60.0
"So long a chat stays closed at least, whatever works there."
_DAY: Final = timedelta(hours=24)


class _Written(Struct, frozen=True):
    """What a person wrote last."""

    wamid: str
    at: datetime


class _Closed(Struct, frozen=True):
    """Why nothing is taken in a chat, and since when on the loop's clock."""

    why: str
    since: float


class Chats:
    """The chats of one number."""

    def __init__(self) -> None:
        self.on_open: Callable[[str], None] = _tell_nobody
        "Called with a chat that takes something again."
        self._last: OrderedDict[str, _Written] = OrderedDict()
        "By chat, the message that its person wrote last."
        self._closed: OrderedDict[str, _Closed] = OrderedDict()
        "By chat, why nothing is taken there until its person writes."
        self._told: OrderedDict[str, None] = OrderedDict()
        "Chats that were closed since their person wrote."
        self._quiet_until: OrderedDict[str, float] = OrderedDict()
        "By chat, on the loop's clock."

    def note_message(self, chat: str, wamid: str, at: datetime) -> None:
        """Note that somebody wrote: from then on a day's answers are taken."""
        before = self._last.get(chat)
        at = at if before is None else max(at, before.at)  # messages come in no order
        keep(self._last, chat, _Written(wamid, at), KNOWN_MAX)
        self._closed.pop(chat, None)
        if chat in self._told:
            del self._told[chat]
            self.on_open(chat)

    def last(self, chat: str) -> str:
        """Return the message that was written last in a chat; empty = none that is known."""
        found = self._last.get(chat)
        return "" if found is None else found.wamid

    def is_open(self, chat: str, at: datetime) -> bool:
        """Return whether the person is known to have written within the day before `at`, or since.

        What is told of that time is old news then, or of a message that crossed theirs.
        """
        found = self._last.get(chat)
        return found is not None and at < found.at + _DAY

    def close(self, chat: str, why: str) -> bool:
        """Note that nothing is taken until the person writes; return whether that is new."""
        is_new = chat not in self._told
        keep(self._told, chat, None, KNOWN_MAX)
        keep(self._closed, chat, _Closed(why, anyio.current_time()), KNOWN_MAX)
        return is_new

    def doubt(self, chat: str) -> None:
        """Have Meta asked again: a turn works there, and its person may have written elsewhere.

        Where several gateways stand behind one address, this one may not have heard them.
        """
        found = self._closed.get(chat)
        if found is not None and anyio.current_time() - found.since >= DOUBT_S:
            del self._closed[chat]
            self.on_open(chat)

    def why_closed(self, chat: str) -> str:
        """Return why a chat takes nothing until its person writes; empty = it may."""
        found = self._closed.get(chat)
        return "" if found is None else found.why

    def leave_alone(self, chat: str, for_s: float) -> None:
        """Say nothing there for so long."""
        keep(self._quiet_until, chat, anyio.current_time() + for_s, KNOWN_MAX)

    def is_left_alone(self, chat: str) -> bool:
        """Return whether nothing is to be said in a chat now."""
        return self._quiet_until.get(chat, 0.0) > anyio.current_time()


def _tell_nobody(_chat: str) -> None:
    """Do nothing: nobody receives here."""


def keep(kept: OrderedDict[str, T], key: str, value: T, at_most: int) -> None:
    """Put a value last, and let the oldest go."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > at_most:
        kept.popitem(last=False)
