"""One request to a server that hears or speaks, tried again where that may help."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import anyio
from msgspec import Struct

from everturn_actors.outside import plain_line
from everturn_gateway.providers.passing_on import PassingOn, PassingOnError
from everturn_gateway.providers.transport.http_port import Answer
from everturn_gateway.providers.transport.model_errors import retry_after_s

logger = logging.getLogger(__name__)

PROVIDER: Final = "openai"
TRIES: Final = 3
WAIT_MOST_S: Final = 30.0  # for a try: others wait meanwhile
RETRY_S: Final = 1.0  # before the second try, and twice that before the third
_TIMES: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS)
_KEYS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class Server(Struct, frozen=True, kw_only=True):
    """Where requests go, and what is said of it where it does not answer."""

    passing_on: PassingOn
    base_url: str
    "Empty = OpenAI's own."
    key: str
    "Empty = that of the provider."
    route: str
    who: str
    "What people call it: `whoever transcribes`."
    limit_bytes: int
    "Of an answer."
    failed: Callable[[str], Exception]
    "Makes the error of a problem, in words for people."
    retry_s: float = RETRY_S

    @property
    def host(self) -> str:
        """Its name, for the log."""
        return urlsplit(self.base_url or "https://api.openai.com").hostname or ""

    async def ask(self, headers: Mapping[str, str], body: bytes) -> bytes:
        """Return the answer. A deadline stands around it.

        Raises:
            Exception: What `failed` makes, where there is none.
        """
        problem = ""
        for tried in range(1, TRIES + 1):
            wait_s = self.retry_s * 2 ** (tried - 1)
            try:
                async with self.passing_on.answer(
                    PROVIDER, self.base_url, self.route, headers=headers, body=body, key=self.key
                ) as answer:
                    data = await self._whole(answer)
                    if answer.status == HTTPStatus.OK and data is not None:
                        return data
                    problem = self._problem(answer, data)
                    wait_s = max(wait_s, retry_after_s(answer.headers) or 0)
            except PassingOnError as error:
                logger.warning("a server did not answer", extra={"error": str(error)})
                problem = f"{self.who} cannot be reached"
            if tried == TRIES or wait_s > WAIT_MOST_S:
                break
            await anyio.sleep(wait_s)
        raise self.failed(problem)

    def _problem(self, answer: Answer, data: bytes | None) -> str:
        """Return what is wrong with an answer that may be another one next time.

        Raises:
            Exception: It would be the same again.
        """
        status = answer.status
        said = plain_line((data or b"")[:1000].decode("utf-8", "replace"), 300)
        fields = {"status": status, "source": self.host, "said": said}
        logger.warning("a server did not do what it was asked for", extra=fields)
        if status in _TIMES or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return f"{self.who} has too much to do, or is out of order"
        if status == HTTPStatus.OK:
            problem = "what came back is too large"
        elif status in _KEYS:
            problem = f"{self.who} refuses the key"
        elif status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            problem = f"it is too large for {self.who}"
        else:
            problem = f"{self.who} refused it (status {status})"
        raise self.failed(problem)

    async def _whole(self, answer: Answer) -> bytes | None:
        """Return the body of an answer; None where it is too large."""
        data = bytearray()
        while piece := await answer.read():
            data += piece
            if len(data) > self.limit_bytes:
                return None
        return bytes(data)
