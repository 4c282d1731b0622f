"""Channels that are programs: the sample of the documentation, and many that misbehave."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.abc
import pytest
from anyio import wait_all_tasks_blocked
from anyio.streams.buffered import BufferedByteReceiveStream
from support.plugins import (
    PATIENCE_S,
    OpenInlet,
    Serving,
    ended_with,
    serving,
    write_plugin,
)
from support.tables import table

from everturn_actors.testing import ManualClock
from everturn_channels.adapter import (
    Adapter,
    Button,
    ButtonClick,
    Command,
    Edit,
    InboundEvent,
    Message,
    Outbound,
    OutgoingFile,
)
from everturn_channels.errors import (
    ConnectionLostError,
    FileTooLargeError,
    NotNowError,
    NotSentError,
    RefusedError,
    SendError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.plugin.adapter import PluginAdapter, Restart
from everturn_channels.plugin.process import Program
from everturn_channels.plugin.protocol import WINDOW

FULL = NotNowError("no space left", retry_after_s=5)
SAMPLE = Path(__file__).parents[2] / "docs/plugin-example/tcp_chat.py"


def texts(come: list[InboundEvent]) -> list[str]:
    """Return what the messages among them say."""
    return [each.text for each in come if isinstance(each, Message)]


def clock_of(adapter: PluginAdapter) -> ManualClock:
    """Return the clock that the test gave it."""
    clock = adapter._clock
    assert isinstance(clock, ManualClock)
    return clock


async def gone(pid: int) -> None:
    """Wait until a process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with anyio.fail_after(PATIENCE_S):
            await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)


# --- the sample ---


