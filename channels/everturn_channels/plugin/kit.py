"""What the program of a channel needs to speak with Everturn: one file to copy, nothing to install.

Subclass `Channel`: say what the platform can do, hand in what is said there, send what is asked
for; then `run` it. Python 3.11 or later, standard library alone. See `docs/plugin-channel.md`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import signal
import sys
import traceback
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NoReturn, TypeAlias, get_args

PROTOCOL = "everturn-channel/1"
LINE_BYTES = 1024 * 1024  # that Everturn takes
ANSWERABLE_MOST = 1000  # so many of the newest commands and clicks can be answered
Format: TypeAlias = Literal["markdown", "plain"]


class SetupError(Exception):
    """The owner has to change something, like a token. `serve` raises it; Everturn tells them."""


class NotSentError(Exception):
    """A message was surely not sent. Everturn tries again; the whole channel waits for so long."""

    def __init__(self, why: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s


class RefusedError(Exception):
    """A message will never be sent; where the chat is gone, nothing else to that chat either."""

    def __init__(self, why: str, *, is_chat_gone: bool = False) -> None:
        super().__init__(why)
        self.is_chat_gone = is_chat_gone


class UnusableEventError(Exception):
    """Everturn never takes an event: a field is wrong, which the text names, or it is too long."""


@dataclass(frozen=True)
class ChatRef:
    """Where something was said."""

    id: str
    type: Literal["dm", "group", "channel"] = "dm"
    topic: str = ""
    title: str = ""


@dataclass(frozen=True)
class Person:
    """Who said it. Access rules look at the id."""

    id: str = ""
    name: str = ""
    is_bot: bool = False
    language: str = ""


@dataclass(frozen=True, kw_only=True)
class IncomingFile:
    """A file that came with a message."""

    read: Callable[[], Awaitable[bytes]]
    "Gets its bytes, before the message is taken; again where that is handed in again."
    file_name: str = ""
    media_type: str = ""
    size_bytes: int | None = None
    is_voice: bool = False
    duration_s: float = 0


@dataclass(frozen=True, kw_only=True)
class _Event:
    chat: ChatRef
    sender: Person = Person()
    at: datetime | None = None  # with its zone; None = now


@dataclass(frozen=True, kw_only=True)
class _Written(_Event):
    id: str
    "The platform's id of the message: unique in its chat, and always the same."
    is_addressed: bool = False
    "Whether it mentions the bot, or replies to it."


@dataclass(frozen=True, kw_only=True)
class Message(_Written):
    """Somebody wrote; `described` tells a model what else it holds: `location 52.52, 13.405`."""

    text: str = ""
    files: Sequence[IncomingFile] = ()
    quoted: str = ""
    quoted_name: str = ""
    forwarded_from: str = ""
    described: Sequence[str] = ()
    unsupported: str = ""
    is_album: bool = False


@dataclass(frozen=True, kw_only=True)
class Edit(_Written):
    """Somebody changed a message."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Command(_Written):
    """Somebody typed a command, as a new message of their own."""

    name: str  # without the slash
    argument: str = ""


@dataclass(frozen=True, kw_only=True)
class ButtonClick(_Event):
    """Somebody clicked a button."""

    data: str


@dataclass(frozen=True, kw_only=True)
class Reaction(_Event):
    """Somebody put a reaction on a message of the bot's; of one that is taken back say nothing."""

    message_id: str
    emoji: str  # as people see it; of one of the platform's own its name, like `:party:`


@dataclass(frozen=True, kw_only=True)
class Deletion(_Event):
    """A message was deleted: while it waits, nobody answers it."""

    id: str


Event: TypeAlias = Message | Edit | Command | ButtonClick | Deletion | Reaction
_Said: TypeAlias = Mapping[str, Any]  # a line of JSON
_KINDS = ("message", "edited", "command", "click", "deleted", "reaction")
_TYPES = dict(zip(get_args(Event), _KINDS, strict=True))


@dataclass(frozen=True, kw_only=True)
class Button:
    """A button below a message. Its `data` comes back with the `ButtonClick`."""

    label: str
    data: str


@dataclass(frozen=True, kw_only=True)
class OutgoingFile:
    """A file to be sent."""

    data: bytes | bytearray
    file_name: str = ""
    media_type: str = ""
    is_voice: bool = False
    "Whether it is the agent's voice, in Ogg Opus: a voice note, where the platform has them."
    duration_s: float = 0


