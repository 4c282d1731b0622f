"""The channel of a plug-in: its protocol on one side, the `Adapter` on the other."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal, NoReturn, TypeAlias, assert_never

import anyio
from msgspec.structs import replace

from everturn_actors.ports import Clock
from everturn_channels.adapter import (
    Adapter,
    Capabilities,
    InboundHandler,
    Outbound,
    OutgoingFile,
)
from everturn_channels.chunks import split_text
from everturn_channels.errors import (
    ChannelError,
    ConnectionLostError,
    FileTooLargeError,
    NotSentError,
    RefusedError,
    SendError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.health import Login
from everturn_channels.ingestion.chat_queues import ChatQueues, open_chat_queues
from everturn_channels.ingestion.events import PlatformEvent
from everturn_channels.plugin.connection import (
    ANSWER_S,
    FILE_ANSWER_S,
    Connection,
    open_connection,
)
from everturn_channels.plugin.meeting import failure, look, meet, obituary
from everturn_channels.plugin.process import Program, open_plugin_process
from everturn_channels.plugin.protocol import (
    PART_BYTES,
    PROTOCOL,
    WINDOW,
    AnswerEvent,
    Arrived,
    BadLineError,
    Complaint,
    Connected,
    CursorSet,
    Deleted,
    EditMessage,
    Failed,
    FetchPart,
    FileHead,
    Format,
    Greeting,
    Hello,
    NotTaken,
    React,
    Received,
    Request,
    Result,
    SendMessage,
    ShowTyping,
    Skipped,
    Taken,
    UploadPart,
)
from everturn_channels.plugin.reading import Answer, Fetch, Hands, kept_hello, read_kept_hello

Restart: TypeAlias = Literal["always", "on_failure", "never"]

CURSOR: Final = "plugin"
HELLO_KEPT: Final = "hello"
REPEAT_MARK: Final = "(repeated)\n"
"Before a message that may be there already, where the platform cannot tell."
_UNKNOWN: Final = Hello(protocol=PROTOCOL, name="", chunk_units=1000)
"Until a plug-in said hello for the first time: what any platform can do."

logger = logging.getLogger(__name__)


class PluginAdapter(Adapter):
    """One plug-in. Implements `everturn_channels.adapter.Adapter`.

    Args:
        program: What to start; it names the channel.
        restart: Whether it is started again once it has ended. Where not, `serve` raises
            SetupError from then on.
        clock: The time.
    """

    def __init__(
        self,
        program: Program,
        *,
        restart: Restart,
        clock: Clock,
    ) -> None:
        self.program, self._restart, self._clock = program, restart, clock
        self.name = program.channel
        self._hello = _UNKNOWN
        self._connection: Connection | None = None
        "Where it is running and logged in."
        self._uploading = anyio.Lock()
        self._is_over = ""
        "Why it is not started any more; empty = it is."

    @property
    def capabilities(self) -> Capabilities:
        """What the plug-in said that its platform can do, now or the last time that it ran."""
        return self._hello.capabilities

    # --- receiving ---

    async def serve(self, handler: InboundHandler) -> None:
        """Run the plug-in and hand in what comes, until it ends or this is cancelled.

        Raises:
            SetupError: It cannot be started, says that it is set up wrongly, speaks another
                version of the protocol, or ended and is not to be started again.
            ConnectionLostError: It ended, or cannot reach its platform.
        """
        if self._is_over:
            raise SetupError(self._is_over)  # its owner said that it is not started again
        self._recall(handler)
        is_clean = False
        async with open_plugin_process(self.program, self._clock) as process:
            async with open_connection(process, self.program, self._clock) as connection:
                try:
                    error = await self._serve(connection, handler)
                finally:
                    self._connection = None  # whoever sends is told that there is none
            if error is None:
                # What it wrote at last tells more than its exit code.
                text, is_clean = await obituary(process, self.program, connection.why)
                error = ConnectionLostError(text)
        if self._restart == "never" or (self._restart == "on_failure" and is_clean):
            self._is_over = f"{error}; it is not started again, by restart: {self._restart}"
            raise SetupError(self._is_over) from error
        raise error

    async def _serve(self, connection: Connection, handler: InboundHandler) -> ChannelError | None:
        """Speak with a plug-in to its end; return what went wrong, None = it has ended."""
        greeting = Greeting(channel=self.name, is_new=handler.is_new, cursor=handler.cursor(CURSOR))
        hands = self._hands(connection)
        hello = await meet(connection, greeting, hands, self.program, self._clock)
        if not isinstance(hello, Hello):
            return hello
        self._hello = hello
        connection.on_unreadable = handler.unreadable
        await handler.keep_cursor(HELLO_KEPT, kept_hello(hello))
        # What is beyond the window waits in the pipe.
        async with open_chat_queues(handler, self._clock, total_max=WINDOW) as queues:
            return await self._listen(connection, hands, handler, queues)

    async def _listen(
        self, connection: Connection, hands: Hands, handler: InboundHandler, queues: ChatQueues
    ) -> ChannelError | None:
        while True:
            try:
                said = await connection.hear(hands)
            except anyio.EndOfStream:
                return None
            handler.received()
            match said:
                case Arrived():
                    await queues.put(_platform_event(said, connection))
                case Deleted():
                    await queues.put(_deletion(said, connection, handler))
                case Login():
                    self._connection = None  # until it is logged in again
                    handler.needs_login(self.program.masked(said.text), said.qr)
                case Received():
                    pass
                case Connected():
                    _log_findings(said, self.program)
                    handler.connected(said.account)
                    self._connection = connection
                case Skipped():
                    await handler.skipped(said.chat, said.count, said.why)
                case CursorSet():
                    await handler.keep_cursor(CURSOR, said.value)
                case Failed():
                    return failure(said, self.program)
                case Hello():
                    why = "is said once, at the beginning"
                    connection.complain(Complaint(field="type", why=why, of="hello"))
                case Result():  # given out where it was read
                    pass
                case _:
                    assert_never(said)

    def _recall(self, handler: InboundHandler) -> None:
        """Take what the plug-in said of itself when it ran before, until it says it anew."""
        kept = handler.cursor(HELLO_KEPT)
        if self._hello is not _UNKNOWN or not kept:
            return
        try:
            self._hello = read_kept_hello(kept)
        except BadLineError as error:
            extra = {"channel": self.name, "why": str(error)}
            logger.warning("what was kept of a plug-in cannot be read", extra=extra)

    # --- looking whether it works ---

    async def check(self) -> Sequence[str]:
        """Start the plug-in, wait until it is logged in, end it; return what it found.

        Raises:
            SetupError: It cannot work at all.
            ConnectionLostError: It ended, or cannot reach its platform.
        """
        return await self.log_in(None)

    async def log_in(self, show: Callable[[Login], None] | None) -> Sequence[str]:
        """Start the plug-in, show what it asks of its owner until it is logged in, and end it.

        Args:
            show: Called for each thing that is to be done; a later one takes the place of it.
                None = nobody is there to do it.

        Raises:
            SetupError: It cannot work at all.
            ConnectionLostError: It ended, cannot reach its platform, or nobody logged in.
        """
        async with open_plugin_process(self.program, self._clock) as process:
            async with open_connection(process, self.program, self._clock) as connection:
                hands = self._hands(connection)
                found = await look(connection, hands, self.program, self._clock, show)
            if found is None:
                # It ended before it was logged in; what it wrote at last says why.
                text, _ = await obituary(process, self.program, connection.why)
                found = ConnectionLostError(text)
        if isinstance(found, ChannelError):
            raise found
        return found

    # --- sending ---

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """Return a text as payloads of the size that the plug-in named. Pure."""
        hello = self._hello
        style: Format = "markdown" if hello.markdown and not is_plain else "plain"
        limit = hello.chunk_units if hello.nonces else hello.chunk_units - len(REPEAT_MARK)
        pieces = split_text(markdown, limit, hello.unit, is_plain=style == "plain")
        return tuple(f"{style}:{piece}" for piece in pieces)

    async def send(self, message: Outbound) -> str:
        """Send a message; return what the platform calls it.

        Raises:
            NotSentError: Not sent, and may be tried again; also while it is not connected.
            UnknownOutcomeError: Perhaps sent.
            RefusedError: It never will be.
        """
        connection = self._connected()
        style, text = _format(message.payload)
        if message.is_repeat and not self._hello.nonces:
            text = REPEAT_MARK + text
        request = SendMessage(
            chat_id=message.chat_id,
            topic=message.topic,
            text=text,
            format=style,
            reply_to=message.reply_to,
            nonce=message.nonce,
            is_repeat=message.is_repeat,
            buttons=message.buttons,
        )
        if message.file is None:
            result = await self._ask(connection, request)
        else:
            result = await self._send_file(connection, request, message.file)
        if not result.message_id:
            complaint = "is missing in the result of a `send` that is done"
            connection.complain(
                Complaint(field="message_id", why=complaint, of="result", request=result.request)
            )
            msg = f"the plug-in of channel {self.name!r} sent it and does not say as what"
            raise UnknownOutcomeError(msg)
        return result.message_id

    async def edit(self, chat_id: str, topic: str, platform_id: str, payload: str) -> None:
        """Put a payload in the place of a message of the bot.

        Raises:
            NotSentError, UnknownOutcomeError: It may be tried again.
            RefusedError: The message is gone, or cannot be changed any more.
        """
        connection = self._connected()
        if not self._hello.edits:
            self._cannot("change messages")
        style, text = _format(payload)
        request = EditMessage(
            chat_id=chat_id,
            topic=topic,
            message_id=platform_id,
            text=text,
            format=style,
        )
        await self._ask(connection, request)

    async def type(self, chat_id: str, topic: str) -> None:
        """Show the typing indicator once.

        Raises:
            SendError: It could not be shown.
        """
        connection = self._connected()
        if not self._hello.typing_s:
            self._cannot("show that somebody types")
        await self._ask(connection, ShowTyping(chat_id=chat_id, topic=topic))

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put a reaction on somebody's message; empty takes it away.

        Raises:
            SendError: It could not be done.
        """
        connection = self._connected()
        if not self._hello.reactions:
            self._cannot("react")
        await self._ask(connection, React(chat_id=chat_id, message_id=message_id, emoji=emoji))

    def _connected(self) -> Connection:
        if self._connection is None:
            msg = f"the plug-in of channel {self.name!r} is not connected"
            raise NotSentError(msg)
        return self._connection

    def _cannot(self, what: str) -> NoReturn:
        msg = f"the plug-in of channel {self.name!r} cannot {what}"
        raise RefusedError(msg)

    async def _ask(
        self, connection: Connection, request: Request, *, within_s: float = ANSWER_S
    ) -> Result:
        result = await connection.ask(request, within_s=within_s)
        why = self.program.masked(result.why) or "the plug-in does not say why"
        match result.outcome:
            case "done":
                return result
            case "not_sent":
                raise NotSentError(why, retry_after_s=result.retry_after_s)
            case "unknown":
                raise UnknownOutcomeError(why)
            case "refused":
                raise RefusedError(why, is_chat_gone=result.chat_gone)
            case _:
                assert_never(result.outcome)

    async def _send_file(
        self, connection: Connection, request: SendMessage, file: OutgoingFile
    ) -> Result:
        size, most = len(file.data), self._hello.files_max_bytes
        if size > most:
            msg = f"the plug-in of channel {self.name!r} takes files of {most:,} bytes at most"
            raise RefusedError(msg)
        head = FileHead(
            file_name=file.file_name,
            media_type=file.media_type,
            size_bytes=size,
            is_voice=file.is_voice,
            duration_s=file.duration_s,
        )
        async with self._uploading:  # one file after the other: its parts carry no name
            for offset in range(0, max(size, 1), PART_BYTES):
                part = base64.b64encode(file.data[offset : offset + PART_BYTES]).decode()
                if not await connection.send(UploadPart(offset=offset, data=part)):
                    msg = f"the plug-in of channel {self.name!r} has ended"
                    raise NotSentError(msg)
            asked = replace(request, file=head)
            return await self._ask(connection, asked, within_s=FILE_ANSWER_S)

    # --- what events are given ---

    def _hands(self, connection: Connection) -> Hands:
        def fetch(file: str) -> Fetch:
            async def get(limit_bytes: int) -> bytes:
                return await self._fetch(connection, file, limit_bytes)

            return get

        def answer(number: int) -> Answer:
            async def say(text: str) -> None:
                await self._answer(connection, number, text)

            return say

        return Hands(fetch=fetch, answer=answer, now=self._clock.now)

    async def _fetch(self, connection: Connection, file: str, limit_bytes: int) -> bytes:
        """Get a file part by part; one that is shorter than asked for is the last."""
        data = bytearray()
        while True:
            ask_bytes = min(PART_BYTES, limit_bytes + 1 - len(data))
            request = FetchPart(file=file, offset=len(data), max_bytes=ask_bytes)
            try:
                part = (await self._ask(connection, request)).data or b""
            except SendError as error:
                raise ConnectionLostError(str(error)) from error
            if len(part) > ask_bytes:
                msg = f"the plug-in of channel {self.name!r} gave more of a file than asked for"
                raise ConnectionLostError(msg)
            data += part
            if len(data) > limit_bytes:
                raise FileTooLargeError
            if len(part) < ask_bytes:
                return bytes(data)

    async def _answer(self, connection: Connection, number: int, text: str) -> None:
        payloads = self.render(text) or ("plain:",)  # nothing ends the waiting sign of a button
        for payload in payloads:
            style, piece = _format(payload)
            await self._ask(connection, AnswerEvent(id=number, text=piece, format=style))