class Person:
    """Somebody in the chat of the sample."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream, self._lines = stream, BufferedByteReceiveStream(stream)

    async def say(self, line: str) -> None:
        """Write a line."""
        await self._stream.send(line.encode() + b"\n")

    async def read(self) -> str:
        """Return the next line that is shown."""
        with anyio.fail_after(PATIENCE_S):
            return (await self._lines.receive_until(b"\n", 10_000)).decode()


@asynccontextmanager
async def tcp_chat(handler: OpenInlet) -> AsyncGenerator[tuple[PluginAdapter, Person, Serving]]:
    """Run the sample with Ann in it."""
    adapter = PluginAdapter(
        Program(
            channel="tcp",
            command=sys.executable,
            args=("-IS", str(SAMPLE)),
            env={"CHAT_PORT": "0"},
            cwd=SAMPLE.parent,
        ),
        restart="always",
        clock=ManualClock(),
    )
    async with serving(adapter, handler) as run:
        port = int((await handler.until_connected()).rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            ann = Person(stream)
            await ann.say("ann")
            yield adapter, ann, run


async def test_the_sample_carries_a_conversation_and_says_what_it_cannot() -> None:
    """It is what people begin with; a refusal that is not told as such is tried again for ever."""
    # It is what people begin with: messages, commands, replies and the typing indicator.
    handler = OpenInlet()

    async def answer_commands(event: InboundEvent) -> None:
        if isinstance(event, Command):
            await event.answer(f"{event.name} of {event.argument}?")

    handler.deal = answer_commands
    async with tcp_chat(handler) as (adapter, ann, _):
        await ann.say("hello é🔥")
        await handler.until(lambda: texts(handler.taken) == ["hello é🔥"])
        message = handler.taken[0]
        (payload,) = adapter.render("Good **morning**")
        sent = await adapter.send(Outbound(chat_id="ann", payload=payload, nonce="n"))
        shown = [await ann.read()]
        await adapter.type("ann", "")
        shown.append(await ann.read())
        await ann.say("/status of it")
        shown.append(await ann.read())

    assert isinstance(message, Message)
    assert (message.chat.id, message.sender.id, message.chat.type) == ("ann", "ann", "dm")
    assert sent
    assert shown == ["Good **morning**", "...", "status of of it?"]

    # A refusal that is not told as such is tried again for ever.
    async with tcp_chat(OpenInlet()) as (adapter, _, _run):
        with pytest.raises(RefusedError, match="bob has left") as caught:
            await adapter.send(Outbound(chat_id="bob", payload="plain:hi"))
        with pytest.raises(RefusedError, match="change messages"):
            await adapter.edit("ann", "", "1", "plain:hi")
        with pytest.raises(RefusedError, match="react"):
            await adapter.react("ann", "1", "👀")
        with pytest.raises(RefusedError, match="drafts"):
            await adapter.show_draft("ann", "", 1, "hi")
        with pytest.raises(RefusedError, match="0 bytes"):
            file = OutgoingFile(data=b"x", file_name="x", media_type="text/plain")
            await adapter.send(Outbound(chat_id="ann", file=file))

    assert caught.value.is_chat_gone


async def test_the_sample_sends_again_what_could_not_be_kept() -> None:
    """A full disk must cost nobody a message."""
    handler = OpenInlet()

    async def fail_once(_event: InboundEvent) -> None:
        if len(handler.begun) == 1:
            msg = "no space left"
            raise NotNowError(msg, retry_after_s=0.01)

    handler.deal = fail_once
    async with tcp_chat(handler) as (adapter, ann, _run):
        await ann.say("keep me")
        await handler.until(lambda: len(handler.begun) == 1)
        clock_of(adapter).advance(1)
        await handler.until(lambda: len(handler.taken) == 1)

    assert texts(handler.begun) == ["keep me", "keep me"]


async def test_the_sample_ends_when_the_gateway_was_killed() -> None:
    """A killed gateway cannot tell it; two of them would answer everything twice."""
    with anyio.fail_after(PATIENCE_S):
        command, environ = [sys.executable, "-IS", str(SAMPLE)], {"CHAT_PORT": "0"}
        ended = await anyio.run_process(command, input=b'{"type": "hello"}\n', env=environ)

    assert ended.returncode == 0
    assert b'"everturn-channel/1"' in ended.stdout


# --- what arrives ---


async def test_every_kind_of_event_gets_through(tmp_path: Path) -> None:
    """And what is not an event as well."""
    adapter = write_plugin(
        tmp_path,
        """
        connect()
        chat = {"id": "g", "type": "group", "topic": "t", "title": "Garden"}
        sender = {"id": "u", "name": "Ann"}
        common = {"chat": chat, "sender": sender, "at": "2026-11-05T13:30:00+01:00"}
        say(type="message", id=1, message_id="m1", text="hi", is_addressed=True, is_album=True,
            quoted="before", quoted_name="Bob", forwarded_from="Cid", unsupported="a poll",
            described=["location 1, 2"], **common)
        say(type="edited", id=2, message_id="m1", text="ho", **common)
        say(type="click", id=3, data="a1:yes", **common)
        say(type="command", id=4, message_id="m2", name="/Stop", **common)
        say(type="skipped", chat=chat, count=3, why="too old")
        say(type="cursor_set", value="m2")
        stay()
        """,
    )
    handler = OpenInlet()
    async with serving(adapter, handler):
        await handler.until(lambda: len(handler.taken) == 4 and "plugin" in handler.cursors)

    message, edit, click, command = handler.taken
    assert isinstance(message, Message)
    assert message.at.isoformat() == "2026-11-05T12:30:00+00:00"
    assert (message.quoted, message.quoted_name, message.forwarded_from) == ("before", "Bob", "Cid")
    assert (message.described, message.is_outside) == (("location 1, 2",), True)
    assert (message.unsupported, message.is_album, message.is_addressed) == ("a poll", True, True)
    assert isinstance(edit, Edit)
    assert (edit.id, edit.text, edit.chat) == ("m1", "ho", message.chat)
    assert isinstance(click, ButtonClick)
    assert click.data == "a1:yes"
    assert isinstance(command, Command)
    assert (command.name, command.argument) == ("stop", "")
    assert handler.passed_over == [(message.chat, 3, "too old")]
    assert handler.cursors["plugin"] == "m2"


async def test_a_message_is_confirmed_only_once_it_is_safe(tmp_path: Path) -> None:
    """Confirmed too early, a crash loses it: the platform has forgotten it by then."""
    adapter = write_plugin(
        tmp_path,
        """
        connect()
        message(7, "a")
        message(8, "b")
        confirmed = ""
        while True:
            said = hear()
            confirmed += said["type"] + str(said["id"])
            say(type="cursor_set", value=confirmed)
        """,
    )
    handler, gate = OpenInlet(), anyio.Event()

    async def wait(event: InboundEvent) -> None:
        if event.chat.id == "a":
            await gate.wait()

    handler.deal = wait
    async with serving(adapter, handler):
        await handler.until(lambda: "plugin" in handler.cursors)
        first = handler.cursors["plugin"]
        gate.set()
        await handler.until(lambda: handler.cursors["plugin"] != first)

    assert (first, handler.cursors["plugin"]) == ("taken8", "taken8taken7")


async def test_a_flood_waits_in_the_pipe_and_not_in_memory(tmp_path: Path) -> None:
    """A member who floods, or a plug-in that does, must not fill the gateway."""
    adapter = write_plugin(
        tmp_path,
        """
        connect()
        for number in range(1, 401):
            message(number, f"chat {number}", "x" * 2000)
        stay()
        """,
    )
    handler, gate, most = OpenInlet(), anyio.Event(), 0

    async def count(_event: InboundEvent) -> None:
        nonlocal most
        most = max(most, len(handler.begun) - len(handler.taken))
        await gate.wait()

    handler.deal = count
    async with serving(adapter, handler):
        await handler.until(lambda: len(handler.begun) == WINDOW)
        await wait_all_tasks_blocked()
        gate.set()
        await handler.until(lambda: len(handler.taken) == 400)

    assert most == WINDOW


@table("error", [FULL, NotNowError("stops", retry_after_s=5)])
async def test_what_cannot_be_kept_comes_back_in_order(tmp_path: Path, error: Exception) -> None:
    """Neither lost nor overtaken by the next one of its chat."""
    clock = ManualClock()
    adapter = write_plugin(
        tmp_path,
        """
        connect()
        message(1)
        message(2)
        back = [hear(), hear()]
        say(type="cursor_set", value=json.dumps(back))
        hear()
        message(1)
        message(2)
        stay()
        """,
        clock=clock,
    )
    handler = OpenInlet()

    async def fail_once(_event: InboundEvent) -> None:
        if len(handler.begun) == 1:
            raise error

    handler.deal = fail_once
    async with serving(adapter, handler), anyio.create_task_group() as tasks:
        await handler.until(lambda: "plugin" in handler.cursors)
        clock.advance(5)
        tasks.start_soon(_ignore_outcome, adapter)
        await handler.until(lambda: len(handler.taken) == 2)
        tasks.cancel_scope.cancel()

    back = json.loads(handler.cursors["plugin"])
    assert [(each["type"], each["id"]) for each in back] == [("not_taken", 1), ("not_taken", 2)]
    assert all(each["retry_after_s"] == 5 for each in back)
    assert [each.id for each in handler.taken if isinstance(each, Message)] == ["m1", "m2"]


async def _ignore_outcome(adapter: PluginAdapter) -> None:
    """Ask for something, so that the plug-in hears something."""
    try:
        await adapter.send(Outbound(chat_id="c", payload="plain:go"))
    except SendError:
        return


# --- what cannot be used ---


async def test_bad_lines_are_answered_within_bounds_and_stop_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever writes a plug-in learns what is wrong; the disk and the people notice nothing."""
    # Whoever writes a plug-in learns what is wrong; the people of the channel notice nothing.
    adapter = write_plugin(
        tmp_path / "answered",
        """
        connect()
        why = []
        sys.stdout.write("Listening on port 7000\\n")
        sys.stdout.write('{"type": "message", "text": "' + "x" * 3_000_000 + '"}\\n')
        say(type="shout")
        say(type="message", id=5, message_id="m", chat={"id": 3})
        hello()
        for _ in range(5):
            error = hear()
            why.append((error["type"], error["field"], error["why"], error["id"]))
        message(6, text=json.dumps(why))
        stay()
        """,
    )
    handler = OpenInlet()
    async with serving(adapter, handler):
        await handler.until(lambda: len(handler.taken) == 1)

    told = json.loads(texts(handler.taken)[0])
    assert {each[0] for each in told} == {"error"}
    assert [each[1] for each in told] == ["", "", "type", "chat.id", "type"]
    assert "not one JSON object" in told[0][2]
    assert "1,048,576 bytes" in told[1][2]
    assert told[3][2:] == ["must be str, not int", 5]

    # A broken plug-in must not fill the disk.
    adapter = write_plugin(
        tmp_path / "many",
        """
        connect()
        for number in range(900):
            print("tick", number)
            print("tock", number, file=sys.stderr)
        message(1)
        stay()
        """,
    )
    handler = OpenInlet()
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "everturn_channels.plugin"):
        async with serving(adapter, handler):
            await handler.until(lambda: len(handler.taken) == 1)

    assert len([each for each in caplog.records if "cannot be used" in each.message]) == 60
    assert len([each for each in caplog.records if each.message == "plug-in says"]) <= 60

    # Else the log fills with what it says.
    adapter = write_plugin(
        tmp_path / "prints",
        """
        connect()
        for number in range(3000):
            print("tick", number)
        stay()
        """,
    )
    error = await ended_with(adapter)

    assert isinstance(error, ConnectionLostError)
    assert "no lines of the protocol" in str(error)


