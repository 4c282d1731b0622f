"""How events are answered, and their files fetched, whichever connection there is by then."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from aiogram.exceptions import TelegramBadRequest
from aiogram.methods import GetFile

from everturn_channels.errors import ConnectionLostError, FileTooLargeError, NotSentError
from everturn_channels.telegram.connection import Line, explained
from everturn_channels.telegram.sender import Sender

_TOPICS_KNOWN: Final = 5_000


class LineReach:
    """Implements `mapping.Reach`."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.line: Line | None = None
        "None = the bot is not connected."
        self._topics: OrderedDict[tuple[str, str], str] = OrderedDict()
        "Of the newest messages that the bot sent."

    def sender(self) -> Sender:
        """Return what sends.

        Raises:
            NotSentError: The bot is not connected.
        """
        if self.line is None:
            msg = "the bot is not connected"
            raise NotSentError(msg)
        return Sender(self.line)

    def note_topic(self, chat: str, message_id: str, topic: str) -> None:
        """Remember in which topic the bot sent a message; empty = in none."""
        self._topics[chat, message_id] = topic
        if len(self._topics) > _TOPICS_KNOWN:
            self._topics.popitem(last=False)

    def topic_of(self, chat: str, message_id: str) -> str | None:
        """Return where the bot sent a message. See `mapping.Reach.topic_of`."""
        return self._topics.get((chat, message_id))

    async def answer(self, chat: str, topic: str, reply_to: str, text: str) -> None:
        """Answer a command. See `Command.answer`."""
        await self.sender().answer(chat, topic, reply_to, text)

    async def answer_click(self, query_id: str, text: str) -> None:
        """Answer a click. See `ButtonClick.answer`."""
        await self.sender().answer_click(query_id, text)

    async def fetch(self, file_id: str, size_bytes: int | None, limit_bytes: int) -> bytes:
        """Get a file. See `IncomingFile.fetch`."""
        if size_bytes is not None and size_bytes > limit_bytes:
            msg = f"the file has {size_bytes} bytes; at most {limit_bytes} are taken"
            raise FileTooLargeError(msg)
        if self.line is None:
            msg = "the bot is not connected"
            raise ConnectionLostError(msg)
        with explained(self.line, self._where):
            try:
                file = await self.line.ask(GetFile(file_id=file_id))
            except TelegramBadRequest as error:
                if "too big" in error.message:
                    msg = "the file is larger than 20 MB, which Telegram does not hand to bots"
                    raise FileTooLargeError(msg) from None
                raise
        path = file.file_path or ""
        if not path or path.startswith("/"):
            msg = "the Bot API server keeps the file on its own disk (its option --local)"
            raise ConnectionLostError(msg)
        return await self.line.download(path, limit_bytes)