@dataclass(frozen=True, kw_only=True)
class Outbound:
    """A message to be sent."""

    chat_id: str
    topic: str = ""
    text: str = ""
    format: Format = "plain"
    reply_to: str = ""
    "The id of a message. Where that is gone, send without."
    nonce: str = ""
    "The same where the same message comes again."
    is_repeat: bool = False
    "Whether it may be shown already."
    buttons: Sequence[Button] = ()
    file: OutgoingFile | None = None


class Channel:
    """One platform. Subclass it. What the capabilities do not promise is not called.

    A table of `docs/plugin-channel.md` has all `capabilities`; `name` and `version` name a program.
    """

    name = "channel"
    version = "1"
    capabilities: Mapping[str, object] = {"chunk_units": 2000}

    async def serve(self, gateway: Gateway) -> None:
        """Log in, call `gateway.connected`, and hand in what is said, until this is cancelled.

        Raises:
            SetupError: The owner has to change something.
            OSError: The platform cannot be reached. Everturn starts the program again, as it does
                when this returns.
        """
        raise NotImplementedError

    async def send(self, message: Outbound) -> str:
        """Send a message; return what the platform calls it.

        Raises:
            NotSentError: Surely not sent.
            RefusedError: It never will be.
            Exception: Nobody knows. It comes again, with `is_repeat`.
        """
        raise NotImplementedError

    async def edit(self, chat: str, topic: str, message_id: str, text: str, style: Format) -> None:
        """Put a text in the place of a message of the bot."""
        raise NotImplementedError

    async def type(self, chat: str, topic: str) -> None:
        """Show the typing indicator once."""
        raise NotImplementedError

    async def react(self, chat: str, message_id: str, emoji: str) -> None:
        """Put a reaction on a message. An empty one takes it away."""
        raise NotImplementedError

    async def answer(self, event: Event, text: str, style: Format) -> None:
        """Answer a command or click; an empty text ends the waiting sign of a button."""
        if text:
            chat = event.chat
            await self.send(Outbound(chat_id=chat.id, topic=chat.topic, text=text, format=style))


@dataclass
class _Waiting:
    settled: asyncio.Future[float | None]  # None = taken; else hand it in again after so many s
    files: Mapping[str, IncomingFile]
    read: dict[str, bytes] = field(default_factory=dict)


