"""What people read and change of the notes about them: in chats, the terminal and over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from everturn_actors.errors import InvalidInputError, ToolFailedError
from everturn_actors.ports import Clock
from everturn_gateway.tools.config import ToolConfig
from everturn_gateway.tools.confined import Confined
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.memory.notes import folders_of
from everturn_gateway.tools.memory.people import (
    NOTE_CHARACTERS,
    TOPIC_CHARACTERS,
    People,
    Person,
    PersonNote,
    one_line,
)
from everturn_gateway.tools.memory.plugin import memory_settings

NO_MEMORY: Final = "the agent keeps no notes: spec.memory in its file gives it some"


class OwnNotes(Struct, frozen=True, kw_only=True):
    """The notes of one conversation, for the people in it."""

    folder: Confined
    whose: Person
    clock: Clock

    async def read(self) -> list[PersonNote]:
        """Return what is known, the oldest note first.

        Raises:
            ToolFailedError: It cannot be read.
        """
        return await self.folder.run(partial(People(self.folder).read, self.whose), reads=True)

    async def keep(self, topic: str, text: str, *, by: str) -> None:
        """Keep a note in the place of the one on its topic; return when it is durable.

        Raises:
            InvalidInputError: It is empty or too long.
            ToolFailedError: There are too many, or it cannot be written.
        """
        topic, text = one_line(topic).replace(":", " ").strip(), one_line(text)
        if not topic or not text or len(topic) > TOPIC_CHARACTERS or len(text) > NOTE_CHARACTERS:
            msg = (
                f"a note has a topic of at most {TOPIC_CHARACTERS} characters and a text of at"
                f" most {NOTE_CHARACTERS}"
            )
            raise InvalidInputError(msg)
        note = PersonNote(topic=topic, text=text, day=f"{self.clock.now():%Y-%m-%d}", who=by)
        await self.folder.run(partial(People(self.folder).keep, self.whose, [note]))

    async def forget(self, topic: str) -> bool:
        """Remove a note; return whether there was one, when that is durable.

        Raises:
            ToolFailedError: It cannot be written.
        """
        if not await self.read():
            return False
        work = partial(People(self.folder).keep, self.whose, [], [topic])
        return bool(await self.folder.run(work))

    async def erase(self, is_gone: Callable[[PersonNote], bool]) -> None:
        """Take out those notes for which `is_gone` says so; return when that is durable.

        Raises:
            ToolFailedError: They cannot be written.
        """
        await self.folder.run(partial(People(self.folder).erase, self.whose, is_gone))


def own_notes(
    config: ToolConfig, environment: ToolEnvironment, whose: Person, clock: Clock
) -> OwnNotes:
    """Return the notes about somebody.

    Raises:
        ToolFailedError: Its agent keeps none.
    """
    if memory_settings(config) is None:
        raise ToolFailedError(NO_MEMORY)
    own, _ = folders_of(environment.home, environment.state)
    return OwnNotes(folder=own, whose=whose, clock=clock)
