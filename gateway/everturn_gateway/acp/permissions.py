"""Calls that wait for a person, as permissions that an editor asks for."""

from __future__ import annotations

from typing import Final

import anyio
from acp import Client, text_block, tool_content
from acp.schema import AllowedOutcome, PermissionOption, ToolCallUpdate
from anyio.abc import TaskGroup

from everturn_actors.errors import CoreError
from everturn_actors.events import ApprovalAsked
from everturn_actors.model import Decision
from everturn_actors.supervisor import attempt
from everturn_channels.errors import ChannelError
from everturn_channels.names import one_line, visible
from everturn_channels.terminal.conversation import Conversation
from everturn_gateway.acp.calls import ShownCall

_DECISIONS: Final[dict[str, Decision]] = {
    "allow_once": "allow_once",
    "allow_always": "allow_always",
    "deny": "deny",
}


class Permissions:
    """Asks for the calls of one turn; somebody else may answer first."""

    def __init__(self, editor: Client, conversation: Conversation, tasks: TaskGroup) -> None:
        self._editor, self._conversation, self._tasks = editor, conversation, tasks
        self._asking: dict[str, anyio.CancelScope] = {}

    def ask(self, asked: ApprovalAsked, call: ShownCall | None, text: str) -> None:
        """Begin to ask.

        Args:
            asked: What waits.
            call: Its call, as the editor knows it.
            text: All that a person has to know.
        """
        scope = anyio.CancelScope()
        self._asking[asked.call_id] = scope
        self._tasks.start_soon(self._settle, asked, call, text, scope)

    def close(self, call_id: str) -> None:
        """Stop asking: it was decided."""
        scope = self._asking.pop(call_id, None)
        if scope is not None:
            scope.cancel()

    async def _settle(
        self, asked: ApprovalAsked, call: ShownCall | None, text: str, scope: anyio.CancelScope
    ) -> None:
        async def settle() -> None:
            response = await self._editor.request_permission(
                session_id=self._conversation.session_id,
                tool_call=_shown(asked, call, text),
                options=_options(asked),
            )
            # A dismissed question stays open for others; a cancelled turn has none any more.
            if isinstance(response.outcome, AllowedOutcome):
                option = response.outcome.option_id
                if asked.inquiry is not None and option.isdecimal():
                    await self._decide(asked, "answer", option)
                else:
                    await self._decide(asked, _DECISIONS.get(option, "deny"))

        with scope:
            await attempt(settle)  # an editor that cannot ask: others still can answer

    async def _decide(self, asked: ApprovalAsked, decision: Decision, answer: str = "") -> None:
        try:
            await self._conversation.decide(
                decision, asked.call_id, arguments_hash=asked.arguments_hash, answer=answer
            )
        except (CoreError, ChannelError):  # it was decided meanwhile; the turn says how
            return


def _shown(asked: ApprovalAsked, call: ShownCall | None, text: str) -> ToolCallUpdate:
    said = tool_content(text_block(text))
    if call is None:
        return ToolCallUpdate(tool_call_id=asked.call_id, status="pending", content=[said])
    return ToolCallUpdate(
        tool_call_id=call.id,
        title=call.title,
        kind=call.kind,
        status="pending",
        content=[*call.diffs, said],
        locations=call.locations or None,
        raw_input=call.arguments,
    )


def _options(asked: ApprovalAsked) -> list[PermissionOption]:
    if asked.inquiry is not None:  # the choices by number; the protocol has no form for a text
        choices = [
            PermissionOption(option_id=str(number), name=one_line(choice), kind="allow_once")
            for number, choice in enumerate(asked.inquiry.choices, 1)
        ]
        return [*choices, PermissionOption(option_id="deny", name="Skip", kind="reject_once")]
    options = [PermissionOption(option_id="allow_once", name="Allow once", kind="allow_once")]
    if asked.pattern:
        name = f"Always allow {visible(asked.pattern)}"
        options.append(PermissionOption(option_id="allow_always", name=name, kind="allow_always"))
    return [*options, PermissionOption(option_id="deny", name="Reject", kind="reject_once")]
