"""Which of several gateways receives on a channel; all of them send."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from everturn_actors.supervisor import Supervisor


class Seats(Protocol):
    """What one gateway does for all that share its store."""

    async def while_held(
        self,
        seat: str,
        body: Callable[[], Awaitable[object]],
        otherwise: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Run `body` while this gateway has a seat, and `otherwise` while another one has it."""
        ...


class ChannelEnvironment(Struct, frozen=True, kw_only=True):
    """Where channels run."""

    supervisor: Supervisor
    seats: Seats | None = None
    "Of the gateways that share the store; None = this one is alone, and receives on all of them."
