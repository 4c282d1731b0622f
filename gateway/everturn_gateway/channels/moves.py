"""What an operator may change where chats were given another id by their platform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from everturn_actors.ports import KeyedStore
from everturn_channels.chats.aliases import open_aliases
from everturn_channels.settings import AccessRules
from everturn_gateway.config.settings import Config


class ListsGroups(Protocol):
    """An agent as its file stands."""

    @property
    def folder(self) -> Path:
        """Where it stands."""
        ...

    @property
    def access(self) -> AccessRules:
        """Who may talk to it."""
        ...


async def move_notes(
    config: Config, keyed: KeyedStore, agents: Sequence[ListsGroups]
) -> tuple[str, ...]:
    """Return a line for each place in the configuration that names a chat by an old id.

    It goes on to work; whoever reads the file looks for the chat in vain.

    Raises:
        SetupError: What is kept of a channel's chats cannot be read.
    """
    found: list[str] = []
    for channel in config.channels:
        aliases = await open_aliases(keyed, channel.name)
        names = (channel.name, channel.platform)
        found += _in_routes(config, aliases.moves, names)
        for agent in agents:
            found += _in_lists(agent, aliases.moves, names)
    return tuple(dict.fromkeys(found))


def _in_routes(config: Config, moves: Mapping[str, str], names: Sequence[str]) -> Iterator[str]:
    for number, route in enumerate(config.routes):
        if route.chat_id in moves and route.channel in {"", *names}:
            yield _note(f"routes[{number}].match.chat_id", route.chat_id, moves[route.chat_id])


def _in_lists(agent: ListsGroups, moves: Mapping[str, str], names: Sequence[str]) -> Iterator[str]:
    for entry in agent.access.groups.allowlist:
        channel, _, chat = entry.partition(":")
        if chat in moves and channel in names:
            where = f"{agent.folder / 'agent.yaml'}: spec.access.groups.allowlist"
            yield _note(where, entry, f"{channel}:{moves[chat]}")


def _note(where: str, old: str, new: str) -> str:
    return f"{where} names {old}, which is {new} now; both work, write the new one"