# --- what is sent ---


async def test_requests_reach_the_plugin_as_they_were_meant(tmp_path: Path) -> None:
    """Each field has its use on some platform."""
    adapter = write_plugin(
        tmp_path,
        """
        connect(edits=True, typing_s=5, reactions=True, buttons=True, markdown=True)
        seen = []
        for _ in range(4):
            asked = hear()
            seen.append(asked)
            done(asked, message_id="p1")
        message(1, text=json.dumps(seen))
        stay()
        """,
    )
    handler, buttons = OpenInlet(), (Button(label="Yes", data="y"),)
    async with serving(adapter, handler):
        await handler.until_connected()
        (payload,) = adapter.render("**x**")
        (plain,) = adapter.render("**x**", is_plain=True)
        outbound = Outbound(
            chat_id="c", topic="t", payload=payload, reply_to="m", nonce="n", buttons=buttons
        )
        sent = await adapter.send(outbound)
        await adapter.edit("c", "t", "p1", plain)
        await adapter.type("c", "t")
        await adapter.react("c", "m", "👀")
        await handler.until(lambda: len(handler.taken) == 1)

    send, edit, typing, react = json.loads(texts(handler.taken)[0])
    button = [{"label": "Yes", "data": "y"}]
    assert sent == "p1"
    assert (send["text"], send["format"], send["buttons"]) == ("**x**", "markdown", button)
    assert (send["reply_to"], send["nonce"], send["is_repeat"]) == ("m", "n", False)
    assert (edit["message_id"], edit["text"], edit["format"]) == ("p1", "**x**", "plain")
    assert (typing["type"], typing["chat_id"], typing["topic"]) == ("typing", "c", "t")
    assert (react["message_id"], react["emoji"]) == ("m", "👀")


