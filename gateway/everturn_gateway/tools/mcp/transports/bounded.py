"""How much of an answer of an MCP server is held, and what a broken connection is called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx2

from everturn_gateway.tools.mcp.transports.lines import VALUES_MOST, text_marks

MESSAGE_BYTES: Final = 4 * 1024 * 1024  # of one answer or event


def described_fault(error: httpx2.TransportError) -> str:
    """Return in words why there is no answer."""
    match error:
        case httpx2.ConnectTimeout() | httpx2.ConnectError():
            return f"it cannot be reached: {str(error) or 'no connection within 10 s'}"
        case httpx2.TimeoutException():
            return "it does not answer"
        case _:
            return f"the connection broke: {str(error) or type(error).__name__}"


class _AnswerError(httpx2.SSEError, httpx2.StreamError):
    """What the protocol's client takes for the end of one answer, however that came."""

    def __init__(self, message: str) -> None:
        httpx2.SSEError.__init__(self, message)


class Bounded(httpx2.AsyncByteStream):
    """The body of an answer, of which no more is held than a message may have.

    A stream of events has no end; each event is a message.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, *, has_events: bool) -> None:
        """Read from `inner`."""
        self._inner, self._has_events = inner, has_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield what comes, until it is too much."""
        size = marks = 0
        try:
            async for chunk in self._inner:
                if self._has_events and (b"\n\n" in chunk or b"\r\n\r\n" in chunk):
                    size = marks = 0
                size += len(chunk)
                marks += text_marks(chunk)
                _check(size, marks)
                yield chunk
        except httpx2.TransportError as error:
            why = (
                str(error)
                if isinstance(error, _AnswerError)
                else f"its answer broke off: {described_fault(error)}"
            )
            raise _AnswerError(why) from error

    async def aclose(self) -> None:
        """Close it."""
        await self._inner.aclose()


def _check(size: int, marks: int) -> None:
    why = ""
    if size > MESSAGE_BYTES:
        why = f"its answer has more than {MESSAGE_BYTES // 1024**2} MiB; ask for less"
    elif marks > 2 * VALUES_MOST:
        why = f"its answer holds more than {VALUES_MOST:,} values; ask for less"
    if why:
        raise _AnswerError(why)
