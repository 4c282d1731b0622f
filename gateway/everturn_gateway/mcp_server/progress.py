"""Tells a client how a turn goes on, as progress notifications."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from everturn_channels.terminal.reply import Piece
from everturn_gateway.mcp_server.link import Context

PIECE_CHARACTERS: Final = 200  # of a reply, in one notification: each token would be too many


class Progress:
    """Notifications of one request; none where the client did not ask for them."""

    def __init__(self, ctx: Context) -> None:
        self._session = ctx.session
        self._count = 0
        self._reply = ""

    async def show(self, pieces: Iterable[Piece]) -> None:
        """Tell of what a person would read at a terminal."""
        for piece in pieces:
            if piece.style == "reply":
                self._reply += piece.text
                if piece.ends or len(self._reply) >= PIECE_CHARACTERS:
                    await self._flush()
            else:
                await self._flush()
                await self.say(piece.text.strip())

    async def say(self, text: str) -> None:
        """Tell one thing."""
        self._count += 1
        await self._session.report_progress(self._count, None, text)

    async def _flush(self) -> None:
        text, self._reply = self._reply, ""
        if text:
            await self.say(text)
