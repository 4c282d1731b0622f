"""The Discord channel as an `Adapter`: one login after the other, and what is said in between."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final

import aiohttp
import anyio
import discord
from msgspec import Struct

from everturn_actors.ports import Clock
from everturn_channels.adapter import (
    Adapter,
    Capabilities,
    ChatRef,
    InboundHandler,
    Outbound,
)
from everturn_channels.discord.checking import look
from everturn_channels.discord.client import Client, open_client
from everturn_channels.discord.cursors import ChannelCursors
from everturn_channels.discord.event_reader import EventReader
from everturn_channels.discord.failures import NETWORK_ERRORS, connection_error
from everturn_channels.discord.files import Files
from everturn_channels.discord.interactions import Interactions, register_commands
from everturn_channels.discord.markup import LIMIT_UNITS
from everturn_channels.discord.markup import render as lay_out_markdown
from everturn_channels.discord.messages import Messages
from everturn_channels.discord.receiver import Receiver
from everturn_channels.discord.sender import FILES_AT_ONCE, FILES_MAX_BYTES, Sender
from everturn_channels.errors import ChannelError, ConnectionLostError, SetupError
from everturn_channels.ingestion.chat_queues import open_chat_queues
from everturn_channels.ingestion.history import BacklogLimits
from everturn_channels.menu_sync import sync_menu
from everturn_channels.proxies import http_proxy, open_connector

LOGIN_S = 60.0
WATCH_S = 5.0
"How often it is looked whether Discord answered a heartbeat."
_CLOSED = "The connection to Discord was closed."


CAPABILITIES = Capabilities(
    edits=True,
    typing_s=10.0,
    preview_s=1.2,  # a channel takes five messages or edits in five seconds
    buttons=True,
    nonces=True,
    files_max_bytes=FILES_MAX_BYTES,
    files_at_once=FILES_AT_ONCE,
    reactions=True,
    chunk_units=LIMIT_UNITS,
    idle_s=150.0,  # heartbeats are answered each 41 seconds
)


class DiscordServers(Struct, frozen=True, kw_only=True):
    """Where Discord is, and the way there; empty = Discord's own servers, reached directly."""

    api_base: str = ""
    "Of the API, with its version."
    gateway_url: str = ""
    "Where all connections to the gateway go, resumed ones too."
    proxy: str = ""
    "`http://host:port` or `socks5://host:port`."


_DISCORD: Final = DiscordServers()
_BACKLOG: Final = BacklogLimits(max_messages=100, max_age_s=86_400)


