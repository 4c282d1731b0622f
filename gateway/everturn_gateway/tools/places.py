"""Where conversations take place: as owners name them, and those of delegates.

A pattern is `channel:chat`, with a `*` at its end for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec.structs import replace

from everturn_actors.model import ConversationKey
from everturn_actors.ports import SessionSummary, ToolContext
from everturn_actors.session.snapshots import replayed
from everturn_actors.state.session_state import SessionState
from everturn_gateway.scheduler.jobs import ISOLATED

DELEGATE: Final = "delegate"
"The channel of conversations in which a delegate works. No person is there to be asked."
NOBODY_ANSWERS: Final = frozenset((DELEGATE, ISOLATED, "once"))
"Channels of conversations in which there is no person."


def place_of(key: ConversationKey) -> str:
    """Return a conversation as patterns name it."""
    return f"{key.channel}:{key.chat}"


def matches(key: ConversationKey, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns stands for a conversation."""
    place = place_of(key)
    return any(
        place.startswith(each[:-1]) if each.endswith("*") else place == each for each in patterns
    )


@runtime_checkable
class OpensConversations(Protocol):
    """Settings with which an owner opens conversations to all that an agent has."""

    @property
    def read_from(self) -> tuple[str, ...]:
        """Patterns of those that may be read."""
        ...


def is_open_to(viewers: frozenset[str], session: SessionSummary | SessionState) -> bool:
    """Return whether all who see a conversation may see another session as well.

    An agent that several people talk to carries nothing from one to another; where it belongs to no
    principal, the patterns of its owner alone decide.
    """
    return viewers <= {session.principal, *session.shared_with}


def is_delegate_of(key: ConversationKey, session_id: str) -> bool:
    """Return whether a conversation is that of a delegate which this session began."""
    return key.channel == DELEGATE and key.chat.startswith(f"{session_id}.")


async def seen_from(context: ToolContext) -> ToolContext:
    """Return the context of a call with those who see the session that a delegate works for.

    What a delegate finds goes back there.

    Raises:
        JournalError: The store cannot be asked.
    """
    key, viewers = context.key, list(context.shared_with)
    while key.channel == DELEGATE:
        loaded = await context.store.inspect(key.chat.partition(".")[0])
        found = await replayed(loaded) if loaded is not None else None
        if found is None:
            break  # it is gone, and nobody reads what goes back
        viewers += (found.state.principal, *found.state.shared_with)
        key = found.state.key
    others = dict.fromkeys(each for each in viewers if each and each != context.principal)
    return replace(context, shared_with=tuple(others))
