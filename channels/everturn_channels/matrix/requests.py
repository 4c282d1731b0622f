"""Requests to a homeserver: each once, with a deadline, and what failed in our words.

Source of routes and error codes: https://spec.matrix.org/v1.16/client-server-api/, read 2026-11-26.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import quote

import aiohttp
import orjson
from yarl import URL

from everturn_actors.json_values import is_object
from everturn_channels.errors import (
    ChannelError,
    ConnectionLostError,
    NotSentError,
    RefusedError,
    SendError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.ingestion.exchange import (
    HttpAnswer,
    HttpRequest,
    NoAnswerError,
    request_once,
)
from everturn_channels.ingestion.json_fields import Json, number_of, text_of
from everturn_channels.proxies.sessions import open_session

REQUEST_S: Final = 60.0
UPLOAD_S: Final = 120.0
_ANSWER_MAX_BYTES: Final = 256 * 1024 * 1024
"A first answer of an account in thousands of rooms has tens of MB; more no homeserver sends."
_WORDS_MAX: Final = 300  # characters of an answer that people are shown
_GONE: Final = frozenset({"M_FORBIDDEN", "M_NOT_FOUND", "M_GUEST_ACCESS_FORBIDDEN"})
_TOKEN: Final = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED"})
_ALWAYS_SAFE: Final = "!@:$"  # in a path; ids are full of them


class RequestFailedError(Exception):
    """A request was not answered as it should be.

    Attributes:
        status: Of the answer; 0 = there was none.
        code: The homeserver's own, `M_FORBIDDEN`; empty = it gave none.
        words: What it says beside, or what broke.
        retry_after_s: How long it wants to hear nothing; None = it does not say.
        may_have_acted: Whether the homeserver may have done what was asked.
        answer: All that it answered with.
    """

    def __init__(
        self,
        words: str,
        *,
        status: int = 0,
        code: str = "",
        retry_after_s: float | None = None,
        may_have_acted: bool = False,
        answer: Json | None = None,
    ) -> None:
        self.status, self.code, self.words = status, code, words
        self.answer: Json = answer or {}
        self.retry_after_s, self.may_have_acted = retry_after_s, may_have_acted
        super().__init__(" ".join(filter(None, (str(status or ""), code, words))))

    @property
    def is_refusal(self) -> bool:
        """Whether the same request would be refused again."""
        return 400 <= self.status < 500 and self.status not in {408, 429}

    @property
    def is_token(self) -> bool:
        """Whether the homeserver does not know the token any more."""
        return self.status in {401, 403} and self.code in _TOKEN

    def to_send_error(self) -> SendError:
        """Return what it means where something was to be sent."""
        if self.status == 429:
            words = "The homeserver wants to hear nothing for a while."
            return NotSentError(words, retry_after_s=self.retry_after_s or 1.0)
        if self.is_token:
            return NotSentError("The homeserver does not know the bot's token any more.")
        if self.is_refusal:
            words = f"The homeserver does not take it: {self}."
            return RefusedError(words, is_chat_gone=self.code in _GONE)
        if self.may_have_acted:
            return UnknownOutcomeError(f"The homeserver answered with nothing of use: {self}.")
        return NotSentError(f"The homeserver cannot be reached: {self}.")

    def to_connection_error(self, where: str) -> ChannelError:
        """Return what it means where something was to be received; `where` names the settings."""
        if self.is_token:
            words = f"the homeserver does not know the token of {where} any more: log in anew"
            return SetupError(words)
        if self.is_refusal and self.status != 404:
            return SetupError(f"the homeserver of {where} refuses what is needed: {self}")
        return ConnectionLostError(f"the homeserver of {where} cannot be used now: {self}")


class Homeserver:
    """A homeserver over one pool of connections. `open_homeserver` makes one."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session, self._base = session, base.rstrip("/")
        self.token = ""
        "Shown with each request; empty = none."

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        deadline_s: float = REQUEST_S,
    ) -> Json:
        """Ask for something; return the answer.

        Raises:
            RequestFailedError: There is none, or it says no.
        """
        data = None if body is None else orjson.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        answer = await self._request(
            method, path, data, headers=headers, query=query, deadline_s=deadline_s
        )
        return _object(answer, status=200)

    async def upload(self, data: bytes, *, media_type: str, file_name: str) -> str:
        """Put bytes on the homeserver; return their address there, `mxc://...`.

        Raises:
            RequestFailedError: It did not take them.
        """
        answer = await self._request(
            "POST",
            "/_matrix/media/v3/upload",
            data,
            headers={"Content-Type": media_type or "application/octet-stream"},
            query={"filename": file_name} if file_name else None,
            deadline_s=UPLOAD_S,
        )
        return text_of(_object(answer, status=200), "content_uri")

    async def download(self, address: str, limit_bytes: int) -> bytes:
        """Get the bytes at `mxc://SERVER/ID`, at most so many.

        Homeservers of before 2024 know the older route alone, which asks for no token.

        Raises:
            FileTooLargeError: There are more.
            RequestFailedError: They cannot be had.
        """
        place = address.removeprefix("mxc://")
        if not address.startswith("mxc://") or place.count("/") != 1 or ".." in place:
            msg = "the message names no file of a homeserver"
            raise RequestFailedError(msg, status=400)
        try:
            return await self._request(
                "GET",
                f"/_matrix/client/v1/media/download/{quote(place)}",
                limit_bytes=limit_bytes,
                deadline_s=UPLOAD_S,
            )
        except RequestFailedError as error:
            if error.code != "M_UNRECOGNIZED" and error.status not in {404, 405}:
                raise
        old = f"/_matrix/media/v3/download/{quote(place)}"
        return await self._request("GET", old, limit_bytes=limit_bytes, deadline_s=UPLOAD_S)

    async def _request(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        deadline_s: float,
        limit_bytes: int = _ANSWER_MAX_BYTES,
    ) -> bytes:
        sent = dict(headers or {})
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        address = URL(self._base + path, encoded=True).extend_query(query or {})
        request = HttpRequest(method=method, address=address, data=data, headers=sent)
        try:
            answer = await request_once(
                self._session, request, deadline_s=deadline_s, limit_bytes=limit_bytes
            )
        except NoAnswerError as error:
            raise RequestFailedError(error.words, may_have_acted=error.may_have_acted) from error
        if answer.status >= 300:
            raise _failure(answer)
        return answer.body


