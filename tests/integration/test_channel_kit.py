"""A channel on the kit, in a process of its own: what its author writes, and what Everturn sees."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from support.plugins import OpenInlet, ended_with, serving

from everturn_actors.testing import ManualClock
from everturn_channels.adapter import (
    ButtonClick,
    Command,
    Edit,
    InboundEvent,
    Message,
    Outbound,
    OutgoingFile,
    Reaction,
)
from everturn_channels.errors import (
    ChannelError,
    ConnectionLostError,
    NotNowError,
    NotSentError,
    RefusedError,
    SendError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.plugin import kit
from everturn_channels.plugin.adapter import PluginAdapter
from everturn_channels.plugin.process import Program

KIT = Path(kit.__file__)
BEGIN = """\
import asyncio, sys
from everturn_kit import *

ANN, ROOM = Person("u1", "Ann"), ChatRef("room", "group", title="Room")

async def read():
    return b"x" * 600_000

class Own(Channel):
    name = "own"
    capabilities = {"chunk_units": 500, "markdown": True, "files_max_bytes": 2_000_000,
                    "edits": True, "typing_s": 5, "reactions": True, "buttons": True}
"""


def own(folder: Path, body: str, clock: ManualClock | None = None) -> PluginAdapter:
    """Return the channel of a program that was begun with `BEGIN`, beside a copy of the kit."""
    (folder / "everturn_kit.py").write_text(KIT.read_text(encoding="utf-8"), encoding="utf-8")
    script = folder / "own.py"
    script.write_text(f"{BEGIN}{body}\nrun(Own())\n", encoding="utf-8")
    program = Program(
        channel="own",
        command=sys.executable,
        args=("-S", str(script)),  # without what is installed
        env={},
        cwd=folder,
    )
    return PluginAdapter(program, restart="always", clock=clock or ManualClock())


def test_the_kit_stands_alone() -> None:
    """It is copied beside programs that have nothing of Everturn."""
    tree = ast.parse(KIT.read_text(encoding="utf-8"))
    imported = [
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    ]

    assert set(imported) <= sys.stdlib_module_names


def in_room(events: list[InboundEvent]) -> list[InboundEvent]:
    """Return what was said in the room."""
    return [each for each in events if each.chat.id == "room"]


async def test_every_event_gets_in_and_in_order(tmp_path: Path) -> None:
    """What could not be kept comes again before what was said after it; a wrong field is told."""
    clock = ManualClock()
    adapter = own(
        tmp_path,
        clock=clock,
        body="""
    async def serve(self, gateway):
        gateway.login("scan this", qr="2@x")
        gateway.connected(f"{gateway.channel} {gateway.is_new} {gateway.cursor}", ["problem: x"])
        file = IncomingFile(read=read, file_name="x.bin", media_type="application/x", is_voice=True,
                            duration_s=2.5)
        asyncio.create_task(gateway.handle(Message(id="a", chat=ChatRef("other"), text="beside")))
        await asyncio.gather(
            gateway.handle(Message(id="1", chat=ROOM, sender=ANN, text="one", files=[file])),
            gateway.handle(Edit(id="1", chat=ROOM, sender=ANN, text="One")),
            gateway.handle(Command(id="2", chat=ROOM, sender=ANN, name="status", argument="now")),
            gateway.handle(ButtonClick(chat=ROOM, sender=ANN, data="yes")),
            gateway.handle(Deletion(id="1", chat=ROOM)),
            gateway.handle(Reaction(message_id="b1", emoji="👍", chat=ROOM, sender=ANN)),
        )
        told = []
        for bad in (Message(id="", chat=ROOM), Message(id="4", chat=ROOM, text="x" * 1_100_000)):
            try:
                await gateway.handle(bad)
            except UnusableEventError as error:
                told.append(str(error))
        await gateway.handle(Message(id="3", chat=ROOM, text=f"told: {told}"))
        gateway.skipped(ROOM, 3, "too old")
        gateway.set_cursor("c-3")
        await asyncio.Event().wait()

    async def answer(self, event, text, style):
        print(event.name, text)
        self.answered = text

    async def send(self, message):
        return self.answered
