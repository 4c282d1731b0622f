"""The Discord adapter: the real discord.py against a Discord on loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from support.discord_api import FORUM, TOKEN, DiscordApi, open_discord_api
from support.inbox import QuickClock
from support.patience import WAIT_S
from support.tables import table

from everturn_channels.adapter import (
    Button,
    ButtonClick,
    ChatRef,
    Command,
    Edit,
    InboundEvent,
    Message,
    Outbound,
    OutgoingFile,
)
from everturn_channels.chats.cursors import NAME_LIMIT, VALUE_LIMIT
from everturn_channels.command_registry import CommandSpec, commands_for
from everturn_channels.discord import DiscordAdapter, DiscordServers, adapter, client
from everturn_channels.errors import (
    ChannelError,
    ConnectionLostError,
    FileTooLargeError,
    NotNowError,
    NotSentError,
    RefusedError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.ingestion.chat_queues import CHAT_MAX
from everturn_channels.ingestion.history import BacklogLimits

WRONG, MISSING = "not-a-token", ""


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten what the product waits out of politeness; no outcome depends on it."""
    monkeypatch.setattr(client, "IDENTIFY_PAUSE_S", (0.0, 0.0))
    monkeypatch.setattr(client, "GUILD_READY_S", 0.02)
    monkeypatch.setattr(client, "CONNECT_PAUSE_S", (0.01, 0.01))


class Notebook:
    """An handler that writes everything down, and can be made to wait or to fail."""

    def __init__(self) -> None:
        self.events: list[InboundEvent] = []
        self.cursors: dict[str, str] = {}
        self.told: list[tuple[str, int, str]] = []
        self.unread: list[tuple[str, str, ChatRef | None]] = []
        self.blocks: list[tuple[str, str]] = []
        self.account = ""
        self.logins = self.heard = 0
        self.is_new = True
        self.failures = 0
        self.is_open = anyio.Event()
        self.is_open.set()
        self.waiting = 0

    async def handle(self, event: InboundEvent) -> None:
        """Take an event."""
        self.waiting += 1
        try:
            await self.is_open.wait()
        finally:
            self.waiting -= 1
        if self.failures:
            self.failures -= 1
            text = "disk full"
            raise NotNowError(text, retry_after_s=0.01)
        self.events.append(event)

    async def moved(self, old: str, new: str) -> None:
        """Expect none."""
        raise AssertionError((old, new))

    def menu(self) -> tuple[CommandSpec, ...]:
        """Offer what every bot does."""
        return commands_for("private")

    async def suggestions(self, command: Command) -> list[str]:
        """Suggest what is typed, and more of it."""
        return [command.argument, f"{command.argument}ing"]

    async def people(self) -> list[str]:
        """Know nobody."""
        return []

    async def deleted(self, chat: str, message_id: str) -> None:
        """Expect none."""
        raise AssertionError((chat, message_id))

    def undelivered(self, chat: str, why: str, *, is_lost: bool) -> None:
        """Expect none."""
        raise AssertionError((chat, why, is_lost))

    def deliverable(self, chat: str) -> None:
        """Expect none."""
        raise AssertionError(chat)

    async def welcomes(self, person: str, chat: str, *, is_direct: bool) -> bool:
        """Expect none: nobody invites a bot of Discord."""
        raise AssertionError((person, chat, is_direct))

    async def skipped(self, chat: ChatRef, count: int, why: str) -> None:
        """Write down what was left out."""
        self.told.append((chat.id, count, why))

    def needs_login(self, text: str, qr: str) -> None:
        """Expect none."""
        raise AssertionError((text, qr))

    def unreadable(self, kind: str, fault: Exception | str, chat: ChatRef | None = None) -> None:
        """Write down what could not be read."""
        self.unread.append((kind, str(fault), chat))

    def blocked(self, chat: str, why: str) -> float:
        """Write down which chat could not be read."""
        self.blocks.append((chat, why))
        return 0.01

    def unblocked(self, chat: str) -> None:
        """Write down that it could."""
        self.blocks.append((chat, ""))

    def received(self) -> None:
        """Count."""
        self.heard += 1

    def connected(self, account: str) -> None:
        """Count."""
        self.account = account
        self.logins += 1

    def cursor(self, name: str) -> str:
        """Return a cursor."""
        return self.cursors.get(name, "")

    async def keep_cursor(self, name: str, value: str) -> None:
        """Keep a cursor, if the real one would."""
        if len(name) > NAME_LIMIT or len(value) > VALUE_LIMIT:
            text = f"{name} cannot be kept"
            raise ChannelError(text)
        self.cursors[name] = value

    def texts(self) -> list[str]:
        """Return the texts of the messages, in order."""
        return [a.text for a in self.events if isinstance(a, Message)]


class SlowFiles(Notebook):
    """An handler in which each message waits for its file, and nothing else does."""

    def __init__(self) -> None:
        super().__init__()
        self.has_file = anyio.Event()

    async def handle(self, event: InboundEvent) -> None:
        """Take an event."""
        if isinstance(event, Message):
            await self.has_file.wait()
        await super().handle(event)


