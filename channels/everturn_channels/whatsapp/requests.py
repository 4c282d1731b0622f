"""Requests to the Cloud API: each once, with a deadline, and what failed in our words.

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp, and its OpenAPI,
https://github.com/facebook/openapi (business-messaging-api_v23.0.yaml), read 2026-11-27.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Final
from urllib.parse import urlencode

import aiohttp
import orjson
from yarl import URL

from everturn_actors.json_values import is_object
from everturn_channels.errors import (
    ChannelError,
    ConnectionLostError,
    NotSentError,
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
from everturn_channels.ingestion.json_fields import Json, object_of, text_of
from everturn_channels.proxies.sessions import open_session
from everturn_channels.whatsapp.account import WhatsAppAccount
from everturn_channels.whatsapp.failures import Failure, failure_of, to_send_error

REQUEST_S: Final = 30.0
MEDIA_S: Final = 120.0
_ANSWER_MAX_BYTES: Final = 1024 * 1024
_META: Final = (".fbsbx.com", ".fbcdn.net", ".facebook.com", ".whatsapp.net")
"Hosts of Meta: files are at lookaside.fbsbx.com, by the examples of its documentation."
_NOT_METAS: Final = "the address of the file is not one of Meta"


class RequestFailedError(Exception):
    """A request was not answered as it should be.

    Attributes:
        failure: What Meta says; None = nothing.
        words: What broke.
        retry_after_s: How long Meta wants to hear nothing; None = it does not say.
        may_have_acted: Whether Meta may have done what was asked.
    """

    def __init__(
        self,
        words: str,
        *,
        failure: Failure | None = None,
        retry_after_s: float | None = None,
        may_have_acted: bool = False,
    ) -> None:
        self.failure, self.words = failure, words
        self.retry_after_s, self.may_have_acted = retry_after_s, may_have_acted
        super().__init__(str(failure) if failure is not None else words)

    def to_send_error(self) -> SendError:
        """Return what it means where something was to be sent."""
        if self.failure is not None:
            return to_send_error(self.failure, retry_after_s=self.retry_after_s)
        if self.retry_after_s is not None:
            words = f"WhatsApp takes less now: {self.words}."
            return NotSentError(words, retry_after_s=self.retry_after_s)
        if self.may_have_acted:
            return UnknownOutcomeError(f"WhatsApp answered with nothing of use: {self.words}.")
        return NotSentError(f"WhatsApp cannot be reached: {self.words}.")

    def to_connection_error(self, channel: str) -> ChannelError:
        """Return what it means for the whole channel; `channel` names its settings."""
        if self.failure is not None and self.failure.needs_owner:
            words = f"Meta does not let {channel}.token do what is needed: {self.failure}"
            return SetupError(words)
        if self.failure is not None and self.failure.code == 100:
            words = f"Meta knows no number {channel}.phone_number_id, or the token may not use it"
            return SetupError(f"{words}: {self.failure}")
        return ConnectionLostError(f"WhatsApp cannot be used now: {self}")


class CloudApi:
    """The Cloud API over one pool of connections. `open_api` makes one."""

    def __init__(self, session: aiohttp.ClientSession, account: WhatsAppAccount) -> None:
        self._session, self._account = session, account
        self._base = account.api_base.rstrip("/")
        self._number = f"{self._base}/{account.phone_number_id}"
        self._token = {"Authorization": f"Bearer {account.token}"}

    async def number(self, *fields: str) -> Json:
        """Return what Meta says of the number.

        Raises:
            RequestFailedError: It says nothing.
        """
        query = urlencode({"fields": ",".join(fields)})
        return _object(await self._ask("GET", f"{self._number}?{query}"))

    async def post(self, fields: Mapping[str, object]) -> Json:
        """Send a message, or what goes the same way: a receipt, a reaction.

        Raises:
            RequestFailedError: It was not taken, or perhaps.
        """
        data = orjson.dumps({"messaging_product": "whatsapp", **fields})
        headers = {"Content-Type": "application/json"}
        return _object(
            await self._ask("POST", f"{self._number}/messages", data=data, headers=headers)
        )

    async def upload(self, data: bytes, *, media_type: str, file_name: str) -> str:
        """Put a file at Meta, where it stays for 30 days; return its id there.

        Raises:
            RequestFailedError: It was not taken. One that is there in vain is seen by nobody.
        """
        form = aiohttp.FormData()
        form.add_field("messaging_product", "whatsapp")
        form.add_field("type", media_type)
        form.add_field("file", BytesIO(data), filename=file_name, content_type=media_type)
        answer = await self._ask("POST", f"{self._number}/media", data=form, deadline_s=MEDIA_S)
        return text_of(_object(answer), "id")

    async def download(self, media_id: str, limit_bytes: int) -> bytes:
        """Get a file that somebody sent, at most so many bytes; its address holds five minutes.

        Raises:
            FileTooLargeError: There are more.
            RequestFailedError: It cannot be had.
        """
        query = urlencode({"phone_number_id": self._account.phone_number_id})
        path = URL.build(path=f"/{media_id}").raw_path  # whatever stands in it
        found = _object(await self._ask("GET", f"{self._base}{path}?{query}"))
        address = text_of(found, "url")
        # The token goes along, and nobody but Meta may see it.
        if not self.is_metas(address):
            raise RequestFailedError(_NOT_METAS)
        answer = await self._ask("GET", address, deadline_s=MEDIA_S, limit_bytes=limit_bytes)
        return answer.body

    def is_metas(self, address: str) -> bool:
        """Return whether an address is one of Meta, or of what stands in its place."""
        try:
            found = URL(address)  # as the request reads it
            is_base = found.origin() == URL(self._base).origin()
        except ValueError:
            return False
        is_secret = found.scheme == "https" and found.port == 443
        is_plain = "\\" not in address and found.user is None
        return is_plain and (is_base or (is_secret and (found.host or "").endswith(_META)))

    async def _ask(
        self,
        method: str,
        address: str,
        *,
        data: bytes | aiohttp.FormData | None = None,
        headers: Mapping[str, str] | None = None,
        deadline_s: float = REQUEST_S,
        limit_bytes: int = _ANSWER_MAX_BYTES,
    ) -> HttpAnswer:
        asked = {**self._token, **(headers or {})}
        request = HttpRequest(method=method, address=address, data=data, headers=asked)
        try:
            answer = await request_once(
                self._session, request, deadline_s=deadline_s, limit_bytes=limit_bytes
            )
        except NoAnswerError as error:
            raise RequestFailedError(error.words, may_have_acted=error.may_have_acted) from error
        if answer.status != 200:
            raise _failed(answer)
        return answer


def _object(answer: HttpAnswer) -> Json:
    """Return an answer as the object that it has to be.

    Raises:
        RequestFailedError: It is none.
    """
    try:
        found: object = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        found = None
    if not is_object(found):
        msg = "the answer is no JSON object"
        raise RequestFailedError(msg, may_have_acted=True)
    return found


def _failed(answer: HttpAnswer) -> RequestFailedError:
    """Return what an answer with another status than 200 says.

    A definite error of Meta's was not done. Without one, nobody knows of those above 500.
    """
    try:
        found: object = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        found = None
    wait = answer.headers.get("Retry-After", "")
    wait_s = float(wait) if wait.isascii() and wait.isdecimal() and len(wait) < 9 else None
    if answer.status == 429 and wait_s is None:
        wait_s = 1.0
    return RequestFailedError(
        f"status {answer.status}",
        failure=failure_of(object_of(found, "error")),
        retry_after_s=wait_s,
        may_have_acted=answer.status >= 500 or answer.status == 408,
    )


@asynccontextmanager
async def open_api(account: WhatsAppAccount, *, where: str) -> AsyncGenerator[CloudApi]:
    """Open the connections to Meta; nothing is asked yet. `where` names its settings.

    Raises:
        SetupError: The proxy needs a library that is not here.
    """
    async with open_session(account.proxy, where=where) as session:
        yield CloudApi(session, account)
