"""Who asks, and what of the gateway is open to them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from everturn_actors.codec import Count, Timestamp
from everturn_actors.model import PROGRAM_SENDERS

Scope: TypeAlias = Literal["read", "talk", "approve", "operate", "admin"]
"""A kind of action.

`read`: look at agents, and at the sessions that the principal began or was given.
`talk`: begin such sessions, send messages, cancel turns, share what it began.
`approve`: answer the questions of such sessions.
`operate`: all sessions, jobs, channels, metrics, files of agents; retry, reset, delete.
`admin`: everything, also what no other scope has: reload, what was learnt of models, jobs that go
to a webhook, and answers in the name of somebody else.
"""

SCOPES: Final[tuple[Scope, ...]] = ("read", "talk", "approve", "operate", "admin")
"All of them, the narrowest first."

# Answering a question is what lets a tool run: to operate does not include it.
_INCLUDES: Final[dict[Scope, frozenset[Scope]]] = {
    "read": frozenset({"read"}),
    "talk": frozenset({"talk", "read"}),
    "approve": frozenset({"approve", "read"}),
    "operate": frozenset({"operate", "talk", "read"}),
    "admin": frozenset(SCOPES),
}

NAME_PATTERN: Final = r"[a-z][a-z0-9._-]{0,62}"
"Of a principal: it stands in paths, in logs, in metrics, and beside the ids of platforms."
_NAME: Final = re.compile(NAME_PATTERN)

LOCAL: Final = "local"
"Whoever asks from this machine where no token is needed."
API_TOKEN: Final = "api_token"
"Whoever has the one token of the configuration."
ADMIN_TOKEN: Final = "admin_token"
"Whoever has the token of the configuration that opens the administration."
RESERVED_NAMES: Final = frozenset({LOCAL, API_TOKEN, ADMIN_TOKEN}) | PROGRAM_SENDERS
"Nobody else is called so: the gateway's own, and senders that are programs of it."


@cache  # one for each of a few sets; asked for with each request
def with_included(scopes: frozenset[Scope]) -> frozenset[Scope]:
    """Return `scopes` and all that they include.

    >>> sorted(with_included(frozenset({"talk"})))
    ['read', 'talk']
    """
    return frozenset[Scope](included for scope in scopes for included in _INCLUDES[scope])


def is_principal_name(text: str) -> bool:
    """Return whether a principal may be called `text`; names of the gateway's own are refused."""
    return _NAME.fullmatch(text) is not None and text not in RESERVED_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Somebody, or some program, that was recognised."""

    name: str
    scopes: frozenset[Scope]
    "What was granted; what that includes need not stand here, see `may`."
    agents: frozenset[str] | None = None
    "The only agents it gets to know; None = all."
    is_owner: bool = False
    "Whether it stands for whoever owns the installation: what it begins belongs to nobody else."
    granted: frozenset[Scope] = field(init=False, compare=False, repr=False)
    "Everything that it may, by what its scopes include."

    def __post_init__(self) -> None:
        """Work out once what the scopes include."""
        object.__setattr__(self, "granted", with_included(self.scopes))

    def may(self, scope: Scope) -> bool:
        """Return whether `scope` is granted."""
        return scope in self.granted

    @property
    def may_claim(self) -> bool:
        """Whether it may answer in the name of somebody else, and where policies name others."""
        return self.is_owner or self.may("admin")

    @property
    def owns_as(self) -> str:
        """To whom what it begins belongs; empty = to whoever runs the gateway."""
        return "" if self.is_owner else self.name

    @property
    def sees_all(self) -> bool:
        """Whether every session is open to it."""
        return self.agents is None and self.may("operate")

    def knows_agent(self, agent: str) -> bool:
        """Return whether an agent is one of its own."""
        return self.agents is None or agent in self.agents

    def sees(self, *, agent: str, began_by: str, shared_with: tuple[str, ...]) -> bool:
        """Return whether a session is open to it.

        Args:
            agent: Of the session.
            began_by: The name of the principal that began it; empty = none is known.
            shared_with: The names of those whom it was given.
        """
        if not self.knows_agent(agent):
            return False
        return self.may("operate") or self.name == began_by or self.name in shared_with


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """What is kept of a token: everything but the token itself."""

    name: str
    "Of its principal; no two tokens have one name."
    digest: str = field(repr=False)
    "SHA-256 of the token, as 64 hexadecimal digits."
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1)]
    agents: tuple[str, ...] = ()
    "The only agents it gets to know; empty = all."
    daily_cost_usd: float | None = None
    "What its sessions may cost from midnight to midnight, UTC; None = any amount."
    requests_per_minute: Count | None = None
    "None = any number."
    created_at: Timestamp
    "UTC, aware."
    expires_at: Timestamp | None = None
    "UTC, aware; from this instant on it is refused. None = never."
    revoked_at: Timestamp | None = None
    "UTC, aware. It opens nothing any more; its limits hold for what its sessions still do."

    @property
    def principal(self) -> Principal:
        """Whom it stands for."""
        return Principal(
            name=self.name,
            scopes=frozenset(self.scopes),
            agents=frozenset(self.agents) if self.agents else None,
        )

    def is_expired(self, now: datetime) -> bool:
        """Return whether its time is over."""
        return self.expires_at is not None and now >= self.expires_at

    def is_valid(self, now: datetime) -> bool:
        """Return whether it opens anything."""
        return self.revoked_at is None and not self.is_expired(now)