def make(
    api: DiscordApi,
    *,
    token: str = TOKEN,
    backlog_max_messages: int = 100,
    has_threads: bool = False,
) -> DiscordAdapter:
    """Return a bot of this Discord."""
    return DiscordAdapter(
        name="discord",
        token=token,
        clock=QuickClock(api.world.now),
        servers=DiscordServers(api_base=api.base, gateway_url=api.gateway),
        backlog=BacklogLimits(max_messages=backlog_max_messages, max_age_s=86_400),
        has_threads=has_threads,
    )


@asynccontextmanager
async def serving(
    api: DiscordApi, notes: Notebook, bot: DiscordAdapter | None = None
) -> AsyncGenerator[DiscordAdapter]:
    """Run a bot until it is ready."""
    bot = bot or make(api)
    known = notes.logins
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bot.serve, notes)
        await api.until(lambda: notes.logins > known and notes.cursor(api.world.general))
        yield bot
        tasks.cancel_scope.cancel()


def payload(text: str) -> str:
    """Return a text as a payload."""
    return json.dumps({"content": text})


async def fails(notes: Notebook, bot: DiscordAdapter) -> Exception:
    """Return why a bot stopped."""
    try:
        with anyio.fail_after(WAIT_S):
            await bot.serve(notes)
    except (SetupError, ConnectionLostError) as error:
        return error
    raise AssertionError


# --- in ---


async def test_the_cursor_moves_only_after_the_message_was_taken() -> None:
    """What is confirmed before it is durable is lost by a crash in between."""
    async with open_discord_api() as api:
        notes = Notebook()
        async with serving(api, notes):
            before = notes.cursor(api.world.general)
            notes.is_open = anyio.Event()
            message = await api.says(f"<@{api.world.bot['id']}> hello")
            await api.until(lambda: notes.waiting)
            held = notes.cursor(api.world.general)
            notes.is_open.set()
            await api.until(lambda: notes.cursor(api.world.general) == message["id"])

    assert held == before
    (got,) = notes.events
    assert isinstance(got, Message)
    assert (got.text, got.is_addressed, got.sender.name) == ("hello", True, "Ann")
    assert notes.account == "@everturn"


async def test_places_of_direct_messages_threads_and_forum_posts() -> None:
    """Each thread is a conversation of its own, in the chat to which its rules belong."""
    async with open_discord_api() as api:
        world, notes = api.world, Notebook()
        ann = world.add_user("ann")
        forum = world.add_channel("help", FORUM)
        first, thread, dm = world.new_id(), world.add_thread(world.general), world.dm(ann)
        post = world.add_thread(forum, "How do I win?", message_id=first)
        async with serving(api, notes) as bot:
            for channel in (world.general, dm, thread, post):
                its_own = {"id": first} if channel == post else {}
                await api.says("hi", author=ann, channel=channel, **its_own)
                await api.until(lambda: notes.cursor(channel) == _last(api, channel))  # noqa: B023 - awaited here
            untold = world.add_thread(world.general)  # by its id alone it would be a channel
            await api.says("hi", channel=untold)
            await api.until(lambda: len(notes.events) == 5)
            in_thread = notes.events[2]
            assert isinstance(in_thread, Message)
            for emoji in ("⏳", "👀"):  # one at a time
                await bot.react(in_thread.chat.id, in_thread.id, emoji)

    places = [(a.chat.type, a.chat.id, a.chat.topic) for a in notes.events]
    assert places == [
        ("group", world.general, ""),
        ("dm", dm, ""),
        ("group", world.general, thread),
        ("group", forum, post),
        ("group", world.general, untold),
    ]
    assert api.reactions == {in_thread.id: {"👀"}}
    told = [a.described for a in notes.events if isinstance(a, Message)]
    assert told == [(), (), (), ('post "How do I win?"',), ()]


async def test_a_question_begins_a_thread_which_is_a_conversation() -> None:
    """It is opened with the first sign of an answer, once; who goes on there names nobody."""
    async with open_discord_api() as api:
        world, notes = api.world, Notebook()
        ann, me = world.add_user("ann"), f"<@{world.bot['id']}>"
        named: dict[str, Any] = {"author": ann, "mentions": [world.bot]}
        async with serving(api, notes, make(api, has_threads=True)) as bot:
            asked = await api.says(f"{me} what is  on?", **named)
            await api.says("lunch?", author=ann)
            await api.until(lambda: len(notes.events) == 2)
            topic = asked["id"]
            where = {"chat_id": world.general, "topic": topic}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bot.type, world.general, topic)
                tasks.start_soon(
                    bot.send, Outbound(**where, payload=payload("a film"), reply_to=topic)
                )
            await api.says("and then?", author=ann, channel=topic)
            command = await api.says(f"{me} /status", **named)
            await api.until(lambda: len(notes.events) == 4)
            await bot.react(world.general, topic, "👀")
        async with serving(api, notes, make(api, has_threads=True)) as bot:
            again = Outbound(**where, payload=payload("a play"))
            await bot.send(again)
            api.refuse(topic, 404, 10003, "Unknown Channel")
            api.fail("POST", "/threads$", 403, body={"code": 50013, "message": "Missing"})
            instead = await bot.send(again)
            await bot.edit(world.general, topic, instead, payload("a talk"))
            await api.button_clicks("yes", author=ann, below=instead)
            await api.reacts(world.general, instead, "👍", who=ann, author=world.bot)
            await api.until(lambda: len(notes.events) == 6)
        async with serving(api, notes, make(api, has_threads=True)) as bot:
            await bot.edit(world.general, topic, instead, payload("a walk"))
            del world.messages[world.general][topic]  # or a thread that somebody else opened
            with pytest.raises(RefusedError) as raised:
                await bot.send(again)
    assert raised.value.is_chat_gone

    first, beside, more, status, *answers = notes.events
    assert [(e.text, e.chat.id, e.chat.topic) for e in (first, beside, more)] == [  # type: ignore[union-attr]
        ("what is  on?", world.general, topic),
        ("lunch?", world.general, ""),
        ("and then?", world.general, topic),
    ]
    assert [e.is_addressed for e in (first, beside, more)] == [True, False, True]  # type: ignore[union-attr]
    assert isinstance(status, Command)
    assert (status.id, status.chat.topic) == (command["id"], "")
    assert world.channels[topic]["name"] == "what is on?"
    assert [m["content"] for m in api.said(topic)] == ["a film", "a play"]
    assert [m["content"] for m in api.said()] == ["a walk"]  # nothing is lost where none can be
    assert [e.chat.topic for e in answers] == [topic, topic]
    assert len(api.requests("POST", "/threads")) >= 2
    assert topic in api.reactions


