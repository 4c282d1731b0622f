"""Hands a request of OpenAI's clients in: to a conversation, to a turn that waits, or for once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Final, Protocol, TypeVar

from anyio.to_thread import run_sync
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import CallNotOpenError, CannotBranchError, UnknownSessionError
from everturn_actors.ids import is_session_id
from everturn_actors.model import CallAnswer, CallOptions, ConversationKey, IncomingMessage
from everturn_actors.service import Submission, TurnService
from everturn_actors.service.stateless import Stateless
from everturn_actors.state.session_state import SessionState
from everturn_actors.state.validation import check
from everturn_gateway.http.access.visibility import check_agent, own_key, visible_session
from everturn_gateway.http.openai.approvals import asked_about, decision_in
from everturn_gateway.http.openai.call_ids import open_calls, session_of
from everturn_gateway.http.openai.client_headers import ClientHeaders
from everturn_gateway.http.openai.pages import Place, place_of_page
from everturn_gateway.http.openai.parameters import ignored, options_of
from everturn_gateway.http.openai.refusals import refuse
from everturn_gateway.http.openai.request import (
    Asked,
    ChatRequest,
    has_parts,
    newest,
    results,
    stateless,
    unread,
)
from everturn_gateway.http.openai.side_requests import is_side_request
from everturn_gateway.http.ports import HasAgents, HasConfig, HasRuns, HasSessions
from everturn_gateway.http.problems import ProblemError, problem
from everturn_gateway.principals import Principal

T = TypeVar("T")

CHANNEL: Final = "openai"


class OpenAiHost(HasAgents, HasConfig, HasRuns, HasSessions, Protocol):
    """The parts of the gateway that are used here."""


class Handed(Struct, frozen=True):
    """A message that was handed in, or a turn that goes on with a message."""

    submission: Submission
    is_kept: bool = True
    "Whether there is a session that goes on."
    after: int = 0
    "The last event that the client was told of."
    steps: int = 0
    "How many steps of the turn it was shown the text of."


class TurnRequest(Struct, frozen=True, kw_only=True):
    """One request, and who sends it."""

    gateway: OpenAiHost
    caller: Principal
    body: ChatRequest
    options: CallOptions | None
    key: str
    "Makes the same request the same message; empty = a new one."
    is_side: bool = False
    "Whether a chat page asks for itself: for the model alone, and in no conversation."
    without_effect: tuple[str, ...] = ()
    "The names of what the client sent for nothing."

    async def answered(self, name: str) -> Submission | None:
        """Let a turn go on that waits for what the client's tools gave; None where none does.

        The same results a second time are known again.

        Raises:
            ProblemError: The turn waits for more than was given, or, of a conversation `name`,
                there is none that waits for it (400).
        """
        given = results(self.body)
        sessions = {session_of(each) for each in given}
        session_id = sessions.pop() if len(sessions) == 1 else ""
        to, state = await self._waiting(session_id) if session_id else (None, None)
        waiting = open_calls(state) if state is not None else {}
        missing = waiting.keys() - given.keys()
        if missing:
            refuse("messages", f"a tool message is missing for {', '.join(sorted(missing))}")
        if to is not None:
            answers = [CallAnswer(call_id=waiting.get(i, i), text=t) for i, t in given.items()]
            with suppress(CallNotOpenError):  # it ended meanwhile, or its client never waited here
                return await to.answer_calls(session_id, answers, idempotency_key=_key_of(given))
        if given and name:
            refuse("messages", "no turn of this conversation waits for these results")
        return None

    async def _waiting(
        self, session_id: str
    ) -> tuple[TurnService | Stateless | None, SessionState | None]:
        """Return who has a session of the caller with this agent, and its state."""
        service = self.gateway.service
        once = service.stateless.present(session_id)
        if once is not None:
            is_own = once.principal == self.caller.owns_as and once.key.agent == self.body.model
            return (service.stateless, once) if is_own else (None, None)
        try:
            await visible_session(service, self.caller, session_id)
            state = await service.view(session_id)
        except UnknownSessionError:
            return None, None
        return (service, state) if state.key.agent == self.body.model else (None, None)

    async def inbound(self, name: str) -> IncomingMessage:
        """Return the message for the conversation or session `name`.

        Raises:
            UnknownSessionError: `name` is an id, and there is no such session that the caller may
                see.
            ProblemError: The session's agent is another one (400).
        """
        text, files = await _beside(self.body, newest)
        inbound = IncomingMessage(
            text=text,
            sender=self.caller.owns_as,
            attachments=files,
            options=self.options,
            idempotency_key=self.key,
        )
        model, caller = self.body.model, self.caller
        if not is_session_id(name):
            conversation = ConversationKey(channel=CHANNEL, chat=name, agent=model)
            return replace(inbound, key=own_key(caller, conversation), principal=caller.owns_as)
        await visible_session(self.gateway.service, caller, name)
        agent = (await self.gateway.service.view(name)).key.agent
        if agent != model:
            refuse("model", f"the session {name!r} talks to the agent {agent!r}")
        return replace(inbound, session_id=name)

    async def decided(self, place: str | ConversationKey) -> Handed | None:
        """Take the answer to a question of a conversation or session; None where it is none.

        Raises:
            ProblemError: The caller may not answer (403), or it is not clear what is meant (400).
            UnknownSessionError: There is no such session that the caller may see.
            NotAnApproverError, ApprovalClosedError: See `TurnService.decide`.
        """
        last, service, caller = self.body.messages[-1], self.gateway.service, self.caller
        text = last.content if last.role == "user" and isinstance(last.content, str) else ""
        reply = decision_in(text)
        if reply is None:
            return None
        if isinstance(place, ConversationKey):
            session_id = await service.conversations.current(place)
        else:
            session_id = place
            await visible_session(service, caller, place)
        if not session_id:
            return None
        state = await service.view(session_id)
        approval = asked_about(reply, state.open_approvals)
        if approval is None or state.open_turn is None:
            return None
        if not caller.may("approve"):
            detail = (
                "a call waits to be allowed, and your token may not answer: it needs the scope"
                f" approve; whoever has it answers with `everturn approve {session_id}`"
            )
            raise ProblemError(problem("insufficient-scope", detail, extra={"scope": "approve"}))
        decision, answer = reply.decision, ""
        if approval.inquiry is not None:
            decision, answer = "answer", approval.inquiry.read(text) or ""
            if not answer:
                return None  # it is a message, which the agent reads
        await service.decide(
            session_id,
            approval.call_id,
            decision,
            answer=answer,
            by=caller.name,
            may_always=caller.may_claim,
            arguments_hash=approval.arguments_hash,
            expires_at=approval.expires_at,
        )
        submission = await service.found(session_id, state.open_turn.heard[-1].seq)
        return Handed(submission, after=state.last_seq, steps=len(state.open_turn.steps) + 1)

    def place_of(self, name: str) -> str | ConversationKey:
        """Return the session of this id, or the caller's conversation of this name."""
        if is_session_id(name):
            return name
        key = ConversationKey(channel=CHANNEL, chat=name, agent=self.body.model)
        return own_key(self.caller, key)

    async def in_conversation(self, given: ClientHeaders) -> IncomingMessage:
        """Return the message for the conversation that the headers name.

        Raises:
            UnknownSessionError, ProblemError: See `inbound`, `in_page`.
        """
        if given.session:
            return await self.inbound(given.session)
        return await self.in_page(given.chat)

    async def in_page(self, chat: str) -> IncomingMessage:
        """Return the message for the chat of a page, which says what was said before it.

        Where that is not what the session of the chat holds, the chat goes on in a new session,
        which holds it, and the one before is ended.

        Raises:
            ProblemError: The messages make no conversation that can go on (400).
            InvalidInputError: The newest is empty, too long, or not text; or a file is refused.
        """
        asked, service, caller = await self.read(), self.gateway.service, self.caller
        history = asked.history
        key = own_key(caller, ConversationKey(channel=CHANNEL, chat=chat, agent=self.body.model))
        options = self.options
        if history.instructions:
            options = replace(options or CallOptions(), instructions=history.instructions)
        inbound = replace(self.message(asked), key=key, principal=caller.owns_as, options=options)
        check(inbound)  # what is refused ends no session
        session_id = await service.conversations.current(key)
        state = await service.view(session_id) if session_id else None
        if state is None and not history.turns:
            return inbound
        if state is not None and self.key and self.key in state.seen:
            return inbound
        place = (
            Place(continuation=history.turns)
            if state is None
            else place_of_page(state, history.turns)
        )
        if place.goes_on:
            return inbound
        begin = partial(service.branches.begin, key, principal=caller.owns_as)
        told = replace(history, turns=place.continuation)
        try:
            await begin(copied=place.copied, told=told)
        except CannotBranchError:  # the words are better than nothing
            await begin(told=history)
        if session_id:
            await service.reset(session_id, by=caller.owns_as)
        return inbound

    async def read(self) -> Asked:
        """Return the conversation that the messages make, and what is asked now.

        Raises:
            ProblemError: They make no conversation that can go on (400).
        """
        return await _beside(self.body, partial(stateless, options=self.options))

    def message(self, asked: Asked) -> IncomingMessage:
        """Return what is asked now as a message that is for no conversation yet."""
        return IncomingMessage(
            text=asked.text,
            attachments=asked.attachments,
            options=self.options,
            sender=self.caller.owns_as,
            idempotency_key=self.key,
        )

    async def once(self, retry_for_s: int) -> Submission:
        """Answer from the messages alone; nothing is kept.

        Raises:
            ProblemError: They make no conversation that can go on (400).
        """
        asked = await self.read()
        service, principal = self.gateway.service.stateless, self.caller.owns_as
        if asked.goes_on:
            return await service.go_on(asked.history, agent=self.body.model, principal=principal)
        inbound = replace(self.message(asked), retry_for_s=retry_for_s, idempotency_key="")
        return await service.submit(
            inbound, asked.history, agent=self.body.model, principal=principal
        )