class DiscordAdapter(Adapter):
    """One bot on Discord. Implements `adapter.Adapter`.

    Args:
        name: Of the channel.
        token: Of the bot.
        clock: The time.
        servers: Where Discord is. For this bot only.
        backlog: How much of what was said in a channel during an absence is read.
        has_threads: Whether a question in a channel is answered in a thread below it.
    """

    def __init__(
        self,
        *,
        name: str,
        token: str,
        clock: Clock,
        servers: DiscordServers = _DISCORD,
        backlog: BacklogLimits = _BACKLOG,
        has_threads: bool = False,
    ) -> None:
        self.name, self._token, self._clock = name, token.strip(), clock
        self._servers, self._backlog = servers, backlog
        self._sender = Sender(opens_threads=has_threads)
        self._interactions = Interactions(self._sender, self.render)

    @property
    def platform(self) -> str:
        """`discord`."""
        return "discord"

    @property
    def capabilities(self) -> Capabilities:
        """What Discord can do."""
        return CAPABILITIES

    # --- in ---

    async def serve(self, handler: InboundHandler) -> None:
        """As `Adapter.serve`."""
        async with self._open_client() as client:
            await self._login(client)
            self._sender.client = client
            try:
                failure = await self._serve(client, handler)
            finally:
                self._sender.client = None
        raise failure

    async def _serve(self, client: Client, handler: InboundHandler) -> ChannelError:
        """Hand in what comes; return why it ended."""

        async def on_interaction(interaction: discord.Interaction) -> None:
            await self._interactions.deal(interaction, receiver.give, handler.suggestions)

        failure: ChannelError | None = None
        cursors = ChannelCursors(handler, self._clock)
        async with (
            aiohttp.ClientSession(
                connector=open_connector(self._servers.proxy, where=f"channels.{self.name}"),
                proxy=http_proxy(self._servers.proxy),
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            open_chat_queues(handler, self._clock, is_held=True) as queues,
            anyio.create_task_group() as tasks,
        ):
            reader = EventReader(
                handler=handler,
                client=client,
                files=Files(client, session),
                answerer=self._answerer,
                sender=self._sender,
                clock=self._clock,
            )
            messages = Messages(
                client=client,
                handler=handler,
                reader=reader,
                cursors=cursors,
                clock=self._clock,
                limits=self._backlog,
            )
            receiver = Receiver(
                handler=handler,
                client=client,
                reader=reader,
                messages=messages,
                cursors=cursors,
                queues=queues,
                tasks=tasks,
                on_interaction=on_interaction,
            )
            client.listener = receiver
            offer = partial(register_commands, client)
            tasks.start_soon(sync_menu, handler, offer)
            tasks.start_soon(_watch, client, handler, cursors)
            try:
                failure = await self._stay_connected(client)
            finally:
                client.listener = None  # its tasks end now
            tasks.cancel_scope.cancel()
        return failure or ConnectionLostError(_CLOSED)

    def _open_client(self) -> AbstractAsyncContextManager[Client]:
        return open_client(
            api_base=self._servers.api_base,
            gateway_url=self._servers.gateway_url,
            proxy=self._servers.proxy,
            where=f"channels.{self.name}",
        )

    async def _login(self, client: Client) -> None:
        """Log in to the API; the gateway comes later."""
        if not self._token or not self._token.isascii() or any(c.isspace() for c in self._token):
            text = f"channels.{self.name}.bot_token holds no token of a Discord bot."
            raise SetupError(text)
        try:
            with anyio.fail_after(LOGIN_S):
                await client.login(self._token)
        except (discord.DiscordException, *NETWORK_ERRORS) as error:
            raise connection_error(self.name, error) from error

    async def _stay_connected(self, client: Client) -> ChannelError:
        """Stay connected, resumed sessions included; return why it ended."""
        try:
            # sessions are resumed all the same; what ends is known to the caller, who tries again
            await client.connect(reconnect=False)
        except (discord.DiscordException, *NETWORK_ERRORS) as error:
            return connection_error(self.name, error)
        except AttributeError as error:
            # where the very first handshake fails, the library looks for what to resume
            if getattr(client, "ws", None) is not None:  # its type does not say that it begins so
                raise
            return connection_error(self.name, error.__context__ or error)
        return ConnectionLostError(_CLOSED)

    async def stand_by(self) -> None:
        """As `Adapter.stand_by`: what is sent needs no connection to Discord's gateway."""
        async with self._open_client() as client:
            await self._login(client)
            self._sender.client = client
            try:
                await anyio.sleep_forever()
            finally:
                self._sender.client = None

    async def check(self) -> Sequence[str]:
        """As `Adapter.check`."""
        async with self._open_client() as client:
            await self._login(client)
            return look(client, opens_threads=self._sender.opens_threads)

    # --- out ---

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """As `Adapter.render`."""
        return lay_out_markdown(markdown, is_plain=is_plain)

    async def send(self, message: Outbound) -> str:
        """As `Adapter.send`. Whether it may be there already is settled by its nonce."""
        return await self._sender.send(message)

    async def edit(self, chat_id: str, topic: str, platform_id: str, payload: str) -> None:
        """As `Adapter.edit`."""
        await self._sender.edit(chat_id, topic, platform_id, payload)

    async def type(self, chat_id: str, topic: str) -> None:
        """As `Adapter.type`."""
        await self._sender.type(chat_id, topic)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """As `Adapter.react`."""
        await self._sender.react(chat_id, message_id, emoji)

    def _answerer(
        self, message: discord.Message, chat: ChatRef
    ) -> Callable[[str], Awaitable[None]]:
        """Return what answers a command that was written as a message: replies, seen by all."""

        async def answer(text: str) -> None:
            for number, payload in enumerate(self.render(text)):
                reply = Outbound(
                    chat_id=chat.id,
                    topic=chat.topic,
                    payload=payload,
                    reply_to="" if number else str(message.id),
                    nonce=f"c{message.id}-{number}",
                )
                await self.send(reply)

        return answer


async def _watch(client: Client, handler: InboundHandler, cursors: ChannelCursors) -> None:
    """Tell of answered heartbeats: of them the library has no event, only how long they took."""
    last = client.latency
    while True:
        await anyio.sleep(WATCH_S)
        latency = client.latency
        if math.isfinite(latency) and latency != last:
            handler.received()
            await cursors.hear()
        last = latency