def _last(api: DiscordApi, channel: str) -> str:
    return str(api.world.channels[channel]["last_message_id"])


async def test_what_nobody_wrote_is_not_heard() -> None:
    """Two bots that answer each other never end.

    And Discord tells of previews and pins in the same way as of edits.
    """
    async with open_discord_api() as api:
        notes = Notebook()
        async with serving(api, notes) as bot:
            await bot.send(Outbound(chat_id=api.world.general, payload=payload("mine")))
            await api.says("beep", author=api.world.add_user("robot", is_bot=True))
            await api.says("hook", webhook_id=api.world.new_id())
            message = await api.says("helo")
            await api.edits(message, "helo")
            await api.edits(message, "hello", at="2026-11-22T10:00:00+00:00")
            await api.edits(message, "hello", at="2026-11-22T10:00:00+00:00")
            await api.says("end")
            await api.until(lambda: notes.texts() == ["helo", "end"])

    edits = [a for a in notes.events if isinstance(a, Edit)]
    assert [(e.id, e.text) for e in edits] == [(message["id"], "hello")]


async def test_files_are_fetched_bounded_and_again_where_their_address_ran_out() -> None:
    """Addresses hold for a day; a backlog may be older, and sizes may be untrue."""
    async with open_discord_api() as api:
        notes = Notebook()
        cdn = api.base.removesuffix("/api/v10") + "/cdn"
        api.blobs["new"] = b"12345"
        file = {"id": api.world.new_id(), "filename": "a.txt", "size": 5, "proxy_url": ""}
        file |= {"content_type": "text/plain; charset=utf-8", "url": f"{cdn}/old"}
        file |= {"duration_secs": 2.5, "waveform": "AAAA"}
        async with serving(api, notes):
            message = await api.says("", attachments=[file])
            await api.until(lambda: notes.events)
            message["attachments"] = [file | {"url": f"{cdn}/new"}]
            (got,) = notes.events
            assert isinstance(got, Message)
            data = await got.files[0].fetch(10)
            api.blobs["new"] = b"x" * 11
            with pytest.raises(FileTooLargeError):
                await got.files[0].fetch(10)
            api.blobs.clear()
            with pytest.raises(ConnectionLostError):
                await got.files[0].fetch(10)

    assert data == b"12345"
    assert (got.files[0].file_name, got.files[0].media_type) == ("a.txt", "text/plain")
    assert (got.files[0].is_voice, got.files[0].duration_s) == (True, 2.5)


# --- sessions and what is missed between them ---


async def test_a_first_start_reads_nothing_old_and_an_invalid_session_loses_nothing() -> None:
    """GW-10: what is said while no session exists comes from the history, once, in order."""
    async with open_discord_api() as api:
        world, notes = api.world, Notebook()
        ann = world.add_user("ann")
        world.add_message(ann, world.general, "old")
        async with serving(api, notes):
            await api.says("first", author=ann)
            await api.until(lambda: notes.texts() == ["first"])
            await api.invalidate()
            for text in ("missed 1", "missed 2", "missed 3"):
                world.add_message(ann, world.general, text)
            await api.until(lambda: len(api.identifies) == 2 and api.sessions)
            await api.says("live", author=ann)
            await api.until(lambda: len(notes.texts()) >= 5)
            await api.says("end", author=ann)
            await api.until(lambda: notes.texts()[-1] == "end")

    assert notes.texts() == ["first", "missed 1", "missed 2", "missed 3", "live", "end"]


async def test_after_a_restart_direct_messages_and_new_threads_are_caught_up() -> None:
    """Discord tells of neither: direct channels have to be remembered, threads compared."""
    async with open_discord_api() as api:
        world, notes = api.world, Notebook()
        ann = world.add_user("ann")
        dm = world.dm(ann)
        async with serving(api, notes):
            await api.says("hi", author=ann, channel=dm)
            await api.says("hi there", author=ann)
            await api.until(lambda: len(notes.events) == 2 and api.commands)
        thread = world.add_thread(world.general)
        world.add_message(ann, dm, "in private")
        world.add_message(ann, thread, "in a thread")
        notes.events.clear()
        notes.is_new = False
        async with serving(api, notes):
            await api.until(lambda: len(notes.events) == 2)

    assert len(api.requests("PUT", "/commands")) == 1  # to register is limited to 200 a day
    assert sorted(notes.texts()) == ["in a thread", "in private"]
    assert {a.chat.topic for a in notes.events} == {"", thread}


