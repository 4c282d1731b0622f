"""The finished turns of a session as they are shown, kept from one request to the next. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, sub

from msgspec import Struct, field

from everturn_actors.context.estimation.classes import CLASSES, Counts, added, message_counts
from everturn_actors.context.estimation.estimates import total_units, turn_units
from everturn_actors.context.policy import AnyPolicy
from everturn_actors.context.projection.reductions import shown_blocks
from everturn_actors.context.projection.turns import Block, flatten
from everturn_actors.model import (
    AnyMessage,
    Conversation,
    Disposition,
    Reductions,
    ToolResult,
    Turn,
    UserMessage,
)
from everturn_actors.outside import NOTHING, Outside, is_from_outside, outside_of

_WITH_FILES = (UserMessage, ToolResult)
COUNTED_AT_ONCE = 200  # messages; of a thousand bytes each they take 2 ms

_number_of = attrgetter("number")


class History(Struct, kw_only=True):
    """The finished turns of a session that are shown, in the form in which they are."""

    reductions: Reductions
    policy: AnyPolicy
    oldest: int
    "Number of the oldest turn that was held when this was built."
    turns: list[Turn] = field(default_factory=list[Turn])
    blocks: list[Block] = field(default_factory=list[Block])
    messages: list[AnyMessage] = field(default_factory=list[AnyMessage])
    shown_messages: int = 0
    units: int = 0
    "Of their texts; images are priced by who decides which are shown."
    with_files: list[UserMessage | ToolResult] = field(
        default_factory=list[UserMessage | ToolResult]
    )
    "Those of the messages that came with something."
    outside: Outside = NOTHING
    "The text from outside that stands in them."
    _counts: Counts = field(default_factory=lambda: [0.0] * CLASSES)
    _counted: int = 0

    def counts(self) -> Counts:
        """Return the counts of its messages by class; each is counted once, when that is asked."""
        for _ in self.counting():
            pass
        return self._counts

    def counting(self) -> Iterator[None]:
        """Count what is not counted yet; yield after each part, as a long history takes a while."""
        while self._counted < len(self.messages):
            end = min(self._counted + COUNTED_AT_ONCE, len(self.messages))
            part = message_counts(self.messages[self._counted : end])
            self._counts, self._counted = added(self._counts, part), end
            yield

    def add(self, turn: Turn) -> None:
        """Show one more turn, the newest."""
        self.turns.append(turn)
        held, reductions = turn.blocks, self.reductions
        shown = shown_blocks(turn, reductions, self.policy.gap)
        self.blocks += shown
        if shown == held:
            messages = turn.messages
            self.shown_messages += len(messages)
            self.units += turn_units(turn)
        else:
            messages = tuple(flatten(shown))
            self.shown_messages += sum(1 for message in messages if message.seq)
            self.units += total_units(messages)
        self.messages += messages
        self.with_files += with_files(messages)
        # Hardly any is: to ask each of a long history for its sources takes as long as the rest.
        if outside := list(filter(is_from_outside, messages)):
            self.outside = shown_outside(outside, reductions) + self.outside

    def without_left(self, conversation: Conversation) -> History | None:
        """Return what is left of it where its oldest turns have left, and all else is as it was.

        A long conversation loses some turns at a time: to take these off costs a part of what it
        costs to build the rest anew. None where it has to be: more has changed, or more has left
        than stays.
        """
        held, now = conversation.turns, conversation.reductions
        start = bisect_left(held, now.cut_turn, key=_number_of)
        if start == len(held):
            return None
        first = held[start]
        position = bisect_left(self.turns, first.number, key=_number_of)
        if position * 2 >= len(self.turns) or self.turns[position] is not first:
            return None
        before, seq = self.reductions, first.users[0].seq
        dropped = frozenset(each for each in before.dropped if each >= seq)
        replaced = {key: each for key, each in before.replaced.items() if key >= seq}
        if dropped != now.dropped or replaced != now.replaced:
            return None
        gone = History(reductions=before, policy=self.policy, oldest=self.oldest)
        for turn in self.turns[:position]:
            gone.add(turn)
        if gone.outside is not NOTHING:
            return None  # the sources of what is left may be the same, or others
        size = len(gone.messages)
        left = History(
            reductions=now,
            policy=self.policy,
            oldest=held[0].number,
            turns=self.turns[position:],
            blocks=self.blocks[len(gone.blocks) :],
            messages=self.messages[size:],
            shown_messages=self.shown_messages - gone.shown_messages,
            units=self.units - gone.units,
            with_files=self.with_files[len(gone.with_files) :],
            outside=self.outside,
        )
        if self._counted > size:
            left._counts = list(map(sub, self._counts, gone.counts()))
            left._counted = self._counted - size
        return left

    def missing(self, conversation: Conversation, policy: AnyPolicy) -> Sequence[Turn] | None:
        """Return the turns that came since, oldest first; None where this is of no use."""
        held = conversation.turns
        if self.reductions is not conversation.reductions or self.policy is not policy:
            return None
        if not held or held[0].number < self.oldest:
            return None
        if self.turns and held[0].number > self.turns[0].number:
            return None  # a turn that is shown here is held no longer
        known = self.turns[-1] if self.turns else None
        for index in range(len(held), 0, -1):
            if held[index - 1] is known:
                return held[index:]
            if known is not None and held[index - 1].number <= known.number:
                return None
        return None


def shown_outside(messages: Iterable[AnyMessage], reductions: Reductions) -> Outside:
    """Return the text from outside in messages as they are shown; given oldest first."""
    return outside_in(
        messages, {seq: each.disposition for seq, each in reductions.replaced.items()}
    )


def outside_in(messages: Iterable[AnyMessage], dispositions: Mapping[int, Disposition]) -> Outside:
    """Return the same where it is known, by seq, what became of those that are not whole."""
    found = NOTHING
    for message in messages:
        own = outside_of(message, dispositions.get(message.seq, "kept"))
        if own is not NOTHING:
            found = own + found
    return found


def with_files(messages: Iterable[AnyMessage]) -> list[UserMessage | ToolResult]:
    """Return the messages that came with something, in their order."""
    return [each for each in messages if isinstance(each, _WITH_FILES) and each.attachments]


def shown_history(conversation: Conversation, policy: AnyPolicy, known: History | None) -> History:
    """Return the finished turns that are shown: `known` and what came since, or all built anew."""
    history, new = begun_history(conversation, policy, known)
    for turn in new:
        history.add(turn)
    return history


def begun_history(
    conversation: Conversation, policy: AnyPolicy, known: History | None
) -> tuple[History, Sequence[Turn]]:
    """Return `known`, or an empty one, and the turns to add to it, oldest first."""
    new = known.missing(conversation, policy) if known is not None else None
    if new is None and known is not None and known.policy is policy:
        known = known.without_left(conversation)
        new = known.missing(conversation, policy) if known is not None else None
    if known is not None and new is not None:
        return known, new
    held, reductions = conversation.turns, conversation.reductions
    history = History(reductions=reductions, policy=policy, oldest=held[0].number if held else 0)
    return history, [turn for turn in held if turn.number >= reductions.cut_turn]
