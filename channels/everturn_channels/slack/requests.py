"""Requests to Slack: each once, with a deadline, and what failed in our words.

Source of methods and error codes: https://docs.slack.dev/reference/methods, read 2026-11-27.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final
from urllib.parse import urlencode

import aiohttp
import anyio
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
    paused_s,
)
from everturn_channels.ingestion.exchange import (
    HttpAnswer,
    HttpRequest,
    NoAnswerError,
    request_once,
)
from everturn_channels.ingestion.json_fields import Json, text_of
from everturn_channels.proxies.sessions import open_session
from everturn_channels.slack.account import SlackAccount

REQUEST_S: Final = 30.0
UPLOAD_S: Final = 120.0
_WAIT_MAX_S: Final = 60.0
"So long a request that only reads waits for its turn, where Slack is asked too often."
_TRIES: Final = 5
_NOT_SLACKS: Final = "the address is not one of Slack"
_ANSWER_MAX_BYTES: Final = 64 * 1024 * 1024
_FRAME_MAX_BYTES: Final = 4 * 1024 * 1024
_HEARTBEAT_S: Final = 20.0
_WORDS_MAX: Final = 300  # characters of an answer that people are shown
_LIMITED: Final = "ratelimited"
_TOKEN: Final = frozenset(
    {
        "account_inactive",
        "invalid_auth",
        "not_authed",
        "token_expired",
        "token_revoked",
    }
)
_SETUP: Final = _TOKEN | {
    "access_denied",
    "ekm_access_denied",
    "missing_scope",
    "no_permission",
    "not_allowed_token_type",
    "org_login_required",
    "team_access_not_granted",
}
GONE: Final = frozenset(
    {
        "cannot_dm_bot",
        "channel_not_found",
        "invalid_thread_ts",
        "is_archived",
        "messages_tab_disabled",
        "not_in_channel",
        "restricted_action",
        "restricted_action_read_only_channel",
        "restricted_action_thread_locked",
        "thread_not_found",
    }
)
"Nothing can be said in that chat."
_PERHAPS: Final = frozenset({"fatal_error", "internal_error"})
"Of these Slack says that some of it may have been done."
_LATER: Final = frozenset({_LIMITED, "rate_limited", "request_timeout", "service_unavailable"})
BAD_BLOCKS: Final = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
"The formatting of a message is not taken."


class RequestFailedError(Exception):
    """A request was not answered as it should be.

    Attributes:
        code: Slack's own, `channel_not_found`; empty = it gave none.
        words: What broke, and of a missing scope its name.
        retry_after_s: How long Slack wants to hear nothing of the kind; None = it does not say.
        may_have_acted: Whether Slack may have done what was asked.
    """

    def __init__(
        self,
        code: str = "",
        *,
        words: str = "",
        retry_after_s: float | None = None,
        may_have_acted: bool = False,
    ) -> None:
        self.code, self.words = code, words
        self.retry_after_s, self.may_have_acted = retry_after_s, may_have_acted
        super().__init__(" ".join(filter(None, (code, words))) or "no answer")

    @property
    def is_refusal(self) -> bool:
        """Whether the same request would be refused again."""
        return bool(self.code) and self.code not in _PERHAPS | _LATER

    def to_send_error(self) -> SendError:
        """Return what it means where something was to be sent."""
        if self.code in _LATER:
            return NotSentError(f"Slack does not take it now: {self}.")
        if self.code in _TOKEN:
            return NotSentError(f"Slack does not accept the bot's token any more: {self}.")
        if self.is_refusal:
            words = f"Slack does not take it: {self}."
            return RefusedError(words, is_chat_gone=self.code in GONE)
        if self.may_have_acted:
            return UnknownOutcomeError(f"Slack answered with nothing of use: {self}.")
        return NotSentError(f"Slack cannot be reached: {self}.")

    def to_connection_error(self, setting: str) -> ChannelError:
        """Return what it means where something was to be received; `setting` names a token."""
        if self.code in _SETUP:
            return SetupError(f"Slack does not let {setting} do what is needed: {self}")
        return ConnectionLostError(f"Slack cannot be used now: {self}")


class SlackApi:
    """Slack over one pool of connections. `open_api` makes one."""

    def __init__(self, session: aiohttp.ClientSession, account: SlackAccount) -> None:
        self._session, self._account = session, account
        self._base = account.api_base.rstrip("/")
        self._paused_until: dict[tuple[str, str], float] = {}
        "By method and channel, on the loop's clock: Slack wants to hear nothing of the kind."
        self.scopes: frozenset[str] = frozenset()
        "What the token may do, as the last answer said."

    async def call(
        self, method: str, fields: Mapping[str, object] | None = None, *, token: str = ""
    ) -> Json:
        """Do something once; return the answer.

        A field that is neither a text nor a number goes as JSON; None is left out.

        Raises:
            RequestFailedError: It was not done, or perhaps, or Slack was asked too often.
        """
        # Messages have a limit for each channel, all else one for each workspace.
        fields = fields or {}
        where = str(fields.get("channel", "")) if method == "chat.postMessage" else ""
        if (wait_s := self._wait_s(method, where)) > 0:
            raise RequestFailedError(_LIMITED, retry_after_s=wait_s)
        try:
            return await self._call(method, token or self._account.bot_token, fields)
        except RequestFailedError as error:
            if error.retry_after_s:
                until = anyio.current_time() + paused_s(error.retry_after_s)
                self._paused_until[method, where] = until
            raise

    async def read(self, method: str, fields: Mapping[str, object] | None = None) -> Json:
        """Read something; where Slack is asked too often, wait for it.

        Raises:
            RequestFailedError: It cannot be read, or not within minutes.
        """
        for last in (False,) * (_TRIES - 1) + (True,):
            try:
                return await self.call(method, fields)
            except RequestFailedError as error:
                if last or not error.retry_after_s or error.retry_after_s > _WAIT_MAX_S:
                    raise
                await anyio.sleep(error.retry_after_s)
        raise AssertionError

    async def upload(self, address: str, data: bytes) -> None:
        """Put bytes where Slack said.

        Raises:
            RequestFailedError: It did not take them.
        """
        await self._request("POST", address, data, deadline_s=UPLOAD_S)

    async def download(self, address: str, limit_bytes: int) -> bytes:
        """Get the bytes of a file, at most so many; the token is shown to Slack alone.

        Raises:
            FileTooLargeError: There are more.
            RequestFailedError: They cannot be had.
        """
        if not self.is_slacks(address):
            raise RequestFailedError(_NOT_SLACKS)
        headers = {"Authorization": f"Bearer {self._account.bot_token}"}
        return await self._request(
            "GET", address, headers=headers, deadline_s=UPLOAD_S, limit_bytes=limit_bytes
        )

    async def answer(self, address: str, body: Mapping[str, object]) -> None:
        """Answer a click or a slash command at the address that came with it.

        Raises:
            RequestFailedError: It was not taken, or perhaps.
        """
        if not self.is_slacks(address):
            raise RequestFailedError(_NOT_SLACKS)
        headers = {"Content-Type": "application/json"}
        await self._request("POST", address, orjson.dumps(body), headers=headers)

    def is_slacks(self, address: str) -> bool:
        """Whether an address is one of Slack, or of what stands in its place."""
        try:
            found = URL(address)  # as the request reads it
            is_base = found.origin() == URL(self._base).origin()
        except ValueError:
            return False
        host = found.host or ""
        is_theirs = host.endswith((".slack.com", ".slack-gov.com", ".slack-files.com"))
        is_secret = found.scheme == "https" and found.port == 443
        is_plain = "\\" not in address and found.user is None
        return is_plain and (is_base or (is_theirs and is_secret))

    def connect(self, address: str) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """Open a socket; it ends by itself where nothing answers from the other side."""
        return self._session.ws_connect(
            address, heartbeat=_HEARTBEAT_S, max_msg_size=_FRAME_MAX_BYTES
        )

    def _wait_s(self, method: str, where: str) -> float:
        wait_s = self._paused_until.get((method, where), 0.0) - anyio.current_time()
        if wait_s <= 0:
            self._paused_until.pop((method, where), None)
        return wait_s

    async def _call(self, method: str, token: str, fields: Mapping[str, object]) -> Json:
        # Some methods take no JSON; all take a form.
        data = urlencode({k: _field(v) for k, v in fields.items() if v is not None}).encode()
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        body = await self._request("POST", f"{self._base}/{method}", data, headers=headers)
        try:
            answer: object = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        if not is_object(answer):
            raise RequestFailedError(words="the answer is no JSON object", may_have_acted=True)
        if answer.get("ok") is True:
            return answer
        code = text_of(answer, "error")[:_WORDS_MAX] or "unknown_error"
        needed = text_of(answer, "needed")[:_WORDS_MAX]
        raise RequestFailedError(
            code,
            words=f"({needed})" if needed else "",
            retry_after_s=1.0 if code in {_LIMITED, "rate_limited"} else None,
            may_have_acted=code in _PERHAPS,
        )

    async def _request(
        self,
        method: str,
        address: str,
        data: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        deadline_s: float = REQUEST_S,
        limit_bytes: int = _ANSWER_MAX_BYTES,
    ) -> bytes:
        request = HttpRequest(method=method, address=address, data=data, headers=headers)
        try:
            answer = await request_once(
                self._session, request, deadline_s=deadline_s, limit_bytes=limit_bytes
            )
        except NoAnswerError as error:
            raise RequestFailedError(
                words=error.words, may_have_acted=error.may_have_acted
            ) from error
        if answer.status != 200:  # without its scope a file leads to a page for people
            raise _failure(answer)
        if granted := answer.headers.get("X-OAuth-Scopes"):
            self.scopes = frozenset(each.strip() for each in granted.split(","))
        return answer.body


def _field(value: object) -> str | int | float:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str | int | float) else orjson.dumps(value).decode()


def _failure(response: HttpAnswer) -> RequestFailedError:
    """Return what an answer with another status than 200 says."""
    if response.status == 429:
        wait = response.headers.get("Retry-After", "")
        wait_s = float(wait) if wait.isascii() and wait.isdecimal() else 1.0
        return RequestFailedError(_LIMITED, retry_after_s=max(wait_s, 1.0))
    is_refusal = 300 <= response.status < 500 and response.status != 408
    return RequestFailedError(
        f"http_{response.status}" if is_refusal else "",
        words=f"status {response.status}",
        may_have_acted=response.status >= 500 or response.status == 408,
    )


@asynccontextmanager
async def open_api(account: SlackAccount, *, where: str) -> AsyncGenerator[SlackApi]:
    """Open the connections to Slack; nothing is asked yet. `where` names its settings.

    Raises:
        SetupError: The proxy needs a library that is not here.
    """
    async with open_session(account.proxy, where=where) as session:
        yield SlackApi(session, account)