""",
    )
    handler = OpenInlet()
    handler.cursors["plugin"] = "c-2"
    tries: list[str] = []
    files: list[int] = []

    async def deal(event: InboundEvent) -> None:
        if isinstance(event, Message) and event.id == "1":
            tries.append(event.text)
            if len(tries) == 1:
                text = "no space left"
                raise NotNowError(text, retry_after_s=0.1)
            files.append(len(await event.files[0].fetch(1_000_000)))
        if isinstance(event, Command):
            await event.answer(f"{event.name} of {event.argument}")

    handler.deal = deal
    async with serving(adapter, handler):
        account = await handler.until_connected()
        await handler.until(lambda: bool(in_room(handler.begun)))
        clock.advance(1)
        await handler.until(lambda: handler.cursors["plugin"] == "c-3")
        answered = await adapter.send(Outbound(chat_id="room", payload="plain:x", nonce="n"))

    taken = in_room(handler.taken)
    assert account == "own False c-2"
    assert [type(each) for each in taken] == [
        Message,
        Edit,
        Command,
        ButtonClick,
        Reaction,
        Message,
    ]
    reaction = taken[4]
    assert isinstance(reaction, Reaction)
    assert (reaction.message_id, reaction.emoji, reaction.sender.id) == ("b1", "👍", "u1")
    assert (tries, files) == (["one", "one"], [600_000])
    assert handler.logins == [("scan this", "2@x")]
    assert handler.deletions == [("room", "1")]
    assert isinstance(taken[0], Message)
    assert (taken[0].files[0].is_voice, taken[0].files[0].duration_s) == (True, 2.5)
    assert taken[0].sender.name == "Ann"
    assert taken[0].chat.title == "Room"
    last = taken[-1]
    assert isinstance(last, Message)
    assert "message_id" in last.text
    assert "1,048,576 bytes" in last.text
    assert [each.chat.id for each in handler.taken].count("other") == 1
    assert [(chat.id, count, why) for chat, count, why in handler.passed_over] == [
        ("room", 3, "too old")
    ]
    assert answered == "status of now"


async def test_what_is_asked_for_has_the_outcome_that_its_author_raised(tmp_path: Path) -> None:
    """Errors by their class, all else as unknown; a file arrives whole."""
    adapter = own(
        tmp_path,
        """
    async def serve(self, gateway):
        gateway.connected()
        await asyncio.Event().wait()

    async def send(self, message):
        match message.text:
            case "later":
                raise NotSentError("too fast", retry_after_s=7)
            case "gone":
                raise RefusedError("removed", is_chat_gone=True)
            case "broken":
                raise KeyError("x")
        if message.file:
            file = message.file
            voice = file.duration_s if file.is_voice else "file"
            return f"{file.file_name} {len(file.data)} {sum(file.data)} {voice}"
        return f"{message.format} {message.reply_to} {[each.data for each in message.buttons]}"

    async def edit(self, chat, topic, message_id, text, style):
        if text != "new":
            raise RefusedError(text)

    async def type(self, chat, topic):
        raise NotSentError("not now")
""",
    )
    handler = OpenInlet()
    errors: list[SendError] = []
    async with serving(adapter, handler):
        await handler.until_connected()
        for text in ("later", "gone", "broken"):
            try:
                await adapter.send(Outbound(chat_id="c", payload=f"plain:{text}", nonce=text))
            except SendError as error:
                errors.append(error)
        for act in (adapter.type("c", ""), adapter.react("c", "m", "x")):
            try:
                await act
            except SendError as error:
                errors.append(error)
        await adapter.edit("c", "", "m", "plain:new")
        plain = await adapter.send(
            Outbound(chat_id="c", payload="markdown:hi", nonce="n", reply_to="m1")
        )
        data = bytes(range(250)) * 5000
        file = OutgoingFile(
            file_name="a.ogg", media_type="audio/ogg", data=data, is_voice=True, duration_s=1.5
        )
        sent = await adapter.send(Outbound(chat_id="c", payload="plain:", nonce="f", file=file))

    assert [type(each) for each in errors] == [
        NotSentError,
        RefusedError,
        UnknownOutcomeError,
        NotSentError,
        RefusedError,
    ]
    assert isinstance(errors[0], NotSentError)
    assert errors[0].retry_after_s == 7
    assert str(errors[2]) == "KeyError: 'x'"
    assert plain == "markdown m1 []"
    assert sent == f"a.ogg {len(data)} {sum(data)} 1.5"


async def test_an_end_is_told_for_what_it_is(tmp_path: Path) -> None:
    """The owner's matter, the platform's, and a fault of the program."""
    ends: dict[str, tuple[type[ChannelError], str]] = {
        'raise SetupError("the token is wrong")': (SetupError, "the token is wrong"),
        'raise ConnectionRefusedError("no route")': (ConnectionLostError, "no route"),
        "return": (ConnectionLostError, "the platform closed the connection"),
        "{}['x']": (ConnectionLostError, "KeyError: 'x'"),
    }
    for end, (kind, words) in ends.items():
        body = f"\n    async def serve(self, gateway):\n        {end}\n"
        error = await ended_with(own(tmp_path, body))
        assert type(error) is kind, end
        assert words in str(error), end
