"""The connection of one bot to the Bot API: requests with deadlines, and what failed in our words.

aiogram says what is asked and reads the answers; the request is made here, so that it is known
whether a request that failed may have been carried out. Nothing is tried twice, and no redirect is
followed: a request goes where the operator said, or nowhere.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast

import anyio
import anyio.to_thread
import orjson
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.methods.base import TelegramMethod
from aiogram.utils.token import TokenValidationError
from aiohttp import (
    ClientConnectionError,
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientProxyConnectionError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    InvalidURL,
)

from everturn_actors.json_values import as_list
from everturn_actors.ports import Clock
from everturn_channels.errors import (
    ChatMovedError,
    ConnectionLostError,
    FileTooLargeError,
    NotSentError,
    RefusedError,
    SendError,
    SetupError,
    UnknownOutcomeError,
    paused_s,
)
from everturn_channels.ingestion.json_fields import at, number_of
from everturn_channels.proxies import (
    ProxyFailedError,
    failure,
    http_proxy,
    is_proxy,
    open_connector,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

REQUEST_S: Final = 30.0  # a request without a file
UPLOAD_S: Final = 180.0  # a request with one
DOWNLOAD_S: Final = 120.0  # 20 MB at less than 2 Mbit/s
_CONNECT_S: Final = 10.0  # of these, until there is a connection
_CLOSE_S: Final = 0.5
_ANSWER_MAX_BYTES: Final = 64 * 1024 * 1024  # a hundred updates take less than one
_PAUSE_S: Final = 5.0  # where Telegram says "slow down" and not how long

# Whatever the outcome of a request that failed so: it never left.
_NEVER_LEFT: Final = (
    ClientConnectorError,
    ClientHttpProxyError,
    ConnectionTimeoutError,
    InvalidURL,
    ProxyFailedError,
)
# Answers of a gateway that had no connection to the Bot API: bad gateway, unavailable, and
# Cloudflare's "web server is down", "connection timed out", "unreachable" and failed handshakes.
# Source: https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/
_NO_GATEWAY: Final = frozenset({502, 503, 521, 522, 523, 525, 526})
_UPDATE_ID: Final = re.compile(rb'"update_id"\s*:\s*(\d{1,18})\b')
_TOKEN: Final = re.compile(r"(bot)?(\d{3,})(:|%3[Aa])([A-Za-z0-9_-]{20,})")
_GONE: Final = re.compile(
    r"chat not found|blocked by the user|was kicked|user is deactivated|not a member"
    r"|message thread not found|topic_closed|topic_deleted|topic_id_invalid|peer_id_invalid"
    r"|chat_write_forbidden|no rights to send|not enough rights to send|group is deactivated"
    r"|upgraded to a supergroup|can't initiate conversation|channel_private",
    re.IGNORECASE,
)


class UnreadableAnswerError(UnknownOutcomeError):
    """The Bot API answered something that cannot be read.

    Attributes:
        message_id: Of the message that was sent, where that much could be read; 0 = it could not.
        updates: The numbers of the updates that it seems to hold.
    """

    def __init__(self, message: str, *, message_id: int = 0, updates: tuple[int, ...] = ()) -> None:
        self.message_id, self.updates = message_id, updates
        super().__init__(message)


def mask(text: str, token: str = "") -> str:
    """Return a text without the secret part of any bot's token, and of `token`, of any form."""
    bot_id, _, secret = token.partition(":")
    if secret:
        text = text.replace(f"{bot_id}:{secret}", f"{bot_id}:***")
        text = text.replace(f"{bot_id}%3A{secret}", f"{bot_id}:***")
    return _TOKEN.sub(r"\1\2:***", text)