def _platform_event(arrived: Arrived, connection: Connection) -> PlatformEvent:
    return PlatformEvent(
        chat=arrived.event.chat.id,
        events=(arrived.event,),
        confirm=partial(_taken, connection, arrived.id),
        send_back=partial(_not_taken, connection, arrived.id),
        position=arrived.id,
    )


def _deletion(said: Deleted, connection: Connection, handler: InboundHandler) -> PlatformEvent:
    async def read() -> tuple[()]:
        await handler.deleted(said.chat.id, said.message_id)
        return ()

    return PlatformEvent(
        chat=said.chat.id,
        read=read,
        is_in_order=True,
        kind="deleted",
        confirm=partial(_taken, connection, said.id),
        send_back=partial(_not_taken, connection, said.id),
        position=said.id,
    )


def _log_findings(said: Connected, program: Program) -> None:
    for finding in said.findings:
        extra = {"channel": program.channel, "finding": program.masked(finding)}
        logger.warning("plug-in found something", extra=extra)


async def _taken(connection: Connection, number: int) -> None:
    await connection.send(Taken(id=number))


async def _not_taken(connection: Connection, number: int, wait_s: float) -> None:
    await connection.send(NotTaken(id=number, retry_after_s=wait_s))


def _format(payload: str) -> tuple[Format, str]:
    style, _, text = payload.partition(":")
    return ("markdown" if style == "markdown" else "plain"), text
