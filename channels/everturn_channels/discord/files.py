"""Getting the files that came with messages, never more than is wanted."""

from __future__ import annotations

from typing import Any, cast

import aiohttp
import anyio
import discord

from everturn_channels.adapter import IncomingFile
from everturn_channels.discord.client import Client
from everturn_channels.errors import ConnectionLostError, FileTooLargeError
from everturn_channels.ingestion.files import read_within

FETCH_S = 60.0
_GONE = (403, 404)


class Files:
    """Gets files from Discord's content network, in a session of its own: without the token."""

    def __init__(self, client: Client, session: aiohttp.ClientSession) -> None:
        self._client, self._session = client, session

    def incoming(self, attachment: discord.Attachment, message: discord.Message) -> IncomingFile:
        """Return a file that is fetched when it is asked for."""
        size = cast("object", attachment.size)  # what Discord says, whatever that is
        size_bytes = size if isinstance(size, int) else None

        async def fetch(limit_bytes: int) -> bytes:
            if size_bytes is not None and size_bytes > limit_bytes:
                raise FileTooLargeError
            try:
                with anyio.fail_after(FETCH_S):
                    data = await self._get(attachment.url, limit_bytes)
                    if data is None:
                        url = await self._new_address(attachment, message)
                        data = await self._get(url, limit_bytes) if url else None
            except (OSError, TimeoutError, aiohttp.ClientError, discord.HTTPException) as error:
                text = f"The file cannot be had from Discord ({type(error).__name__})."
                raise ConnectionLostError(text) from error
            if data is None:
                text = "Discord does not have the file any more."
                raise ConnectionLostError(text)
            return data

        return IncomingFile(
            fetch=fetch,
            file_name=attachment.filename,
            media_type=(attachment.content_type or "").split(";")[0].strip(),
            size_bytes=size_bytes,
            is_voice=attachment.is_voice_message(),
            duration_s=attachment.duration or 0,
        )

    async def _get(self, url: str, limit_bytes: int) -> bytes | None:
        """Return what stands there; None where there is nothing, or no longer."""
        async with self._session.get(url) as response:
            if response.status in _GONE:
                return None
            response.raise_for_status()
            return await read_within(response.content.iter_any(), limit_bytes)

    async def _new_address(self, attachment: discord.Attachment, message: discord.Message) -> str:
        """Return the address of today: each holds for a day only, a message for longer."""
        fresh: Any = await self._client.http.get_message(message.channel.id, message.id)
        sources = [fresh, *(s["message"] for s in fresh.get("message_snapshots", ()))]
        for source in sources:
            for each in source["attachments"]:
                if int(each["id"]) == attachment.id:
                    return str(each["url"])
        return ""
