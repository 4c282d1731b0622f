"""The bytes of files that come with messages, never more than is wanted."""

from __future__ import annotations

from collections.abc import AsyncIterable

from everturn_channels.errors import FileTooLargeError


async def read_within(parts: AsyncIterable[bytes], limit_bytes: int) -> bytes:
    """Return what comes in parts, for `IncomingFile.fetch`.

    Raises:
        FileTooLargeError: It is more; the rest is not read.
    """
    found: list[bytes] = []
    size_bytes = 0
    async for part in parts:
        size_bytes += len(part)
        if size_bytes > limit_bytes:
            raise FileTooLargeError
        found.append(part)
    return b"".join(found)
