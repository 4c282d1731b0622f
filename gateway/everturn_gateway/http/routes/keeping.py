"""What stays with the model of a session: pinned messages, and notes about whom it talks with."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from fastapi import APIRouter, Path
from starlette.responses import Response

from everturn_actors.errors import ToolFailedError
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.openapi import SessionId, problems
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.problems import ProblemError, problem
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.keeping import (
    PersonNoteBody,
    PersonNoteList,
    PersonNoteText,
    PinBody,
    PinList,
)
from everturn_gateway.principals import Principal
from everturn_gateway.tools.memory.editing import OwnNotes
from everturn_gateway.tools.memory.people import TOPIC_CHARACTERS

Message: TypeAlias = Annotated[
    int, Path(ge=1, le=2**53, description="The event of the message.", examples=[4])
]
Topic: TypeAlias = Annotated[
    str,
    Path(
        min_length=1, max_length=TOPIC_CHARACTERS, description="Of the note.", examples=["language"]
    ),
]
_NOT_YOURS: Final = problem(
    "not-the-owner",
    "notes about somebody are shown to that principal, or to somebody who operates the gateway",
)


def keeping_router(gateway: Gateway) -> APIRouter:
    """Return the routes under `/api/v1/sessions/{id}` for what stays with the model."""
    router = APIRouter(prefix="/api/v1/sessions/{session_id}", tags=["context"])
    _add_pins(router, gateway)
    _add_notes(router, gateway)
    return router


def _add_pins(router: APIRouter, gateway: Gateway) -> None:
    service = gateway.service

    async def answered(session_id: str) -> Response:
        state = await service.view(session_id)
        return answer(PinList(pins=tuple(PinBody.of(pin, state.key.agent) for pin in state.pins)))

    @router.get("/pins", response_model=PinList, responses=problems(404))
    async def list_pins(session_id: SessionId) -> Response:
        """List the messages that the model is shown whatever is hidden, oldest first."""
        return await answered(session_id)

    @router.put("/pins/{seq}", response_model=PinList, responses=problems(404, 409, 422, 507))
    async def pin_message(session_id: SessionId, seq: Message, caller: CallerOf) -> Response:
        """Pin a message; pinned ones take at most an eighth of the model's window together."""
        await service.conversations.pin(session_id, seq, by=caller.name)
        return await answered(session_id)

    @router.delete("/pins/{seq}", response_model=PinList, responses=problems(404, 409, 507))
    async def unpin_message(session_id: SessionId, seq: Message, caller: CallerOf) -> Response:
        """Take a pin off."""
        await service.conversations.unpin(session_id, seq, by=caller.name)
        return await answered(session_id)


def _add_notes(router: APIRouter, gateway: Gateway) -> None:
    """Add the routes of what an agent knows of whom it talks with."""

    async def notes_of(session_id: str, caller: Principal) -> OwnNotes:
        state = await gateway.service.view(session_id)
        if not caller.may("operate") and state.principal != caller.name:
            raise ProblemError(_NOT_YOURS)
        return gateway.own_notes(state.key, state.principal)

    async def answered(notes: OwnNotes) -> Response:
        known = await notes.read()
        return answer(PersonNoteList(notes=tuple(map(PersonNoteBody.of, known))))

    @router.get("/memory", response_model=PersonNoteList, responses=problems(404, 409))
    async def list_notes(session_id: SessionId, caller: CallerOf) -> Response:
        """List what the agent knows of whom it talks with here, and who said it where."""
        try:
            return await answered(await notes_of(session_id, caller))
        except ToolFailedError as error:
            raise ProblemError(problem("no-memory", str(error))) from error

    @router.put("/memory/{topic}", response_model=PersonNoteList, responses=problems(404, 409, 422))
    async def keep_note(
        session_id: SessionId, topic: Topic, body: PersonNoteText, caller: CallerOf
    ) -> Response:
        """Note something, in the place of what was noted on its topic."""
        try:
            notes = await notes_of(session_id, caller)
            await notes.keep(topic, body.text, by=caller.name)
            return await answered(notes)
        except ToolFailedError as error:
            raise ProblemError(problem("no-memory", str(error))) from error

    @router.delete("/memory/{topic}", response_model=PersonNoteList, responses=problems(404, 409))
    async def forget_note(session_id: SessionId, topic: Topic, caller: CallerOf) -> Response:
        """Remove a note; it stands in no prompt from the next turn on."""
        try:
            notes = await notes_of(session_id, caller)
            await notes.forget(topic)
            return await answered(notes)
        except ToolFailedError as error:
            raise ProblemError(problem("no-memory", str(error))) from error
