"""Which agents owners chose for chats and topics, from there: `/agent NAME`.

pairing/agents.json      what was chosen; a route of its own, before those of the configuration
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeAlias

from everturn_actors.codec import Timestamp, Value
from everturn_actors.documents import Document, form_of
from everturn_actors.ports import Clock, KeyedStore
from everturn_channels.settings import Route

AGENTS_KEY: Final = "pairing/agents.json"
CHATS_MAX: Final = 2_000  # each is looked at for each message


class ChosenAgent(Value, frozen=True, kw_only=True):
    """An agent that answers in a chat, or in one of its topics."""

    channel: str
    chat: str
    topic: str = ""
    "Empty = wherever nothing else was chosen in the chat."
    agent: str
    chosen_at: Timestamp
    by: str = ""
    "Which owner did it, see `Owner.by`."


class ChosenAgents:
    """Knows what owners chose. One process receives for a channel: so it is read at its start."""

    def __init__(self, store: KeyedStore, clock: Clock) -> None:
        """Know of nothing yet."""
        self._clock = clock
        self._document = Document(store, AGENTS_KEY, _FORM)
        self._routes: tuple[Route, ...] = ()

    async def load(self) -> None:
        """Read what was chosen.

        Raises:
            JournalError: It cannot be read; the text names it.
        """
        self._routes = _routes(await self._document.read())

    def routes(self, agents: Collection[str]) -> tuple[Route, ...]:
        """Return what was chosen as routes, those of topics first; of agents that there are."""
        return tuple([each for each in self._routes if each.agent in agents])

    async def choose(
        self, channel: str, chats: Collection[str], topic: str, agent: str, *, by: str
    ) -> bool:
        """Let an agent answer in a chat, or in a topic of it, durably; twice does no harm.

        Args:
            channel: Its name.
            chats: All ids of the chat, the one that it is known by first.
            topic: Empty = in the chat.
            agent: Its name; empty = as the configuration says.
            by: Which owner chooses.

        Returns:
            Whether there was room.

        Raises:
            JournalError: It cannot be read or written; the text names it.
        """
        first = next(iter(chats))
        new = ChosenAgent(
            channel=channel,
            chat=first,
            topic=topic,
            agent=agent,
            chosen_at=self._clock.now(),
            by=by,
        )

        def changed(known: _Chosen) -> _Chosen:
            left = tuple(
                each
                for each in known
                if (each.channel, each.topic) != (channel, topic) or each.chat not in chats
            )
            return (*left, new) if agent and len(left) < CHATS_MAX else left

        known = await self._document.change(changed)
        self._routes = _routes(known)
        return not agent or new in known


def _routes(chosen: _Chosen) -> tuple[Route, ...]:
    return tuple(
        Route(agent=each.agent, channel=each.channel, chat_id=each.chat, topic=each.topic)
        for each in sorted(chosen, key=lambda each: not each.topic)
    )


_Chosen: TypeAlias = tuple[ChosenAgent, ...]
_FORM: Final = form_of("agents", _Chosen, _Chosen())