class Connection(AiohttpSession):
    """How requests of aiogram reach the Bot API, by way of a proxy where one is given."""

    def __init__(self, api_base: str, proxy: str, where: str) -> None:
        super().__init__(
            api=TelegramAPIServer.from_base(api_base),
            json_loads=read_json,
            json_dumps=_dumped,
        )
        self._proxy_url, self._where = proxy, where
        self._is_over = False

    async def create_session(self) -> ClientSession:
        """Return what makes the requests, always the same.

        Raises:
            NotSentError: The connection was closed.
            SetupError: The proxy needs a library that is not here.
        """
        if self._is_over:
            msg = "the bot is not connected"
            raise NotSentError(msg)
        if self._session is None:
            connector = open_connector(self._proxy_url, where=self._where, **self._connector_init)
            self._session = ClientSession(connector=connector, proxy=http_proxy(self._proxy_url))
        return self._session

    async def close(self) -> None:
        """Close all connections, for good."""
        self._is_over = True
        if self._session is not None:
            await self._session.close()

    async def make_request(
        self,
        bot: Bot,
        method: TelegramMethod[T],
        timeout: float | None = None,  # noqa: ASYNC109 - the base class names it
    ) -> T:
        """Make one request.

        Raises:
            NotSentError: It never left.
            UnknownOutcomeError: It may have been carried out.
            RefusedError: It is too large for whatever stands before the Bot API.
            TelegramAPIError: The Bot API refused it.
        """
        name = method.__api_method__
        url = self.api.api_url(token=bot.token, method=name)
        within = ClientTimeout(total=timeout or REQUEST_S, connect=_CONNECT_S)
        session = await self.create_session()
        try:
            form = self.build_form_data(bot=bot, method=method)
            async with session.post(
                url, data=form, timeout=within, allow_redirects=False
            ) as response:
                body, status = await _read(response, _ANSWER_MAX_BYTES), response.status
        except FileTooLargeError as error:
            msg = f"{name}: an answer that is too large"
            raise UnreadableAnswerError(msg) from error
        except _NEVER_LEFT as error:
            msg = f"{name}: {_why(error)}"
            raise NotSentError(msg) from None
        except (ClientError, OSError, TimeoutError) as error:
            msg = f"{name}: {_why(error)}"
            raise UnknownOutcomeError(msg) from None
        try:
            answer = self.check_response(
                bot=bot, method=method, status_code=status, content=body.decode("utf-8", "replace")
            )
        except ClientDecodeError as error:
            msg = f"{name}: HTTP {status} with an answer that cannot be read ({error.message})"
            if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                raise RefusedError(msg) from None
            if not _is_own(error.data) and _never_got_there(status):
                raise NotSentError(msg) from None  # something on the way that is not Telegram
            numbers = tuple(map(int, _UPDATE_ID.findall(body)))
            message_id = _message_id(error.data)
            raise UnreadableAnswerError(msg, message_id=message_id, updates=numbers) from None
        except TelegramAPIError as error:
            error.message = error.message or "no reason is given"  # whatever aiogram declares
            raise
        except TypeError:  # aiogram's, at an error without a reason
            msg = f"{name}: HTTP {status} without a reason"
            raise UnreadableAnswerError(msg) from None
        return cast("T", answer.result)

    async def download(self, bot: Bot, path: str, limit_bytes: int) -> bytes:
        """Return a file of the Bot API's server.

        Raises:
            FileTooLargeError: It has more bytes than that.
            ConnectionLostError: It cannot be had.
        """
        url = self.api.file_url(bot.token, path)
        within = ClientTimeout(total=DOWNLOAD_S, connect=_CONNECT_S)
        try:
            session = await self.create_session()
            async with session.get(url, timeout=within, allow_redirects=False) as response:
                if response.status != HTTPStatus.OK:
                    msg = f"the file cannot be fetched: HTTP {response.status}"
                    raise ConnectionLostError(msg)
                return await _read(response, limit_bytes)
        except (ClientError, OSError, TimeoutError, NotSentError) as error:
            msg = f"the file cannot be fetched: {_why(error)}"
            raise ConnectionLostError(msg) from None


