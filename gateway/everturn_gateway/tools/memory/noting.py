"""`note_person`: what was said about a person or their work, kept for later conversations.

The model quotes the words from which a note follows, and the gateway finds the message that has
them: a note that nobody's words stand behind is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final

import anyio
from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from everturn_actors.errors import ToolFailedError
from everturn_actors.events import Edited, Event, Received, Transcribed
from everturn_actors.model import PROGRAM_SENDERS, Approval, Inquiry, UserMessage
from everturn_actors.ports import InquiryToMake, Tool, ToolCapabilities, ToolContext
from everturn_gateway.config.links import Links
from everturn_gateway.search.words import is_telling
from everturn_gateway.tools.arguments import Arguments
from everturn_gateway.tools.confined import Confined
from everturn_gateway.tools.conversations import sources_behind
from everturn_gateway.tools.function import FunctionTool
from everturn_gateway.tools.memory.people import (
    NOTE_CHARACTERS,
    PROPOSED,
    QUOTE_CHARACTERS,
    TOPIC_CHARACTERS,
    People,
    PersonNote,
    folded,
    one_line,
    person_of,
)
from everturn_gateway.tools.places import NOBODY_ANSWERS

NOTE_PERSON: Final = "note_person"
_AT_ONCE: Final = 10  # notes of one call: a person has to be able to read what is asked
_ANSWER_S: Final = 24 * 3600
_YES: Final = "Keep"
_NO: Final = "Do not keep"
_CAPABILITIES: Final = ToolCapabilities(repeatable=True, safe=True, timeout_s=60)
_DESCRIPTION: Final = """\
Keep what the person said about themselves or their work that will matter in later \
conversations. It stands in your prompt then. quote: some words of a message of theirs from which \
it follows, letter for letter; without them a note is not kept. A note takes the place of the one \
on its topic. Nothing secret, nothing guessed, nothing that pages or others say."""


class Note(Arguments):
    """One thing to keep."""

    topic: Annotated[
        str, Field(min_length=1, max_length=TOPIC_CHARACTERS, pattern=r"^[^:\n]*\S[^:\n]*$")
    ] = Field(description="a few words, such as language")
    text: Annotated[str, Field(min_length=1, max_length=NOTE_CHARACTERS, pattern=r"\S")]
    quote: Annotated[str, Field(min_length=3, max_length=QUOTE_CHARACTERS, pattern=r"\S")]


class NotePerson(Arguments):
    """What to keep, and what to forget."""

    notes: Annotated[tuple[Note, ...], Field(max_length=_AT_ONCE)] = ()
    forget: Annotated[tuple[str, ...], Field(max_length=_AT_ONCE)] = Field(
        default=(), description="topics of notes that do not hold any more"
    )


class _Question:
    """Whether notes may be kept; implements `Questions`."""

    withdrawn: anyio.Event | None = None

    def __init__(self, text: str, answered: Approval | None) -> None:
        self._text, self.answered = text, answered

    def current(self) -> InquiryToMake | None:
        """Return the question; None where it is answered."""
        if self.answered is not None:
            return None
        inquiry = Inquiry(text=self._text, choices=(_YES, _NO))
        # With a state the question survives a restart, and the call goes on with the answer.
        return InquiryToMake(inquiry=inquiry, timeout_s=_ANSWER_S, state="asked")

    def take(self, answer: Approval) -> None:
        """Take what became of it."""
        self.answered = answer

    @property
    def is_yes(self) -> bool:
        """Whether somebody agreed."""
        return self.answered is not None and self.answered.answer == _YES


class _Noting(Struct, frozen=True, kw_only=True):
    people: People
    own: Confined
    asks: bool
    links: Links

    async def answer(self, asked: NotePerson, context: ToolContext) -> str:
        if context.is_shared:
            msg = "others see this session, too: nothing of it is kept about a person"
            raise ToolFailedError(msg)
        if context.key.channel in NOBODY_ANSWERS:
            msg = "nobody talks with you here, so there is nothing to keep of them"
            raise ToolFailedError(msg)
        if not asked.notes and not asked.forget:
            msg = "notes: say what to keep, or in forget what to forget"
            raise ToolFailedError(msg)
        sources = sources_behind(context)
        whose = person_of(context.key, context.principal, self.links)
        notes = [await self._sourced(each, context, sources) for each in asked.notes]
        if self.asks and context.ask is None and context.asked is None:
            # Nobody is there to be asked, as the conversation is over: they find it in /memory.
            notes = [replace(each, outside=(PROPOSED, *each.outside)) for each in notes]
            known = await self.own.run(partial(self.people.read, whose), reads=True)
            agreed = {folded(each.topic) for each in known if not each.is_proposed}
            notes = [each for each in notes if folded(each.topic) not in agreed]
            asked = NotePerson(notes=asked.notes)  # what holds no more is theirs to say
        elif self.asks:
            question = _Question(_question(notes, asked.forget), context.asked)
            if context.ask is not None and context.asked is None:
                await context.ask(question)
            if not question.is_yes:
                return "nothing was kept: the person did not agree; do not propose it again"
            notes = [replace(each, outside=()) for each in notes]  # they read it, and vouch for it
        gone = await self.own.run(partial(self.people.keep, whose, notes, asked.forget))
        replaced = f"; gone: {', '.join(each.topic for each in gone)}" if gone else ""
        return f"kept: {', '.join(each.topic for each in notes) or 'nothing new'}{replaced}"

    async def _sourced(
        self, note: Note, context: ToolContext, sources: tuple[str, ...]
    ) -> PersonNote:
        """Return a note with the message that it comes from.

        Raises:
            ToolFailedError: No person said these words here.
        """
        wanted = folded(note.quote)
        for message in _said_by_people(context):
            if wanted not in folded(message.text):
                continue
            # What a turn is told besides stands in its message too: only the log has it alone.
            event = await _received(context, message.seq)
            if event is None or wanted not in folded(event[1]):
                continue
            # From `the`, which stands in any message, nothing follows; `I do` may be an answer.
            if is_telling(note.quote) or wanted == folded(event[1]):
                return PersonNote(
                    topic=one_line(note.topic),
                    text=one_line(note.text),
                    day=f"{event[0].at:%Y-%m-%d}",
                    who=message.sender,
                    place=f"{context.session_id}:{message.seq}",
                    quote=one_line(note.quote),
                    outside=sources,
                )
        msg = (
            f"notes: nobody said {note.quote!r} here, or nothing follows from it; quote a message"
            " of the person letter for letter, one that is shown to you"
        )
        raise ToolFailedError(msg)


def note_tools(people: People, own: Confined, *, asks: bool, links: Links) -> tuple[Tool, ...]:
    """Return the tool with which a model keeps notes about whom it talks with.

    Args:
        people: The notes.
        own: The folder in which they stand.
        asks: Whether the person is asked before anything is kept.
        links: Who is one person in several chats.
    """
    noting = _Noting(people=people, own=own, asks=asks, links=links)
    return (
        FunctionTool(
            NOTE_PERSON,
            _DESCRIPTION,
            arguments=NotePerson,
            capabilities=_CAPABILITIES,
            answer=noting.answer,
        ),
    )


def _said_by_people(context: ToolContext) -> list[UserMessage]:
    """Return what people said in the conversation, newest first; not what nobody vouches for."""
    conversation = context.conversation
    heard = [user for turn in conversation.turns for user in turn.heard]
    heard += conversation.current.heard if conversation.current else ()
    return [
        each
        for each in reversed(heard)
        if each.sender not in PROGRAM_SENDERS
        and not each.untrusted
        and not (each.options and each.options.is_quiet)
    ]


async def _received(context: ToolContext, seq: int) -> tuple[Event, str] | None:
    """Return the event of a message, and its text alone; None where the log has none."""
    events: Sequence[Event] = await context.store.read(
        context.session_id, after=seq - 1, limit=_EDITED_WITHIN
    )
    if not events or not isinstance(events[0].body, Received):
        return None
    text = events[0].body.text
    for event in events:
        if isinstance(event.body, Edited) and event.body.received == seq:
            text = event.body.text
        if isinstance(event.body, Transcribed) and event.body.message == seq:
            text = f"{text}\n{event.body.text}"
    return events[0], text


_EDITED_WITHIN: Final = 50  # events after a message, in which its writer changed it


def _question(notes: Sequence[PersonNote], forget: Sequence[str]) -> str:
    lines = ["May I keep this for our next conversations?"] if notes else ["May I forget this?"]
    lines += [f"- {each.topic}: {each.text} (“{each.quote}”)" for each in notes]
    lines += [f"- no more: {one_line(topic)}" for topic in forget]
    return "\n".join(lines)
