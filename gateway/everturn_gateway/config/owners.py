"""What `everturn.yaml` says of owners: whose the agents are, by their accounts on the channels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from everturn_actors.json_values import is_list
from everturn_channels.access.owners import Owner
from everturn_gateway.plugins import Registry
from everturn_gateway.principals import is_principal_name
from everturn_gateway.yaml_files import Document, FieldPath, SettingsModel

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,19}")
_ID_CHARACTERS: Final = 128  # they stand in names of cursors, which have at most 200


def _name(value: str) -> str:
    if not is_principal_name(value):
        msg = "must be lower-case letters, digits, dots, hyphens and underscores, a letter first"
        raise ValueError(msg)
    return value


def as_list(value: object) -> object:
    """Read one id as a list of it alone."""
    return value if is_list(value) else [value]


def _id(value: str) -> str:
    if not value or not value.isprintable() or value != value.strip() or "*" in value:
        msg = "must be the id of one person: no blanks around it, and no *"
        raise ValueError(msg)
    return value


PersonName = Annotated[str, AfterValidator(_name)]
_Id = Annotated[str, AfterValidator(_id), Field(max_length=_ID_CHARACTERS)]
_Ids = Annotated[tuple[_Id, ...], BeforeValidator(as_list)]


class OwnerSettings(SettingsModel):
    """One of `owners`."""

    name: PersonName
    accounts: dict[str, _Ids] = Field(default_factory=dict)
    agents: tuple[str, ...] | None = None
    notify: bool = False

    def value(self) -> Owner:
        """Return it."""
        return Owner(
            name=self.name,
            accounts=frozenset(
                (channel, account) for channel, ids in self.accounts.items() for account in ids
            ),
            agents=None if self.agents is None else frozenset(self.agents),
            notify=self.notify,
        )


def owner_faults(
    document: Document, owners: Iterable[OwnerSettings], registry: Registry
) -> Iterator[tuple[FieldPath, str]]:
    """Yield what is wrong with owners that single fields do not show.

    Args:
        document: The file, for its lines.
        owners: What it says of them.
        registry: Knows what accounts on channels look like.
    """
    names: dict[str, int] = {}
    known: dict[tuple[str, str], str] = {}
    for number, owner in enumerate(owners):
        path: FieldPath = ("owners", number)
        if owner.name in names:
            line = document.line(("owners", names[owner.name]))
            yield (*path, "name"), f"is the name of the owner in line {line} too"
        names.setdefault(owner.name, number)
        for channel, ids in owner.accounts.items():
            at = (*path, "accounts", channel)
            for account in ids:
                if _has_numbers(channel, registry) and not _NUMBER.fullmatch(account):
                    yield at, f"{account!r} is no person's id: a number, not a name nor a group"
                other = known.setdefault((channel, account), owner.name)
                if other != owner.name:
                    yield at, f"{account!r} is an account of {other} too"


def owner_notes(
    owners: Iterable[OwnerSettings], channels: Iterable[str]
) -> Iterator[tuple[FieldPath, str]]:
    """Yield what stands there and has no effect.

    Args:
        owners: What the file says of them.
        channels: The names of the channels that are enabled.
    """
    known = tuple(channels)
    for number, owner in enumerate(owners):
        path: FieldPath = ("owners", number)
        if not owner.accounts:
            yield path, f"{owner.name} has no accounts, and can do nothing from a chat"
        for channel in owner.accounts:
            if channel not in known:
                message = (
                    f"no channel is called {channel!r}; there are: {', '.join(known) or 'none'}"
                )
                yield (*path, "accounts", channel), message


def missing_agents(owners: Iterable[Owner], agents: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the agents that owners name and that are not there, by owner."""
    known = frozenset(agents)
    missing = {owner.name: tuple(sorted((owner.agents or known) - known)) for owner in owners}
    return {name: gone for name, gone in missing.items() if gone}


def _has_numbers(channel: str, registry: Registry) -> bool:
    """Say whether people on a channel have numbers; channels are named after their plug-ins."""
    channels = registry.channels
    kinds = (kind for kind in channels.names if channel == kind or channel.startswith(f"{kind}-"))
    plugins = (channels.get(kind) for kind in kinds)
    return any(plugin.has_number_ids for plugin in plugins if plugin is not None)
