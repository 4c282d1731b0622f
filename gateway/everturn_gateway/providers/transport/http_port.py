"""What is asked of an HTTP client, whichever library it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class HttpError(Exception):
    """A request got no whole answer; the text says why, as the network or the library has it."""


class UnreachableError(HttpError):
    """Nobody took the request."""


class SilentError(HttpError):
    """Nothing came for as long as the caller was willing to wait."""


class BrokenError(HttpError):
    """The connection ended, or what came over it is no HTTP."""


class Answer(Protocol):
    """What a server answers, while it is being read."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, found by names in lower case; of a name that is repeated, the first."""
        ...

    async def read(self) -> bytes:
        """Return what has come since, unpacked; empty = the answer has ended.

        Raises:
            HttpError: The answer broke off, or its server is silent.
        """
        ...

    async def hand_on(self, take: Callable[[bytes], float | None]) -> None:
        """Call `take` with each piece in the moment it comes; return when the answer has ended.

        Pieces that come all at once behind a first one are handed on as one.

        Args:
            take: Called by the event loop, outside of any task. It may return in how many seconds
                the reading ends at the latest; what it raises ends it, and is raised here.

        Raises:
            HttpError: The answer broke off, or its server is silent.
        """
        ...


class HttpClient(Protocol):
    """The connections to one address."""

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes = b"",
        silence_s: float,
    ) -> AbstractAsyncContextManager[Answer]:
        """Send a request; the connection is kept where its answer is read to the end.

        Args:
            method: `GET` or `POST`.
            path: Path and query, as they are sent.
            headers: Beside those of every request.
            body: Empty = none.
            silence_s: How long the server may send nothing.

        Raises:
            HttpError: No answer came.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...
