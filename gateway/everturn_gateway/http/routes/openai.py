"""The same agents for clients of OpenAI's API: `model` is the agent."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, TypeVar

import orjson
from fastapi import APIRouter, Header
from msgspec.structs import replace
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from everturn_actors.json_values import Json
from everturn_actors.service import Submission
from everturn_gateway.http.access.auth import SESSION
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.access.visibility import visible_agents
from everturn_gateway.http.openai.answer import Completion, chunks, created_at, farewell
from everturn_gateway.http.openai.client_headers import (
    DESCRIBED,
    SESSION_HEADER,
    ClientHeaders,
    ClientHeadersOf,
)
from everturn_gateway.http.openai.questions import Questions, answer_or_question, patience_s
from everturn_gateway.http.openai.request import ChatRequest
from everturn_gateway.http.openai.turn_request import Handed, OpenAiHost, TurnRequest, read_request
from everturn_gateway.http.openapi import object_or_stream, openai_errors
from everturn_gateway.http.problems import ProblemError, with_headers
from everturn_gateway.http.routes.turns import IdempotencyKey, refuse_other_content, replay_headers
from everturn_gateway.http.schemas.base import RETRY_FOR_MAX_S
from everturn_gateway.http.sse import EventStream
from everturn_gateway.http.turns import turn_problem
from everturn_gateway.http.waiting import OpenWaits, leave, wait_for_turn

T = TypeVar("T")

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


def openai_router(gateway: OpenAiHost, waits: OpenWaits) -> APIRouter:
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


def _add_completions(router: APIRouter, gateway: OpenAiHost, waits: OpenWaits) -> None:
    """Add the route of chat completions, whole and streamed."""

    @router.post(
        "/chat/completions",
        response_class=Response,
        openapi_extra=DESCRIBED,
        responses={
            **object_or_stream("The completion; with `stream`, its chunks as server-sent events"),
            **openai_errors(404, 409, 429, 502, 507),
        },
    )
    async def complete_chat(
        request: Request,
        body: ChatRequest,
        caller: CallerOf,
        given: ClientHeadersOf,
        key: IdempotencyKey = None,
        retry_for_s: RetryFor = None,
    ) -> Response:
        """Answer the last message; stateful with a conversation, else from the given messages."""
        turn_request = read_request(gateway, caller, body, key=key, task=given.task)
        without_effect, options = turn_request.without_effect, turn_request.options
        headers: dict[str, str] = {}
        name = "" if turn_request.is_side else given.name or body.conversation_name
        handed = await _handed_in(turn_request, given, name, retry_for_s)
        submission = handed.submission
        if key and not handed.is_kept:
            without_effect += ("Idempotency-Key",)
        if name:
            headers = {SESSION_HEADER: submission.session_id, **replay_headers(submission)}
        request.scope[SESSION] = submission.session_id
        if without_effect:
            headers[IGNORED_HEADER] = header_of(without_effect)
        completion = Completion(
            completion_id=f"chatcmpl-{submission.session_id}-m{submission.seq}",
            created=await created_at(submission),
            model=body.model,
            include_usage=bool(body.stream_options and body.stream_options.include_usage),
            has_form=options is not None and bool(options.response_format),
            questions=Questions(
                caller=caller if name else None,
                ends_after_s=patience_s(
                    gateway,
                    is_page=given.is_page,
                    streams=body.stream,
                    refuses=options is not None and bool(options.response_format),
                ),
                after=handed.after,
                steps=handed.steps,
            ),
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


async def _handed_in(
    turn_request: TurnRequest, given: ClientHeaders, name: str, retry_for_s: int | None
) -> Handed:
    """Hand a request in: to a turn that waits, to the conversation of this name, or for once."""
    goes_on = await turn_request.answered(name)
    if goes_on is not None:
        return Handed(goes_on)
    if not name:
        return Handed(await turn_request.once(retry_for_s or 0), is_kept=False)
    decided = await turn_request.decided(turn_request.place_of(name))
    if decided is not None:
        return decided
    named = turn_request.in_conversation(given) if given.name else turn_request.inbound(name)
    inbound = replace(await named, retry_for_s=retry_for_s)
    service = turn_request.gateway.service
    submission = await service.submit(inbound)
    await refuse_other_content(service, submission, inbound.text)
    return Handed(submission)


async def _whole(
    request: Request,
    submission: Submission,
    completion: Completion,
    waits: OpenWaits,
    *,
    repeatable: bool,
) -> Json:
    """Return the completion when the turn is done.

    Raises:
        ProblemError: It was not answered. The client is told not to repeat the call by itself,
            which would say the message twice, unless it has an idempotency key.
    """
    try:
        answer = partial(answer_or_question, submission, completion.questions)
        result = await wait_for_turn(request, submission, waits, answer=answer)
    except ProblemError as error:
        if repeatable:
            raise
        raise ProblemError(with_headers(error.problem, X_Should_Retry="false")) from None
    problem = turn_problem(result)
    if problem is not None:
        raise ProblemError(with_headers(problem, X_Should_Retry="false"))
    return completion.whole(result)


def header_of(names: tuple[str, ...]) -> str:
    """Return names of what had no effect, as a header holds them."""
    return ", ".join(_NOT_A_NAME.sub("_", name) for name in names)[:_HEADER_CHARS]
