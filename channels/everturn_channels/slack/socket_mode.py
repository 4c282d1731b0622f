"""Socket Mode: what Slack delivers comes through a socket that the bot opens.

Source: https://docs.slack.dev/apis/events-api/using-socket-mode, read 2026-11-27.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import aiohttp
import anyio
import orjson
from anyio.abc import TaskGroup

from everturn_actors.json_values import is_object
from everturn_channels.adapter import InboundHandler
from everturn_channels.errors import ChannelError, ConnectionLostError, SetupError
from everturn_channels.ingestion.json_fields import Json, object_of, text_of
from everturn_channels.proxies import failure
from everturn_channels.slack.receiver import Receiver
from everturn_channels.slack.requests import RequestFailedError, SlackApi

HELLO_S: Final = 30.0
CLOSING_S: Final = 60.0
"So long what still comes through a socket is read that another one takes the place of."
_REPLACED: Final = frozenset({"warning", "refresh_requested"})
_OFF: Final = (
    "Socket Mode is off in the app's settings: switch it on there, or deliver with mode: events"
)

logger = logging.getLogger(__name__)


class SocketMode:
    """The sockets of one login: one, and for a moment two while Slack replaces the first."""

    def __init__(
        self, api: SlackApi, app_token: str, setting: str, handler: InboundHandler
    ) -> None:
        self._api, self._app_token, self._setting = api, app_token, setting
        self._handler = handler
        self._failure: ChannelError | RequestFailedError = ConnectionLostError(
            "the socket to Slack was closed"
        )
        self._newest = 0
        self._tasks: TaskGroup | None = None

    async def run(
        self, receiver: Receiver, on_open: Callable[[], Awaitable[None]]
    ) -> ChannelError | RequestFailedError:
        """Receive until the connection is lost; return why it was.

        `on_open` is called once, when whatever is written from then on comes; what it asks for and
        does not get is returned as it is.
        """
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._begin(receiver, on_open)
        self._tasks = None
        return self._failure

    def _begin(self, receiver: Receiver, on_open: Callable[[], Awaitable[None]] | None) -> None:
        assert self._tasks is not None
        self._newest += 1
        self._tasks.start_soon(self._serve, self._newest, receiver, on_open)

    async def _serve(
        self, number: int, receiver: Receiver, on_open: Callable[[], Awaitable[None]] | None
    ) -> None:
        """Serve one socket; with the newest all end."""
        try:
            await self._listen(number, receiver, on_open)
            failure: ChannelError = ConnectionLostError("Slack closed the socket")
        except Exception as error:  # the boundary around one socket
            failure = self._explained(error)
        if number == self._newest:
            self._end(failure)

    async def _listen(
        self, number: int, receiver: Receiver, on_open: Callable[[], Awaitable[None]] | None
    ) -> None:
        opened = await self._api.call("apps.connections.open", token=self._app_token)
        assert self._tasks is not None
        async with AsyncExitStack() as stack:
            with anyio.fail_after(HELLO_S):
                connecting = self._api.connect(text_of(opened, "url"))
                socket = await stack.enter_async_context(connecting)
                frame = _read(await socket.receive())
                while text_of(frame, "type") != "hello":
                    if socket.closed:
                        return
                    await self._take(frame, socket, receiver)
                    frame = _read(await socket.receive())
            if on_open is not None:
                self._tasks.start_soon(self._opened, on_open)
            with anyio.CancelScope() as scope:
                async for message in socket:
                    frame = _read(message)
                    if text_of(frame, "type") != "disconnect":
                        await self._take(frame, socket, receiver)
                        continue
                    reason = text_of(frame, "reason")
                    if reason not in _REPLACED:
                        raise _failure(reason)
                    scope.deadline = min(scope.deadline, anyio.current_time() + CLOSING_S)
                    if number == self._newest:
                        self._begin(receiver, None)

    async def _opened(self, on_open: Callable[[], Awaitable[None]]) -> None:
        try:
            await on_open()
        except RequestFailedError as error:  # of the bot's token, not of the app's
            self._end(error)
        except Exception as error:  # the boundary around what an opened socket begins
            self._end(self._explained(error))

    async def _take(
        self, frame: Json, socket: aiohttp.ClientWebSocketResponse, receiver: Receiver
    ) -> None:
        key = text_of(frame, "envelope_id")
        if not key:
            return
        kind, payload = text_of(frame, "type"), object_of(frame, "payload")
        try:
            await receiver.take(kind, payload, key, partial(_confirm, socket, key))
        except (ChannelError, OSError, aiohttp.ClientError):
            raise
        except Exception as error:  # the boundary around one delivery
            self._handler.unreadable(kind, error)
            await _confirm(socket, key)

    def _explained(self, error: Exception) -> ChannelError:
        if isinstance(error, RequestFailedError):
            return error.to_connection_error(self._setting)
        if isinstance(error, ChannelError):
            return error
        if not isinstance(error, OSError | TimeoutError | ValueError | aiohttp.ClientError):
            logger.error("a socket failed", exc_info=error)
        return ConnectionLostError(f"Slack cannot be reached ({failure(error)})")

    def _end(self, failure: ChannelError | RequestFailedError) -> None:
        assert self._tasks is not None
        self._failure = failure
        self._tasks.cancel_scope.cancel()


def _read(message: aiohttp.WSMessage) -> Json:
    """Return a frame; an empty one for what is none."""
    if message.type is not aiohttp.WSMsgType.TEXT:
        return {}
    try:
        found: object = orjson.loads(message.data)
    except orjson.JSONDecodeError:
        logger.warning("a frame of Slack cannot be read")
        return {}
    return found if is_object(found) else {}


async def _confirm(socket: aiohttp.ClientWebSocketResponse, key: str) -> None:
    """Tell Slack that an envelope was taken; through a closed socket it comes again."""
    if not socket.closed:
        await socket.send_str(orjson.dumps({"envelope_id": key}).decode())


def _failure(reason: str) -> ChannelError:
    if reason == "link_disabled":
        return SetupError(_OFF)
    return ConnectionLostError(f"Slack closed the socket: {reason[:100] or 'no reason'}")
