"""Where it was said: a ranked index over what stands in the logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from everturn_actors.events import Event
from everturn_actors.model import ConversationKey
from everturn_actors.state.session_state import SessionState

SearchRole: TypeAlias = Literal["user", "assistant", "call", "tool", "summary"]
"""Who said it; call: what a tool was asked for, tool: what it gave, summary: what stands for
older messages."""


class SearchPlace(Struct, frozen=True, kw_only=True):
    """Sessions in which it may stand; what is set has to be true together."""

    session_id: str = ""
    conversation: ConversationKey | None = None
    "All sessions of one conversation, also those before a reset."
    agents: frozenset[str] | None = None
    channel: str = ""
    chat: str = ""
    "The chat, or with a trailing `*` how it begins; goes with `channel`."
    seen_by: str = ""
    "Those that this principal began or was given."


class MessageQuery(Struct, frozen=True, kw_only=True):
    """What is looked for, and where."""

    text: str
    "A question or words: any of them; what stands in quotes has to stand there as it is."
    places: tuple[SearchPlace, ...] = ()
    "In one of them; empty = anywhere."
    roles: frozenset[SearchRole] | None = None
    "Only what these said; None = all."
    sender: str = ""
    "Only messages of people whose name or id holds these words."
    since: date | None = None
    until: date | None = None
    "Days of UTC, both included."
    limit: int = 20
    offset: int = 0
    "How many of the best are passed over."
    common_rows: int | None = None
    """Words that more messages of these places have are not looked for, even where all are such.
    None = the index's own bound, and the newest messages where there is no rarer word."""
    is_newest_needed: bool = True
    """Whether what was noted last has to be found, too: then it is written first."""


class MessageMatch(Struct, frozen=True):
    """An event that the index names. The log alone says what stands there."""

    session_id: str
    seq: int


class MessagePage(Struct, frozen=True, kw_only=True):
    """What was found, the best first."""

    matches: tuple[MessageMatch, ...]
    has_more: bool = False
    searched_to: datetime | None = None
    "Only sessions in which something happened after that were searched; None = all were."


class MessageIndex(Protocol):
    """Finds messages by what they say. It is a cache: made from the logs, never believed over them.

    Whoever gets a match reads the event, and asks whether its session may be shown. The folder has
    one on SQLite; a store may bring its own, see `OpenedStore.messages`.
    """

    def note(self, state: SessionState, events: Sequence[Event]) -> None:
        """Take note of events that are durable now. Stands in the path of turns: microseconds.

        What is noted is found by the next search that needs the newest. What a crash takes is read
        from the log again.
        """
        ...

    async def search(self, query: MessageQuery) -> MessagePage:
        """Return the messages that fit best.

        An index that is being made answers with what it has; one that is damaged says that nothing
        was searched, and is made anew.
        """
        ...

    async def forget(self, session_id: str) -> None:
        """Remove all that is known of a session; return when it is found no more."""
        ...