async def test_more_direct_channels_than_a_cursor_holds_are_remembered() -> None:
    """A bot that fifty people wrote to lost its connection with each one after them."""
    async with open_discord_api() as api:
        world, notes = api.world, Notebook()
        people = [world.add_user(f"person {n}") for n in range(60)]
        async with serving(api, notes):
            for who in people:
                await api.says("hi", author=who, channel=world.dm(who))
            await api.until(lambda: len(notes.events) == len(people))
        for who in people:
            world.add_message(who, world.dm(who), "missed")
        notes.events.clear()
        notes.is_new = False
        async with serving(api, notes):
            await api.until(lambda: len(notes.events) == len(people))

    assert set(notes.texts()) == {"missed"}
    assert {a.chat.id for a in notes.events} == {world.dm(who) for who in people}


async def test_a_backlog_is_bounded_by_count_and_age_and_the_rest_is_told() -> None:
    """A bot that was away for a week must not answer a thousand old questions."""
    async with open_discord_api() as api:
        world, notes = api.world, Notebook()
        ann = world.add_user("ann")
        old = world.new_id(age_s=200_000)
        notes.cursors[world.general] = old
        for number in range(3):
            world.add_message(ann, world.general, f"stale {number}", age_s=100_000 - number)
        for number in range(150):
            world.add_message(ann, world.general, f"{number}")
        async with serving(api, notes, make(api, backlog_max_messages=5)):
            await api.until(lambda: len(notes.events) == 5)

    assert notes.texts() == ["145", "146", "147", "148", "149"]
    assert [(chat, count) for chat, count, _ in notes.told] == [
        (world.general, 3),
        (world.general, 145),
    ]


async def test_quiet_channels_are_not_asked_for_their_history() -> None:
    """A bot in a thousand channels would ask for minutes at each start."""
    async with open_discord_api() as api:
        world, notes = api.world, Notebook()
        ann = world.add_user("ann")
        for number in range(20):
            channel = world.add_channel(f"quiet-{number}")
            notes.cursors[channel] = world.add_message(ann, channel, "seen")["id"]
        notes.cursors[world.general] = world.general
        world.add_message(ann, world.general, "missed")
        async with serving(api, notes):
            await api.until(lambda: notes.texts() == ["missed"])

    assert len(api.requests("GET", "/messages")) == 1


@table(
    ("fault", "read"),
    [
        pytest.param({"status": 0, "times": 3}, ["missed", "live"], id="asked again"),
        pytest.param(
            {"status": 403, "body": {"message": "Missing Access", "code": 50001}},
            ["live"],
            id="may not be read",
        ),
    ],
)
async def test_a_history_that_fails_comes_before_anything_newer_or_not_at_all(
    fault: dict[str, Any], read: list[str]
) -> None:
    """What is live waits behind what was missed, or a cursor would jump over it.

    And permissions are taken away while a bot is off: that keeps nobody waiting.
    """
    async with open_discord_api() as api:
        world, notes = api.world, Notebook()
        ann = world.add_user("ann")
        notes.cursors[world.general] = world.general
        world.add_message(ann, world.general, "missed")
        api.fail("GET", r"/messages$", **fault)
        async with serving(api, notes):
            await api.says("live", author=ann)
            await api.until(lambda: len(notes.events) == len(read))

    assert notes.texts() == read


@table("how", ["cut", "reconnect", "resumable"])
async def test_a_session_is_resumed_without_loss_or_repetition(how: str) -> None:
    """Connections to Discord end many times a day."""
    async with open_discord_api() as api:
        notes = Notebook()
        async with serving(api, notes):
            await api.says("before")
            match how:
                case "cut":
                    api.cut()
                case "reconnect":
                    await api.ask_to_reconnect()
                case _:
                    await api.invalidate(resumable=True)
            await api.says("meanwhile")
            await api.until(lambda: notes.texts() == ["before", "meanwhile"])
            await api.until(lambda: api.resumes)

    assert len(api.identifies) == 1


async def test_a_failed_first_handshake_is_a_lost_connection_and_can_be_tried_again() -> None:
    """The library dies of it in an odd way; a channel has to come up when Discord does."""
    async with open_discord_api() as api:
        notes, bot = Notebook(), make(api)
        api.refuses_handshakes = 1
        failure = await fails(notes, bot)
        api.silent_handshakes = 1
        other = await fails(notes, bot)
        async with serving(api, notes, bot):
            await api.says("hello")
            await api.until(lambda: notes.texts() == ["hello"])

    assert isinstance(failure, ConnectionLostError)
    assert isinstance(other, ConnectionLostError)


