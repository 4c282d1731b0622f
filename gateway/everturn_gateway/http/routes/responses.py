"""The Responses API of OpenAI: a response is a turn, and what follows it is its session."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Path, Query
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from everturn_actors.errors import CannotBranchError, UnknownSessionError
from everturn_actors.events import CallsAnswered, Received
from everturn_actors.ids import is_session_id
from everturn_actors.json_values import Json
from everturn_actors.model import CallOptions, ConversationKey, IncomingMessage
from everturn_actors.service import Copied, Submission
from everturn_actors.state.session_state import SessionState
from everturn_gateway.http.access.auth import SESSION
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.access.visibility import check_agent, own_key, visible_session
from everturn_gateway.http.openai.answer import created_at
from everturn_gateway.http.openai.client_headers import DESCRIBED, ClientHeaders, ClientHeadersOf
from everturn_gateway.http.openai.questions import Questions, patience_s
from everturn_gateway.http.openai.refusals import refuse
from everturn_gateway.http.openai.responses.answer import (
    About,
    ResponseWriter,
    place_of,
)
from everturn_gateway.http.openai.responses.request import ResponsesRequest
from everturn_gateway.http.openai.responses.stream import (
    check_goes_on,
    events,
    followed,
    write_so_far,
)
from everturn_gateway.http.openai.turn_request import (
    CHANNEL,
    Handed,
    OpenAiHost,
    TurnRequest,
    read_request,
)
from everturn_gateway.http.openapi import object_or_stream, openai_errors
from everturn_gateway.http.problems import ProblemError, problem
from everturn_gateway.http.routes.openai import IGNORED_HEADER, header_of
from everturn_gateway.http.routes.turns import IdempotencyKey, refuse_other_content, replay_headers
from everturn_gateway.http.sse import EventStream
from everturn_gateway.http.turns import turn_problem
from everturn_gateway.http.waiting import OpenWaits, leave, wait_for_turn
from everturn_gateway.principals import Principal

ResponseId = Annotated[str, Path(pattern=r"^resp_[0-9A-Za-z_-]{1,60}$")]
_JSON = "application/json"
_PREVIOUS = "previous_response_id"


_RESPONSE: Final = object_or_stream("The response; with `stream`, its events as server-sent events")


def responses_router(gateway: OpenAiHost, waits: OpenWaits) -> APIRouter:
    """Return the routes under `/v1/responses`."""
    router = APIRouter(prefix="/v1/responses", tags=["openai"])
    _add_create(router, gateway, waits)
    _add_stored(router, gateway, waits)
    return router


def _add_create(router: APIRouter, gateway: OpenAiHost, waits: OpenWaits) -> None:
    """Add the route that makes a response."""

    @router.post(
        "",
        response_class=Response,
        openapi_extra=DESCRIBED,
        responses={
            **_RESPONSE,
            **openai_errors(404, 409, 429, 502, 507),
        },
    )
    async def create_response(
        request: Request,
        body: ResponsesRequest,
        caller: CallerOf,
        given: ClientHeadersOf,
        key: IdempotencyKey = None,
    ) -> Response:
        """Answer an input, as a turn of its session."""
        check_agent(caller, gateway.library, body.model)
        gateway.library.file(body.model)  # whether it is there goes before what is wrong else
        with _in_words_of(body):
            turn_request = read_request(gateway, caller, body.as_chat(), key=key, task=given.task)
            creating = _Creating(turn_request=turn_request, body=body, given=given)
            handed = await creating.handed()
        without_effect = tuple(map(body.place_of, turn_request.without_effect))
        without_effect += ("user",) if body.user else ()
        submission = handed.submission
        request.scope[SESSION] = submission.session_id
        headers = replay_headers(submission)
        if without_effect:
            headers[IGNORED_HEADER] = header_of(without_effect)
        about = await creating.about(handed)
        writer = ResponseWriter(submission, about)
        # Before `background`: a client that streams sees the end by itself.
        if body.stream:
            return EventStream(
                partial(events, submission, writer),
                waits,
                on_leave=lambda: _left(submission, body),
                farewell=b"",
                headers=headers,
            )
        if body.background:
            whole = writer.whole("in_progress")
            return Response(orjson.dumps(whole), headers=headers, media_type=_JSON)
        answer = partial(followed, submission, writer)
        result = await wait_for_turn(request, submission, waits, answer=answer)
        fault = turn_problem(result)
        if fault is not None:
            raise ProblemError(fault)
        return Response(orjson.dumps(writer.ended(result)), headers=headers, media_type=_JSON)


def _add_stored(router: APIRouter, gateway: OpenAiHost, waits: OpenWaits) -> None:
    """Add the routes of responses that are kept: read, cancel, list their input."""
    service = gateway.service

    @router.get(
        "/{response_id}",
        response_class=Response,
        responses={
            **_RESPONSE,
            **openai_errors(404, 503),
        },
    )
    async def get_response(
        response_id: ResponseId,
        caller: CallerOf,
        *,
        stream: bool = False,
        starting_after: Annotated[
            int | None,
            Query(ge=0, description="Of a stream: the number of the last event that you have."),
        ] = None,
    ) -> Response:
        """Return a response that is kept, as far as it is; with `stream`, as its events."""
        if not stream:
            if starting_after is not None:
                refuse("starting_after", "only a stream goes on at a number; send stream=true")
            return await _stored(gateway, caller, response_id)
        after = -1 if starting_after is None else starting_after
        kept = await _kept(gateway, caller, response_id, after=after)
        # Looked at before the stream begins: then a refusal still has a status.
        if starting_after is not None and not kept.is_waiting:
            probe = await _kept(gateway, caller, response_id, after=after)
            await check_goes_on(service, probe.submission, probe.writer, gateway.started_at)
        return EventStream(partial(events, kept.submission, kept.writer), waits)

    @router.post("/{response_id}/cancel", response_class=Response, responses=openai_errors(404))
    async def cancel_response(response_id: ResponseId, caller: CallerOf) -> Response:
        """Stop the turn of a response, if it runs."""
        state, seq = await _found(gateway, caller, response_id)
        # One that is over stays as it is: to cancel twice is no error.
        if _is_running(state, seq):
            await service.cancel(state.session_id, by=caller.owns_as)
        return await _stored(gateway, caller, response_id)

    @router.get("/{response_id}/input_items", response_class=Response, responses=openai_errors(404))
    async def list_input(response_id: ResponseId, caller: CallerOf) -> Response:
        """List what a response answers: the message, or the results of calls."""
        state, seq = await _found(gateway, caller, response_id)
        rows = await service.history(state.session_id, after=seq - 1, limit=1)
        items = _items(rows[0].body, response_id) if rows else []
        listed = {
            "object": "list",
            "data": items,
            "first_id": items[0]["id"] if items else None,
            "last_id": items[-1]["id"] if items else None,
            "has_more": False,
        }
        return Response(orjson.dumps(listed), media_type=_JSON)


class _Creating(Struct, frozen=True, kw_only=True):
    """One request for a response."""

    turn_request: TurnRequest
    body: ResponsesRequest
    given: ClientHeaders

    async def handed(self) -> Handed:
        """Hand the request in.

        Raises:
            ProblemError: It follows a response that it cannot follow (400), or there is none (404).
        """
        turn_request, body = self.turn_request, self.body
        if body.previous_response_id and body.conversation:
            refuse("conversation", "name it, or the response before, and not both")
        goes_on = await turn_request.answered("")
        # The results of calls go on with a turn that waits for them, whatever else is named.
        if goes_on is not None:
            return Handed(goes_on)
        # Titles and tags are no messages of the chat: they would stand in its history.
        if turn_request.is_side:
            return await self._once()
        decided = await self._decided()
        # A word that answers a question is no message: the turn that asked goes on.
        if decided is not None:
            return decided
        name = "" if body.is_named or body.store is False else self.given.name
        if name:
            return await self._submitted(await turn_request.in_conversation(self.given))
        asked = await turn_request.read()
        history = asked.history
        # A client that brings the history keeps it itself.
        if body.store is False or history.turns:
            if body.previous_response_id or body.conversation:
                refuse("input", "a session that is kept has what was said before; send the newest")
            return await self._once()
        inbound = turn_request.message(asked)
        options = inbound.options or CallOptions()
        if history.instructions:
            options = replace(options, instructions=history.instructions)
        inbound = replace(inbound, options=options)
        if body.previous_response_id:
            session_id = await self._followed(body.previous_response_id)
            inbound = replace(inbound, session_id=session_id)
        elif is_session_id(body.conversation_name):
            inbound = replace(await turn_request.inbound(body.conversation_name), options=options)
        else:
            inbound = replace(
                inbound,
                key=self._conversation(),
                principal=turn_request.caller.owns_as,
            )
        return await self._submitted(inbound)

    async def _submitted(self, inbound: IncomingMessage) -> Handed:
        """Hand a message in.

        Raises:
            ProblemError: Its idempotency key came with another content before (422).
        """
        service = self.turn_request.gateway.service
        submission = await service.submit(inbound)
        await refuse_other_content(service, submission, inbound.text)
        return Handed(submission)

    async def about(self, handed: Handed) -> About:
        """Return what a response to the request says of itself."""
        turn_request, body = self.turn_request, self.body
        is_page = self.given.is_page and not body.is_named
        return About(
            created=await created_at(handed.submission),
            model=body.model,
            options=turn_request.options or CallOptions(),
            previous=body.previous_response_id or "",
            conversation=body.conversation_name,
            is_stored=handed.is_kept,
            in_background=bool(body.background),
            metadata=body.metadata or {},
            questions=Questions(
                caller=turn_request.caller if handed.is_kept else None,
                ends_after_s=patience_s(turn_request.gateway, is_page=is_page, streams=body.stream),
                after=handed.after,
                steps=handed.steps,
            ),
        )

    async def _once(self) -> Handed:
        """Answer from the input alone.

        Raises:
            ProblemError: The answer is to be fetched later (400).
        """
        if self.body.background:
            refuse(
                "background",
                "what is answered for once is kept nowhere, and could not be fetched: leave store"
                " out, and send the newest message alone",
            )
        return Handed(await self.turn_request.once(0), is_kept=False)

    async def _decided(self) -> Handed | None:
        """Take the answer to a question of the session; None where it is none."""
        turn_request, body = self.turn_request, self.body
        if body.store is False:
            return None
        if body.previous_response_id:
            state, seq = await _found(
                turn_request.gateway,
                turn_request.caller,
                body.previous_response_id,
                param=_PREVIOUS,
            )
            newest = state.open_turn
            # Somebody went on from an older response: the question is not about that one.
            if newest is None or seq < newest.users[0].seq:
                return None
            return await turn_request.decided(state.session_id)
        name = body.conversation_name or self.given.name
        return await turn_request.decided(turn_request.place_of(name)) if name else None

    def _conversation(self) -> ConversationKey:
        """Return the conversation that is named, or a new one."""
        name, agent = self.body.conversation_name, self.body.model
        key = ConversationKey(channel=CHANNEL, chat=name or uuid.uuid4().hex, agent=agent)
        return own_key(self.turn_request.caller, key)

    async def _before(self, previous: str) -> tuple[SessionState, int]:
        """Return the session of the response before, and the event that it answers."""
        turn_request = self.turn_request
        return await _found(turn_request.gateway, turn_request.caller, previous, param=_PREVIOUS)

    async def _followed(self, previous: str) -> str:
        """Return the session of the response before, or a branch where another one followed it.

        The same request sent again finds its branch by the idempotency key.
        """
        state, seq = await _found(
            self.turn_request.gateway, self.turn_request.caller, previous, param=_PREVIOUS
        )
        # One session has one agent: another model would answer for words that it never said.
        if state.key.agent != self.body.model:
            refuse("model", f"the response before is of the agent {state.key.agent!r}")
        newest = state.open_turn or state.newest_turn
        # Nothing followed it: the session itself goes on.
        if newest is None or seq >= newest.users[0].seq:
            return state.session_id
        turn_request = self.turn_request
        service = turn_request.gateway.service
        name = uuid.uuid4().hex
        # The same request sent twice finds the same branch.
        if turn_request.key:
            name = sha256(
                f"{previous} {turn_request.key}".encode("utf-8", "surrogatepass")
            ).hexdigest()
        key = ConversationKey(channel=CHANNEL, chat=name, agent=self.body.model)
        key = own_key(turn_request.caller, key)
        copied = Copied(session_id=state.session_id, last=seq)
        try:
            return await service.conversations.current(key) or await service.branches.begin(
                key, principal=turn_request.caller.owns_as, copied=copied
            )
        except CannotBranchError as error:
            refuse("previous_response_id", f"another response followed it, and {error}")


@contextmanager
def _in_words_of(body: ResponsesRequest) -> Generator[None]:
    """Have refusals name the part of the request that was sent."""
    try:
        yield
    except ProblemError as error:
        param = error.problem.extra.get("param")
        if not isinstance(param, str):
            raise
        named = {**error.problem.extra, "param": body.place_of(param)}
        raise ProblemError(replace(error.problem, extra=named)) from None


async def _left(submission: Submission, body: ResponsesRequest) -> None:
    """Deal with the turn of a client that is gone; one in the background goes on."""
    if not body.background:
        await leave(submission)


async def _found(
    gateway: OpenAiHost, caller: Principal, given: str, *, param: str = ""
) -> tuple[SessionState, int]:
    """Return the session of a response, and the event that it answers; `param` names the response.

    Raises:
        ProblemError: There is none that the caller may see (404).
    """
    place = place_of(given)
    if place is not None:
        session_id, seq = place
        try:
            await visible_session(gateway.service, caller, session_id)
            state = await gateway.service.view(session_id)
        except UnknownSessionError:
            pass
        else:
            # An id may be made up: the number has to exist as well.
            if seq <= state.last_seq:
                return state, seq
    extra = {"param": param} if param else {}
    raise ProblemError(problem("unknown-session", f"there is no response {given!r}", extra=extra))


def _is_running(state: SessionState, seq: int) -> bool:
    """Whether the turn of a response is not over, and does not wait for its client."""
    if _is_waiting(state, seq):
        return True
    turn = state.open_turn
    return turn is not None and seq >= turn.users[0].seq and not turn.waits_for_caller


def _is_waiting(state: SessionState, seq: int) -> bool:
    """Whether the turn of a response has not begun."""
    return any(message.seq == seq for message in state.waiting)


class _Kept(Struct, frozen=True, kw_only=True):
    """A response that is kept."""

    submission: Submission
    writer: ResponseWriter
    is_running: bool
    is_waiting: bool
    "Whether its turn has not begun."


async def _kept(gateway: OpenAiHost, caller: Principal, given: str, *, after: int = -1) -> _Kept:
    """Return a response that is kept, for a client that has its events up to `after`.

    Raises:
        ProblemError: There is none that the caller may see (404).
    """
    state, seq = await _found(gateway, caller, given)
    rows = await gateway.service.history(state.session_id, after=seq - 1, limit=1)
    if not rows or not isinstance(rows[0].body, Received | CallsAnswered):
        raise ProblemError(problem("unknown-session", f"there is no response {given!r}"))
    body = rows[0].body
    options = body.options if isinstance(body, Received) else None
    submission = await gateway.service.found(state.session_id, seq)
    about = About(
        created=int(rows[0].at.timestamp()),
        model=state.key.agent,
        options=options or CallOptions(),
        questions=Questions(caller=caller),
    )
    writer = ResponseWriter(submission, about, after=after)
    return _Kept(
        submission=submission,
        writer=writer,
        is_running=_is_running(state, seq),
        is_waiting=_is_waiting(state, seq),
    )


async def _stored(gateway: OpenAiHost, caller: Principal, given: str) -> Response:
    """Return a response as it is now."""
    kept = await _kept(gateway, caller, given)
    if kept.is_running:
        if not kept.is_waiting:  # else what comes after it in the log is of the turn before
            await write_so_far(gateway.service, kept.submission, kept.writer)
        return Response(orjson.dumps(kept.writer.whole("in_progress")), media_type=_JSON)
    whole = kept.writer.ended(await followed(kept.submission, kept.writer))
    return Response(orjson.dumps(whole), media_type=_JSON)


def _items(body: object, given: str) -> list[Json]:
    """Return what stands in the log at the beginning of a response, as items of an input."""
    match body:
        case Received(text=text):
            part = {"type": "input_text", "text": text}
            item = {"id": f"msg_{given[5:]}_in", "type": "message", "role": "user"}
            return [{**item, "status": "completed", "content": [part]}]
        case CallsAnswered(answers=answers):
            return [
                {
                    "id": f"fco_{given[5:]}_{index}",
                    "type": "function_call_output",
                    "call_id": each.call_id,
                    "output": each.text,
                    "status": "completed",
                }
                for index, each in enumerate(answers)
            ]
        case _:
            return []
