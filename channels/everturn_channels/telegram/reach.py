"""How events are answered, and their files fetched, whichever connection there is by then."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from aiogram.exceptions import TelegramBadRequest
from aiogram.methods import GetFile

from everturn_channels.adapter import Outbound
from everturn_channels.errors import ConnectionLostError, FileTooLargeError, NotSentError
from everturn_channels.telegram.connection import Line, explained
from everturn_channels.telegram.sender import Sender

_SENT_KNOWN: Final = 5_000


class LineReach:
    """Implements `mapping.Reach`."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.line: Line | None = None
        "None = the bot is not connected."
        self._sent: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()
        "Of the newest messages of the bot their topic, and the message that they are a part of."

    def sender(self) -> Sender:
        """Return what sends.

        Raises:
            NotSentError: The bot is not connected.
        """
        if self.line is None:
            msg = "the bot is not connected"
            raise NotSentError(msg)
        return Sender(self.line)

    def note_sent(self, message: Outbound, names: Sequence[str]) -> None:
        """Remember what the bot sent, and as which messages: the first stands for all of them."""
        for name in names:
            self._sent[message.chat_id, name] = message.topic, names[0]
            if len(self._sent) > _SENT_KNOWN:
                self._sent.popitem(last=False)

    def topic_of(self, chat: str, message_id: str) -> str | None:
        """Return where the bot sent a message. See `mapping.Reach.topic_of`."""
        known = self._sent.get((chat, message_id))
        return None if known is None else known[0]

    def whole_of(self, chat: str, message_id: str) -> str:
        """Return of what a message is a part. See `mapping.Reach.whole_of`."""
        return self._sent.get((chat, message_id), ("", message_id))[1]

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