async def test_a_session_outlives_a_short_outage_and_not_a_long_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Left to itself the library would wait for a quarter of an hour after an outage."""
    async with open_discord_api() as api:
        notes, bot = Notebook(), make(api)
        async with serving(api, notes, bot):
            api.refuses_handshakes = 3
            api.cut()
            await api.says("meanwhile")
            await api.until(lambda: notes.texts() == ["meanwhile"])
        monkeypatch.setattr(client, "RESUME_S", 0.05)
        found = list[Exception]()

        async def serve() -> None:
            found.append(await fails(notes, bot))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await api.until(lambda: notes.logins == 2)
            api.refuses_handshakes = 100
            api.cut()

    assert len(api.resumes) == 1
    assert isinstance(found[0], ConnectionLostError)


async def test_a_bad_token_and_a_missing_intent_say_what_to_do() -> None:
    """These keep most new bots from starting; nobody finds them in a log of reconnections.

    `channel check` is what people run when a bot is silent.
    """
    async with open_discord_api() as api:
        fine = await make(api).check()
        bad = await fails(Notebook(), make(api, token=WRONG))
        empty = await fails(Notebook(), make(api, token=MISSING))
        notes, taken_back = Notebook(), list[Exception]()

        async def serve() -> None:
            taken_back.append(await fails(notes, make(api)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await api.until(lambda: notes.cursors)
            await api.close(4004)
        api.allowed_privileged = 0
        blind = await fails(Notebook(), make(api))
        api.application_flags = 0
        api.application_extra = {"interactions_endpoint_url": "https://elsewhere.example"}
        lines = await make(api).check()
        with pytest.raises(SetupError, match="bot_token"):
            await make(api, token=WRONG).check()

    assert [type(each) for each in (bad, empty, blind, *taken_back)] == [SetupError] * 4
    assert "channels.discord.bot_token" in str(bad)
    assert "Message Content Intent" in str(blind)
    assert WRONG not in str(bad)
    assert not [line for line in fine if line.startswith("problem: ")]
    assert any("oauth2/authorize" in line for line in fine)
    problems = [line for line in lines if line.startswith("problem: ")]
    assert len(problems) == 2
    assert "Message Content Intent" in problems[0]


async def test_answered_heartbeats_count_as_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server at night says nothing for hours; the channel is healthy all the same."""
    monkeypatch.setattr(adapter, "WATCH_S", 0.01)
    async with open_discord_api() as api:
        api.heartbeat_ms = 30
        notes = Notebook()
        async with serving(api, notes):
            await api.until(lambda: api.heartbeats > 2)
            known = notes.heard
            await api.until(lambda: notes.heard > known)

    assert notes.events == []


async def test_what_a_full_queue_refuses_is_read_from_the_history() -> None:
    """Memory is bounded while a disk is full, and still nothing is lost."""
    count = CHAT_MAX + 20
    async with open_discord_api() as api:
        notes = Notebook()
        async with serving(api, notes, make(api, backlog_max_messages=count)):
            notes.is_open = anyio.Event()
            heard = notes.heard
            for number in range(count):
                await api.says(f"{number}")
            await api.until(lambda: notes.waiting and notes.heard >= heard + count)
            notes.is_open.set()
            await api.until(lambda: len(notes.events) == count)

    assert notes.texts() == [str(n) for n in range(count)]
    assert len(api.requests("GET", "/messages")) == 1


async def test_a_stop_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that waits half a minute for a goodbye is killed by its supervisor."""
    monkeypatch.setattr(client, "CLOSE_S", 0.1)
    async with open_discord_api() as api, serving(api, Notebook()):
        begun = anyio.current_time()

    assert anyio.current_time() - begun < 5  # it takes milliseconds; without the limit, ten seconds


async def test_two_bots_with_different_addresses_do_not_meet() -> None:
    """The library keeps its addresses in classes, for all bots of a process."""
    async with open_discord_api() as one, open_discord_api() as other:
        first, second = Notebook(), Notebook()
        async with serving(one, first) as a, serving(other, second) as b:
            await a.send(Outbound(chat_id=one.world.general, payload=payload("to one")))
            await b.send(Outbound(chat_id=other.world.general, payload=payload("to other")))
            await one.says("from one")
            await one.until(lambda: first.events)

    assert [m["content"] for m in one.said()] == ["to one"]
    assert [m["content"] for m in other.said()] == ["to other"]
    assert second.events == []


# --- commands and buttons ---


async def test_slash_commands_are_acknowledged_at_once_and_answered_to_one_person() -> None:
    """Discord gives three seconds, also for suggestions; a status is nobody else's business."""
    async with open_discord_api() as api:
        notes, ann = Notebook(), api.world.add_user("ann")
        async with serving(api, notes):
            notes.is_open = anyio.Event()
            state = await api.slash("compact", author=ann, keep="the plan")
            await api.until(lambda: state["callbacks"] and notes.waiting)
            notes.is_open.set()
            await api.until(lambda: state["original"] == "gone")
            (got,) = notes.events
            assert isinstance(got, Command)
            await got.answer("word " * 600)

            typing: dict[str, Any] = {
                "id": api.world.new_id(),
                "name": "prompt",
                "type": 1,
                "options": [
                    {"name": "places", "type": 3, "value": "topic=cats"},
                    {"name": "name", "type": 3, "value": "wiki:sum", "focused": True},
                ],
            }
            typed = await api.uses(4, typing, author=ann, channel=api.world.general)
            await api.until(lambda: typed["callbacks"])
            await api.slash("prompt", author=ann, places="topic=cats", name="wiki:sum")
            await api.until(lambda: len(notes.events) == 2)

    assert (got.name, got.argument, got.sender.id) == ("compact", "the plan", ann["id"])
    assert state["callbacks"] == [{"type": 5, "data": {"flags": 64}}]
    assert [s["flags"] for s in state["said"]] == [64 | 4, 64 | 4]
    names = ("wiki:sum", "wiki:suming")
    choices = [{"name": name, "value": name} for name in names]
    assert typed["callbacks"] == [{"type": 8, "data": {"choices": choices}}]
    prompt = notes.events[1]
    assert isinstance(prompt, Command)
    assert prompt.argument == "wiki:sum topic=cats"


