"""An open gateway, as a program sees it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from everturn._asgi import Mounted, mounted
from everturn._errors import TurnFailedError
from everturn_actors.events import Discarded, SessionEnded, TurnFinished
from everturn_actors.model import ConversationKey, Decision, IncomingMessage, Inquiry, Upload
from everturn_actors.service import Submission, TextDelta, TurnResult, TurnService
from everturn_actors.state.session_state import SessionState

if TYPE_CHECKING:  # the gateway is loaded when one is opened
    from everturn_gateway.app import Gateway as OpenGateway

CHANNEL: Final = "program"  # of the conversations that a program leads itself


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingApproval:
    """A call of a tool that waits for a person."""

    session_id: str
    call_id: str
    agent: str
    conversation: str
    "As the program named it; for a chat channel, the id of the chat."
    tool: str
    arguments: str
    "JSON, as the model wrote it."
    reason: str
    "Why it is asked, in words."
    expires_at: datetime
    "UTC. Nobody can answer after it, and the call does not run."
    arguments_hash: str = ""
    "What an answer is bound to."
    inquiry: Inquiry | None = None
    "What the agent wants to know; None = it is asked whether the call may run."


class MessageOptions(TypedDict, total=False):
    """What may be said of a message besides its text; see `Gateway.submit`."""

    conversation: str
    sender: str
    idempotency_key: str
    files: Sequence[Upload]


class Gateway:
    """An open gateway; `open_gateway` makes one.

    A conversation is named by the agent and a text of yours, for example the id of a user. The
    first message begins it, each later one goes on with it, also after a restart where the gateway
    has a workspace.
    """

    def __init__(self, inner: OpenGateway) -> None:
        self._inner = inner

    @property
    def service(self) -> TurnService:
        """All that can be done with sessions, of which the methods here are the usual part."""
        return self._inner.service

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents that can be asked, sorted."""
        return self._inner.library.names()

    async def submit(
        self,
        agent: str,
        text: str,
        *,
        conversation: str = "main",
        sender: str = "",
        idempotency_key: str = "",
        files: Sequence[Upload] = (),
    ) -> Submission:
        """Hand in a message; return when it is durable, whatever becomes of the program then.

        >>> import anyio, everturn
        >>> async def main():
        ...     async with everturn.open_gateway(everturn.Agent(name="guide")) as gateway:
        ...         first = await gateway.submit("guide", "hello", idempotency_key="mail-7")
        ...         again = await gateway.submit("guide", "hello", idempotency_key="mail-7")
        ...         print(first.seq == again.seq, (await again.result()).outcome)
        >>> anyio.run(main)
        True answered

        Args:
            agent: Who is asked.
            text: What; may be empty where files come with it.
            conversation: Which one it belongs to.
            sender: Who says it, where several talk in one conversation.
            idempotency_key: The same key in one conversation is the same message, also after a
                restart; empty = a new one.
            files: What comes with it.

        Returns:
            The way to its answer: `updates()` yields all that happens, `result()` waits.

        Raises:
            UnknownAgentError: There is no such agent.
            InvalidInputError: Empty, too long, or not text; or a file that is refused.
            CoreError: It cannot be accepted; the text says why.
        """
        inbound = IncomingMessage(
            text=text,
            key=self._key(agent, conversation),
            sender=sender,
            idempotency_key=idempotency_key,
            attachments=tuple(files),
        )
        return await self.service.submit(inbound)

    async def ask(
        self,
        agent: str,
        text: str,
        **message: Unpack[MessageOptions],
    ) -> TurnResult:
        """Ask an agent and wait for its answer; the arguments are those of `submit`.

        Set a deadline of your own with `anyio.fail_after`: the turn goes on without you, and
        asking again with the same `idempotency_key` finds its answer.

        Raises:
            TurnFailedError: There is no answer; the message and what the turn did are kept.
            CoreError: As `submit`.
        """
        submission = await self.submit(agent, text, **message)
        result = await submission.result()
        if result.outcome != "answered":
            raise TurnFailedError(result)
        return result

    async def stream(
        self,
        agent: str,
        text: str,
        **message: Unpack[MessageOptions],
    ) -> AsyncGenerator[str]:
        """Ask an agent and yield its answer piece by piece; the arguments are those of `submit`.

        >>> import anyio, everturn
        >>> from contextlib import aclosing
        >>> async def main():
        ...     async with everturn.open_gateway(everturn.Agent(name="guide")) as gateway:
        ...         async with aclosing(gateway.stream("guide", "hello")) as pieces:
        ...             print("hello" in "".join([piece async for piece in pieces]))
        >>> anyio.run(main)
        True

        What it says before and between calls of tools is among the pieces. Who leaves early closes
        the generator (`contextlib.aclosing`); the agent's `on_disconnect` says what becomes of the
        turn then.

        Raises:
            TurnFailedError: The answer ends without its end.
            CoreError: As `submit`.
        """
        submission = await self.submit(agent, text, **message)
        has_failed = False
        async with aclosing(submission.updates(final=True)) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    if update.text:
                        yield update.text
                elif isinstance(update.body, TurnFinished):
                    has_failed = update.body.outcome != "answered"
                else:
                    has_failed = isinstance(update.body, Discarded | SessionEnded)
        if has_failed:
            raise TurnFailedError(await submission.result())

    async def session(self, agent: str, conversation: str = "main") -> SessionState | None:
        """Return how a conversation stands: its turns, what waits; None where there is none.

        >>> import anyio, everturn
        >>> async def main():
        ...     async with everturn.open_gateway(everturn.Agent(name="guide")) as gateway:
        ...         await gateway.ask("guide", "hello", conversation="ann")
        ...         state = await gateway.session("guide", "ann")
        ...         print(state.turns)
        ...         await gateway.reset("guide", "ann")
        ...         print(await gateway.session("guide", "ann"))
        >>> anyio.run(main)
        1
        None

        Raises:
            JournalError: It cannot be read.
        """
        session_id = await self.service.conversations.current(self._key(agent, conversation))
        return await self.service.view(session_id) if session_id else None

    async def reset(self, agent: str, conversation: str = "main") -> None:
        """End a conversation; its next message begins a new one. The old one stays readable."""
        session_id = await self.service.conversations.current(self._key(agent, conversation))
        if session_id:
            await self.service.reset(session_id)

    async def approvals(self) -> tuple[PendingApproval, ...]:
        """Return the calls that wait for a person, those of chat channels included."""
        states = await self.service.activity.awaiting_approval()
        return tuple(each for state in states for each in _pending(state))

    async def decide(
        self, approval: PendingApproval, decision: Decision, *, by: str = "", answer: str = ""
    ) -> None:
        """Answer a call that waits; return when that is durable. The same answer again is none.

        >>> import anyio, everturn
        >>> from contextlib import aclosing
        >>> @everturn.tool(needs_approval=True)
        ... def pay(euros: int) -> str:
        ...     "Pay a bill."
        ...     return f"I paid {euros} euros."
        >>> async def main():
        ...     clerk = everturn.Agent(name="clerk", tools=[pay])
        ...     async with everturn.open_gateway(clerk) as gateway:
        ...         order = await gateway.submit("clerk", 'call pay {"euros": 12}')
        ...         async with aclosing(order.updates()) as updates:
        ...             async for _ in updates:
        ...                 for call in await gateway.approvals():
        ...                     print(call.tool, call.arguments)
        ...                     await gateway.decide(call, "allow_once")
        ...         print((await order.result()).text)
        >>> anyio.run(main)
        pay {"euros": 12}
        pay: I paid 12 euros.

        Args:
            approval: One of `approvals`; the answer holds for what it shows and nothing else.
            decision: `allow_once`, `allow_always` or `deny`; to an inquiry `answer` or `deny`.
            by: Who says so, for the log; empty = the program.
            answer: With `answer`, one of the choices, its number, or a text where one is taken.

        Raises:
            UnknownApprovalError: The call does not wait any more.
            ApprovalClosedError: It has expired, was answered otherwise, or has changed.
            NotAnApproverError: `by` is none of those who may answer.
        """
        await self.service.decide(
            approval.session_id,
            approval.call_id,
            decision,
            by=by,
            may_always=not by,
            arguments_hash=approval.arguments_hash,
            expires_at=approval.expires_at,
            answer=answer,
        )

    async def asgi(self, *, token: str = "") -> Mounted:
        """Return the HTTP API as an ASGI application, to be served or mounted in another one.

        >>> app = fastapi.FastAPI()  # doctest: +SKIP
        >>> app.mount("/agents", await gateway.asgi(token=TOKEN))  # doctest: +SKIP

        It answers while the gateway is open. Closed by default: without
        `token` only the tokens open it that `everturn token create` made in the workspace.

        Args:
            token: What callers send as `Authorization: Bearer`; it opens everything.
        """
        return await mounted(self._inner, token)

    def _key(self, agent: str, conversation: str) -> ConversationKey:
        return ConversationKey(channel=CHANNEL, chat=conversation, agent=agent)


def _pending(state: SessionState) -> list[PendingApproval]:
    turn = state.open_turn
    step = turn.step if turn else None
    if step is None or step.reply is None:
        return []
    calls = {call.call_id: call for call in step.reply.calls}
    return [
        PendingApproval(
            session_id=state.session_id,
            call_id=each.call_id,
            agent=state.key.agent,
            conversation=state.key.chat,
            tool=calls[each.call_id].name,
            arguments=calls[each.call_id].arguments,
            reason=each.reason,
            expires_at=each.expires_at,
            arguments_hash=each.arguments_hash,
            inquiry=each.inquiry,
        )
        for each in step.approvals.values()
        if each.resolution is None and each.call_id in calls
    ]
