"""Asks a running gateway how its channels fare."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import httpx2

from everturn_channels.errors import DoorError
from everturn_channels.health import ChannelStatus
from everturn_channels.lanes import BlockedLane
from everturn_gateway.client.answers import TryAgainError, document, refuse, value_of
from everturn_gateway.client.door import open_client

_ANSWER_S: Final = 10.0  # it reads nothing from disk


async def ask_channels(url: str, *, token: str) -> tuple[ChannelStatus, ...]:
    """Return how the channels of the gateway at `url` fare, in the order of its configuration.

    Args:
        url: Where it listens.
        token: Its API token; empty where it asks for none.

    Raises:
        CoreError: It refuses the request.
        DoorError: It cannot be reached, or its answer is not understood.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with open_client(url, headers=headers, silence_s=_ANSWER_S) as http:
            response = await http.get("/api/v1/channels")
            if not response.is_success:
                refuse(response, response.content)
    except (httpx2.TransportError, TryAgainError) as error:
        why = f": {error}" if str(error) else ""
        msg = f"the gateway at {url} cannot be reached{why}"
        raise DoorError(msg) from error
    return value_of(lambda data: tuple(map(_status, data["channels"])), document(response.content))


def _status(data: Mapping[str, Any]) -> ChannelStatus:
    return ChannelStatus(
        name=data["name"],
        platform=data["platform"],
        state=data["state"],
        since=datetime.fromisoformat(data["since"]),
        account=data["account"],
        last_received_at=_instant(data["last_received_at"]),
        is_healthy=data["healthy"],
        error=data["error"],
        retry_at=_instant(data["retry_at"]),
        retries=data["retries"],
        received=data["received"],
        sent=data["sent"],
        skipped=data["skipped"],
        unreadable=data["unreadable"],
        blocked=tuple(map(_lane, data["blocked"])),
        blocked_count=data["blocked_count"],
    )


def _lane(data: Mapping[str, Any]) -> BlockedLane:
    return BlockedLane(
        chat=data["chat"],
        since=datetime.fromisoformat(data["since"]),
        tried_at=datetime.fromisoformat(data["tried_at"]),
        tries=data["tries"],
        why=data["why"],
    )


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