async def test_a_click_is_acknowledged_and_can_be_answered() -> None:
    """Without it the person sees that the interaction failed; one that was lost still counts."""
    async with open_discord_api() as api:
        notes, ann = Notebook(), api.world.add_user("ann")
        async with serving(api, notes):
            state = await api.button_clicks("approve:1", author=ann)
            await api.until(lambda: notes.events)
            (got,) = notes.events
            assert isinstance(got, ButtonClick)
            await got.answer("")
            await got.answer("Not yours.")
            # The library asks again, and is told that it did.
            api.fail("POST", r"/callback$", 502, happens=True)
            await api.button_clicks("approve:2", author=ann)
            await api.until(lambda: len(notes.events) == 2)

    assert (got.data, got.sender.id, got.chat.id) == ("approve:1", ann["id"], api.world.general)
    assert state["callbacks"] == [{"type": 6}]
    assert [s["content"] for s in state["said"]] == ["Not yours."]
    data = [a.data for a in notes.events if isinstance(a, ButtonClick)]
    assert data == ["approve:1", "approve:2"]


async def test_commands_can_also_be_written() -> None:
    """Slash commands take an hour to appear, and people type them."""
    async with open_discord_api() as api:
        notes, ann = Notebook(), api.world.add_user("ann")
        me = api.world.bot["id"]
        async with serving(api, notes):
            await api.says("/stop now", author=ann, channel=api.world.dm(ann))
            await api.until(lambda: len(notes.events) == 1)
            await api.says(f"<@{me}> /status", author=ann)
            await api.says("/status", author=ann)
            await api.until(lambda: len(notes.events) == 3)
            written = notes.events[1]
            assert isinstance(written, Command)
            await written.answer("fine")

    kinds = [(type(a).__name__, getattr(a, "name", "")) for a in notes.events]
    assert kinds == [("Command", "stop"), ("Command", "status"), ("Message", "")]
    assert api.said()[0]["referenced_message"]["id"] == written.id


async def test_only_what_was_typed_is_a_command_of_an_owner() -> None:
    """What was passed on, changed or sent with a file may be somebody else's words."""
    async with open_discord_api() as api:
        notes, ann = Notebook(), api.world.add_user("ann")
        dm, mallory = api.world.dm(ann), api.world.add_user("mallory")
        snapshot = {
            "type": 0,
            "content": "/reset",
            "embeds": [],
            "attachments": [],
            "flags": 0,
            "timestamp": api.world.now.isoformat(),
            "edited_timestamp": None,
        }
        passed_on = {
            "message_reference": {"type": 1, "channel_id": dm, "message_id": "1"},
            "message_snapshots": [{"message": snapshot}],
        }
        file = {
            "id": "1",
            "filename": "a",
            "size": 1,
            "url": "http://127.0.0.1:1/",
            "proxy_url": "",
        }
        quoted = api.world.add_message(mallory, dm, "/pair QUOTED")
        async with serving(api, notes):
            for text, extra in (
                ("/pair TYPED", {}),
                ("/pair FILE", {"attachments": [file]}),
                ("/pair CHANGED", {"edited_timestamp": api.world.now.isoformat()}),
                ("", passed_on),
                (
                    "hm",
                    {
                        "type": 19,
                        "referenced_message": quoted,
                        "message_reference": {"channel_id": dm, "message_id": quoted["id"]},
                    },
                ),
                ("> /pair QUOTE", {}),
                ("/pairs", {}),
            ):
                await api.says(text, author=ann, channel=dm, **extra)
            await api.says("/pair GROUP", author=ann)
            await api.until(lambda: len(notes.events) == 8)

    commands = [a for a in notes.events if isinstance(a, Command)]
    assert [(c.name, c.argument, c.is_typed) for c in commands] == [
        ("pair", "TYPED", True),
        ("pair", "FILE", False),
        ("pair", "CHANGED", False),
        ("pairs", "", True),
    ]
    assert all(c.otherwise is not None for c in commands)
    assert [c.otherwise.text for c in commands if c.otherwise] == [
        "/pair TYPED",
        "/pair FILE",
        "/pair CHANGED",
        "/pairs",
    ]