@table(
    ("result", "kind", "words"),
    [
        ({"outcome": "not_sent", "why": "slow", "retry_after_s": 3}, NotSentError, "slow"),
        ({"outcome": "unknown"}, UnknownOutcomeError, "does not say why"),
        ({"outcome": "refused", "why": "no"}, RefusedError, "no"),
        ({"outcome": "done"}, UnknownOutcomeError, "as what"),
        ({"outcome": "perhaps"}, UnknownOutcomeError, "what became of it"),
    ],
)
async def test_each_outcome_has_its_error(
    tmp_path: Path, result: dict[str, object], kind: type[SendError], words: str
) -> None:
    """Delivery decides by it what is sent again."""
    adapter = write_plugin(
        tmp_path,
        f"""
        connect()
        say(type="result", request=hear()["request"], **{result!r})
        stay()
        """,
    )
    handler = OpenInlet()
    async with serving(adapter, handler):
        await handler.until_connected()
        with pytest.raises(kind, match=words) as caught:
            await adapter.send(Outbound(chat_id="c", payload="plain:x"))

    if isinstance(caught.value, NotSentError):
        assert caught.value.retry_after_s == 3


async def test_what_may_be_there_already_says_so(tmp_path: Path) -> None:
    """A person who reads it twice has to know why; and the mark must fit into the message."""
    adapter = write_plugin(
        tmp_path,
        """
        connect(nonces=greeting["cursor"] == "nonces")
        while True:
            asked = hear()
            done(asked, message_id=asked["text"])
        """,
    )
    handler, shown = OpenInlet(), list[str]()
    for cursor in ("", "nonces"):
        handler.cursors["plugin"] = cursor
        handler.accounts.clear()
        async with serving(adapter, handler):
            await handler.until_connected()
            payload = adapter.render("x" * 150)[0]
            shown.append(
                await adapter.send(
                    Outbound(chat_id="c", payload=payload, nonce="n", is_repeat=True)
                )
            )

    marked, plain = shown
    assert marked == "(repeated)\n" + "x" * 89
    assert plain == "x" * 100


