"""Channels by way of a SOCKS proxy: the only way to a platform in some places."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiogram.methods import GetMe
from anyio import create_task_group, create_tcp_listener
from anyio.abc import SocketAttribute, SocketStream
from support.discord_api import TOKEN as DISCORD_TOKEN
from support.discord_api import open_discord_api
from support.email_contract import ANN
from support.email_world import open_email_world
from support.inbox import QuickClock
from support.matrix_world import open_world
from support.slack_world import open_slack_world
from support.socks_proxy import open_socks_proxy
from support.tables import table
from support.telegram_api import TOKEN, open_telegram_api
from support.web_server import certificates_for, open_web_server
from support.whatsapp_api import open_whatsapp_api
from support.whatsapp_world import make_bot

from everturn.testing import RecordingHandler
from everturn.testing._channel_inbound import serve_on
from everturn_channels.discord import DiscordAdapter, DiscordServers
from everturn_channels.email.account import MailServer
from everturn_channels.errors import ConnectionLostError, NotSentError
from everturn_channels.matrix import MatrixAccount, MatrixAdapter
from everturn_channels.telegram import TelegramAdapter
from everturn_channels.telegram.connection import open_line

LOGIN = ("ann@home", "pass:word")
IN_URL = "ann%40home:pass%3Aword"


@table("scheme", ["socks5", "socks5h", "socks4", "socks4a"])
async def test_telegram(scheme: str) -> None:
    """The proxy looks the name up, by whatever version: nobody here sees where it goes."""
    async with open_telegram_api() as api, open_socks_proxy() as proxy:
        base = api.url.replace("127.0.0.1", "telegram.invalid")
        bot = TelegramAdapter(
            name="telegram",
            token=TOKEN,
            api_base=base,
            proxy=proxy.url(scheme),
            clock=QuickClock(),
        )
        found = await bot.check()

    assert "@everturn_bot" in found[0]
    assert set(proxy.hosts) == {"telegram.invalid"}


async def test_a_message_that_a_proxy_did_not_pass_on_may_be_sent_again() -> None:
    """It never left: a wrong password of a proxy may cost nobody an answer."""
    async with open_telegram_api() as api, open_socks_proxy(LOGIN) as proxy:
        refused, gone = proxy.url(login="ann:wrong"), "socks5://127.0.0.1:1"
        for address in (refused, gone):
            async with open_line(
                token=TOKEN, api_base=api.url, proxy=address, clock=QuickClock(), where="here"
            ) as line:
                with pytest.raises(NotSentError, match="the proxy makes no connection"):
                    await line.send(GetMe())

    assert proxy.hosts == []


async def test_an_http_proxy_that_refuses_is_named_and_tried_again() -> None:
    """What it answers is its own, and no word of the platform: it ends no channel."""

    async def refuse(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")

    listener = await create_tcp_listener(local_host="127.0.0.1")
    proxy = f"http://ann:hunter2@127.0.0.1:{listener.extra(SocketAttribute.local_port)}"  # noqa: S610
    said = dict[str, str]()
    async with listener, create_task_group() as tasks:
        tasks.start_soon(listener.serve, refuse)
        for base in ("http://matrix.invalid", "https://matrix.invalid"):
            account = MatrixAccount(homeserver=base, access_token=TOKEN, proxy=proxy)
            matrix = MatrixAdapter(name="matrix", account=account, clock=QuickClock())
            with pytest.raises(ConnectionLostError) as lost:
                await matrix.check()
            said[base] = str(lost.value)
        async with open_line(
            token=TOKEN, api_base="https://x.invalid", proxy=proxy, clock=QuickClock(), where="here"
        ) as line:
            with pytest.raises(NotSentError) as unsent:
                await line.send(GetMe())
            said["telegram"] = str(unsent.value)
        async with open_whatsapp_api() as api:
            with pytest.raises(ConnectionLostError) as unasked:
                await make_bot(api, api_base="http://x.invalid", proxy=proxy).check()
            said["whatsapp"] = str(unasked.value)
        tasks.cancel_scope.cancel()

    assert all("the proxy makes no connection: it answers 407; set" in t for t in said.values()), (
        said
    )
    assert not any("hunter2" in text for text in said.values())


async def test_a_server_behind_a_proxy_has_to_prove_its_name(tmp_path: Path) -> None:
    """A proxy sees all that passes: it may not stand for the platform itself."""
    server = certificates_for("telegram.invalid", tmp_path).server  # by nobody who is believed
    async with (
        open_web_server(context=server) as web,
        open_socks_proxy() as proxy,
        open_line(
            token=TOKEN,
            api_base=web.named("telegram.invalid"),
            proxy=proxy.url(),
            clock=QuickClock(),
            where="here",
        ) as line,
    ):
        with pytest.raises(NotSentError, match="no TLS with the server behind the proxy"):
            await line.send(GetMe())

    assert web.asked == []


async def test_discord() -> None:
    """Its API and the socket on which its events come."""
    async with open_discord_api() as api, open_socks_proxy(LOGIN) as proxy:
        servers = DiscordServers(
            api_base=api.base.replace("127.0.0.1", "api.invalid"),
            gateway_url=api.gateway.replace("127.0.0.1", "events.invalid"),
            proxy=proxy.url(login=IN_URL),
        )
        bot = DiscordAdapter(
            name="discord",
            token=DISCORD_TOKEN,
            clock=QuickClock(api.world.now),
            servers=servers,
        )
        async with serve_on(bot, RecordingHandler(), _connected):
            pass

    assert set(proxy.hosts) == {"api.invalid", "events.invalid"}


async def test_slack() -> None:
    """Its API and its socket."""
    async with (
        open_socks_proxy() as proxy,
        open_slack_world(proxy=proxy.url()) as world,
        world.running(),
    ):
        pass

    assert set(proxy.hosts) == {"127.0.0.1"}


async def test_whatsapp() -> None:
    """What the bot asks of the Cloud API; what comes is delivered to it."""
    async with open_whatsapp_api() as api, open_socks_proxy() as proxy:
        base = f"{api.url.replace('127.0.0.1', 'graph.invalid')}/v25.0"
        found = await make_bot(api, api_base=base, proxy=proxy.url()).check()

    assert found
    assert set(proxy.hosts) == {"graph.invalid"}


async def test_matrix(tmp_path: Path) -> None:
    """A homeserver that is a hidden service."""
    async with open_world(tmp_path) as world, open_socks_proxy() as proxy:
        account = MatrixAccount(
            homeserver=world.api.url.replace("127.0.0.1", "matrix.onion"),
            access_token=world.bot.token,
            proxy=proxy.url(),
        )
        clock = QuickClock()
        found = await MatrixAdapter(name="matrix", account=account, clock=clock).check()

    assert found
    assert set(proxy.hosts) == {"matrix.onion"}


async def test_mail() -> None:
    """What comes over IMAP, and what goes over SMTP."""
    async with open_email_world() as world, open_socks_proxy(LOGIN) as proxy:
        world.settings = {
            "imap": MailServer(host="imap.invalid", port=world.imap.port, security="none"),
            "smtp": MailServer(host="smtp.invalid", port=world.smtp.port, security="none"),
            "proxy": proxy.url(login=IN_URL),
        }
        async with world.running():
            await world.say(ANN, "hello")
        both = set(proxy.hosts)
        world.settings = {**world.settings, "proxy": "socks5://127.0.0.1:1"}
        away = world.make()
        with pytest.raises(ConnectionLostError, match="the proxy makes no connection"):
            await away.check()

    assert both == {"imap.invalid", "smtp.invalid"}
    assert len(world.smtp.mails(ANN)) == 1


async def _connected(handler: RecordingHandler) -> None:
    await handler.until(lambda: handler.account)
