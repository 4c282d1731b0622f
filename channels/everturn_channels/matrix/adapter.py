"""The Matrix channel as an `Adapter`: one login after the other, and what is said in between."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final

import anyio

from everturn_actors.ports import Clock
from everturn_channels.adapter import Adapter, Capabilities, InboundHandler, Outbound
from everturn_channels.errors import (
    ChannelError,
    ConnectionLostError,
    NotSentError,
    SetupError,
)
from everturn_channels.ingestion.chat_queues import open_chat_queues
from everturn_channels.ingestion.history import BacklogLimits
from everturn_channels.ingestion.json_fields import text_of
from everturn_channels.matrix import markup
from everturn_channels.matrix.account import Login, MatrixAccount, log_in, log_out, look
from everturn_channels.matrix.encryption import Encryption, KeysLostError, open_encryption
from everturn_channels.matrix.reading import Connection, EventReader
from everturn_channels.matrix.receiver import Receiver
from everturn_channels.matrix.requests import (
    Homeserver,
    RequestFailedError,
    in_path,
    open_homeserver,
)
from everturn_channels.matrix.rooms import Rooms
from everturn_channels.matrix.sender import FILES_MAX_BYTES, Sender
from everturn_channels.matrix.signing import sign_device

logger = logging.getLogger(__name__)

DEVICE: Final = "device"
"The cursor with the device that logs in with a password."
_BACKLOG: Final = BacklogLimits(max_messages=100, max_age_s=86_400)

CAPABILITIES: Final = Capabilities(
    edits=True,
    typing_s=10.0,
    preview_s=2.0,  # changes count as messages: Synapse takes 10 at once, and then one in 5 s
    buttons=True,
    nonces=True,
    files_max_bytes=FILES_MAX_BYTES,
    reactions=True,
    chunk_units=markup.CHUNK_UNITS,
    idle_s=90.0,  # a sync ends after 30 s at the latest
)


class MatrixAdapter(Adapter):
    """One account on Matrix. Implements `adapter.Adapter`.

    Args:
        name: Of the channel.
        account: Who the bot is.
        clock: The time.
        backlog: How much of what was written in a room during an absence is read.
    """

    def __init__(
        self,
        *,
        name: str,
        account: MatrixAccount,
        clock: Clock,
        backlog: BacklogLimits = _BACKLOG,
    ) -> None:
        self.name, self._account, self._clock = name, account, clock
        self._backlog = backlog
        self._where = f"channels.{name}"
        self._sender: Sender | None = None
        "None = not logged in."
        self._kept: tuple[Login, str] | None = None
        "The last login and its token: a connection that was lost is no reason for another."

    @property
    def platform(self) -> str:
        """`matrix`."""
        return "matrix"

    @property
    def capabilities(self) -> Capabilities:
        """What Matrix can do."""
        return CAPABILITIES

    # --- in ---

    async def serve(self, handler: InboundHandler) -> None:
        """As `Adapter.serve`."""
        failure: ChannelError | None = None
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._open(handler))
                failure = await self._serve(connection)
            except RequestFailedError as error:
                failure = self._explained(error)
            finally:
                self._sender = None
        if failure is not None:
            raise failure

    async def _serve(self, connection: Connection) -> ChannelError | None:
        """Hand in what comes; return why it ended."""
        failure: ChannelError | None = None
        async with (
            open_chat_queues(connection.handler, self._clock) as queues,
            anyio.create_task_group() as tasks,
        ):
            receiver = Receiver(connection, EventReader(connection), queues)
            self._sender = connection.sender
            connection.handler.connected(connection.me)
            tasks.start_soon(receiver.send_receipts)
            try:
                await receiver.run()
            except RequestFailedError as error:
                failure = self._explained(error)
            tasks.cancel_scope.cancel()
        return failure

    @asynccontextmanager
    async def _open(self, handler: InboundHandler) -> AsyncGenerator[Connection]:
        """Log in, and open the keys of the device; with lost keys log in as a new one.

        Raises:
            SetupError: It cannot work so.
            RequestFailedError: The homeserver cannot be reached, or not now.
        """
        account = self._account
        async with (
            self._open_homeserver() as server,
            AsyncExitStack() as keys,
        ):
            login = await self._log_in(server, handler)
            encryption: Encryption | None = None
            if account.keys is not None:
                try:
                    encryption = await self._open_keys(keys, server, login)
                except KeysLostError as error:
                    if not account.password:
                        raise
                    logger.warning(
                        "the keys of the bot's device were lost: it logs in as a new one, and"
                        " cannot read what was encrypted for the old one",
                        extra={"channel": self.name, "why": str(error)},
                    )
                    await log_out(server)
                    await handler.keep_cursor(DEVICE, "")
                    self._kept = None
                    login = await self._log_in(server, handler)
                    encryption = await self._open_keys(keys, server, login)
            me, rooms = login.user_id, Rooms(server)
            yield Connection(
                me=me,
                name=await _display_name(server, me),
                server=server,
                handler=handler,
                rooms=rooms,
                sender=Sender(server, me, rooms, encryption),
                encryption=encryption,
                clock=self._clock,
                limits=self._backlog,
                has_threads=self._account.has_threads,
            )

    async def _log_in(self, server: Homeserver, handler: InboundHandler) -> Login:
        if self._kept is not None:
            login, server.token = self._kept
            try:
                await server.ask("GET", "/_matrix/client/v3/account/whoami")
            except RequestFailedError as error:
                if not error.is_token or self._account.access_token:
                    raise
                self._kept = None
            else:
                return login
        login = await log_in(server, self._account, handler.cursor(DEVICE))
        if not login.user_id or not login.device_id:
            msg = f"the homeserver of {self._where} does not say which device the login is"
            raise SetupError(msg)
        if not self._account.access_token:
            await handler.keep_cursor(DEVICE, login.device_id)
        self._kept = login, server.token
        return login

    async def _open_keys(
        self, keys: AsyncExitStack, server: Homeserver, login: Login
    ) -> Encryption:
        folder = self._account.keys
        assert folder is not None
        encryption = await keys.enter_async_context(open_encryption(server, login, folder))
        await encryption.publish()
        try:
            why = await sign_device(server, self._account, login, folder)
        except (RequestFailedError, OSError) as error:
            why = f"the device of the bot could not be signed: {error}"
        if why:
            logger.warning(why, extra={"channel": self.name})
        return encryption

    def _explained(self, error: RequestFailedError) -> ChannelError:
        if error.is_token and self._account.password:
            self._kept = None  # somebody ended the login; there is a password for another
            return ConnectionLostError(f"the login of {self._where} has ended: {error}")
        return error.to_connection_error(self._where)

    def _open_homeserver(self) -> AbstractAsyncContextManager[Homeserver]:
        account = self._account
        return open_homeserver(account.homeserver, account.proxy, where=self._where)

    async def check(self) -> Sequence[str]:
        """As `Adapter.check`. With a password it logs in as a device of its own, and out again."""
        account = self._account
        async with self._open_homeserver() as server:
            try:
                login = await log_in(server, account, "")
                try:
                    return await look(server, login, account)
                finally:
                    if account.password:
                        with anyio.CancelScope(shield=True):
                            await log_out(server)
            except RequestFailedError as error:
                raise error.to_connection_error(self._where) from error

    # --- out ---

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """As `Adapter.render`."""
        return markup.render(markdown, is_plain=is_plain)

    async def send(self, message: Outbound) -> str:
        """As `Adapter.send`. Whether it is there already is settled by its nonce."""
        return await self._logged_in().send(message)

    async def edit(self, chat_id: str, topic: str, platform_id: str, payload: str) -> None:
        """As `Adapter.edit`."""
        await self._logged_in().edit(chat_id, platform_id, payload)

    async def type(self, chat_id: str, topic: str) -> None:
        """As `Adapter.type`."""
        await self._logged_in().type(chat_id)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """As `Adapter.react`."""
        await self._logged_in().react(chat_id, message_id, emoji)

    def _logged_in(self) -> Sender:
        if self._sender is None:
            msg = "The bot is not logged in to its homeserver."
            raise NotSentError(msg)
        return self._sender


async def _display_name(server: Homeserver, user_id: str) -> str:
    """Return what people call an account; empty where it has no name."""
    path = f"/_matrix/client/v3/profile/{in_path(user_id)}/displayname"
    try:
        return text_of(await server.ask("GET", path), "displayname")
    except RequestFailedError as error:
        if error.status in {403, 404}:
            return ""
        raise
