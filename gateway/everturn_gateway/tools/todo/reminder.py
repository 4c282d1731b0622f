"""Tells the model its to-do list again, where the one it wrote is no longer shown.

It goes with the next result, at the end of the request: what stood before stays as it was, so that
the provider's cache holds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from everturn_actors.errors import JournalError
from everturn_actors.model import Conversation, OpenTurn, Reductions, Step, Turn
from everturn_actors.ports import ToolContext
from everturn_actors.todo import TODO_TOOL, todo_in, todo_lines
from everturn_gateway.tools.todo.lists import TodoLists

logger = logging.getLogger(__name__)

HEADING: Final = "Your to-do list, as it stands:"
FAR_CALLS: Final = 20  # policies may hide what is older as they render, and record nothing of it


class TodoReminder:
    """Says what is to be told with a result."""

    def __init__(self, lists: TodoLists) -> None:
        """Take the lists from `lists`."""
        self._lists = lists

    async def after(self, name: str, context: ToolContext) -> str:
        """Return what goes with the result of a call of a tool; mostly nothing."""
        if name == TODO_TOOL or _is_shown(context.conversation):
            return ""
        try:
            todo = await self._lists.read(context.session_id)
        except JournalError as error:  # the call itself went well
            logger.warning("a to-do list cannot be read", extra={"reason": str(error)})
            return ""
        if all(item.status == "done" for item in todo.items):
            return ""
        if todo.outside:  # it would come back without its mark
            return f"{HEADING} it is not shown any more; call {TODO_TOOL} without items to read it."
        return f"{HEADING}\n{todo_lines(todo.items)}"


def _is_shown(conversation: Conversation) -> bool:
    """Return whether the newest telling of the list stands in the requests of now."""
    reductions, calls = conversation.reductions, 0
    for turn, step in _steps(conversation):
        if turn.number < reductions.cut_turn:
            return False
        calls += len(step.results)
        for call, result in zip(step.reply.calls, step.results, strict=True):
            if HEADING in result.text:
                return calls <= FAR_CALLS and _stands(result.seq, reductions)
            if not result.is_error and todo_in(call) is not None:
                return calls <= FAR_CALLS and _stands(step.reply.seq, reductions)
    return False


def _stands(seq: int, reductions: Reductions) -> bool:
    return seq not in reductions.dropped and seq not in reductions.replaced


def _steps(conversation: Conversation) -> Iterator[tuple[OpenTurn | Turn, Step]]:
    """Yield the finished steps, newest first."""
    current = conversation.current
    for turn in (*((current,) if current is not None else ()), *reversed(conversation.turns)):
        for step in reversed(turn.steps):
            yield turn, step
