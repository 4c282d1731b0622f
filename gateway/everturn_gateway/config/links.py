"""Which private chats and principals are one person, as `everturn.yaml` says. Pure.

Never by a name, nor by what somebody says of themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from everturn_actors.codec import Value
from everturn_actors.model import ConversationKey
from everturn_gateway.config.owners import PersonName, as_list
from everturn_gateway.yaml_files import FieldPath

PRINCIPAL: Final = "principal"
"In the place of a channel: then a principal's name stands in that of a chat."


class Links(Value, frozen=True, kw_only=True):
    """The people who are known in several places, by the name of each link."""

    people: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType({})
    "Channels and chats; no place has two people."

    def person(self, key: ConversationKey, principal: str) -> str:
        """Return the link of whoever talks in a conversation; empty = there is none.

        >>> links = Links(people={"ann": (("telegram", "7"), ("principal", "ann"))})
        >>> links.person(ConversationKey(channel="telegram", chat="7", agent="a"), "")
        'ann'
        """
        if not self.people:
            return ""
        # Whatever its topic: each thread of a private chat, as of mails, is with the same person.
        place = (PRINCIPAL, principal) if principal else (key.channel, key.chat)
        return next((name for name, places in self.people.items() if place in places), "")

    def places(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return where a person writes: channels and chats, and principals."""
        return self.people.get(name, ())


NO_LINKS: Final = Links()


def _chat(value: str) -> str:
    if not value or not value.isprintable() or value != value.strip() or "*" in value:
        msg = "must be the id of one private chat, as /whoami shows it: no blanks around it, no *"
        raise ValueError(msg)
    return value


_Chats = Annotated[
    tuple[Annotated[str, AfterValidator(_chat)], ...],
    BeforeValidator(as_list),
    Field(min_length=1),
]
LinkSettings: TypeAlias = dict[PersonName, dict[str, _Chats]]
"`links`: by name, and by channel, or `principal`, the chats of one person."


def links_of(settings: LinkSettings) -> Links:
    """Return what the file says."""
    people = {
        name: tuple((channel, chat) for channel, chats in places.items() for chat in chats)
        for name, places in settings.items()
    }
    return Links(people=people)


def link_faults(settings: LinkSettings) -> Iterator[tuple[FieldPath, str]]:
    """Yield what is wrong with links that single fields do not show."""
    known: dict[tuple[str, str], str] = {}
    for name, places in settings.items():
        for channel, chats in places.items():
            for chat in chats:
                other = known.setdefault((channel, chat), name)
                if other != name:
                    yield ("links", name, channel), f"{chat!r} is one of {other} too"


def link_notes(settings: LinkSettings, channels: Iterable[str]) -> Iterator[tuple[FieldPath, str]]:
    """Yield what stands there and has no effect.

    Args:
        settings: What the file says.
        channels: The names of the channels that are enabled.
    """
    known = (*channels, PRINCIPAL)
    for name, places in settings.items():
        if sum(map(len, places.values())) < 2:
            yield ("links", name), f"{name} is known in one place alone, so nothing is linked"
        for channel in places:
            if channel not in known:
                message = f"no channel is called {channel!r}; there are: {', '.join(known)}"
                yield ("links", name, channel), message
