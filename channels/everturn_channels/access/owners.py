"""Who the owners of agents are, by their accounts on the channels. Pure.

An account is the pair of a channel and a platform's id on it. An id holds on the channel that it
stands under and on no other: what a plug-in calls its people makes none of them an owner elsewhere.
What people call themselves is never compared.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from everturn_actors.model import OWNER_PREFIX
from everturn_channels.adapter import Person


class Owner(Struct, frozen=True, kw_only=True):
    """Somebody who may answer, pair, reset and see usage from a private chat."""

    name: str
    accounts: frozenset[tuple[str, str]]
    "Channel and sender id."
    agents: frozenset[str] | None = None
    "Whose owner this is; None = of all."
    notify: bool = False
    "Whether questions that nobody answers are brought to the private chat."

    @property
    def by(self) -> str:
        """What stands in events for what this owner did."""
        return f"{OWNER_PREFIX}{self.name}"

    def owns(self, agent: str) -> bool:
        """Return whether an agent is this owner's."""
        return self.agents is None or agent in self.agents


def find_owner(owners: Iterable[Owner], channel: str, sender: Person) -> Owner | None:
    """Return the owner whose account on a channel says something; None where it is nobody's."""
    if not sender.id or sender.is_bot:
        return None
    account = channel, sender.id
    return next((owner for owner in owners if account in owner.accounts), None)


def accounts_on(owners: Iterable[Owner], channel: str) -> tuple[str, ...]:
    """Return the ids of all owners' accounts on a channel, sorted."""
    return tuple(sorted(i for owner in owners for where, i in owner.accounts if where == channel))
