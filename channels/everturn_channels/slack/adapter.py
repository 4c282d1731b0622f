"""The Slack channel as an `Adapter`: one login after the other, and what is said in between."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
from msgspec.structs import replace

from everturn_actors.ports import Clock
from everturn_channels.adapter import Adapter, Capabilities, InboundHandler, Outbound
from everturn_channels.errors import ChannelError, ConnectionLostError
from everturn_channels.ingestion.chat_queues import ChatQueues, open_chat_queues
from everturn_channels.ingestion.deliveries import DeliveryAnswer
from everturn_channels.ingestion.history import BacklogLimits
from everturn_channels.ingestion.json_fields import text_of
from everturn_channels.online import Online
from everturn_channels.slack.account import SlackAccount
from everturn_channels.slack.checking import look
from everturn_channels.slack.cursors import ChannelCursors
from everturn_channels.slack.events_api import EventsApi
from everturn_channels.slack.formats import markup
from everturn_channels.slack.interactions import Interactions
from everturn_channels.slack.messages import Messages
from everturn_channels.slack.names import Names
from everturn_channels.slack.reading import EventReader, Login
from everturn_channels.slack.receiver import Receiver
from everturn_channels.slack.requests import RequestFailedError, open_api
from everturn_channels.slack.sender import FILES_MAX_BYTES, Sender
from everturn_channels.slack.socket_mode import SocketMode

WATCH_S: Final = 20.0
"How often it is kept that Slack is heard from: a socket ends by itself where nothing answers."
_BACKLOG: Final = BacklogLimits(max_messages=100, max_age_s=86_400)
_ENDED: Final = "The connection to Slack ended."
_OFFLINE: Final = "The bot is not logged in to Slack."

CAPABILITIES: Final = Capabilities(
    edits=True,
    preview_s=3.0,  # 50 changes a minute in the whole workspace
    typing_s=60.0,  # Slack takes it away after two minutes
    buttons=True,
    reactions=True,
    nonces=True,
    files_max_bytes=FILES_MAX_BYTES,
    chunk_units=markup.CHUNK_UNITS,
    idle_s=120.0,
)


class SlackAdapter(Adapter):
    """One app in one workspace. Implements `adapter.Adapter`.

    Args:
        name: Of the channel.
        account: Who the bot is.
        clock: The time.
        backlog: How much of what was written in a channel during an absence is read.
    """

    def __init__(
        self,
        *,
        name: str,
        account: SlackAccount,
        clock: Clock,
        backlog: BacklogLimits = _BACKLOG,
    ) -> None:
        self.name, self._account, self._clock = name, account, clock
        self._backlog = backlog
        self._deliveries = EventsApi(account.signing_secret, clock)
        self._online: Online[Sender] = Online(_OFFLINE)

    @property
    def platform(self) -> str:
        """`slack`."""
        return "slack"

    @property
    def capabilities(self) -> Capabilities:
        """What Slack can do."""
        # Over HTTP nothing comes where nobody writes.
        return CAPABILITIES if self._account.app_token else replace(CAPABILITIES, idle_s=0)

    # --- in ---

    async def serve(self, handler: InboundHandler) -> None:
        """As `Adapter.serve`."""
        async with self._logged_in() as login:
            failure = await self._serve(login, handler)
        raise failure

    async def _serve(self, login: Login, handler: InboundHandler) -> ChannelError:
        """Hand in what comes; return why it ended."""
        failure: ChannelError | RequestFailedError = ConnectionLostError(_ENDED)
        async with (
            open_chat_queues(handler, self._clock, is_held=True) as queues,
            anyio.create_task_group() as tasks,
        ):
            cursors, reader = ChannelCursors(handler, self._clock), EventReader(login)
            messages = Messages(
                login=login,
                handler=handler,
                reader=reader,
                cursors=cursors,
                clock=self._clock,
                limits=self._backlog,
            )
            receiver = Receiver(
                handler=handler,
                messages=messages,
                reader=reader,
                interactions=Interactions(login.api, login.names, self._clock),
                cursors=cursors,
                queues=queues,
                tasks=tasks,
            )

            async def begin() -> None:
                await _catch_up(messages, queues)
                handler.connected(f"@{login.name}")
                if app_token:
                    tasks.start_soon(_watch, handler, cursors)

            if app_token := self._account.app_token:
                setting = f"channels.{self.name}.app_token"
                sockets = SocketMode(login.api, app_token, setting, handler)
                failure = await sockets.run(receiver, begin)
            else:
                failure = await self._deliveries.run(
                    receiver, begin, api=login.api, handler=handler, cursors=cursors
                )
            tasks.cancel_scope.cancel()
        return self._explained(failure) if isinstance(failure, RequestFailedError) else failure

    async def take_delivery(self, headers: Mapping[str, str], body: bytes) -> DeliveryAnswer:
        """Take what Slack delivers over HTTP; see `EventsApi.take`."""
        return await self._deliveries.take(headers, body)

    async def stand_by(self) -> None:
        """As `Adapter.stand_by`: what is sent needs no socket."""
        async with self._logged_in():
            await anyio.sleep_forever()

    async def check(self) -> Sequence[str]:
        """As `Adapter.check`. Logs in, and looks at what the tokens may do."""
        async with open_api(self._account, where=f"channels.{self.name}") as api:
            try:
                who = await api.call("auth.test")
                return await look(api, self._account, who, self.name)
            except RequestFailedError as error:
                raise self._explained(error) from error

    @asynccontextmanager
    async def _logged_in(self) -> AsyncGenerator[Login]:
        """Log in; while the block runs things can be said.

        Raises:
            SetupError: Slack does not accept the token.
            ConnectionLostError: It cannot be reached.
        """
        async with open_api(self._account, where=f"channels.{self.name}") as api:
            try:
                who = await api.call("auth.test")
            except RequestFailedError as error:
                raise self._explained(error) from error
            me = text_of(who, "user_id")
            with self._online.through(Sender(api, me, self._clock)) as sender:
                yield Login(
                    api=api,
                    me=me,
                    name=text_of(who, "user"),
                    names=Names(api),
                    sender=sender,
                    has_threads=self._account.has_threads,
                )

    def _explained(self, error: RequestFailedError) -> ChannelError:
        return error.to_connection_error(f"channels.{self.name}.bot_token")

    # --- out ---

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """As `Adapter.render`."""
        return markup.render(markdown, is_plain=is_plain)

    async def send(self, message: Outbound) -> str:
        """As `Adapter.send`. What may be there already is looked for."""
        return await self._online.sender.send(message)

    async def edit(self, chat_id: str, topic: str, platform_id: str, payload: str) -> None:
        """As `Adapter.edit`."""
        del topic
        await self._online.sender.edit(chat_id, platform_id, payload)

    async def type(self, chat_id: str, topic: str) -> None:
        """As `Adapter.type`."""
        await self._online.sender.type(chat_id, topic)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """As `Adapter.react`."""
        await self._online.sender.react(chat_id, message_id, emoji)


async def _catch_up(messages: Messages, queues: ChatQueues) -> None:
    """Put what was missed in front of what was said since, and let the queues go on."""
    for gap in await messages.gaps():
        queues.catch_up(gap)
    queues.release()


async def _watch(handler: InboundHandler, cursors: ChannelCursors) -> None:
    """Tell that Slack is there, for as long as a socket is."""
    while True:
        await anyio.sleep(WATCH_S)
        handler.received()
        await cursors.hear()