class Gateway:
    """Everturn, as the program of a channel sees it.

    Attributes:
        channel: The name of the channel in `everturn.yaml`.
        is_new: Whether the channel never ran before: hand in nothing that was written earlier.
        cursor: What `set_cursor` last left.
    """

    def __init__(self, channel: Channel, output: asyncio.StreamWriter) -> None:
        self._of, self._output = channel, output
        self.channel, self.is_new, self.cursor = "", True, ""
        self._numbers = itertools.count(1)
        self._window = asyncio.Semaphore()
        self._chats: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._waiting: dict[int, _Waiting] = {}
        self._answerable: dict[int, Event] = {}
        self._upload = bytearray()

    def connected(self, account: str = "", findings: Sequence[str] = ()) -> None:
        """Say that the login worked; a finding that begins with `problem: ` needs the owner."""
        self.say("connected", account=account, findings=list(findings))

    def login(self, text: str, qr: str = "") -> None:
        """Say what the owner has to do before `connected`; a later one takes the place of this."""
        self.say("login", text=text, qr=qr)

    def received(self) -> None:
        """Say that the platform was heard from, where nobody writes for long. Only if it is so."""
        self.say("received")

    def set_cursor(self, value: str) -> None:
        """Leave a text for the next start. Set it to what was taken, or is to be passed over."""
        self.say("cursor_set", value=value)

    def skipped(self, chat: ChatRef, count: int, why: str) -> None:
        """Tell of messages that are not read."""
        self.say("skipped", chat=_fields_of(chat), count=count, why=why)

    async def handle(self, event: Event) -> None:
        """Hand an event in; return when it is on disk, or it is settled that it never will be.

        Confirm it to the platform after that, not before. Events of one chat are taken one after
        the other, in the order of the calls. Where several tasks call, those of several chats are
        taken beside each other.

        Raises:
            UnusableEventError: A field of it is wrong, or it is too long for a line.
        """
        lock = self._chats.setdefault(event.chat.id, asyncio.Lock())  # first come, first served
        async with lock, self._window:
            while (wait_s := await self._hand_in(event)) is not None:
                await asyncio.sleep(wait_s)

    async def _hand_in(self, event: Event) -> float | None:
        number = next(self._numbers)
        files = event.files if isinstance(event, Message) else ()
        named = {f"{number}-{at}": file for at, file in enumerate(files)}
        waiting = self._waiting[number] = _Waiting(asyncio.Future(), named)
        if isinstance(event, Command | ButtonClick):
            self._answerable[number] = event
            if len(self._answerable) > ANSWERABLE_MOST:
                del self._answerable[next(iter(self._answerable))]
        try:
            self.say(_TYPES[type(event)], **{**_event_fields(event, named), "id": number})
            return await waiting.settled
        finally:
            del self._waiting[number]

    def greet(self, said: _Said) -> None:
        """Read the first line.

        Raises:
            SetupError: It speaks another version of the protocol.
        """
        if said.get("protocol") != PROTOCOL:
            msg = f"Everturn speaks {said.get('protocol')!r}; {self._of.name} speaks {PROTOCOL!r}"
            raise SetupError(msg)
        self.channel, self.cursor = said["channel"], said.get("cursor") or ""
        self.is_new = said.get("is_new", True)
        self._window = asyncio.Semaphore(said.get("window") or 1)
        of = {name: getattr(self._of, name) for name in ("name", "version", "capabilities")}
        self.say("hello", protocol=PROTOCOL, **of)

    def hear(self, said: _Said) -> Coroutine[Any, Any, None] | None:
        """Read another line; return what is to be done, beside all else, where it is a request."""
        kind, waiting = said.get("type"), self._waiting.get(said.get("id") or 0)
        if kind in {"taken", "not_taken", "error"}:
            why = " ".join(filter(None, map(said.get, ("of", "field", "why"))))
            if waiting is None or waiting.settled.done():
                print(why or f"nothing waits for {said}")
            elif kind == "error":
                waiting.settled.set_exception(UnusableEventError(why))
            else:
                waiting.settled.set_result(said.get("retry_after_s"))
        elif kind == "upload":
            if not said["offset"]:
                self._upload = bytearray()
            self._upload += base64.b64decode(said["data"])
        elif "request" in said:
            file = None
            if head := said.get("file") if kind == "send" else None:
                file = OutgoingFile(**_known(OutgoingFile, head, data=self._upload))
                self._upload = bytearray()
            return self._answer(said, file)
        return None

    async def _answer(self, said: _Said, file: OutgoingFile | None) -> None:
        try:
            result: dict[str, object] = {"outcome": "done", **await self._do(said, file)}
        except NotSentError as error:
            result = {"outcome": "not_sent", "why": str(error)}
            result["retry_after_s"] = error.retry_after_s
        except RefusedError as error:
            result = {"outcome": "refused", "why": str(error), "chat_gone": error.is_chat_gone}
        except NotImplementedError:
            result = {"outcome": "refused", "why": f"{self._of.name} has no {said['type']}"}
        except Exception as error:  # the boundary around one request
            traceback.print_exc()
            result = {"outcome": "unknown", "why": f"{type(error).__name__}: {error}"}
        self.say("result", request=said["request"], **result)
        with contextlib.suppress(ConnectionError):  # Everturn has ended, and so does this
            await self._output.drain()

    async def _do(self, said: _Said, file: OutgoingFile | None) -> dict[str, object]:
        """Do it; return what its result holds beside the outcome."""
        of, style = self._of, said.get("format", "plain")
        chat_id, topic = said.get("chat_id", ""), said.get("topic", "")
        match said["type"]:
            case "send":
                return {"message_id": await of.send(_outbound(said, file))}
            case "edit":
                await of.edit(chat_id, topic, said["message_id"], said["text"], style)
            case "typing":
                await of.type(chat_id, topic)
            case "react":
                await of.react(chat_id, said["message_id"], said["emoji"])
            case "answer":
                if (event := self._answerable.get(said["id"])) is None:
                    msg = "it was too long ago"
                    raise RefusedError(msg)
                await of.answer(event, said["text"], style)
            case "fetch":
                return {"data": base64.b64encode(await self._part(said)).decode()}
            case _:  # of a later version
                raise NotImplementedError
        return {}

    async def _part(self, said: _Said) -> bytes:
        name, offset = said["file"], said["offset"]
        for waiting in self._waiting.values():
            if name in waiting.files:
                if name not in waiting.read:
                    waiting.read[name] = await waiting.files[name].read()
                return waiting.read[name][offset : offset + said["max_bytes"]]
        msg = "there is no such file any more"
        raise RefusedError(msg)

    def say(self, kind: str, /, **fields: object) -> None:
        """Write one line of the protocol."""
        line = json.dumps({"type": kind, **fields}, separators=(",", ":")).encode() + b"\n"
        if len(line) > LINE_BYTES:  # Everturn could not say which one it cannot read
            msg = f"a `{kind}` has more than {LINE_BYTES:,} bytes"
            raise UnusableEventError(msg)
        self._output.write(line)


