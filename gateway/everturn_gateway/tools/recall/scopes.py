"""In which sessions a conversation may search: here, with this person, or more."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.model import ConversationKey
from everturn_actors.ports import SessionSummary, ToolContext
from everturn_actors.ports.search import SearchPlace
from everturn_gateway.config.links import NO_LINKS, PRINCIPAL, Links
from everturn_gateway.tools.places import DELEGATE, is_delegate_of, is_open_to, matches
from everturn_gateway.tools.recall.queries import Scope


class Reach(Struct, frozen=True, kw_only=True):
    """What may be read from within a session, by the rules of the tool `session`.

    A group and a private talk with one of its members share nothing; neither do two people who
    talk with one agent.
    """

    context: ToolContext
    read_from: tuple[str, ...] = ()
    "Conversations that the owner opened to everybody who talks with the agent."
    links: Links = NO_LINKS
    "Who is one person in several chats: what they said in one is theirs in all."

    def places(self, scope: Scope) -> tuple[SearchPlace, ...]:
        """Return where it may stand, for the index."""
        context = self.context
        if scope == "session":
            return (SearchPlace(session_id=context.session_id),)
        agents = frozenset((context.key.agent,))
        own = [SearchPlace(session_id=context.session_id), SearchPlace(conversation=context.key)]
        for channel, chat in self.links.places(self._person):
            if channel == PRINCIPAL:
                own.append(SearchPlace(agents=agents, seen_by=chat))
            else:
                own.append(SearchPlace(agents=agents, channel=channel, chat=chat))
        if context.principal:
            own.append(SearchPlace(agents=agents, seen_by=context.principal))
        if scope == "agent":
            delegates = f"{context.session_id}.*"
            own.append(SearchPlace(agents=agents, channel=DELEGATE, chat=delegates))
            own += (_of_pattern(agents, each) for each in self.read_from)
        return tuple(own)

    def admits(self, scope: Scope, row: SessionSummary) -> bool:
        """Return whether a session may be shown."""
        context = self.context
        if row.session_id == context.session_id:
            return True
        if scope == "session" or row.key.agent != context.key.agent:
            return False
        if self._person and self._person == self.links.person(row.key, row.principal):
            return True
        if context.principal and context.principal != row.principal:
            return False
        if scope == "agent" and is_delegate_of(row.key, context.session_id):
            return True
        # In a session that others see as well, nothing is told that they may not see.
        if not is_open_to(context.viewers, row):
            return False
        if self.is_own(row.key) or context.principal:
            return True
        return scope == "agent" and matches(row.key, self.read_from)

    @property
    def _person(self) -> str:
        context = self.context
        return "" if context.is_shared else self.links.person(context.key, context.principal)

    def is_own(self, key: ConversationKey) -> bool:
        """Return whether a session belongs to this very conversation, or to a linked one."""
        is_linked = self._person and self._person == self.links.person(key, "")
        return bool(is_linked) or replace(key, agent="") == replace(self.context.key, agent="")


def _of_pattern(agents: frozenset[str], pattern: str) -> SearchPlace:
    channel, _, chat = pattern.partition(":")
    if channel.endswith("*"):
        return SearchPlace(agents=agents)
    return SearchPlace(agents=agents, channel=channel, chat="" if chat == "*" else chat)