async def test_a_plugin_that_is_slow_or_deaf_leaves_known_what_was_sent(tmp_path: Path) -> None:
    """Sent anew at once, it could be shown twice; what never left the gateway is not sent."""
    # It may be sending still: to send it anew at once could show it twice.
    clock = ManualClock()
    adapter = write_plugin(
        tmp_path / "slow",
        """
        connect()
        asked = hear()
        say(type="cursor_set", value="asked")
        done(hear(), message_id="second")
        done(asked, message_id="late")
        stay()
        """,
        clock=clock,
    )
    handler, caught = OpenInlet(), list[SendError]()

    async def send() -> None:
        try:
            await adapter.send(Outbound(chat_id="c", payload="plain:x"))
        except SendError as error:
            caught.append(error)

    async with serving(adapter, handler):
        await handler.until_connected()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await handler.until(lambda: "plugin" in handler.cursors)
            clock.advance(30)
        second = await adapter.send(Outbound(chat_id="c", payload="plain:y"))

    assert [type(error) for error in caught] == [UnknownOutcomeError]
    assert second == "second"

    # What never left the gateway is known not to be sent.
    clock = ManualClock()
    adapter = write_plugin(
        tmp_path / "deaf",
        """
        import time
        connect()
        time.sleep(1000)
        """,
        clock=clock,
    )
    handler, kinds = OpenInlet(), list[type[SendError]]()

    async def send_much() -> None:
        try:
            await adapter.send(Outbound(chat_id="c", payload="plain:" + "x" * 900_000))
        except SendError as error:
            kinds.append(type(error))

    async with serving(adapter, handler) as run:
        await handler.until_connected()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(send_much)
            await clock.until_sleeping(30)
            await wait_all_tasks_blocked()
            clock.advance(30)
        error = await run.end()

    assert sorted(each.__name__ for each in kinds) == [
        "NotSentError",
        "NotSentError",
        "UnknownOutcomeError",
    ]
    assert "does not read what it is sent" in str(error)


async def test_what_was_not_written_is_not_sent(tmp_path: Path) -> None:
    """Delivery sends it again: it would be shown twice."""
    # Delivery counts it as not sent and sends it again: it would be shown twice.
    adapter = write_plugin(
        tmp_path,
        """
        import time
        connect()
        while not os.path.exists("go"):
            time.sleep(0.005)
        seen = []
        while len(seen) < 2:
            asked = hear()
            seen.append(asked["text"][:5])
            done(asked, message_id=json.dumps(seen))
        stay()
        """,
    )
    handler = OpenInlet()
    large = Outbound(chat_id="c", payload="plain:" + "large" * 180_000)
    async with serving(adapter, handler), anyio.create_task_group() as tasks:
        await handler.until_connected()
        tasks.start_soon(adapter.send, large)
        await wait_all_tasks_blocked()
        with anyio.CancelScope() as scope:
            tasks.start_soon(_cancel_when_blocked, scope)
            await adapter.send(Outbound(chat_id="c", payload="plain:given up"))
        (tmp_path / "go").touch()
        seen = await adapter.send(Outbound(chat_id="c", payload="plain:later"))

    assert scope.cancelled_caught
    assert json.loads(seen) == ["large", "later"]

    # A plug-in that is not logged in has nobody to send to.
    adapter = write_plugin(tmp_path / "before", "hello()\nmessage(1)\nstay()\n")
    handler = OpenInlet()
    with pytest.raises(NotSentError, match="not connected"):
        await adapter.type("c", "")
    async with serving(adapter, handler):
        await handler.until(lambda: len(handler.taken) == 1)

        with pytest.raises(NotSentError, match="not connected"):
            await adapter.send(Outbound(chat_id="c", payload="plain:x"))


