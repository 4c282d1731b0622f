"""What stays with the model of a session, as JSON."""

from __future__ import annotations

from pydantic import Field

from everturn_actors.model import Pin
from everturn_gateway.http.schemas.base import Body
from everturn_gateway.tools.memory.people import NOTE_CHARACTERS, PersonNote


class PinBody(Body):
    """A pinned message."""

    seq: int = Field(description="Of its event.")
    who: str = Field(description="Who said it; the agent by its name.")
    text: str

    @classmethod
    def of(cls, pin: Pin, agent: str) -> PinBody:
        """Return the body of a message that is pinned in a session of an agent."""
        return cls(seq=pin.seq, who=pin.who_for_people(agent), text=pin.text)


class PinList(Body):
    """The pinned messages of a session, oldest first."""

    pins: tuple[PinBody, ...]


class PersonNoteText(Body):
    """What is to be known."""

    text: str = Field(min_length=1, max_length=NOTE_CHARACTERS, examples=["Prefers German."])


class PersonNoteBody(Body):
    """One thing that is known, and who said it where."""

    topic: str
    text: str
    day: str = Field(description="When it was said, UTC; empty = not known.")
    who: str = Field(description="Who said it; empty = not known.")
    session_id: str = Field(description="Where it was said; empty = it was written by hand.")
    seq: int = Field(description="The event of the message; 0 = it was written by hand.")
    quote: str = Field(description="The words from which it follows.")
    proposed: bool = Field(
        default=False, description="Whether nobody has agreed to it: it is not in the prompt."
    )

    @classmethod
    def of(cls, note: PersonNote) -> PersonNoteBody:
        """Return the body of a note."""
        session_id, _, seq = note.place.rpartition(":")
        return cls(
            topic=note.topic,
            text=note.text,
            day=note.day,
            who=note.who,
            session_id=session_id,
            seq=int(seq) if seq.isdecimal() and session_id else 0,
            quote=note.quote,
            proposed=note.is_proposed,
        )


class PersonNoteList(Body):
    """What an agent knows of whom it talks with, the oldest note first."""

    notes: tuple[PersonNoteBody, ...]
