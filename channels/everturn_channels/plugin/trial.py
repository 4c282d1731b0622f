"""Plays the gateway to a plug-in and finds out whether it keeps the protocol, in any language.

What needs no platform is tried at once. The other half needs somebody who writes: it is tried with
what comes within a time, and told of as not tried where nothing comes.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, structs

from everturn_actors.ports import Clock
from everturn_channels.adapter import Message
from everturn_channels.errors import ConnectionLostError, NotSentError, UnknownOutcomeError
from everturn_channels.health import Login
from everturn_channels.plugin.connection import Connection, open_connection
from everturn_channels.plugin.meeting import LOGIN_S, OWNER_S, failure, meet, obituary
from everturn_channels.plugin.process import DRAIN_S, PluginProcess, Program, open_plugin_process
from everturn_channels.plugin.protocol import (
    PART_BYTES,
    Arrived,
    Connected,
    CursorSet,
    Deleted,
    EditMessage,
    Failed,
    FetchPart,
    FileHead,
    Greeting,
    Hello,
    NotTaken,
    React,
    Request,
    Result,
    SendMessage,
    ShowTyping,
    Taken,
    ToPlugin,
    UploadPart,
)
from everturn_channels.plugin.reading import Answer, Fetch, Hands

Outcome: TypeAlias = Literal["ok", "fault", "warning", "not tried"]

ANSWER_S: Final = 10.0
"For a result; the gateway itself is more patient."
RETRY_S: Final = 0.5
NOWHERE: Final = "everturn-channel-test"
"A chat that no platform has."
EVENTS_MOST: Final = 1000
ENDS: Final = 20
"So often its end is waited for, `DRAIN_S` each time."
_TEXT: Final = "everturn channel test"

_HELLO: Final = "it says hello, and passes over a field that it does not know"
_LOGIN: Final = "it logs in"
_TOGETHER: Final = "it answers requests that come together"
_AGAIN: Final = "what was not taken comes again"
_ORDER: Final = "the next message of that chat comes after it"
_END: Final = "it ends when its standard input does"
_LINES: Final = "its standard output holds lines of the protocol alone"
_RESTART: Final = "what was not confirmed comes again after a restart"


class Trial(Struct, frozen=True, kw_only=True):
    """One rule of the protocol, and whether the plug-in keeps it."""

    rule: str
    outcome: Outcome
    why: str = ""


Tell: TypeAlias = Callable[[Trial], None]
Prompt: TypeAlias = Callable[[], Awaitable[None]]
"Makes somebody write to the bot, twice in one chat."
ShowLogin: TypeAlias = Callable[[Login], None]
"Shows the owner of the bot what to do so that it is logged in."


async def try_plugin(
    program: Program,
    clock: Clock,
    tell: Tell,
    *,
    prompt: Prompt,
    show: ShowLogin,
    wait_s: float,
) -> None:
    """Run a plug-in twice, and tell of each rule whether it keeps it.

    Args:
        program: What to start.
        clock: The time.
        tell: Called for each rule, as soon as it is known.
        prompt: See `Prompt`; called once, when the plug-in is logged in.
        show: See `ShowLogin`; who logs in is waited for.
        wait_s: For the first message, from then on; and each time for what has to come again.

    Raises:
        SetupError: It cannot be started.
    """
    found = _Found(program, tell)
    greeting = _LaterGreeting(channel=program.channel, is_new=True, cursor="")
    async with _open_talk(program, clock, show) as (talk, tasks):
        hello = await talk.begin(greeting, found, tasks)
        if hello is None:
            return
        await _try_requests(talk, hello, found)
        await prompt()
        kept = await _try_arrivals(talk, found, wait_s)
        found(_END, await talk.end())
    found(_LINES, "; ".join(talk.unreadable[:3]))
    if kept is None:
        return
    greeting = _LaterGreeting(channel=program.channel, is_new=False, cursor=talk.cursor)
    async with _open_talk(program, clock, show) as (talk, tasks):
        if await talk.begin(greeting, _Found(program, _faults_alone(tell)), tasks):
            why = (
                ""
                if await talk.until_again(kept, wait_s)
                else "it is lost: does the platform keep it?"
            )
            found(_RESTART, why, outcome="warning")
            await _try_sending(talk, hello, found, kept)


def _faults_alone(tell: Tell) -> Tell:
    """Return what tells of a rule that was kept before and is not now."""
    return lambda trial: tell(trial) if trial.outcome == "fault" else None


class _LaterGreeting(Greeting, frozen=True, kw_only=True):
    """As a later gateway of the same protocol may say it."""

    later: str = "a field that is not known yet"


class _LaterMessage(SendMessage, frozen=True, kw_only=True):
    """As a later gateway of the same protocol may ask for it."""

    later: str = "a field that is not known yet"


class _Come(Struct, frozen=True, kw_only=True):
    """A message, and the number that settles it."""

    id: int
    message: Message


class _Found:
    """Tells of rules. A rule is kept where there is nothing to say about it."""

    def __init__(self, program: Program, tell: Tell) -> None:
        self._program, self._tell = program, tell

    def __call__(self, rule: str, why: str = "", *, outcome: Outcome = "fault") -> bool:
        """Tell of a rule; return whether it is kept."""
        text = self._program.masked(why)
        self._tell(Trial(rule=rule, outcome=outcome if why else "ok", why=text))
        return not why


class _Talk:
    """The conversation with one run of the plug-in."""

    def __init__(
        self,
        process: PluginProcess,
        connection: Connection,
        program: Program,
        clock: Clock,
        show: ShowLogin,
    ) -> None:
        self._process, self._connection = process, connection
        self._program, self._clock, self._show = program, clock, show
        self._put, self._said = anyio.create_memory_object_stream[Arrived](EVENTS_MOST)
        connection.on_unreadable = lambda _, why: self.unreadable.append(why)
        self.unreadable: list[str] = []
        "What is wrong with lines that cannot be used."
        self.cursor = ""
        self._is_over = False

    async def begin(self, greeting: Greeting, found: _Found, tasks: TaskGroup) -> Hello | None:
        """Say hello, wait for the login, and read from then on; None = it cannot work."""
        hands = Hands(fetch=self._fetch, answer=_answers, now=self._clock.now)
        hello = await meet(self._connection, greeting, hands, self._program, self._clock)
        if not isinstance(hello, Hello):
            found(_HELLO, str(hello or await self._how_it_ended()))
            return None
        found(_HELLO)
        why = "not connected in time"
        with anyio.move_on_after(LOGIN_S) as scope:
            why = await self._login(hands, scope)
        if not found(_LOGIN, why):
            return None
        tasks.start_soon(self._listen, hands)
        return hello

    async def _login(self, hands: Hands, scope: anyio.CancelScope) -> str:
        """Return what is wrong with the login, once that is known."""
        try:
            while not isinstance(said := await self._connection.hear(hands), Connected):
                if isinstance(said, Failed):
                    return str(failure(said, self._program))
                if isinstance(said, Login):
                    scope.deadline = anyio.current_time() + OWNER_S
                    self._show(said)
        except anyio.EndOfStream:
            return await self._how_it_ended()
        return ""

    async def _listen(self, hands: Hands) -> None:
        """Read all that it says; of what nobody looks at the newest is forgotten at some point."""
        with suppress(anyio.EndOfStream):
            while True:
                said = await self._connection.hear(hands)
                if isinstance(said, CursorSet):
                    self.cursor = said.value
                elif isinstance(said, Deleted):
                    await self.say(Taken(id=said.id))
                elif isinstance(said, Arrived):
                    with suppress(anyio.WouldBlock):
                        self._put.send_nowait(said)
        self._is_over = True
        self._connection.release()  # nobody answers any more
        self._put.close()

    async def say(self, message: ToPlugin) -> None:
        """Say something that has no result."""
        await self._connection.send(message)

    async def ask(self, request: Request) -> Result | str:
        """Return the result of a request, or why there is none."""
        if self._is_over:
            return await self._how_it_ended()
        try:
            return await self._connection.ask(request, within_s=ANSWER_S)
        except (NotSentError, UnknownOutcomeError) as error:
            return str(error)

    async def message(self, wait_s: float, *, after: _Come | None = None) -> _Come | None:
        """Return the next message; where one came before, another of the same chat."""
        async for number, message in self._messages(wait_s):
            before = after and after.message
            if before and (message.chat.id != before.chat.id or message.id == before.id):
                await self.say(Taken(id=number))
            else:
                return _Come(id=number, message=message)
        return None

    async def until_again(self, kept: Message, wait_s: float) -> bool:
        """Send back what comes of a chat until this message does, and take it; whether it came."""
        async for number, message in self._messages(wait_s):
            if message.id == kept.id:
                await self.say(Taken(id=number))
                return True
            back = NotTaken(id=number, retry_after_s=RETRY_S)
            await self.say(back if message.chat.id == kept.chat.id else Taken(id=number))
        return False

    async def _messages(self, wait_s: float) -> AsyncGenerator[tuple[int, Message]]:
        """Yield messages with their numbers until the time is over; other events are taken."""
        until = anyio.current_time() + wait_s
        while True:
            said: Arrived | None = None
            with anyio.move_on_at(until), suppress(anyio.EndOfStream):
                said = await self._said.receive()
            if said is None:
                return
            if isinstance(said.event, Message):
                yield said.id, said.event
            else:
                await self.say(Taken(id=said.id))

    async def end(self) -> str:
        """Close its standard input; return what is wrong with its end."""
        await self._process.close_input()
        for _ in range(ENDS):
            if await self._process.exit_code() is not None:
                return ""
        return f"it runs still after {ENDS * DRAIN_S:g} s"

    async def _how_it_ended(self) -> str:
        return (await obituary(self._process, self._program, self._connection.why))[0]

    def _fetch(self, file: str) -> Fetch:
        async def get(limit_bytes: int) -> bytes:
            part = FetchPart(file=file, offset=0, max_bytes=min(limit_bytes, PART_BYTES))
            result = await self.ask(part)
            if isinstance(result, str) or result.outcome != "done":
                raise ConnectionLostError(result if isinstance(result, str) else result.why)
            return result.data or b""

        return get


def _answers(_number: int) -> Answer:
    async def say(_text: str) -> None:
        """Nobody gave a command that could be answered."""

    return say


@asynccontextmanager
async def _open_talk(
    program: Program, clock: Clock, show: ShowLogin
) -> AsyncGenerator[tuple[_Talk, TaskGroup]]:
    async with (
        open_plugin_process(program, clock) as process,
        open_connection(process, program, clock) as connection,
        anyio.create_task_group() as tasks,
    ):
        yield _Talk(process, connection, program, clock, show), tasks
        tasks.cancel_scope.cancel()


async def _try_requests(talk: _Talk, hello: Hello, found: _Found) -> None:
    """Ask for all that it says it can do, where nobody is."""
    requests: list[Request] = [
        _LaterMessage(chat_id=NOWHERE, text=_TEXT, format="plain", nonce="1"),
    ]
    if hello.typing_s:
        requests.append(ShowTyping(chat_id=NOWHERE))
    if hello.edits:
        requests.append(EditMessage(chat_id=NOWHERE, message_id="1", text="", format="plain"))
    if hello.reactions:
        requests.append(React(chat_id=NOWHERE, message_id="1", emoji="👀"))
    for request in requests:
        rule = f"it answers a `{request.type}` of what is not there, and goes on"
        found(rule, _without_result(request, await talk.ask(request)))
    silent: list[str] = []

    async def ask(request: Request) -> None:
        silent.append(_without_result(request, await talk.ask(request)))

    async with anyio.create_task_group() as tasks:
        for number in map(str, range(5)):
            message = SendMessage(chat_id=NOWHERE, text=number, format="plain", nonce=number)
            tasks.start_soon(ask, message)
    found(_TOGETHER, next(filter(None, silent), ""))


def _without_result(request: Request, result: Result | str) -> str:
    """Return what is wrong with the result of a request, whatever its outcome is."""
    if isinstance(result, str):
        return result
    is_nameless = result.outcome == "done" and request.type == "send" and not result.message_id
    return "a `send` that is done needs a message_id" if is_nameless else ""


async def _try_arrivals(talk: _Talk, found: _Found, wait_s: float) -> Message | None:
    """Send the first message back, take it when it comes again; return one that nobody took."""
    first = await talk.message(wait_s)
    if first is None:
        for rule in (_AGAIN, _ORDER, _RESTART):
            found(rule, f"nobody wrote within {wait_s:.0f} s", outcome="not tried")
        return None
    for file in first.message.files:
        try:
            why = "" if await file.fetch(PART_BYTES) else "it is empty"
        except ConnectionLostError as error:
            why = str(error)
        found(f"the file {file.file_name!r} of a message can be read", why)
    await talk.say(NotTaken(id=first.id, retry_after_s=RETRY_S))
    is_again = await talk.until_again(first.message, wait_s)
    if not found(_AGAIN, "" if is_again else f"not within {wait_s:.0f} s"):
        return None
    second = await talk.message(wait_s, after=first)
    why = "" if second else f"none came within {wait_s:.0f} s"
    found(_ORDER, why, outcome="not tried")
    return second.message if second else None


async def _try_sending(talk: _Talk, hello: Hello, found: _Found, kept: Message) -> None:
    """Write to somebody who wrote: a message, a change of it, a file."""

    async def is_done(rule: str, request: Request) -> Result | None:
        result = await talk.ask(request)
        if isinstance(result, str):
            found(rule, result)
            return None
        why = "" if result.outcome == "done" else f"{result.outcome}: {result.why}"
        return result if found(rule, why, outcome="warning") else None

    message = SendMessage(
        chat_id=kept.chat.id, topic=kept.chat.topic, text=_TEXT, format="plain", nonce="2"
    )
    sent = await is_done("a message is sent", message)
    if sent and hello.edits:
        edit = EditMessage(
            chat_id=kept.chat.id,
            topic=kept.chat.topic,
            message_id=sent.message_id,
            text=f"{_TEXT}, changed",
            format="plain",
        )
        await is_done("a message is changed", edit)
    if sent and hello.files_max_bytes:
        data = _TEXT.encode()
        for offset in (0, 10):
            part = base64.b64encode(data[offset : offset + 10 if not offset else None]).decode()
            await talk.say(UploadPart(offset=offset, data=part))
        head = FileHead(file_name="test.txt", media_type="text/plain", size_bytes=len(data))
        await is_done("a file is sent", structs.replace(message, text="", nonce="3", file=head))
