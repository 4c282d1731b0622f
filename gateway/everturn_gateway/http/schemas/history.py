"""Messages as people know them, from the events of a session's log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.events import (
    Announced,
    CallFinished,
    Discarded,
    Edited,
    Event,
    ModelReplied,
    Received,
    Steered,
    StepStarted,
    Transcribed,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.gaps import jumps
from everturn_actors.service import TurnService
from everturn_actors.state.queue import WITHDRAWN
from everturn_actors.state.serialization import utc_text
from everturn_gateway.http.schemas.messages import GapBody, MessageBody, MessageList, ToolCallBody
from everturn_gateway.http.schemas.sessions import UsageBody
from everturn_gateway.http.uploads import AttachmentBody

READ_EVENTS = 256  # read from the log at a time
LOOK_BACK_EVENTS = 16  # at first, to learn in which turn a page begins


async def read_messages(
    service: TurnService, session_id: str, *, after: int, limit: int
) -> MessageList:
    """Return up to `limit` messages that came after event `after`, oldest first.

    Raises:
        UnknownSessionError: There is no such session.
    """
    state = await service.view(session_id)
    waiting = frozenset(message.seq for message in state.waiting)
    reader = _Reader(
        session_id=session_id,
        turn=await _turn_at(service, session_id, after),
        edited={message.seq: message.text for message in state.waiting},
    )
    missing, last = list[tuple[int, int]](), after
    async with aclosing(_events(service, session_id, after)) as events:
        async for event in events:
            missing += jumps((event.seq,), after=last)
            last = event.seq
            reader.read(event)
            if len(reader.found) > limit and not reader.owes_a_turn(limit, waiting):
                break
        else:  # what a log that lost its end, or all of it, does not give is missing as well
            missing += jumps((state.last_seq + 1,), after=last)
    page = tuple(reader.message(found) for found in reader.found[:limit])
    more = len(reader.found) > limit
    if more:  # the rest belongs to the next page
        missing = [run for run in missing if run[0] < reader.found[limit - 1].seq]
    gaps = await service.reader.explain_gaps(session_id, missing)
    return MessageList(
        messages=page,
        next=page[-1].message_id if more else None,
        gaps=tuple(map(GapBody.of, gaps)),
    )


async def _events(service: TurnService, session_id: str, after: int) -> AsyncGenerator[Event]:
    while page := await service.history(session_id, after=after, limit=READ_EVENTS):
        for event in page:
            yield event
        after = page[-1].seq


async def _turn_at(service: TurnService, session_id: str, seq: int) -> int:
    """Return the number of the turn that event `seq` stands in; 0 where it stands in none."""
    size = LOOK_BACK_EVENTS
    while seq > 0:
        first = max(0, seq - size)
        for event in reversed(await service.history(session_id, after=first, limit=seq - first)):
            if event.seq <= seq and isinstance(
                event.body, (TurnStarted, StepStarted, TurnFinished)
            ):
                return event.body.turn
        if first == 0:
            break
        size *= 4
    return 0


class _Reader(Struct):
    """What is known while the log is read."""

    session_id: str
    turn: int
    "The turn that is open at this place, or was the last one."
    found: list[Event] = field(default_factory=list[Event])
    "Events that are messages, oldest first."
    turn_of: dict[int, int] = field(default_factory=dict[int, int])
    "Event of a message -> its turn; 0 for one that is dropped, or was said without a turn."
    edited: dict[int, str] = field(default_factory=dict[int, str])
    "Event of a message -> its text, where that may have been changed."

    def read(self, event: Event) -> None:
        match event.body:
            case Received():
                self.found.append(event)
            case ModelReplied() | CallFinished():
                self.found.append(event)
                self.turn_of[event.seq] = self.turn
            case Announced():
                self.found.append(event)
                self.turn_of[event.seq] = 0
            case TurnStarted(turn=turn, received=received) | Steered(turn=turn, received=received):
                self.turn = turn
                self.turn_of.update(dict.fromkeys(received, turn))
            case Edited(received=seq, text=text):
                self.edited[seq] = text
            case Transcribed(message=seq):
                self._heard(seq, event.body)
            case Discarded(received=received, reason=reason):
                self.turn_of.update(dict.fromkeys(received, 0))
                if reason == WITHDRAWN:  # as in searches: it is nobody's to read
                    self.found = [each for each in self.found if each.seq not in received]
            case StepStarted(turn=turn):
                self.turn = turn
            case _:
                pass

    def _heard(self, seq: int, body: Transcribed) -> None:
        own = (each.body for each in self.found if each.seq == seq)
        text = next((each.text for each in own if isinstance(each, Received)), "")
        self.edited[seq] = body.added_to(self.edited.get(seq, text))

    def owes_a_turn(self, limit: int, waiting: frozenset[int]) -> bool:
        """Return whether a message of the page is in a turn that was not read yet."""
        return any(
            event.seq not in self.turn_of and event.seq not in waiting
            for event in self.found[:limit]
        )

    def message(self, event: Event) -> MessageBody:
        if isinstance(event.body, Received) and event.seq in self.edited:
            body = replace(event.body, text=self.edited[event.seq])
            event = replace(event, body=body)
        return message_body(self.session_id, event, self.turn_of)


def message_body(session_id: str, event: Event, turn_of: Mapping[int, int]) -> MessageBody:
    """Return the message that `event` is.

    Args:
        session_id: Whose it is.
        event: A `Received`, `ModelReplied`, `Announced` or `CallFinished`.
        turn_of: The number of the turn by event; a message without one waits, one with 0 is
            dropped, or was said without a turn.
    """
    turn = turn_of.get(event.seq)
    turn_id = f"t{turn}" if turn else None
    message_id, created_at = f"m{event.seq}", utc_text(event.at)
    match event.body:
        case Received(text=text, sender=sender, attachments=attached):
            return MessageBody(
                message_id=message_id,
                turn_id=turn_id,
                role="user",
                content=text,
                created_at=created_at,
                sender=sender,
                attachments=tuple(AttachmentBody.of(each, session_id) for each in attached),
            )
        case ModelReplied() as reply:
            return MessageBody(
                message_id=message_id,
                turn_id=turn_id,
                role="assistant",
                content=reply.text,
                created_at=created_at,
                tool_calls=tuple(map(ToolCallBody.of, reply.calls)),
                usage=UsageBody.of(reply.usage),
                attachments=tuple(AttachmentBody.of(each, session_id) for each in reply.images),
            )
        case Announced(text=text, sender=sender):
            return MessageBody(
                message_id=message_id,
                turn_id=None,
                role="assistant",
                content=text,
                created_at=created_at,
                sender=sender,
            )
        case CallFinished() as result:
            return MessageBody(
                message_id=message_id,
                turn_id=turn_id,
                role="tool",
                content=result.text,
                created_at=created_at,
                tool_call_id=result.call_id,
                is_error=result.is_error,
            )
        case _:
            msg = f"event {event.seq} is no message"
            raise ValueError(msg)