def read_request(
    gateway: OpenAiHost, caller: Principal, body: ChatRequest, *, key: str | None, task: str
) -> TurnRequest:
    """Return what a request asks for.

    Args:
        gateway: Where it is answered.
        caller: Who asks.
        body: The request.
        key: See `TurnRequest.key`.
        task: What a chat page says that it asks for itself; empty = nothing.

    Raises:
        UnknownAgentError: The caller knows no such agent.
        ProblemError: It cannot be had (400).
    """
    library, model = gateway.library, body.model
    check_agent(caller, library, model)
    told_apart = gateway.config.openai_api.side_requests
    is_side = told_apart and (bool(task) or is_side_request(body))
    overrides = is_side or library.file(model).spec.session.client_overrides
    own_tools = () if is_side else library.tool_names(model)
    options = options_of(body, own_tools=own_tools, overrides=overrides)
    if is_side:
        options = replace(options or CallOptions(), is_bare=True)
    return TurnRequest(
        gateway=gateway,
        caller=caller,
        body=body,
        options=options,
        key=key or "",
        is_side=is_side,
        without_effect=(*ignored(body, overrides=overrides), *unread(body)),
    )


def _key_of(given: Iterable[str]) -> str:
    """Return what makes the same results, sent twice, one answer."""
    return f"results:{sha256(' '.join(sorted(given)).encode()).hexdigest()}"


async def _beside(body: ChatRequest, read: Callable[[ChatRequest], T]) -> T:
    """Read a request; one that may hold files beside the event loop."""
    return await run_sync(partial(read, body)) if has_parts(body) else read(body)