async def test_a_command_is_taken_once_beside_what_hangs_in_its_chat() -> None:
    """Who wonders what takes so long asks for the status; to forget everything has to wait."""
    async with open_discord_api() as api:
        notes, ann = SlowFiles(), api.world.add_user("ann")
        me = api.world.bot["id"]
        async with serving(api, notes):
            before = notes.cursor(api.world.general)
            for text in ("a file", "/reset", "/status"):
                last = await api.says(f"<@{me}> {text}", author=ann)
            state = await api.slash("stop", author=ann)
            await api.until(lambda: len(notes.events) == 2 and state["original"] == "gone")
            held = notes.cursor(api.world.general)
            notes.has_file.set()
            await api.until(lambda: notes.cursor(api.world.general) == last["id"])

    taken = [a.name if isinstance(a, Command) else getattr(a, "text", "") for a in notes.events]
    assert held == before
    assert sorted(taken[:2]) == ["status", "stop"]
    assert taken[2:] == ["a file", "reset"]


# --- out ---


async def test_a_repeat_is_one_message_or_says_so_where_it_comes_late() -> None:
    """A message of unknown outcome is sent again; people must see it once.

    Discord forgets a nonce after minutes: from then on only a label can tell.
    """
    async with open_discord_api() as api, serving(api, Notebook()) as bot:
        chat = api.world.general
        message = Outbound(chat_id=chat, payload=payload("once"), nonce="n-1", is_repeat=True)
        api.fail("POST", r"/messages$", 0, happens=True)
        with pytest.raises(UnknownOutcomeError):
            await bot.send(message)
        platform_id = await bot.send(message)
        assert [(m["id"], m["content"]) for m in api.said()] == [(platform_id, "once")]

        for text in ("late", "x" * 2000):
            late = Outbound(chat_id=chat, payload=payload(text), is_repeat=True, is_late=True)
            await bot.send(late)
        await bot.send(Outbound(chat_id=chat, payload=payload("new"), is_late=True))

        assert [m["content"] for m in api.said()][1:] == [
            "(This may be a repeat.)\nlate",
            "(The next message may be a repeat.)",
            "x" * 2000,
            "new",
        ]


async def test_replies_buttons_and_files_go_out_and_nobody_is_pinged() -> None:
    """A model that writes @everyone must not wake a thousand people."""
    async with open_discord_api() as api, serving(api, Notebook()) as bot:
        asked = await api.says("question")
        chat = api.world.general
        button = Button(label="Allow", data="a:1")
        await bot.send(
            Outbound(
                chat_id=chat, payload=payload("@everyone"), reply_to=asked["id"], buttons=(button,)
            )
        )
        await bot.send(Outbound(chat_id=chat, payload=payload("late"), reply_to="12345"))
        file = OutgoingFile(data=b"\x00\x01", file_name="a/b.bin", media_type="x/y")
        await bot.send(Outbound(chat_id=chat, file=file))

        first, late, with_file = api.said()
        assert first["referenced_message"]["id"] == asked["id"]
        assert first["components"][0]["components"][0]["custom_id"] == "a:1"
        assert late["type"] == 0
        assert [a["filename"] for a in with_file["attachments"]] == ["a_b.bin"]
        posts = api.requests("POST", "/messages")
        assert [c.body["allowed_mentions"]["parse"] for c in posts] == [[], [], []]
        assert posts[2].files == [("a_b.bin", b"\x00\x01")]

        # Without `Read Message History` Discord refuses replies, and only those.
        api.fail("POST", r"/messages$", 400, body={"message": "No", "code": 160_002})
        await bot.send(Outbound(chat_id=chat, payload=payload("answer"), reply_to=asked["id"]))

        assert [(m["content"], m["type"]) for m in api.said()][3:] == [("answer", 0)]


async def test_messages_are_edited_and_the_typing_indicator_is_shown() -> None:
    """Streaming and approvals live from edits."""
    async with open_discord_api() as api, serving(api, Notebook()) as bot:
        chat = api.world.general
        asked = await api.says("question")
        sent = await bot.send(
            Outbound(chat_id=chat, payload=payload("a"), buttons=(Button(label="x", data="y"),))
        )
        await bot.edit(chat, "", sent, payload("b"))
        await bot.edit(chat, "", sent, payload("b"))
        await bot.type(chat, "")
        await bot.react(chat, asked["id"], "👍")
        await make_forget(bot, chat, asked["id"])
        with pytest.raises(RefusedError) as gone:
            await bot.edit(chat, "", "999", payload("b"))

        assert [(m["content"], m["components"]) for m in api.said()] == [("b", [])]
        assert api.typing == [chat]
        assert api.reactions == {asked["id"]: set()}
        assert not gone.value.is_chat_gone


async def make_forget(bot: DiscordAdapter, chat: str, message_id: str) -> None:
    """Take a reaction away as after a restart: nobody remembers which it was."""
    bot._sender._reactions.clear()
    await bot.react(chat, message_id, "")


async def test_refusals_are_told_apart() -> None:
    """A chat that is gone is given up; one message that is refused is not the end of a chat.

    A missing permission is named: `Missing Permissions` alone sends people through forty switches.
    """
    rows = (
        (404, 10003, True, ""),
        (403, 50001, True, ""),
        (403, 50007, True, ""),
        (400, 50035, False, ""),
        (403, 50013, True, "(Send Messages)"),
    )
    async with open_discord_api() as api:
        world = api.world
        chats = [world.add_channel(f"refused-{code}") for _, code, _, _ in rows]
        denied = {"id": world.guild_id, "type": 0, "allow": "0", "deny": str(1 << 11)}
        world.channels[chats[-1]]["permission_overwrites"] = [denied]
        async with serving(api, Notebook()) as bot:
            for chat, (status, code, is_gone, named) in zip(chats, rows, strict=True):
                api.refuse(chat, status, code, "No")
                with pytest.raises(RefusedError) as refused:
                    await bot.send(Outbound(chat_id=chat, payload=payload("x")))

                assert refused.value.is_chat_gone is is_gone, code
                assert named in str(refused.value), code


