"""What a policy works on: a conversation as blocks, and what became of each of its messages. Pure.

A message is known by its `seq`: here the number it has in its log, or its place in a transcript
counted from 1. A message with seq 0 was put in by the gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.estimates import Estimates, message_units, total_units
from everturn_actors.context.projection.turns import Block, count_messages, flatten
from everturn_actors.model import (
    AnyMessage,
    Disposition,
    Remembering,
    Reply,
    Step,
    ToolDefinition,
    ToolResult,
    UserMessage,
    remember,
)
from everturn_actors.outside import GONE

Place: TypeAlias = tuple[int, int]
"A block's position, and a message's position in it: 0 for a reply or a lone message."


class Estimator(Protocol):
    """Counts tokens as one system does. All of its answers are at least 0."""

    def text(self, text: str) -> int:
        """Return the tokens of a text on its own, such as the system prompt; 0 for none."""
        ...

    def message(self, message: AnyMessage, media: int) -> int:
        """Return the tokens of a message with `media` images or files beside its text."""
        ...

    def tools(self, tools: Sequence[ToolDefinition]) -> int:
        """Return the tokens of tool definitions; 0 for none."""
        ...


class Change(Struct, frozen=True, kw_only=True):
    """What became of one message."""

    disposition: Disposition
    stage: str
    "The stage that did it last; empty for a message that is as it was."


class Stored(Struct, frozen=True, kw_only=True):
    """A text that left the projection and has to be kept where the model can read it."""

    path: str
    text: str
    seq: int


class Reduction(Struct, frozen=True, kw_only=True):
    """What one stage did, once."""

    stage: str
    disposition: Disposition
    seqs: tuple[int, ...]
    call_ids: tuple[str, ...]
    "Calls whose results are among these messages."
    tokens_before: int
    "Of these messages alone."
    tokens_after: int


PROJECTION_UNITS = "units"
"Under which a projection remembers what its messages cost; whoever makes one may know it already."
PROJECTION_MESSAGES = "messages"
"Under which it remembers how many messages of the conversation it shows."


class Projection(Remembering, frozen=True, kw_only=True):
    """A conversation on its way into a request."""

    blocks: tuple[Block, ...]
    "Oldest first."
    current: int
    "The block at which the running turn begins; the number of blocks where none runs."
    media: Mapping[int, int] = {}
    """Images and files of a message, by its seq.

    They stay with it whatever its text becomes; those of a result go where nothing of it is left.
    """
    changes: Mapping[int, Change] = {}
    "By seq; a message that is not in it is kept."
    omitted_messages: int = 0
    "Messages of the conversation that are not shown: what a notice to the model has to tell."
    unsummarised: int = 0
    "How many of them no summary stands for."
    summary: str = ""
    "What stands for messages that are gone."
    note: str = ""
    "What the summary does not tell and has to: what left in an emergency."
    is_cold: bool = False
    "Whether the provider's cache of the request before is about to go: to hide something is free."
    stored: tuple[Stored, ...] = ()
    notes: tuple[str, ...] = ()
    "What a policy would have done if it had a model, for people."

    @property
    def protected(self) -> int:
        """The block from which on nothing may leave: the running turn, or the newest question."""
        if self.current < len(self.blocks):
            return self.current
        users = (n for n, b in enumerate(self.blocks) if isinstance(b, UserMessage))
        return max(users, default=max(len(self.blocks) - 1, 0))

    @property
    def whole_summary(self) -> str:
        """The summary, and what it does not tell."""
        if self.summary and self.note:
            return f"{self.summary}\n\n{self.note}"
        return self.summary or self.note

    @property
    def messages(self) -> tuple[AnyMessage, ...]:
        """All messages, oldest first."""
        return tuple(flatten(self.blocks))

    def results(self) -> Iterator[tuple[Place, ToolResult]]:
        """Yield every tool result with its place, oldest first."""
        for index, block in enumerate(self.blocks):
            if isinstance(block, Step):
                for number, result in enumerate(block.results, 1):
                    yield (index, number), result


Outcome: TypeAlias = tuple[Projection, tuple[Reduction, ...]]
Stage: TypeAlias = Callable[[Projection, Budget], Outcome]


def in_order(*stages: Stage) -> Stage:
    """Return the stage that does what all of these do, one after the other."""

    def stage(projection: Projection, budget: Budget) -> Outcome:
        reduced: tuple[Reduction, ...] = ()
        for each in stages:
            projection, reductions = each(projection, budget)
            reduced += reductions
        return projection, reduced

    return stage


def size_units(projection: Projection, messages: Iterable[AnyMessage]) -> int:
    """Return the units of the script-aware estimate of `messages` of this projection."""
    media = projection.media
    if not media:
        return total_units(messages)
    return sum(message_units(message, media.get(message.seq, 0)) for message in messages)


def projection_units(projection: Projection) -> int:
    """Return the same of all messages; counted once for each projection and kept with it."""
    return remember(
        projection, PROJECTION_UNITS, lambda: size_units(projection, flatten(projection.blocks))
    )


def projection_messages(projection: Projection) -> int:
    """Return how many messages of the conversation a projection shows; kept with it."""
    return remember(projection, PROJECTION_MESSAGES, lambda: count_messages(projection.blocks))


def size_tokens(
    projection: Projection, messages: Iterable[AnyMessage], estimator: Estimator
) -> int:
    """Return the tokens of `messages` of this projection."""
    if isinstance(estimator, Estimates):  # these are sums, to be rounded once
        return estimator.tokens(size_units(projection, messages))
    return sum(estimator.message(m, projection.media.get(m.seq, 0)) for m in messages)


def block_tokens(projection: Projection, block: Block, estimator: Estimator) -> int:
    """Return the tokens of one block of this projection."""
    return size_tokens(projection, flatten([block]), estimator)


def edit(
    projection: Projection,
    changes: Mapping[Place, AnyMessage],
    *,
    disposition: Disposition,
    stage: str,
    estimator: Estimator,
) -> Outcome:
    """Return the projection with other messages in these places; no change gives no reduction."""
    if not changes:
        return projection, ()
    blocks, media = list(projection.blocks), projection.media
    old: list[AnyMessage] = []
    if media and disposition in GONE:
        changes = {place: without_images(message) for place, message in changes.items()}
        gone = {m.seq for m in changes.values() if isinstance(m, ToolResult)}
        media = {seq: count for seq, count in media.items() if seq not in gone}
    made = replace(projection, media=media)
    for (index, number), message in changes.items():
        block = blocks[index]
        old.append(block.messages[number] if isinstance(block, Step) else block)
        blocks[index] = _changed(block, number, message)
    reduction = Reduction(
        stage=stage,
        disposition=disposition,
        seqs=_seqs(old),
        call_ids=_call_ids(old),
        tokens_before=size_tokens(projection, old, estimator),
        tokens_after=size_tokens(made, changes.values(), estimator),
    )
    return replace(made, blocks=tuple(blocks), changes=_became(projection, reduction)), (reduction,)


def remove(
    projection: Projection,
    gone: Iterable[int],
    *,
    disposition: Disposition,
    stage: str,
    estimator: Estimator,
) -> Outcome:
    """Return the projection without these blocks; none gives no reduction."""
    leaving = set(gone)
    if not leaving:
        return projection, ()
    old = list(flatten(projection.blocks[index] for index in sorted(leaving)))
    units = size_units(projection, old)
    if isinstance(estimator, Estimates):
        tokens_before = estimator.tokens(units)
    else:
        tokens_before = size_tokens(projection, old, estimator)
    reduction = Reduction(
        stage=stage,
        disposition=disposition,
        seqs=_seqs(old),
        call_ids=_call_ids(old),
        tokens_before=tokens_before,
        tokens_after=0,
    )
    kept = tuple(b for index, b in enumerate(projection.blocks) if index not in leaving)
    before = sum(1 for index in leaving if index < projection.current)
    changes = _became(projection, reduction)
    left = replace(projection, blocks=kept, current=projection.current - before, changes=changes)
    if (whole := projection.memo.get(PROJECTION_UNITS)) is not None:
        left.memo[PROJECTION_UNITS] = whole - units  # sums: the rest is not counted again
    return left, (reduction,)


def without_images(message: AnyMessage) -> AnyMessage:
    """Return a result as it is when nothing of it is left; any other message as it stands."""
    if isinstance(message, ToolResult) and message.attachments:
        return replace(message, attachments=())
    return message


def _changed(block: Block, number: int, message: AnyMessage) -> Block:
    if not isinstance(block, Step):
        assert not isinstance(message, Reply | ToolResult)
        return message
    if number == 0:
        assert isinstance(message, Reply)
        return replace(block, reply=message)
    assert isinstance(message, ToolResult)
    results = (*block.results[: number - 1], message, *block.results[number:])
    return replace(block, results=results)


def _seqs(messages: Iterable[AnyMessage]) -> tuple[int, ...]:
    return tuple(message.seq for message in messages if message.seq)


def _call_ids(messages: Iterable[AnyMessage]) -> tuple[str, ...]:
    return tuple(message.call_id for message in messages if isinstance(message, ToolResult))


def _became(projection: Projection, reduction: Reduction) -> dict[int, Change]:
    new = Change(disposition=reduction.disposition, stage=reduction.stage)
    return {**projection.changes, **dict.fromkeys(reduction.seqs, new)}
