"""What stands in a session, as a projection, and what a stage did to it, as an event. Pure.

A stage changes a projection; what it changed for good becomes a `ContextReduced`; the state that
follows gives the same projection again. So a request is rendered from state alone, and a restart
renders the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from everturn_actors.context.projection.projection import (
    Change,
    Projection,
    Reduction,
    without_images,
)
from everturn_actors.context.projection.turns import Block, blocks, count_messages
from everturn_actors.events import ContextReduced
from everturn_actors.model import (
    AnyMessage,
    Disposition,
    OpenTurn,
    Reductions,
    Replaced,
    Reply,
    Step,
    ToolResult,
    Turn,
    UserMessage,
)
from everturn_actors.outside import GONE

Gap = Callable[[int], str]
"From a number of messages of one turn to the text that stands in their place; empty for none."


def stands_for(message: AnyMessage, replaced: Replaced) -> AnyMessage:
    """Return the message as it is shown from now on."""
    if isinstance(message, Reply) and len(replaced.arguments) == len(message.calls) > 0:
        calls = tuple(
            replace(call, arguments=arguments)
            for call, arguments in zip(message.calls, replaced.arguments, strict=True)
        )
        return replace(message, text=replaced.text, calls=calls)
    shown = replace(message, text=replaced.text)
    return without_images(shown) if replaced.disposition in GONE else shown


def shown_blocks(turn: Turn | OpenTurn, reductions: Reductions, gap: Gap) -> tuple[Block, ...]:
    """Return the blocks of a turn as they are shown, oldest first."""
    held = blocks(turn)
    if not reductions.dropped and not reductions.replaced:
        return held
    return tuple(_shown(held, reductions, gap))


def _shown(held: Iterable[Block], reductions: Reductions, gap: Gap) -> Iterator[Block]:
    left: list[Block] = []
    for block in held:
        if _seq(block) in reductions.dropped:
            left.append(block)
            continue
        if left and (text := gap(count_messages(left))):
            yield UserMessage(text=text)
        left.clear()
        yield _as_shown(block, reductions)
    if left and (text := gap(count_messages(left))):
        yield UserMessage(text=text)


def _as_shown(block: Block, reductions: Reductions) -> Block:
    def shown(message: AnyMessage) -> AnyMessage:
        replaced = reductions.replaced.get(message.seq)
        return message if replaced is None else stands_for(message, replaced)

    if not isinstance(block, Step):
        changed = shown(block)
        assert not isinstance(changed, Reply | ToolResult)
        return changed
    if not any(message.seq in reductions.replaced for message in block.messages):
        return block
    reply = shown(block.reply)
    assert isinstance(reply, Reply)
    results = tuple(r for r in map(shown, block.results) if isinstance(r, ToolResult))
    return Step(reply=reply, results=results)


def _seq(block: Block) -> int:
    return block.reply.seq if isinstance(block, Step) else block.seq


def event_of(
    before: Projection, after: Projection, done: Sequence[Reduction], turns: Sequence[Turn]
) -> ContextReduced | None:
    """Return what a stage did as an event; None where it hid nothing.

    Args:
        before: What it was given.
        after: What it made of it.
        done: Its own account.
        turns: The finished turns among `before`, oldest first.
    """
    old = {message.seq: message for message in before.messages if message.seq}
    new = {message.seq: message for message in after.messages if message.seq}
    gone = old.keys() - new.keys()
    changed = tuple(
        _replaced(message, _disposition(seq, done))
        for seq, message in new.items()
        if message is not old[seq] and message != old[seq]
    )
    note = after.note.removeprefix(before.note).strip()
    if not gone and not changed and not note:
        return None
    cut_turn, left = _cut(turns, old.keys(), gone)
    return ContextReduced(
        stage=done[-1].stage if done else "",
        cut_turn=cut_turn,
        dropped=tuple(sorted(left)),
        replaced=changed,
        messages=len(gone) + len(changed),
        tokens_before=sum(each.tokens_before for each in done),
        tokens_after=sum(each.tokens_after for each in done),
        note=note,
    )


def _cut(
    turns: Sequence[Turn], shown: AbstractSet[int], gone: AbstractSet[int]
) -> tuple[int, AbstractSet[int]]:
    """Return the number of the first turn that stays (0 = all do), and what left besides."""
    cut, left = 0, set(gone)
    for turn in turns:
        seqs = {message.seq for message in turn.messages} & shown
        if not seqs <= gone:
            break
        cut = turn.number + 1
        left -= seqs
    return (cut, left) if gone else (0, left)


def _disposition(seq: int, done: Sequence[Reduction]) -> Disposition:
    disposition: Disposition = "shortened"
    for each in done:
        disposition = each.disposition if seq in each.seqs else disposition
    return disposition


def _replaced(message: AnyMessage, disposition: Disposition) -> Replaced:
    calls = message.calls if isinstance(message, Reply) else ()
    return Replaced(
        seq=message.seq,
        disposition=disposition,
        text=message.text,
        arguments=tuple(call.arguments for call in calls),
    )


def changes(reductions: Reductions) -> dict[int, Change]:
    """Return what has become of the messages that are shown in another form."""
    return {
        seq: Change(disposition=each.disposition, stage="")
        for seq, each in reductions.replaced.items()
    }