async def test_long_silence_is_kept_without_asking_again() -> None:
    """GW-08: who goes on knocking is shut out for good."""
    async with open_discord_api() as api, serving(api, Notebook()) as bot:
        message = Outbound(chat_id=api.world.general, payload=payload("x"))
        other = Outbound(chat_id=api.world.add_channel("other"), payload=payload("x"))
        slow = {"message": "slow", "retry_after": 33.0, "global": False}
        via = {"Via": "1.1 google"}
        api.fail("POST", r"/messages$", 429, body=slow, headers=via)
        for _ in range(3):
            with pytest.raises(NotSentError) as refused:
                await bot.send(message)
            assert refused.value.retry_after_s is None
        await bot.send(other)
        asked = len(api.requests("POST", "/messages"))
        api.fail(
            "POST", r"/messages$", 429, body=slow, headers=via | {"X-RateLimit-Scope": "global"}
        )
        with pytest.raises(NotSentError) as everywhere:
            await bot.send(other)

    assert asked == 2
    assert everywhere.value.retry_after_s == 33


async def test_a_full_bucket_makes_a_message_wait_and_loses_none() -> None:
    """Five messages in five seconds are the rule; a long reply has more."""
    async with open_discord_api() as api:
        api.bucket = (2, 0.2)
        async with serving(api, Notebook()) as bot:
            for number in range(5):
                await bot.send(Outbound(chat_id=api.world.general, payload=payload(f"{number}")))

    assert [m["content"] for m in api.said()] == ["0", "1", "2", "3", "4"]
    assert not [c for c in api.calls if c.status == 429]


async def test_nothing_is_sent_without_a_login_or_a_way() -> None:
    """What surely was not sent may be sent again without a doubt."""
    async with open_discord_api() as api:
        bot = make(api)
        message = Outbound(chat_id=api.world.general, payload=payload("x"))
        with pytest.raises(NotSentError):
            await bot.send(message)
        async with serving(api, Notebook(), bot):
            bot._sender.client.http._api_base = "http://127.0.0.1:9"  # type: ignore[union-attr]
            with pytest.raises(NotSentError):
                await bot.send(message)


@table(
    ("status", "answer", "deadline_s", "error"),
    [
        pytest.param(502, {"times": 9}, 0.2, UnknownOutcomeError, id="no answer"),
        # What Discord refused was surely not sent, however long the next try has to wait.
        pytest.param(
            429,
            {
                "body": {"message": "slow", "retry_after": 9.0, "global": False},
                "headers": {"Via": "1.1 google"},
            },
            1,
            NotSentError,
            id="the wait after a 429",
        ),
    ],
)
async def test_a_deadline_proves_nothing_but_after_a_refusal(
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    answer: dict[str, Any],
    deadline_s: float,
    error: type[ChannelError],
) -> None:
    """One that hits after the request left is an unknown outcome."""
    monkeypatch.setattr("everturn_channels.discord.sender.DEADLINE_S", deadline_s)
    async with open_discord_api() as api, serving(api, Notebook()) as bot:
        api.fail("POST", r"/messages$", status, **answer)
        with pytest.raises(error):
            await bot.send(Outbound(chat_id=api.world.general, payload=payload("x")))


# --- the pretended platform ---


async def test_the_pretended_discord_does_as_documented() -> None:
    """A double that is kinder than the platform proves nothing."""
    async with open_discord_api() as api, serving(api, Notebook()) as bot:
        chat, ann = api.world.general, api.world.add_user("ann")
        ids = [api.world.add_message(ann, chat, str(n))["id"] for n in range(5)]
        page = api.world.history(chat, limit=2, after=ids[0], before=None)
        newest = api.world.history(chat, limit=2, after=None, before=None)
        with pytest.raises(RefusedError, match="50035"):
            await bot.send(Outbound(chat_id=chat, payload=payload("x" * 2001)))
        with pytest.raises(RefusedError, match="50006"):
            await bot.send(Outbound(chat_id=chat, payload=payload(" ")))

    # `after`: the messages next to it, newest first; without: the newest
    assert [m["id"] for m in page] == [ids[2], ids[1]]
    assert [m["id"] for m in newest] == [ids[4], ids[3]]


# --- several processes ---


async def test_a_bot_that_stands_by_sends_and_hears_nothing() -> None:
    """Where another process is connected to Discord's gateway, this one only says things."""
    async with open_discord_api() as api:
        bot = make(api)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bot.stand_by)
            await api.until(lambda: bot._sender.client is not None)
            await bot.send(Outbound(chat_id=api.world.general, payload=payload("from here")))
            tasks.cancel_scope.cancel()
        with pytest.raises(NotSentError):
            await bot.send(Outbound(chat_id=api.world.general, payload=payload("too late")))

        assert [each["content"] for each in api.said()] == ["from here"]
        assert not api.identifies
