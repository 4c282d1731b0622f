"""From the updates of a conversation to what an editor is told of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from acp import (
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    PlanEntryStatus,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)

from everturn_actors.events import (
    CallFinished,
    CallStarted,
    ContextReduced,
    Discarded,
    Edited,
    Event,
    ModelCallFailed,
    ModelReplied,
    Received,
    ReplyBroken,
    SessionEnded,
    StatusChanged,
    Transcribed,
)
from everturn_actors.model import UserMessage
from everturn_actors.service import TextDelta, Update
from everturn_actors.todo import TodoItem, TodoItems, TodoStatus, todo_in
from everturn_channels.names import clean
from everturn_channels.terminal.reply import Piece, ReplyReader
from everturn_gateway.acp.calls import ShownCall, shown_call

AcpUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | AgentPlanUpdate
    | ToolCallStart
    | ToolCallProgress
)

RESULT_CHARACTERS: Final = 20_000  # of what a call gave; the session has the whole
_STATUS: Final[Mapping[TodoStatus, PlanEntryStatus]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "done": "completed",
}
# Events whose line for a person at a terminal is all that there is to tell of them.
_LINES: Final = (
    ContextReduced
    | Discarded
    | Edited
    | ModelCallFailed
    | ReplyBroken
    | SessionEnded
    | StatusChanged
    | Transcribed
)


class Updates:
    """Reads the updates of one session in order."""

    def __init__(self, root: str, *, shows_users: bool = False) -> None:
        """Prepare.

        Args:
            root: The agent's workspace.
            shows_users: Whether messages of people are told, which an editor that sent them knows.
        """
        self._root = root
        self._shows_users = shows_users
        self._reader = ReplyReader(show_users=shows_users)
        self._calls: dict[str, ShownCall] = {}
        self._lists: dict[str, TodoItems] = {}
        "What calls write that write a to-do list, which an editor shows as the plan."

    def call(self, call_id: str) -> ShownCall | None:
        """Return the newest call of this id."""
        return self._calls.get(call_id)

    def read(self, update: Update) -> tuple[list[AcpUpdate], list[Piece]]:
        """Return what the editor is told, and the lines that a terminal would show."""
        pieces = [*self._reader.read(update)]
        told = [_reply(piece) for piece in pieces if piece.style == "reply" and piece.text]
        if isinstance(update, TextDelta):
            return [*told, *_thoughts(pieces)], pieces
        return [*told, *self._event(update, pieces)], pieces

    def _event(self, event: Event, pieces: list[Piece]) -> Iterable[AcpUpdate]:
        match event.body:
            case Received() as body if self._shows_users:
                message = UserMessage(text=body.text, attachments=body.attachments)
                yield update_user_message_text(clean(message.as_text))
            case ModelReplied() as body:
                if body.reasoning:
                    yield update_agent_thought_text(clean(body.reasoning))
                self._lists = {}
                for call in body.calls:
                    items = todo_in(call)
                    if items is not None:
                        self._lists[call.call_id] = items
                        continue
                    shown = shown_call(call, event.seq, self._root)
                    self._calls[call.call_id] = shown
                    yield _start(shown)
            case CallStarted(call_id=call_id) if call_id in self._calls:
                yield update_tool_call(self._calls[call_id].id, status="in_progress")
            case CallFinished(call_id=call_id) as body if call_id in self._lists:
                if not body.is_error:
                    yield _plan(self._lists[call_id])
            case CallFinished() as body if body.call_id in self._calls:
                yield _finished(self._calls[body.call_id], body)
            case body if isinstance(body, _LINES):
                yield from _thoughts(pieces)
            case _:
                return


def _start(shown: ShownCall) -> ToolCallStart:
    return start_tool_call(
        shown.id,
        shown.title,
        kind=shown.kind,
        status="pending",
        content=shown.diffs or None,
        locations=shown.locations or None,
        raw_input=shown.arguments,
    )


def _finished(shown: ShownCall, body: CallFinished) -> ToolCallProgress:
    text = clean(body.text)[:RESULT_CHARACTERS]
    # What is given here takes the place of the diff, which says more than that it was written.
    keeps = bool(shown.diffs) and not body.is_error
    return update_tool_call(
        shown.id,
        status="failed" if body.is_error else "completed",
        content=None if keeps else [tool_content(text_block(text))],
    )


def _plan(items: Sequence[TodoItem]) -> AgentPlanUpdate:
    return update_plan(
        [plan_entry(clean(each.text), status=_STATUS[each.status]) for each in items]
    )


def _reply(piece: Piece) -> AgentMessageChunk:
    return update_agent_message_text(piece.text)


def _thoughts(pieces: Iterable[Piece]) -> list[AcpUpdate]:
    lines = [piece.text.strip() for piece in pieces if piece.style not in {"reply", "user"}]
    return [update_agent_thought_text(f"{line}\n") for line in lines if line]
