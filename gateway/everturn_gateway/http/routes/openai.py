"""The same agents for clients of OpenAI's API: `model` is the agent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, TypeVar

import orjson
from anyio.to_thread import run_sync
from fastapi import APIRouter, Header
from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from everturn_actors.errors import CallNotOpenError, UnknownSessionError
from everturn_actors.ids import is_session_id
from everturn_actors.model import CallAnswer, CallOptions, ConversationKey, Inbound
from everturn_actors.service import Submission, TurnService
from everturn_actors.service.stateless import Stateless
from everturn_actors.state.session_state import SessionState
from everturn_gateway.http.access.auth import SESSION
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.access.visibility import (
    check_agent,
    own_key,
    visible_agents,
    visible_session,
)
from everturn_gateway.http.openai.answer import Completion, chunks, created_at, farewell
from everturn_gateway.http.openai.call_ids import open_calls, session_of
from everturn_gateway.http.openai.parameters import ignored, options_of
from everturn_gateway.http.openai.refusals import refuse
from everturn_gateway.http.openai.request import (
    ChatRequest,
    has_parts,
    newest,
    results,
    stateless,
    unread,
)
from everturn_gateway.http.openapi import event_stream, openai_errors
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.problems import ProblemError, with_headers
from everturn_gateway.http.routes.turns import IdempotencyKey, refuse_other_content, replay_headers
from everturn_gateway.http.schemas.base import RETRY_FOR_MAX_S
from everturn_gateway.http.sse import EventStream
from everturn_gateway.http.turns import turn_problem
from everturn_gateway.http.waiting import OpenWaits, leave, wait_for_turn
from everturn_gateway.principals import Principal

T = TypeVar("T")

CHANNEL = "openai"
SESSION_HEADER = "X-Everturn-Session"
IGNORED_HEADER = "X-Everturn-Ignored"
RetryFor = Annotated[
    int | None,
    Header(
        alias="X-Everturn-Retry-For",
        ge=0,
        le=RETRY_FOR_MAX_S,
        description="For how many seconds an outage of the model is waited out before the call"
        " fails, at most as long as the agent does. By default not at all where nothing of the call"
        " is kept, and as long as the agent does in a conversation.",
    ),
]
_HEADER_CHARS = 1000  # of a list of names in a header
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.-]")


class ModelRow(BaseModel):
    """An agent, as a model."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "everturn"


class ModelRows(BaseModel):
    """All agents, as models."""

    object: str = "list"
    data: list[ModelRow]


def openai_router(gateway: Gateway, waits: OpenWaits) -> APIRouter:
    """Return the routes under `/v1`."""
    router = APIRouter(prefix="/v1", tags=["openai"])
    library = gateway.library
    started = int(gateway.started_at.timestamp())

    @router.get("/models", response_model=ModelRows)
    async def list_models(caller: CallerOf) -> Response:
        """List the agents."""
        names = visible_agents(caller, library)
        rows = ModelRows(data=[ModelRow(id=name, created=started) for name in names])
        return Response(rows.model_dump_json(), media_type="application/json")

    @router.get("/models/{model}", response_model=ModelRow, responses=openai_errors(404))
    async def get_model(model: str) -> Response:
        """Describe one agent."""
        row = ModelRow(id=library.file(model).spec.name, created=started)
        return Response(row.model_dump_json(), media_type="application/json")

    _add_completions(router, gateway, waits)
    return router