def _fields_of(value: object) -> dict[str, object]:
    """Return the fields of a value that hold something."""
    return {name: held for name, held in vars(value).items() if held or held == 0}


def _event_fields(event: Event, files: Mapping[str, IncomingFile]) -> dict[str, object]:
    """Return an event as the protocol has it, but for its number and its type."""
    fields = _fields_of(event)
    fields |= {"chat": _fields_of(event.chat), "sender": _fields_of(event.sender)}
    fields["files"] = [{**_fields_of(f), "read": None, "file": n} for n, f in files.items()]
    fields["at"] = event.at and event.at.isoformat()
    if isinstance(event, _Written | Deletion):
        fields |= {"id": None, "message_id": event.id}
    return fields


def _known(kind: type[Outbound | OutgoingFile], said: _Said, **more: object) -> dict[str, Any]:
    return {name: said[name] for name in kind.__dataclass_fields__ if said.get(name)} | more


def _outbound(said: _Said, file: OutgoingFile | None) -> Outbound:
    buttons = [Button(label=b["label"], data=b["data"]) for b in said.get("buttons") or ()]
    return Outbound(**_known(Outbound, said, buttons=buttons, file=file))


def run(channel: Channel) -> NoReturn:
    """Speak with Everturn to the end. What is printed meanwhile goes to standard error."""
    if sys.stdin.isatty():
        sys.exit(f"Everturn starts {channel.name}: name it in everturn.yaml, see `channel check`.")
    sys.exit(asyncio.run(_run(channel)))


async def _run(channel: Channel) -> int:
    loop, stdin = asyncio.get_running_loop(), asyncio.StreamReader(limit=2 * LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    pipe = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    gateway = Gateway(channel, asyncio.StreamWriter(*pipe, None, loop))
    sys.stdout = sys.stderr
    try:
        if first := await stdin.readline():
            gateway.greet(json.loads(first))
            await _serve(channel, gateway, stdin)
    except SetupError as error:
        gateway.say("failed", kind="setup", why=str(error))
    except OSError as error:
        gateway.say("failed", kind="connection", why=f"{type(error).__name__}: {error}")
    else:
        return 0
    return 1


async def _serve(channel: Channel, gateway: Gateway, stdin: asyncio.StreamReader) -> None:
    """Serve until Everturn ends; raise what the channel raises before."""
    hearing = asyncio.create_task(_hear(gateway, stdin))
    serving = asyncio.create_task(channel.serve(gateway))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, hearing.cancel)
    await asyncio.wait((hearing, serving), return_when=asyncio.FIRST_COMPLETED)
    has_ended = hearing.done()
    hearing.cancel()
    serving.cancel()
    await asyncio.wait((hearing, serving))
    for task in (hearing, serving):
        if not task.cancelled():
            task.result()  # or what it raised
    if not has_ended:
        msg = "the platform closed the connection"
        raise ConnectionError(msg)


async def _hear(gateway: Gateway, stdin: asyncio.StreamReader) -> None:
    """Read what Everturn says to its end; requests are done beside each other."""
    requests: set[asyncio.Task[None]] = set()
    try:
        while line := await stdin.readline():
            if work := gateway.hear(json.loads(line)):
                task = asyncio.create_task(work)
                requests.add(task)
                task.add_done_callback(requests.discard)
    finally:
        for task in requests:
            task.cancel()