def _object(answer: bytes, *, status: int) -> Json:
    try:
        found: object = orjson.loads(answer)
    except orjson.JSONDecodeError:
        found = None
    if not is_object(found):
        msg = "the answer is no JSON object"
        raise RequestFailedError(msg, status=status, may_have_acted=True)
    return found


def _failure(answer: HttpAnswer) -> RequestFailedError:
    """Return what an answer with an error says."""
    said: Json = {}
    with suppress(RequestFailedError):
        said = _object(answer.body, status=answer.status)
    if answer.status < 400:
        msg = "it sends to another address, which is not followed: set its own as homeserver"
        return RequestFailedError(msg, status=answer.status)
    wait_ms = number_of(said, "retry_after_ms")
    wait_s = None if wait_ms is None else wait_ms / 1000
    if wait_s is None and answer.headers.get("Retry-After", "").isdecimal():
        wait_s = float(answer.headers["Retry-After"])
    return RequestFailedError(
        " ".join(text_of(said, "error").split())[:_WORDS_MAX] or answer.reason,
        status=answer.status,
        code=text_of(said, "errcode")[:_WORDS_MAX],
        retry_after_s=wait_s,
        may_have_acted=answer.status >= 500 or answer.status == 408,
        answer=said,
    )


def in_path(text: str) -> str:
    """Return a text as one part of a path."""
    return quote(text, safe=_ALWAYS_SAFE)


def room_path(room_id: str, *rest: str) -> str:
    """Return the path of something of a room.

    >>> room_path("!a:b", "send", "m.room.message", "t1")
    '/_matrix/client/v3/rooms/!a:b/send/m.room.message/t1'
    """
    return "/_matrix/client/v3/rooms/" + "/".join(map(in_path, (room_id, *rest)))


@asynccontextmanager
async def open_homeserver(base: str, proxy: str, *, where: str) -> AsyncGenerator[Homeserver]:
    """Open the connections to a homeserver; nothing is asked yet. `where` names its settings.

    Raises:
        SetupError: The proxy needs a library that is not here.
    """
    async with open_session(proxy, where=where) as session:
        yield Homeserver(session, base)
