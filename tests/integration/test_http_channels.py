"""Channels over HTTP: their status, whether the gateway is ready, and what platforms deliver."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from support.channel_states import ILL, SECRET, WELL, TwoChannels
from support.gateway import open_http_gateway

from everturn_channels.errors import ClientError
from everturn_gateway.client import ask_channels
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.doctor.channel_words import channel_text


async def test_how_channels_fare_is_told_with_the_token(tmp_path: Path) -> None:
    """Names of bots and errors of platforms are for whoever runs the gateway.

    What a channel leaves undone stands in its line: a bot that receives looks well, while one of
    its chats is deaf.
    """
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
    """The path is open to the world; Meta's deliveries have up to 3 MB, and say so."""
    server = ServerConfig(max_body_bytes=1000)

    async def unsaid() -> AsyncGenerator[bytes]:
        yield b"x" * 1001

    async with open_http_gateway(tmp_path, server=server) as gateway, gateway.client() as client:
        channels = gateway.channels = TwoChannels()
        path, large = "/channels/telegram/webhook", b"x" * 4 * 1024 * 1024
        refused = [await client.post(path, content=each) for each in (large + b"x", unsaid())]
        taken = await client.post(path, content=large)

    assert [each.status_code for each in refused] == [413, 413]
    assert taken.status_code == 200
    assert [len(body) for _, body in channels.taken] == [len(large)]


async def test_a_channel_is_looked_at_anew(tmp_path: Path) -> None:
    """What is wrong comes in words; a name that is none is told."""
    check = "/api/v1/admin/channels/{}/check"
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        gateway.channels = TwoChannels()
        well = await client.post(check.format("telegram"))
        ill = await client.post(check.format("discord-club"))
        unknown = await client.post(check.format("other"))

    assert well.json() == {"ok": True, "lines": ["ok"]}
    assert ill.json() == {"ok": False, "lines": ["problem: no intents"]}
    assert unknown.json()["type"] == "urn:everturn:problem:unknown-channel"