async def _cancel_when_blocked(scope: anyio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()


# --- files ---


async def test_files_go_both_ways_in_parts_and_not_beyond_the_limit(tmp_path: Path) -> None:
    """No line may be large, and no file larger than what is taken."""
    # No line may be large, and no file larger than what is taken from people.
    adapter = write_plugin(
        tmp_path / "fetched",
        """
        import base64
        data = bytes(range(256)) * 3000
        connect()
        about = {"size_bytes": len(data), "is_voice": True, "duration_s": 2.5}
        message(1, files=[{"file": "f", "file_name": "a.bin", **about}])
        while True:
            asked = hear()
            if asked["type"] == "fetch":
                part = data[asked["offset"] : asked["offset"] + asked["max_bytes"]]
                done(asked, data=base64.b64encode(part).decode())
        """,
    )
    handler, got, errors = OpenInlet(), list[bytes](), list[Exception]()

    async def fetch(event: InboundEvent) -> None:
        assert isinstance(event, Message)
        (file,) = event.files
        assert (file.is_voice, file.duration_s) == (True, 2.5)
        got.extend([await file.fetch(768_000), await file.fetch(1_000_000)])
        try:
            await file.fetch(767_999)
        except FileTooLargeError as error:
            errors.append(error)

    handler.deal = fetch
    async with serving(adapter, handler):
        await handler.until(lambda: len(handler.taken) == 1)

    assert got == [bytes(range(256)) * 3000] * 2
    assert len(errors) == 1

    # The other way round.
    adapter = write_plugin(
        tmp_path / "sent",
        """
        import base64, hashlib
        connect(files_max_bytes=2_000_000)
        data = b""
        while True:
            asked = hear()
            if asked["type"] == "upload":
                data = data[: asked["offset"]] + base64.b64decode(asked["data"])
            else:
                assert asked["file"]["size_bytes"] == len(data), asked["file"]
                name = asked["file"]["file_name"] + " " + asked["file"]["media_type"]
                done(asked, message_id=name + " " + hashlib.sha256(data).hexdigest())
        """,
    )
    handler, sizes = OpenInlet(), (1_300_000, 0, 3)

    def file(size: int) -> OutgoingFile:
        return OutgoingFile(data=b"x" * size, file_name="a.txt", media_type="text/plain")

    async with serving(adapter, handler):
        await handler.until_connected()
        sent = [await adapter.send(Outbound(chat_id="c", file=file(size))) for size in sizes]
        with pytest.raises(RefusedError, match="2,000,000 bytes"):
            await adapter.send(Outbound(chat_id="c", file=file(2_000_001)))

    assert sent == [f"a.txt text/plain {hashlib.sha256(b'x' * size).hexdigest()}" for size in sizes]


@table(
    "reply",
    [
        {"outcome": "done", "data": "AAAA" * 100},
        {"outcome": "refused", "why": "it was deleted"},
        {"outcome": "not_sent"},
    ],
)
async def test_a_file_that_cannot_be_had_is_told_as_such(
    tmp_path: Path, reply: dict[str, object]
) -> None:
    """The message is answered without it."""
    adapter = write_plugin(
        tmp_path,
        f"""
        connect()
        message(1, files=[{{"file": "f"}}])
        say(type="result", request=hear()["request"], **{reply!r})
        stay()
        """,
    )
    handler, errors = OpenInlet(), list[Exception]()

    async def fetch(event: InboundEvent) -> None:
        assert isinstance(event, Message)
        try:
            await event.files[0].fetch(10)
        except ConnectionLostError as error:
            errors.append(error)

    handler.deal = fetch
    async with serving(adapter, handler):
        await handler.until(lambda: len(handler.taken) == 1)

    assert len(errors) == 1


# --- how it begins and ends ---


def test_it_is_a_channel_like_the_others(tmp_path: Path) -> None:
    """The runner knows nothing else."""
    adapter: Adapter = write_plugin(tmp_path, "")

    assert (adapter.name, adapter.platform) == ("test", "test")
    assert adapter.render(" \n") == ()
    assert adapter.capabilities.drafts == ()


async def test_nothing_is_left_of_a_plugin_that_was_killed(tmp_path: Path) -> None:
    """Nobody waits for it, nothing that it started goes on, and the gateway can stop."""
    # What was under way is of unknown outcome; what was not is not sent.
    adapter = write_plugin(
        tmp_path / "killed",
        """
        connect(str(os.getpid()))
        hear()
        say(type="cursor_set", value="asked")
        stay()
        """,
    )
    handler, caught = OpenInlet(), list[type[SendError]]()

    async def send() -> None:
        try:
            await adapter.send(Outbound(chat_id="c", payload="plain:x"))
        except SendError as error:
            caught.append(type(error))

    async with serving(adapter, handler) as run, anyio.create_task_group() as tasks:
        pid = int(await handler.until_connected())
        tasks.start_soon(send)
        await handler.until(lambda: "plugin" in handler.cursors)
        os.kill(pid, 9)
        error = await run.end()
        await send()

    assert caught == [UnknownOutcomeError, NotSentError]
    assert isinstance(error, ConnectionLostError)
    assert "signal 9" in str(error)

    # A browser or a bridge that is left over would hold the account.
    adapter = write_plugin(
        tmp_path / "child",
        """
        import subprocess
        child = subprocess.Popen(["sleep", "1000"])
        connect(f"{os.getpid()} {child.pid}")
        stay()
        """,
    )
    handler = OpenInlet()
    async with serving(adapter, handler) as run:
        pid, child = map(int, (await handler.until_connected()).split())
        os.kill(pid, 9)
        error = await run.end()
        await gone(child)

    assert "signal 9" in str(error)

    # The gateway has to be able to stop.
    adapter = write_plugin(
        tmp_path / "stubborn",
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        connect(str(os.getpid()))
        time.sleep(1000)
        """,
    )
    handler = OpenInlet()
    with anyio.fail_after(PATIENCE_S):
        async with serving(adapter, handler):
            pid = int(await handler.until_connected())
    await gone(pid)

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@table(
    ("restart", "code", "is_over"),
    [
        ("always", 0, False),
        ("always", 3, False),
        ("on_failure", 0, True),
        ("on_failure", 3, False),
        ("never", 0, True),
        ("never", 3, True),
    ],
)
async def test_it_is_started_again_as_its_owner_wants(
    tmp_path: Path, restart: Restart, code: int, *, is_over: bool
) -> None:
    """One that ended on purpose must not come back; one that crashed must."""
    adapter = write_plugin(
        tmp_path,
        f"""
        open("starts", "a").write("x")
        connect()
        sys.stderr.write("the last words\\n")
        sys.exit({code})
        """,
        restart=restart,
    )
    errors = [await ended_with(adapter), await ended_with(adapter)]

    assert {type(error) for error in errors} == {SetupError if is_over else ConnectionLostError}
    assert f"ended with exit code {code}; its last words: the last words" in str(errors[0])
    assert ("not started again" in str(errors[1])) == is_over
    assert len((tmp_path / "starts").read_text()) == (1 if is_over else 2)


@table(
    ("body", "kind", "words"),
    [
        (("say(type='hello', protocol='everturn-channel/2', name='x',"
         " capabilities={'chunk_units': 100})"),
         SetupError, "speaks 'everturn-channel/2'; this gateway speaks 'everturn-channel/1'"),
        ("message(1)", SetupError, "has to say hello"),
        ("say(type='failed', kind='setup', why='bad token')", SetupError, "bad token"),
        ("hello()\nsay(type='failed', kind='connection', why='down')", ConnectionLostError, "down"),
        ("hello()\nos.close(1)\nos.close(0)", ConnectionLostError, "closed its output"),
        ("import nothing_of_that_name", ConnectionLostError, "No module named"),
    ],
)  # fmt: skip
async def test_a_bad_begin_is_told_in_words(
    tmp_path: Path, body: str, kind: type[Exception], words: str
) -> None:
    """They are what the owner reads."""
    error = await ended_with(write_plugin(tmp_path, f"{body}\nimport time\ntime.sleep(1000)\n"))

    assert type(error) is kind
    assert words in str(error)


async def test_a_start_and_a_check_do_not_wait_for_ever(tmp_path: Path) -> None:
    """The channel would seem to start; somebody sits before the check."""
    # The channel would seem to start for ever.
    clock = ManualClock()
    adapter = write_plugin(tmp_path / "start", "stay()", clock=clock)
    async with serving(adapter, OpenInlet()) as run:
        await clock.until_sleeping(30)
        clock.advance(30)
        error = await run.end()

    assert isinstance(error, ConnectionLostError)
    assert "did not say hello within 30 s" in str(error)

    # Somebody sits before it.
    clock = ManualClock()
    adapter = write_plugin(tmp_path / "check", "hello()\nstay()\n", clock=clock)
    errors: list[Exception] = []

    async def check() -> None:
        try:
            await adapter.check()
        except ConnectionLostError as error:
            errors.append(error)

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(check)
            # It waits for 30 s until hello is said, then for 60 s.
            while not any(at - clock.now() > timedelta(seconds=30) for at, _ in clock._sleepers):
                clock._changed = anyio.Event()
                await clock._changed.wait()
            clock.advance(60)

    assert "not connected after 60 s" in str(errors[0])


@table(
    ("command", "cwd", "words"),
    [
        ("no-such-program", "", "there is no program 'no-such-program' in"),
        ("./no-such-program", "", "there is no program './no-such-program'"),
        (sys.executable, "nowhere", "nowhere is not there"),
        ("./text", "", "Permission denied"),
    ],
)
async def test_what_cannot_be_started_is_told_in_words(
    tmp_path: Path, command: str, cwd: str, words: str
) -> None:
    """A typing error in the settings is the most common fault."""
    (tmp_path / "text").write_text("no program")
    adapter = PluginAdapter(
        Program(
            channel="test",
            command=command,
            args=(),
            env={},
            cwd=tmp_path / cwd,
        ),
        restart="always",
        clock=ManualClock(),
    )
    error = await ended_with(adapter)

    assert isinstance(error, SetupError)
    assert words in str(error)


async def test_a_plugin_has_its_own_environment_and_tells_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That of the gateway holds the keys of models and of other channels."""
    # It holds the keys of models and of other channels.
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-gateway")
    adapter = write_plugin(
        tmp_path / "given",
        """
        hello()
        message(1, text=json.dumps(dict(os.environ)))
        stay()
        """,
        env={"BOT_TOKEN": "t-12345"},
    )
    handler = OpenInlet()
    async with serving(adapter, handler):
        await handler.until(lambda: len(handler.taken) == 1)

    environ = json.loads(texts(handler.taken)[0])
    assert environ["BOT_TOKEN"] == "t-12345"
    assert environ["PATH"] == os.environ["PATH"]
    assert set(environ) <= {"BOT_TOKEN", "PATH", "HOME", "LANG", "LC_CTYPE"}

    # Errors of HTTP libraries have the token in the address.
    adapter = write_plugin(
        tmp_path / "told",
        """
        sys.stderr.write("GET /bot" + os.environ["BOT_TOKEN"] + "\\n")
        say(type=os.environ["BOT_TOKEN"])
        hello()
        say(type="connected", findings=["problem: " + os.environ["BOT_TOKEN"]])
        asked = hear()
        asked = hear() if asked["type"] == "error" else asked
        say(type="result", request=asked["request"], outcome="refused", why=os.environ["BOT_TOKEN"])
        stay()
        """,
        env={"BOT_TOKEN": "t-12345"},
    )
    handler = OpenInlet()
    with caplog.at_level(logging.DEBUG):
        async with serving(adapter, handler):
            await handler.until_connected()
            with pytest.raises(RefusedError) as caught:
                await adapter.send(Outbound(chat_id="c", payload="plain:x"))

    assert str(caught.value) == "***"
    said = [str(vars(record)) for record in caplog.records]
    assert any("problem: ***" in each for each in said)
    assert not any("t-12345" in each for each in said)


async def test_the_next_start_is_told_where_to_go_on(tmp_path: Path) -> None:
    """And the gateway remembers how large a message may be, before the plug-in runs again."""
    adapter = write_plugin(
        tmp_path,
        """
        connect(json.dumps(greeting), chunk_units=222, edits=True)
        say(type="cursor_set", value="m-7")
        stay()
        """,
    )
    handler = OpenInlet(is_new=True)
    async with serving(adapter, handler):
        first = json.loads(await handler.until_connected())
        await handler.until(lambda: "plugin" in handler.cursors)
    later = OpenInlet()
    later.cursors = handler.cursors
    restarted = write_plugin(tmp_path, "connect(json.dumps(greeting))\nmessage(1)\nsys.exit(1)\n")
    restarted._recall(later)
    remembered = restarted.capabilities
    async with serving(restarted, later):
        second = json.loads(await later.until_connected())

    assert (first["channel"], first["purpose"]) == ("test", "serve")
    assert (first["is_new"], first["cursor"]) == (True, "")
    assert (second["is_new"], second["cursor"]) == (False, "m-7")
    assert (remembered.chunk_units, remembered.edits) == (222, True)


# --- looking whether it works ---


async def test_a_check_says_who_is_logged_in_and_what_was_found(tmp_path: Path) -> None:
    """`everturn channel check` has to tell more than that it did not work."""
    adapter = write_plugin(
        tmp_path,
        """
        hello()
        message(1)
        say(type="connected", account=greeting["purpose"], findings=["problem: no intents"])
        stay()
        """,
    )

    assert await adapter.check() == (
        "speaks everturn-channel/1 as test",
        "logged in as check",
        "problem: no intents",
    )


@table(
    ("body", "kind", "words"),
    [
        ("hello()\nsay(type='failed', kind='setup', why='bad token')", SetupError, "bad token"),
        ("hello()\nsys.exit(4)", ConnectionLostError, "exit code 4"),
        ("sys.exit(5)", ConnectionLostError, "exit code 5"),
    ],
)
async def test_a_check_that_fails_says_why(
    tmp_path: Path, body: str, kind: type[Exception], words: str
) -> None:
    """In the same words as the channel would."""
    with pytest.raises(kind, match=words):
        await write_plugin(tmp_path, f"{body}\nstay()\n").check()
