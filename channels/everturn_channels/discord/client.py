"""discord.py's client as we use it: lean, at the addresses it is told, telling a listener.

The addresses of the API and of the gateway are set for each client by itself, where it makes its
requests: bots with different ones can live in one process. The library's own attributes for them
belong to classes, and are left alone.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

import aiohttp
import anyio
import discord
import yarl
from discord.http import HTTPClient, Route
from discord.state import ConnectionState
from msgspec import Struct

from everturn_channels.discord.payloads import Heard, Parser, Payload, PayloadReader, parse_guild
from everturn_channels.proxies import http_proxy, open_connector

IDENTIFY_PAUSE_S = (1.0, 5.0)
"""Before a new session after an invalid one, at random.

Source: https://docs.discord.com/developers/events/gateway#resuming, 2026-11.
"""
GUILD_READY_S = 2.0
"After the last guild was told of, so long until the list counts as complete."
HEARTBEAT_TIMEOUT_S = 60.0
RESUME_S = 40.0
"""For reaching the gateway again in an outage; longer ones end the session.

The library's own waits grow to a quarter of an hour; its whole attempt has 60 seconds.
"""
STEADY_S = 10.0
"A connection that held so long begins the pauses between connections anew."
CONNECT_PAUSE_S = (0.5, 20.0)
"First and longest; the first connection after a steady one waits for nothing."
RATE_LIMIT_WAIT_S = 30.0
"Longer waits are refused at once; the library takes no lower value."
CLOSE_S = 0.5
"For saying goodbye; a bot that leaves without is shown online a little longer, that is all."


class Listener(Protocol):
    """What the client tells. Each call is short; events of one connection come in order."""

    def heard(self) -> None:
        """Something came through the gateway."""
        ...

    def began(self) -> None:
        """A new session began, whose guilds are not known yet; what was said before may be lost."""
        ...

    def ready(self) -> None:
        """The guilds of a new session are known."""
        ...

    def saw_guild(self, guild: discord.Guild) -> None:
        """A guild came or came back."""
        ...

    def said(self, heard: Heard) -> None:
        """Somebody wrote."""
        ...

    def changed(self, message: discord.Message) -> None:
        """A message is different now."""
        ...

    def deleted(self, channel_id: int, message_id: int) -> None:
        """A message is gone."""
        ...

    def unreadable(self, kind: str, raw: object, fault: Exception | str) -> None:
        """An event cannot be read, and is passed over."""
        ...

    def reacted(self, reaction: Payload) -> None:
        """Somebody put a reaction on a message."""
        ...

    def used(self, interaction: discord.Interaction) -> None:
        """Somebody used a command or a button."""
        ...


class Attempt(Struct):
    """How far one request got; filled in while it runs."""

    is_out: bool = False
    "Whether Discord may have acted on it."
    is_global: bool = False
    "Whether a refusal for being too fast was for the whole bot."


class _Http(HTTPClient):
    """The library's HTTP client, with an address of its own."""

    def __init__(self, client: Client, *, proxy: str, api_base: str, gateway_url: str) -> None:
        super().__init__(
            client.loop,
            proxy=proxy or None,
            http_trace=_trace(),
            max_ratelimit_timeout=RATE_LIMIT_WAIT_S,
        )
        self._api_base = api_base.rstrip("/")
        self._gateway_url = gateway_url
        self._connected_at = -math.inf
        self._quick = 0
        "Connections that followed each other without one that held."
        self._was_connected = False

    async def request(
        self,
        route: Route,
        *,
        files: Sequence[discord.File] | None = None,
        form: Iterable[dict[str, object]] | None = None,
        **kwargs: object,
    ) -> Any:  # the library's
        if self._api_base and route.url.startswith(Route.BASE):  # it may be asked for again
            route.url = self._api_base + route.url.removeprefix(Route.BASE)
        return await super().request(route, files=files, form=form, **kwargs)

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        if self._gateway_url:
            # also where Discord names another address for resuming: the one that is set is a way
            # around, which its owner needs each time
            query = yarl.URL(url).query
            url = str(yarl.URL(self._gateway_url).with_query(query))
        begun = anyio.current_time()
        while True:
            await self._pause()
            try:
                socket = await super().ws_connect(url, compress=compress)
            except (OSError, TimeoutError, aiohttp.ClientError):
                if not self._was_connected or anyio.current_time() - begun > RESUME_S:
                    raise
            else:
                self._was_connected = True
                return socket

    async def _pause(self) -> None:
        """Wait a little longer before each connection that follows too soon on another."""
        now = anyio.current_time()
        self._quick = 0 if now - self._connected_at > STEADY_S else self._quick + 1
        if self._quick > 1:
            first_s, most_s = CONNECT_PAUSE_S
            await anyio.sleep(min(first_s * 2 ** (self._quick - 2), most_s))
        self._connected_at = anyio.current_time()


