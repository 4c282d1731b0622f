"""Asks a running gateway the status of its channels."""

from __future__ import annotations

from datetime import datetime

from everturn_channels.chats.lanes import BlockedLane
from everturn_channels.health import ChannelStatus, Login
from everturn_gateway.client.answers import Json, value_of
from everturn_gateway.client.api import ask_once


async def ask_channels(url: str, *, token: str) -> tuple[ChannelStatus, ...]:
    """Return the status of the channels of the gateway at `url`, in the order of its configuration.

    Args:
        url: Where it listens.
        token: Its API token; empty where it asks for none.

    Raises:
        CoreError: It refuses the request.
        ClientError: It cannot be reached, or its answer is not understood.
    """
    said = await ask_once(url, "GET", "/api/v1/channels", token=token)
    return value_of(lambda data: tuple(map(_status, data["channels"])), said)


def _status(data: Json) -> ChannelStatus:
    return ChannelStatus(
        name=data["name"],
        platform=data["platform"],
        state=data["state"],
        since=datetime.fromisoformat(data["since"]),
        account=data["account"],
        last_received_at=_timestamp(data["last_received_at"]),
        is_healthy=data["healthy"],
        error=data["error"],
        login=_login(data.get("login")),
        retry_at=_timestamp(data["retry_at"]),
        retries=data["retries"],
        received=data["received"],
        sent=data["sent"],
        skipped=data["skipped"],
        given_up=data["given_up"],
        unreadable=data["unreadable"],
        blocked=tuple(map(_lane, data["blocked"])),
        blocked_count=data["blocked_count"],
    )


def _login(data: Json | None) -> Login | None:
    return Login(text=data["text"], qr=data["qr"]) if data else None


def _lane(data: Json) -> BlockedLane:
    return BlockedLane(
        chat=data["chat"],
        since=datetime.fromisoformat(data["since"]),
        tried_at=datetime.fromisoformat(data["tried_at"]),
        tries=data["tries"],
        why=data["why"],
    )


def _timestamp(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
