"""Channels over HTTP: how they fare, whether the gateway is ready, and what platforms deliver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.gateway import open_http_gateway

from everturn_channels.chats.lanes import BlockedLane
from everturn_channels.errors import ClientError
from everturn_channels.health import ChannelStatus
from everturn_gateway.client import ask_channels
from everturn_gateway.commands.channel import channel_text
from everturn_gateway.config.settings import ServerConfig

AT = datetime(2026, 11, 22, 8, 0, 0, tzinfo=UTC)
WELL = ChannelStatus(
    name="telegram",
    platform="telegram",
    state="connected",
    since=AT,
    account="@my_bot",
    last_received_at=AT,
    is_healthy=True,
    received=5,
    sent=4,
    skipped=3,
    unreadable=2,
    blocked=(
        BlockedLane(chat="-100", since=AT, tried_at=AT, tries=4, why="the disk does not answer"),
    ),
    blocked_count=1,
)
ILL = ChannelStatus(
    name="discord-club",
    platform="discord",
    state="retrying",
    since=AT,
    error="connection refused",
    retry_at=AT,
    retries=2,
)
SECRET = "X-Telegram-Bot-Api-Secret-Token"


@dataclass(slots=True, kw_only=True)
class TwoChannels:
    """Channels that fare as they are told to; `telegram` takes what is delivered."""

    shown: tuple[ChannelStatus, ...] = (WELL, ILL)
    status: int = 200
    taken: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])

    def statuses(self) -> tuple[ChannelStatus, ...]:
        """Return how they fare."""
        return self.shown

    def troubled(self) -> tuple[ChannelStatus, ...]:
        """Return those that do not receive."""
        return tuple(status for status in self.shown if not status.is_healthy)

    def admits_webhook(self, name: str, headers: Mapping[str, str]) -> bool | None:
        """Let everything in that is for the right channel; its secret is looked at later."""
        del headers
        return True if name == "telegram" else None

    async def take_webhook(self, name: str, headers: Mapping[str, str], body: bytes) -> int | None:
        """Note what is delivered."""
        if name != "telegram":
            return None
        self.taken.append((headers.get(SECRET, ""), body))
        return self.status


async def test_how_channels_fare_is_told_with_the_token(tmp_path: Path) -> None:
    """Names of bots and errors of platforms are for whoever runs the gateway."""
    server = ServerConfig(api_token="user-token")  # noqa: S106 - made up
    async with open_http_gateway(tmp_path, server=server) as gateway:
        gateway.channels = TwoChannels()
        asked = await ask_channels(gateway.base_url, token="user-token")  # noqa: S106 - made up
        async with gateway.client() as client:
            stranger = await client.get("/api/v1/channels")
        with pytest.raises(ClientError, match=r"server\.api_token"):
            await ask_channels(gateway.base_url, token="")

    assert asked == (WELL, ILL)
    assert stranger.status_code == 401


def test_what_a_channel_leaves_undone_stands_in_its_line() -> None:
    """A bot that receives looks well, while one of its chats is deaf."""
    line = channel_text(WELL)

    assert "1 chat waits, the longest (-100) since " in line
    assert line.endswith(": the disk does not answer; 2 events could not be read")


async def test_the_gateway_is_not_ready_while_a_channel_is_deaf(tmp_path: Path) -> None:
    """Whoever watches must learn which one, and that the process is alive all the same."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        channels = gateway.channels = TwoChannels()
        deaf, live = await client.get("/readyz"), await client.get("/livez")
        channels.shown = (WELL,)
        ready = await client.get("/readyz")

    assert deaf.status_code == 503
    assert deaf.headers["retry-after"] == "5"
    assert deaf.json()["channels"] == ["discord-club"]
    assert deaf.json()["detail"] == (
        "messages are not received on: discord-club (connection refused)"
    )
    assert (live.status_code, ready.status_code) == (200, 200)
    assert ready.json()["blocked_chats"] == {"telegram": 1}


async def test_what_telegram_delivers_reaches_the_channel(tmp_path: Path) -> None:
    """Telegram has no bearer token and comes by a public name: the secret is the channel's."""
    server = ServerConfig(api_token="user-token")  # noqa: S106 - made up
    public = {"Host": "bot.example.org", SECRET: "s3cret"}
    async with open_http_gateway(tmp_path, server=server) as gateway, gateway.client() as client:
        channels = gateway.channels = TwoChannels()
        taken = await client.post(
            "/channels/telegram/webhook", headers=public, content=b'{"update_id": 1}'
        )
        for channels.status in (400, 401, 503):
            refused = await client.post("/channels/telegram/webhook", content=b"[")
            assert refused.status_code == channels.status
            assert refused.headers["content-type"] == "application/problem+json"
        unknown = await client.post("/channels/other/webhook", headers=public, content=b"{}")

    assert (taken.status_code, taken.json()) == (200, {"status": "ok"})
    assert channels.taken[:2] == [("s3cret", b'{"update_id": 1}'), ("", b"[")]
    assert unknown.status_code == 404
    assert unknown.json()["type"] == "urn:everturn:problem:unknown-channel"


async def test_a_delivery_needs_no_name_of_loopback(tmp_path: Path) -> None:
    """Behind a proxy the request names the public host, also where there is no API token."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        gateway.channels = TwoChannels()
        public = {"Host": "bot.example.org"}
        taken = await client.post("/channels/telegram/webhook", headers=public, content=b"{}")
        others = await client.get("/api/v1/channels", headers=public)

    assert (taken.status_code, others.status_code) == (200, 403)


async def test_a_delivery_is_limited_in_size(tmp_path: Path) -> None:
    """The path is open to the world; no update is near a megabyte."""
    server = ServerConfig(max_body_bytes=1000)
    async with open_http_gateway(tmp_path, server=server) as gateway, gateway.client() as client:
        channels = gateway.channels = TwoChannels()
        answer = await client.post("/channels/telegram/webhook", content=b"x" * 1001)

    assert answer.status_code == 413
    assert channels.taken == []