def _trace() -> aiohttp.TraceConfig:
    """Return hooks that fill in the `Attempt` of a request."""

    async def left(_session: aiohttp.ClientSession, context: SimpleNamespace, _: object) -> None:
        if isinstance(context.trace_request_ctx, Attempt):
            context.trace_request_ctx.is_out = True

    async def ended(
        _session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestEndParams,
    ) -> None:
        attempt, response = context.trace_request_ctx, params.response
        if isinstance(attempt, Attempt) and response.status == 429:
            attempt.is_out = False
            attempt.is_global = response.headers.get("X-RateLimit-Scope") == "global"

    trace = aiohttp.TraceConfig()
    # from the moment on which it has a connection: what is written after it is not told exactly
    trace.on_connection_create_end.append(left)
    trace.on_connection_reuseconn.append(left)
    trace.on_request_end.append(ended)
    return trace


class Client(discord.Client):
    """A client without caches of people and messages, and with no intent that is not needed."""

    def __init__(self, *, api_base: str = "", gateway_url: str = "", proxy: str = "") -> None:
        self._way = (proxy, api_base, gateway_url)
        self.listener: Listener | None = None
        intents = discord.Intents(
            guilds=True,
            guild_messages=True,
            guild_reactions=True,
            dm_messages=True,
            dm_reactions=True,
            message_content=True,
        )
        # nobody misses the voice libraries here; it would warn of each
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False
        super().__init__(
            intents=intents,
            proxy=proxy or None,
            max_messages=None,
            chunk_guilds_at_startup=False,
            member_cache_flags=discord.MemberCacheFlags.none(),
            allowed_mentions=discord.AllowedMentions.none(),
            guild_ready_timeout=GUILD_READY_S,
            heartbeat_timeout=HEARTBEAT_TIMEOUT_S,
        )

    def _get_state(self, **options: Any) -> ConnectionState[Any]:  # the library's
        """Put our HTTP client in, at the one moment before the library hands it around."""
        proxy, api_base, gateway_url = self._way
        self.http = _Http(self, proxy=proxy, api_base=api_base, gateway_url=gateway_url)
        state = super()._get_state(**options)
        self.payloads = PayloadReader(state)
        for kind, parse in list(state.parsers.items()):
            if kind != "READY":  # without it nothing works
                state.parsers[kind] = partial(self._parse, kind, parse, state)
        return state

    def _parse(
        self, kind: str, parse: Parser, state: ConnectionState[Any], data: Any
    ) -> None:  # JSON
        """Read one event. What the library raises would end the connection, for all chats."""
        try:
            match kind:
                case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
                    self._parse_message(kind, data)
                case "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK":
                    self._parse_deletion(data)
                case "MESSAGE_REACTION_ADD":
                    if self.listener is not None:
                        self.listener.reacted(data)
                case _:
                    parse(data)
        except Exception as error:  # the boundary around one event
            if kind != "GUILD_CREATE" or not parse_guild(parse, state, data):
                self._tell_unreadable(kind, data, error)

    def _parse_message(self, kind: str, data: Any) -> None:  # JSON
        heard = self.payloads.message(data)
        if heard is None:
            self._tell_unreadable(kind, data, "nothing of it can be read")
        elif self.listener is None:
            pass
        elif kind == "MESSAGE_UPDATE":
            self.listener.changed(heard.message)
        else:
            self.listener.said(heard)

    def _parse_deletion(self, data: Any) -> None:  # JSON
        channel_id = int(data["channel_id"])
        for each in map(int, data.get("ids") or (data["id"],)):
            if self.listener:
                self.listener.deleted(channel_id, each)

    def _tell_unreadable(self, kind: str, data: object, fault: Exception | str) -> None:
        if self.listener:
            self.listener.unreadable(kind, data, fault)

    def end_waiting(self) -> None:
        """End the task that waits for guilds, which the library forgets."""
        waiting: object = getattr(self._connection, "_ready_task", None)
        if isinstance(waiting, asyncio.Task):
            waiting.cancel()

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Wait before a session is asked for again."""
        del shard_id
        if not initial:
            await anyio.sleep(random.uniform(*IDENTIFY_PAUSE_S))  # noqa: S311 - no secret

    def dispatch(self, event: str, /, *args: Any, **_kwargs: Any) -> None:  # the library's
        """Tell the listener at once, in the order of the events.

        The library would start a task for each, which nobody waits for.
        """
        if self.listener is None:
            return
        match event:
            case "socket_event_type":
                self.listener.heard()
            case "connect":
                self.listener.began()
            case "ready":
                self.listener.ready()
            case "guild_available" | "guild_join":
                self.listener.saw_guild(*args)
            case "interaction":
                self.listener.used(*args)
            case _:  # of no use here
                pass


@asynccontextmanager
async def open_client(
    *, api_base: str, gateway_url: str, proxy: str, where: str
) -> AsyncGenerator[Client]:
    """Open a client that is not logged in yet; close it in the end, quickly.

    Raises:
        SetupError: The proxy, which the settings of `where` name, needs a library.
    """
    client = Client(api_base=api_base, gateway_url=gateway_url, proxy=http_proxy(proxy) or "")
    client.http.connector = open_connector(proxy, where=where, limit=0)
    try:
        await client.__aenter__()
        yield client
    finally:
        client.listener = None
        client.end_waiting()
        with anyio.move_on_after(CLOSE_S, shield=True) as waiting:
            await client.close()
        if waiting.cancelled_caught:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await client.http.close()
