"""One call of an agent: a message, its turn as it runs, and the answer as a tool's result."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup
from mcp_types import CallToolResult, InputRequiredResult, TextContent
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from everturn_actors.errors import CoreError
from everturn_actors.events import (
    ApprovalAsked,
    ApprovalDecided,
    CallFinished,
    ModelReplied,
)
from everturn_actors.model import Decision, ToolCall
from everturn_actors.service import TextDelta, Update
from everturn_actors.session.refusals import refusal, with_refusals
from everturn_actors.supervisor import attempt
from everturn_channels.errors import ChannelError
from everturn_channels.terminal.conversation import Answer, Conversation
from everturn_channels.terminal.reply import ReplyReader
from everturn_gateway.mcp_server.elicitation import (
    Round,
    decision_of,
    input_required,
    question_id,
    schema,
)
from everturn_gateway.mcp_server.link import Context, Link
from everturn_gateway.mcp_server.progress import Progress

RESULT_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        "session": {"type": "string", "description": "Give it to go on with the conversation."},
        "outcome": {"type": "string", "enum": ["answered", "failed", "cancelled", "interrupted"]},
        "reply": {"type": "string", "description": "What the agent answered."},
        "refused": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Calls of the agent's tools that did not run, each with the reason.",
        },
        "files": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Names of the files that the agent sent; they are in the session.",
        },
    },
    "required": ["session", "outcome", "reply", "refused", "files"],
}


class AgentCall:
    """Follows the turn that answers one message, and asks the client's person where it waits."""

    def __init__(
        self,
        ctx: Context,
        link: Link,
        conversation: Conversation,
        seq: int,
        *,
        seen_seq: int = 0,
        dismissed: tuple[str, ...] = (),
    ) -> None:
        """Prepare.

        Args:
            ctx: The request.
            link: The way to the gateway.
            conversation: Holds the session.
            seq: The number of the message's event.
            seen_seq: Of the event up to which the client was told how the turn goes on.
            dismissed: Questions that are not asked again.
        """
        self._ctx, self._link = ctx, link
        self._conversation, self._seq = conversation, seq
        self._seen_seq, self._dismissed = seen_seq, dismissed
        self._progress = Progress(ctx)
        self._reader = ReplyReader()
        self._answer = Answer()
        self._calls: dict[str, ToolCall] = {}
        self._refused: list[str] = []
        self._files: list[str] = []
        self._question: InputRequiredResult | None = None
        self._asking: tuple[str, anyio.CancelScope] | None = None

    async def run(self) -> CallToolResult | InputRequiredResult:
        """Return the result when the turn is done, or a question that the client has to answer."""
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            # Raised outside the group, which would wrap it.
            failure = await attempt(partial(self._follow, tasks))
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return self._question or self._result()

    async def decide(self, decided: tuple[Decision | None, str], question: Round) -> None:
        """Pass on what the person decided about a call in a round before this one."""
        decision, answer = decided
        if decision is None:
            return
        await self._decide(question.call_id, question.arguments_hash, decision, answer)

    async def _follow(self, tasks: TaskGroup) -> None:
        async with aclosing(self._conversation.answer(self._seq)) as updates:
            async for update in updates:
                await self._read(update, tasks)
                if self._question is not None:
                    return

    async def _read(self, update: Update, tasks: TaskGroup) -> None:
        self._answer = self._answer.after(update)
        pieces = self._reader.read(update)
        if isinstance(update, TextDelta) or update.seq > self._seen_seq:
            await self._progress.show(pieces)
        if isinstance(update, TextDelta):
            return
        self._seen_seq = max(self._seen_seq, update.seq)
        match update.body:
            case ModelReplied(calls=calls):
                self._calls.update((call.call_id, call) for call in calls)
            case CallFinished() as finished:
                if finished.is_refused:
                    call = self._calls.get(finished.call_id)
                    self._refused.append(refusal(call, finished.text))
                self._files += [each.file_name or each.name for each in finished.attachments]
            case ApprovalAsked() as asked:
                text = "\n".join(piece.text for piece in pieces).strip()
                await self._ask(asked, text, tasks)
            case ApprovalDecided(call_id=call_id):
                if self._asking is not None and self._asking[0] == call_id:
                    self._asking[1].cancel()
            case _:
                pass

    async def _ask(self, asked: ApprovalAsked, text: str, tasks: TaskGroup) -> None:
        """Ask the client's person; where there is no way to, say how to answer from elsewhere."""
        if not await self._is_open(asked):
            return  # it was answered before this request came
        form = schema(asked, may_always=bool(asked.pattern) and self._link.may_always)
        is_asked = self._link.may_approve and question_id(asked) not in self._dismissed
        if is_asked and _takes_forms(self._ctx):
            if self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                self._question = input_required(
                    text,
                    form,
                    Round(
                        session=self._conversation.session_id,
                        seq=self._seq,
                        seen_seq=self._seen_seq,
                        call_id=asked.call_id,
                        arguments_hash=asked.arguments_hash,
                        dismissed=self._dismissed,
                    ),
                )
                return
            if self._ctx.session.can_send_request:
                scope = anyio.CancelScope()
                self._asking = (asked.call_id, scope)
                tasks.start_soon(self._elicit, asked, text, form, scope)
                return
        session_id = self._conversation.session_id
        await self._progress.say(f"the call waits for a person: `everturn approve {session_id}`")

    async def _elicit(
        self, asked: ApprovalAsked, text: str, form: dict[str, object], scope: anyio.CancelScope
    ) -> None:
        """Ask until it is answered, here or elsewhere."""

        async def ask() -> None:
            result = await self._ctx.session.elicit_form(text, form, self._ctx.request_id)
            decision, answer = decision_of(result)
            if decision is not None:
                await self._decide(asked.call_id, asked.arguments_hash, decision, answer)

        with scope:
            failure = await attempt(ask)
            if failure is not None:  # a client that cannot ask after all: others still can answer
                await self._progress.say(f"the question was not answered: {failure}")

    async def _is_open(self, asked: ApprovalAsked) -> bool:
        status = await self._conversation.status()
        waiting = status.approvals if status else ()
        return any(
            (each.call_id, each.arguments_hash) == (asked.call_id, asked.arguments_hash)
            for each in waiting
        )

    async def _decide(
        self, call_id: str, arguments_hash: str, decision: Decision, answer: str
    ) -> None:
        try:
            await self._conversation.decide(
                decision, call_id, arguments_hash=arguments_hash, answer=answer
            )
        except (
            CoreError,
            ChannelError,
        ) as error:  # somebody else was faster, or the caller may not
            self._dismissed += (f"{call_id}:{arguments_hash}",)
            await self._progress.say(str(error))

    def _result(self) -> CallToolResult:
        answer, session_id = self._answer, self._conversation.session_id
        is_answered = answer.outcome == "answered"
        said = answer.text if is_answered else f"no answer: {answer.error or answer.outcome}"
        said = with_refusals(said, self._refused)
        return CallToolResult(
            content=[
                TextContent(text=said),
                # For clients that show their model the text alone.
                TextContent(text=f"(session {session_id})"),
            ],
            structured_content={
                "session": session_id,
                "outcome": answer.outcome,
                "reply": answer.text,
                "refused": self._refused,
                "files": self._files,
            },
            is_error=not is_answered,
        )


def _takes_forms(ctx: Context) -> bool:
    """Return whether the client can ask its person to fill in a form."""
    capabilities = ctx.session.client_capabilities
    found = capabilities.elicitation if capabilities else None
    # Older clients name no kind, and mean forms.
    return found is not None and (found.form is not None or found.url is None)