def read_json(text: str | bytes) -> Any:  # noqa: ANN401 - JSON
    """Return what stands in JSON, also where it holds halves of characters.

    Raises:
        ValueError: It is none, or nested too deep.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            return json.loads(text)
        except RecursionError as error:
            msg = "nested too deep"
            raise ValueError(msg) from error


def _dumped(value: object) -> str:
    return orjson.dumps(value).decode()


async def _read(response: ClientResponse, limit_bytes: int) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_chunked(65536):
        body += piece
        if len(body) > limit_bytes:
            msg = f"more than {limit_bytes} bytes"
            raise FileTooLargeError(msg)
    return bytes(body)


def _why(error: BaseException) -> str:
    """Say what failed, without the address: it holds the token."""
    match error:
        case ClientProxyConnectionError():
            return f"no answer ({failure(error)})"
        case ClientConnectorError():
            return f"no connection to {error.host}: {error.os_error.strerror or error.os_error}"
        case TimeoutError() | ClientConnectionError() | ClientHttpProxyError():
            return f"no answer ({failure(error)})"
        case _:
            return type(error).__name__


def _is_own(answer: object) -> bool:
    """Whether an answer is one of the Bot API, though it cannot be read."""
    return isinstance(answer, dict) and "ok" in answer


def _never_got_there(status: int) -> bool:
    """Whether something before the Bot API answered so because it did not get through to it.

    A page of a gateway with 504 (and, of Cloudflare, 520 and 524) says the contrary: the request
    was handed on, and no answer came in time.
    """
    is_of_another = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return is_of_another or status in _NO_GATEWAY


def _message_id(answer: object) -> int:
    result = at(answer, "result")
    sent = next(iter(as_list(result)), result)  # the first one of an album
    return (number_of(sent, "message_id") or 0) if at(answer, "ok") is True else 0


class Line:
    """One bot's open line to Telegram. Make one with `open_line`."""

    def __init__(self, bot: Bot, connection: Connection, clock: Clock) -> None:
        self._bot, self._connection, self._clock = bot, connection, clock
        now = clock.now()
        self._quiet_from = self._paused_until = now

    async def ask(self, method: TelegramMethod[T], *, deadline_s: float = REQUEST_S) -> T:
        """Make a request of ours, whatever people are sent meanwhile.

        Raises:
            NotSentError, UnknownOutcomeError: No answer.
            TelegramAPIError: Refused.
        """
        # declared as whole seconds by aiogram; it only hands it on
        return await self._bot(method, request_timeout=cast("int", deadline_s))

    async def send(self, method: TelegramMethod[T], *, deadline_s: float = REQUEST_S) -> T:
        """Make a request that shows somebody something, unless the bot has to be quiet.

        Raises:
            NotSentError: Also while the bot has to be quiet, at once, with the time that is left.
            UnknownOutcomeError: It may have been carried out.
            RefusedError: It never will be.
            TelegramBadRequest: The request itself is wrong; `refused` makes an error of ours of it.
        """
        self._be_quiet()
        try:
            return await self.ask(method, deadline_s=deadline_s)
        except TelegramBadRequest:
            raise
        except TelegramAPIError as error:
            raise self.refused(error) from None

    def masked(self, text: str) -> str:
        """Return a text without the token."""
        return mask(text, self._bot.token)

    def refused(self, error: TelegramAPIError) -> SendError:
        """Return our error for one of the Bot API."""
        why = self.masked(error.message)
        match error:
            case TelegramRetryAfter():
                return self._paused(float(error.retry_after))
            case TelegramMigrateToChat():
                return ChatMovedError(why, to=str(error.migrate_to_chat_id))
            case TelegramForbiddenError():
                return RefusedError(why, is_chat_gone=True)
            case TelegramBadRequest():
                return RefusedError(why, is_chat_gone=_GONE.search(why) is not None)
            case TelegramEntityTooLarge():
                return RefusedError(why)
            case TelegramUnauthorizedError() | TelegramNotFound():
                return NotSentError(f"{why}; the token may have been revoked")
            case TelegramServerError():
                return UnknownOutcomeError(why)
            case _ if "too many requests" in why.lower():
                return self._paused(_PAUSE_S)
            case _:
                return UnknownOutcomeError(why)

    async def download(self, path: str, limit_bytes: int) -> bytes:
        """Return a file that the Bot API's server keeps. See `Connection.download`."""
        return await self._connection.download(self._bot, path, limit_bytes)

    def _paused(self, retry_after_s: float) -> NotSentError:
        now, wait_s = self._clock.now(), paused_s(retry_after_s)
        until = now + timedelta(seconds=wait_s)
        if until > self._paused_until or now < self._quiet_from:
            self._quiet_from, self._paused_until = now, until
        logger.warning("Telegram asks to slow down", extra={"wait_s": wait_s})
        return NotSentError("Telegram asks to slow down", retry_after_s=wait_s)

    def _be_quiet(self) -> None:
        now = self._clock.now()
        if self._quiet_from <= now < self._paused_until:  # a clock that was set back ends it
            left_s = (self._paused_until - now).total_seconds()
            msg = "Telegram asked to slow down"
            raise NotSentError(msg, retry_after_s=left_s)


@asynccontextmanager
async def open_line(
    *, token: str, api_base: str, proxy: str, clock: Clock, where: str
) -> AsyncGenerator[Line]:
    """Open the line of a bot; nothing is sent yet. `where` names its settings.

    Raises:
        SetupError: Token, address or proxy cannot be right.
    """
    if proxy and not is_proxy(proxy):  # not shown: it may hold a password
        msg = f"{where}.proxy is not the address of a proxy: http://host:port, socks5://host:port"
        raise SetupError(msg)
    # in a thread: the certificates are read from a file
    connection = await anyio.to_thread.run_sync(Connection, api_base, proxy, where)
    try:
        bot = Bot(token, session=connection)
    except TokenValidationError:
        msg = f"{where}.bot_token is not a bot's token: it looks like 123456:ABC…, from @BotFather"
        raise SetupError(msg) from None
    try:
        yield Line(bot, connection, clock)
    finally:
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await connection.close()


@contextmanager
def explained(line: Line, where: str) -> Generator[None]:
    """Make what fails in the block an error of `Adapter.serve`. `where` names the settings.

    Raises:
        SetupError: Telegram does not know the token.
        ConnectionLostError: Anything else.
    """
    try:
        yield
    except (TelegramUnauthorizedError, TelegramNotFound):
        msg = (
            f"Telegram does not know the token of {where}.bot_token; "
            "copy it from @BotFather (/mybots, API Token), and check api_base where that is set"
        )
        raise SetupError(msg) from None
    except TelegramAPIError as error:
        raise ConnectionLostError(str(line.refused(error))) from None
    except SendError as error:
        raise ConnectionLostError(str(error)) from None