def _add_completions(router: APIRouter, gateway: Gateway, waits: OpenWaits) -> None:
    service, library = gateway.service, gateway.library

    @router.post(
        "/chat/completions",
        response_class=Response,
        responses={
            200: {
                "description": "The completion; with `stream`, its chunks as server-sent events",
                "content": {
                    "application/json": {"schema": {"type": "object"}},
                    **event_stream("")[200]["content"],
                },
            },
            **openai_errors(404, 409, 429, 502, 507),
        },
    )
    async def complete_chat(
        request: Request,
        body: ChatRequest,
        caller: CallerOf,
        conversation: Annotated[
            str | None,
            Header(
                alias=SESSION_HEADER,
                min_length=1,
                max_length=256,
                pattern=r"^[\x20-\x7e]+$",
                description="Makes the call stateful: your own name of the conversation, or the"
                " id of a session. Only the last user message is then taken.",
            ),
        ] = None,
        key: IdempotencyKey = None,
        retry_for_s: RetryFor = None,
    ) -> Response:
        """Answer the last message; stateful with a conversation, else from the given messages."""
        check_agent(caller, library, body.model)
        agent = library.file(body.model)
        overrides = agent.spec.session.client_overrides
        without_effect = (*ignored(body, overrides=overrides), *unread(body))
        options = options_of(body, own_tools=library.tool_names(body.model), overrides=overrides)
        asking = _Asking(gateway=gateway, caller=caller, body=body, options=options, key=key or "")
        headers: dict[str, str] = {}
        name = conversation or body.user or ""
        submission = await asking.answered(name)
        if submission is None and name:
            inbound = replace(await asking.inbound(name), retry_for_s=retry_for_s)
            submission = await service.submit(inbound)
            await refuse_other_content(service, submission, inbound.text)
        elif submission is None:
            submission = await asking.once(retry_for_s or 0)
            without_effect += ("Idempotency-Key",) if key else ()
        if name:
            headers = {SESSION_HEADER: submission.session_id, **replay_headers(submission)}
        request.scope[SESSION] = submission.session_id
        if without_effect:
            headers[IGNORED_HEADER] = _header(without_effect)
        completion = Completion(
            completion_id=f"chatcmpl-{submission.session_id}-m{submission.seq}",
            created=await created_at(submission),
            model=body.model,
            include_usage=bool(body.stream_options and body.stream_options.include_usage),
            has_form=options is not None and bool(options.response_format),
        )
        if body.stream:
            return EventStream(
                partial(chunks, submission, completion),
                waits,
                on_leave=lambda: leave(submission),
                farewell=farewell(submission),
                headers=headers,
            )
        answer = await _whole(request, submission, completion, waits, repeatable=bool(key))
        return Response(orjson.dumps(answer), headers=headers, media_type="application/json")


class _Asking(Struct, frozen=True, kw_only=True):
    """One request, and who sends it."""

    gateway: Gateway
    caller: Principal
    body: ChatRequest
    options: CallOptions | None
    key: str
    "Makes the same request the same message; empty = a new one."

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

    async def inbound(self, name: str) -> Inbound:
        """Return the message for the conversation or session `name`.

        Raises:
            UnknownSessionError: `name` is an id, and there is no such session that the caller may
                see.
            ProblemError: The session's agent is another one (400).
        """
        text, files = await _beside(self.body, newest)
        inbound = Inbound(
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

    async def once(self, retry_for_s: int) -> Submission:
        """Answer from the messages alone; nothing is kept.

        Raises:
            ProblemError: They make no conversation that can go on (400).
        """
        asked = await _beside(self.body, partial(stateless, options=self.options))
        service, principal = self.gateway.service.stateless, self.caller.owns_as
        if asked.goes_on:
            return await service.go_on(asked.history, agent=self.body.model, principal=principal)
        inbound = Inbound(
            text=asked.text,
            attachments=asked.attachments,
            options=self.options,
            retry_for_s=retry_for_s,
            sender=principal,
        )
        return await service.submit(
            inbound, asked.history, agent=self.body.model, principal=principal
        )


def _key_of(given: Iterable[str]) -> str:
    """Return what makes the same results, sent twice, one answer."""
    return f"results:{sha256(' '.join(sorted(given)).encode()).hexdigest()}"


async def _beside(body: ChatRequest, read: Callable[[ChatRequest], T]) -> T:
    """Read a request; one that may hold files beside the event loop."""
    return await run_sync(partial(read, body)) if has_parts(body) else read(body)


async def _whole(
    request: Request,
    submission: Submission,
    completion: Completion,
    waits: OpenWaits,
    *,
    repeatable: bool,
) -> dict[str, Any]:
    """Return the completion when the turn is done.

    Raises:
        ProblemError: It was not answered. The client is told not to repeat the call by itself,
            which would say the message twice, unless it has an idempotency key.
    """
    try:
        result = await wait_for_turn(request, submission, waits)
    except ProblemError as error:
        if repeatable:
            raise
        raise ProblemError(with_headers(error.problem, X_Should_Retry="false")) from None
    problem = turn_problem(result)
    if problem is not None:
        raise ProblemError(with_headers(problem, X_Should_Retry="false"))
    return completion.whole(result)


def _header(names: tuple[str, ...]) -> str:
    return ", ".join(_NOT_A_NAME.sub("_", name) for name in names)[:_HEADER_CHARS]
