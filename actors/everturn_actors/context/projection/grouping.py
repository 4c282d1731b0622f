"""Groups the flat messages of an imported history into blocks. Pure.

A flat list can say what no conversation is: a result without a call, a call without a result. The
grouping sets right what it can and tells each fault; whoever wants none raises there.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.context.projection.projection import Change, Projection
from everturn_actors.context.projection.turns import Block
from everturn_actors.model import AnyMessage, Notice, Reply, Step, ToolCall, ToolResult, UserMessage


class Misplaced(Struct, frozen=True, kw_only=True):
    """What was wrong with one message, and what was done about it."""

    index: int
    "Of the message, from 0."
    field: str
    "The part of it; empty for the whole."
    problem: str
    repair: str


class Grouping(Struct, kw_only=True):
    """Takes messages one by one and gives blocks: every call of a step has exactly one result."""

    on_fault: Callable[[Misplaced], None]
    "Told every fault before it is repaired; raises where it must not be."
    blocks: list[Block] = field(default_factory=list[Block])
    dropped: list[int] = field(default_factory=list[int])
    "Indexes of the messages that are in no block."
    _reply: Reply | None = None
    _reply_index: int = 0
    _results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    _held: list[UserMessage | Notice] = field(default_factory=list[UserMessage | Notice])
    "What came between a call and its result; it follows them."

    @property
    def missing(self) -> tuple[str, ...]:
        """The calls of the newest reply that have no result yet."""
        calls = () if self._reply is None else self._reply.calls
        return tuple(call.call_id for call in calls if call.call_id not in self._results)

    def add(self, message: AnyMessage, index: int) -> None:
        """Take the next message, number `index` of the list."""
        match message:
            case UserMessage() | Notice():
                if self._reply is None:
                    self.blocks.append(message)
                    return
                self._unanswered(index, "it follows their results")
                self._held.append(message)
            case Reply():
                self._add_reply(message, index)
            case ToolResult():
                self._add_result(message, index)

    def close(self) -> tuple[Block, ...]:
        """Return all blocks; calls that still wait get a result that says so."""
        if self._reply is not None:
            ids = ", ".join(self.missing)
            self._tell(
                self._reply_index,
                "tool_calls",
                f"the calls {ids} have no result",
                "they got one that says so",
            )
            self._close_step()
        return tuple(self.blocks)

    def _add_reply(self, reply: Reply, index: int) -> None:
        if self._reply is not None:
            self._unanswered(index, "they got one that says so")
            self._close_step()
        ids = [call.call_id for call in reply.calls]
        if len(set(ids)) < len(ids):
            self._tell(
                index, "tool_calls", "two calls have the same id", "the later ones got another id"
            )
            reply = replace(reply, calls=_distinct(reply.calls))
        if reply.calls:
            self._reply, self._reply_index = reply, index
        else:
            self.blocks.append(Step(reply=reply))

    def _add_result(self, result: ToolResult, index: int) -> None:
        call = self._waiting(result.call_id)
        if call is None:
            problem = f"no call waits for the result of {result.call_id!r}"
            self._tell(index, "tool_call_id", problem, "it was left out")
            self.dropped.append(index)
            return
        self._results[call.call_id] = replace(result, call_id=call.call_id, name=call.name)
        if not self.missing:
            self._close_step()

    def _waiting(self, call_id: str) -> ToolCall | None:
        """Return the call that a result with this id answers."""
        calls = () if self._reply is None else self._reply.calls
        waiting = [call for call in calls if call.call_id not in self._results]
        names = (call_id, *(f"{call_id}_{n}" for n in range(2, len(calls) + 1)))
        renamed = [call for call in waiting if call.call_id in names]
        exact = [call for call in renamed if call.call_id == call_id]
        return next(iter(exact or (renamed if self._was_renamed(call_id) else ())), None)

    def _was_renamed(self, call_id: str) -> bool:
        calls = () if self._reply is None else self._reply.calls
        return any(call.call_id == f"{call_id}_2" for call in calls)

    def _unanswered(self, index: int, repair: str) -> None:
        ids = ", ".join(self.missing)
        self._tell(index, "", f"a tool message is missing for the calls {ids}", repair)

    def _close_step(self) -> None:
        assert self._reply is not None
        results = tuple(self._results.get(c.call_id) or self._invent(c) for c in self._reply.calls)
        self.blocks += [Step(reply=self._reply, results=results), *self._held]
        self._reply, self._results, self._held = None, {}, []

    def _invent(self, call: ToolCall) -> ToolResult:
        why = "another message came in" if self._held else "it was interrupted"
        text = f"[no result: the call was cancelled because {why}]"
        return ToolResult(call_id=call.call_id, name=call.name, text=text, is_error=True)

    def _tell(self, index: int, part: str, problem: str, repair: str) -> None:
        self.on_fault(Misplaced(index=index, field=part, problem=problem, repair=repair))


def _distinct(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return calls whose ids are all different; the first of a name keeps it."""
    taken = {call.call_id for call in calls}
    seen: set[str] = set()
    distinct: list[ToolCall] = []
    for call in calls:
        call_id, number = call.call_id, 1
        while call_id in seen or (number > 1 and call_id in taken):
            number += 1
            call_id = f"{call.call_id}_{number}"
        seen.add(call_id)
        distinct.append(call if number == 1 else replace(call, call_id=call_id))
    return tuple(distinct)


def make_projection(
    blocks: tuple[Block, ...],
    *,
    turn_start: int | None = None,
    media: dict[int, int] | None = None,
    dropped: tuple[int, ...] = (),
) -> Projection:
    """Return the projection of an imported history whose messages have seq 1, 2, 3 and so on.

    Args:
        blocks: The history.
        turn_start: Index of the message at which the running turn begins; a step that it would
            cut belongs to the turn whole. None = the last run of user messages, or no running turn
            where the history ends with an answer.
        media: Images and files, by seq.
        dropped: Indexes of messages that are in no block.
    """
    return Projection(
        blocks=blocks,
        current=_current(blocks) if turn_start is None else _at(blocks, turn_start),
        media=media or {},
        changes={index + 1: Change(disposition="dropped", stage="repair") for index in dropped},
    )


def _current(blocks: tuple[Block, ...]) -> int:
    last = blocks[-1] if blocks else None
    if last is None or (isinstance(last, Step) and not last.reply.calls):
        return len(blocks)
    users = [index for index, block in enumerate(blocks) if isinstance(block, UserMessage)]
    if not users:
        return len(blocks)
    start = users[-1]
    while start > 0 and isinstance(blocks[start - 1], UserMessage):
        start -= 1
    return start


def _at(blocks: tuple[Block, ...], turn_start: int) -> int:
    """Return the first block with a message at `turn_start` or after it."""
    for index, block in enumerate(blocks):
        messages = block.messages if isinstance(block, Step) else (block,)
        if max(message.seq for message in messages) > turn_start:
            return index
    return len(blocks)
