"""The stage that takes old results and long old arguments away, once that pays. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN, Estimates, message_units
from everturn_actors.context.projection.arguments import shorten_call
from everturn_actors.context.projection.markers import Markers, is_cleared, whole_tokens
from everturn_actors.context.projection.projection import (
    Estimator,
    Outcome,
    Place,
    Projection,
    Stage,
    edit,
    projection_units,
)
from everturn_actors.context.stages.cutting_ahead import newest_turn
from everturn_actors.model import AnyMessage, Disposition, Reply, Step, ToolResult, remember

_CLEARED = {True: "cleared, can be recalled", False: "cleared"}
_WORTH_UNITS = 100 * UNITS_PER_TOKEN  # less is not worth what is lost with it


class Old(Struct, frozen=True, kw_only=True):
    """What may be taken away, and what stands for it."""

    markers: Markers
    keep_first: int
    "So many first results of the newest turn stay: they show what it is about."
    keep_results: int
    "So many newest results of all stay."
    exclude: frozenset[str]
    "Tools whose results and arguments stay."
    argument_limit_characters: int
    "Calls with longer arguments are shortened."
    argument_head_characters: int
    "What stays of each long text among them."


class Item(Struct, frozen=True):
    """One message that can be made shorter."""

    place: Place
    message: AnyMessage
    "The shorter one."
    gain_units: int


def items(projection: Projection, old: Old, *, stop_at_cleared: bool = False) -> Iterator[Item]:
    """Yield what may be taken away, from the newest to the oldest message.

    The newest step is left alone, since its results may not have been seen yet.

    Args:
        projection: The conversation.
        old: What may.
        stop_at_cleared: Whether the first result that is cleared already is the end: what is older
            was looked at before.
    """
    blocks, exclude, keep = projection.blocks, old.exclude, old.keep_results
    spared = _first_results(projection, newest_turn(projection), old.keep_first)
    newest = len(blocks) - 1
    while newest > 0 and not isinstance(blocks[newest], Step):
        newest -= 1
    last = blocks[newest] if blocks else None
    seen = len(last.results) if isinstance(last, Step) else 0
    for index in range(newest - 1, -1, -1):
        block = blocks[index]
        if not isinstance(block, Step) or not block.results:
            continue
        for number in range(len(block.results), 0, -1):
            result, place = block.results[number - 1], (index, number)
            seen += 1
            if is_cleared(result.text):
                if stop_at_cleared:
                    return
            elif seen > keep and place not in spared and result.name not in exclude:
                units = message_units(result)
                if units > _WORTH_UNITS:
                    shorter = _cleared(result, old)
                    gain = units - message_units(shorter)
                    if gain >= _WORTH_UNITS:
                        yield Item(place, shorter, gain)
        if seen > keep and (index, 1) not in spared and _is_long(block.reply, old):
            short = _shrunk(block.reply, old)
            gain = message_units(block.reply) - message_units(short)
            if gain >= _WORTH_UNITS:
                yield Item((index, 0), short, gain)


def clear_old(
    old: Old,
    *,
    limit: Callable[[Projection, Budget], int],
    trigger: float,
    protect_tokens: int,
    minimum_tokens: int,
    count: Estimates,
) -> Stage:
    """Return the stage that clears old results and shortens old arguments, all in one go.

    Args:
        old: Which, and what stands for them.
        limit: What all messages may cost.
        trigger: The share of it above which it pays.
        protect_tokens: So many newest tokens of what could go, stay; that which goes beyond them is
            whole.
        minimum_tokens: Nothing happens for less, unless the messages are above the limit.
        count: Counts tokens.
    """

    def stage(projection: Projection, budget: Budget) -> Outcome:
        used, most = count.tokens(projection_units(projection)), limit(projection, budget)
        if used <= trigger * most:
            return projection, ()
        has_to = used > most
        leaving: list[Item] = []
        kept_units = gain_units = 0
        for item in items(projection, old, stop_at_cleared=not has_to):
            if count.tokens(kept_units) < protect_tokens:
                kept_units += item.gain_units
            else:
                leaving.append(item)
                gain_units += item.gain_units
        if not leaving or not (has_to or count.tokens(gain_units) >= minimum_tokens):
            return projection, ()
        return put(projection, leaving, disposition="cleared", stage="clear", estimator=count)

    return stage


def put(
    projection: Projection,
    leaving: Sequence[Item],
    *,
    disposition: Disposition,
    stage: str,
    estimator: Estimator,
) -> Outcome:
    """Return the projection with the shorter messages; `disposition` is that of results."""
    ordered = sorted(leaving, key=lambda item: item.place)
    results = {i.place: i.message for i in ordered if isinstance(i.message, ToolResult)}
    replies = {i.place: i.message for i in ordered if isinstance(i.message, Reply)}
    projection, without = edit(
        projection, results, disposition=disposition, stage=stage, estimator=estimator
    )
    projection, shortened = edit(
        projection, replies, disposition="shortened", stage=stage, estimator=estimator
    )
    return projection, (*without, *shortened)


def _first_results(projection: Projection, start: int, number: int) -> frozenset[Place]:
    """Return the places of the first results from block `start` on."""
    found: list[Place] = []
    for index in range(start, len(projection.blocks)):
        block = projection.blocks[index]
        if len(found) >= number:
            break
        if isinstance(block, Step):
            found += [(index, n) for n in range(1, len(block.results) + 1)]
    return frozenset(found[:number])


def _cleared(result: ToolResult, old: Old) -> ToolResult:
    form = _CLEARED[old.markers.asks]
    known: ToolResult | None = result.memo.get(form)  # first: this is asked of every result
    if known is not None:
        return known
    tokens = whole_tokens(result.text) or Estimates().message(result, 0)
    marker = old.markers.cleared(tokens, result.seq)
    return remember(result, form, lambda: replace(result, text=marker))


def _is_long(reply: Reply, old: Old) -> bool:
    for call in reply.calls:
        if len(call.arguments) > old.argument_limit_characters and call.name not in old.exclude:
            return True
    return False


def _shrunk(reply: Reply, old: Old) -> Reply:
    limit, head = old.argument_limit_characters, old.argument_head_characters
    form = f"shrunk {limit} {head} {old.markers.asks} {sorted(old.exclude)}"
    return remember(reply, form, lambda: shorten_reply(reply, old))


def shorten_reply(reply: Reply, old: Old) -> Reply:
    """Return the reply with its long arguments shortened."""
    calls = tuple(
        call
        if call.name in old.exclude
        else shorten_call(
            call,
            limit_characters=old.argument_limit_characters,
            head_characters=old.argument_head_characters,
            marker=lambda characters: old.markers.argument(characters, reply.seq),
        )
        for call in reply.calls
    )
    return replace(reply, calls=calls)
