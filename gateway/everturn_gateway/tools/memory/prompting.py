"""What the prompt of a conversation says from the notes of its agent."""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec import Struct

from everturn_actors.model import ShownNotes
from everturn_actors.ports import ToolContext
from everturn_gateway.config.links import Links
from everturn_gateway.tools.confined import Confined
from everturn_gateway.tools.memory.notes import Notes, sources_in
from everturn_gateway.tools.memory.people import People, Person, person_of, shown_notes
from everturn_gateway.tools.places import NOBODY_ANSWERS

NOTES_SHARE: Final = 4  # characters: notes take at most a sixteenth of a window, in tokens
NOTES_CHARACTERS: Final = 6_000
_MARKED: Final = "[MEMORY.md was written while text from outside was shown; recall reads it]"


class PromptNotes(Struct, frozen=True, kw_only=True):
    """Reads the notes that stand in the prompt of a conversation; see `Agent.notes`."""

    own: Confined
    notes: Notes
    people: People
    links: Links
    window_tokens: int

    async def __call__(self, context: ToolContext) -> ShownNotes:
        """Return what the prompt is to say now."""
        # What is known of somebody is shown to nobody else; who shares a session knows that.
        has_person = context.key.channel not in NOBODY_ANSWERS and not context.is_shared
        whose = person_of(context.key, context.principal, self.links) if has_person else None
        read = partial(self._read, whose)
        return await self.own.run(read, reads=True)

    def _read(self, whose: Person | None) -> ShownNotes:
        work = self.notes.memory()
        # What was written while text from outside was shown would mark every conversation: it is
        # read with a tool, which says so, until a person takes the mark off.
        if sources_in(work):
            work = _MARKED
        known = [] if whose is None else self.people.read(whose)
        vouched = [each for each in known if not each.outside]
        most = min(NOTES_CHARACTERS, self.window_tokens // NOTES_SHARE)
        return shown_notes(vouched, work, most_characters=most)
