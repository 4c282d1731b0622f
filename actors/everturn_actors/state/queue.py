"""The rules about messages that wait for a turn: how many, how long, and which go together. Pure.

A message that may not wait is refused, or an older one goes in its place; the next turn takes those
that belong together, once nobody is expected to write more of the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from operator import attrgetter

from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.errors import BusyError, CoreError, MailboxFullError, QueueFullError
from everturn_actors.events import Discarded
from everturn_actors.model import IncomingMessage, Joins, PendingAmbient, UserMessage

WAITING_LIMIT = 256  # messages that wait for a turn; more come from a loop, not from people
# Of what was not said to the agent, or in its name without a turn: of the messages that wait for a
# turn, and of what the next one is told in a block. The oldest go.
AMBIENT_LIMIT = 100

WITHDRAWN = "its writer deleted it"
"Why a message is not answered that was taken back; whoever did it is not told."
LONGEST_DEBOUNCES = 4  # a turn is held for so many times what one message asks for, and no longer
LONGEST_S = 86_400.0  # no message asks for more than a day
_SENDERS = 256  # whose last message is remembered; more write in no conversation at once

_is_own = attrgetter("own")


class _Span(Struct, frozen=True):
    """A time that a message opened; on a clock that was set back it is over."""

    since: datetime
    until: datetime

    def holds(self, now: datetime) -> bool:
        return self.since <= now < self.until


class Debounce(Struct, frozen=True):
    """How long the next turn waits for what people are still writing.

    In memory: after a restart nothing is waited for.
    """

    bursts: Mapping[str, _Span] = field(default_factory=dict[str, _Span])
    "By sender: from the last message to when another one no longer belongs to it."
    last: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    "By sender: when its burst is over, however many more messages come."
    limit: _Span | None = None
    "From the first message that is held to when the turn begins at the latest."

    def note(self, sender: str, debounce_s: float, now: datetime) -> Debounce:
        """Return it with one message more: its sender may write on for `debounce_s`."""
        if debounce_s <= 0:
            return self
        debounce_s = min(debounce_s, LONGEST_S)
        longest = now + timedelta(seconds=debounce_s * LONGEST_DEBOUNCES)
        ends = self.last[sender] if self.in_window(sender, now) else longest
        bursts = {name: each for name, each in self.bursts.items() if name != sender}
        bursts[sender] = _Span(now, min(now + timedelta(seconds=debounce_s), ends))
        last = {**self.last, sender: ends}
        if len(bursts) > _SENDERS:
            oldest = next(iter(bursts))
            del bursts[oldest], last[oldest]
        return Debounce(bursts, last, self.limit or _Span(now, longest))

    def in_window(self, sender: str, now: datetime) -> bool:
        """Whether a message of `sender` belongs to the one before it."""
        burst = self.bursts.get(sender)
        return burst is not None and burst.holds(now)

    def until(self, now: datetime) -> datetime | None:
        """Return when the next turn may begin; None = now."""
        limit = self.limit
        if limit is None or not limit.holds(now):
            return None
        latest = max((each.until for each in self.bursts.values() if each.holds(now)), default=now)
        return min(latest, limit.until) if latest > now else None

    def release(self) -> Debounce:
        """Return it with the turn let go; what comes after is held anew."""
        return self if self.limit is None else replace(self, limit=None)


def why_not_now(
    incoming: IncomingMessage, waiting: Sequence[UserMessage], *, is_busy: bool, in_window: bool
) -> CoreError | None:
    """Return why a message cannot join those that wait; None where it can.

    Args:
        incoming: The message.
        waiting: Those that wait already.
        is_busy: Whether a turn is open.
        in_window: Whether its sender wrote the one before it just now.
    """
    rules = incoming.queueing
    if len(waiting) >= WAITING_LIMIT:
        return MailboxFullError()
    if incoming.kind == "ambient" or in_window:  # it begins nothing of its own
        return None
    if rules.drops_when_busy and is_busy:
        return BusyError()
    most = rules.max_waiting if is_busy else None  # else the next turn takes all that waits
    if most is None or rules.overflow == "drop_old":
        return None
    asked = sum(not message.ambient for message in waiting)
    return QueueFullError(rules.overflow) if asked >= most else None


def dropped(
    incoming: IncomingMessage, waiting: Sequence[UserMessage], *, is_busy: bool, in_window: bool
) -> Discarded | None:
    """Return the event of the oldest messages that go to make room; None where there is room.

    See `why_not_now` for the arguments.
    """
    rules, is_ambient = incoming.queueing, incoming.kind == "ambient"
    most = AMBIENT_LIMIT if is_ambient else rules.max_waiting
    if not is_ambient and (rules.overflow != "drop_old" or not is_busy or in_window):
        return None
    same = [message for message in waiting if message.ambient == is_ambient]
    if most is None or not same or len(same) < most:
        return None
    why = "nobody spoke to the agent" if is_ambient else f"more than {most} waited"
    gone = tuple(message.seq for message in same[: len(same) - most + 1])
    return Discarded(received=gone, reason=why)


def how_it_joins(incoming: IncomingMessage, *, in_window: bool) -> Joins:
    """Return with which other messages a message shares a turn."""
    joins = incoming.queueing.joins
    return "burst" if joins == "own" and in_window else joins


def keep_ambient(
    ambient: Sequence[PendingAmbient], heard: PendingAmbient, limit: int = AMBIENT_LIMIT
) -> tuple[PendingAmbient, ...]:
    """Return what the next turn is told of, the newest `limit` of what others said."""
    told = (*ambient, heard)
    if limit < AMBIENT_LIMIT:
        extra = len(told) - sum(map(_is_own, told)) - max(limit, 0)
        if extra > 0:
            gone = frozenset(islice((each.seq for each in told if not each.own), extra))
            told = tuple(each for each in told if each.seq not in gone)
    return told[-AMBIENT_LIMIT:]


def next_turn(waiting: Sequence[UserMessage]) -> tuple[UserMessage, ...]:
    """Return the messages that the next turn answers, oldest first; none = no turn begins.

    Messages that join others go together; one that wants a turn of its own gets it, with what was
    written in the same debounce window. Ambient ones go with whatever turn begins next.
    """
    taken: list[UserMessage] = []
    asked: UserMessage | None = None
    for message in waiting:
        if asked is not None and not _joins(asked, message):
            break
        taken.append(message)
        if asked is None and not message.ambient:
            asked = message
    return tuple(taken) if asked is not None else ()


def _joins(first: UserMessage, message: UserMessage) -> bool:
    if message.ambient:
        return True
    if message.joins == "burst":
        return message.sender == first.sender or first.joins == "all"
    return first.joins == "all" and message.joins == "all"


def steering(waiting: Sequence[UserMessage]) -> tuple[UserMessage, ...]:
    """Return those that a running turn may read before its next call, oldest first."""
    came = tuple(takewhile(lambda message: message.joins == "all", waiting))
    return came if any(not message.ambient for message in came) else ()
