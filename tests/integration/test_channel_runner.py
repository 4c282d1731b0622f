"""From a platform to a real service: what is taken, from whom, and what people are told."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from support.feeding_adapter import OPEN, Fed, FeedingAdapter, a_file, feeding
from support.inbound_events import ANN, DM, GROUP
from support.pictures import png
from support.tables import table

from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.testing import ManualClock, ScriptedProvider, texts
from everturn_channels.access.pairing import Pairing
from everturn_channels.adapter import ChatRef, Command, Person
from everturn_channels.errors import (
    ConnectionLostError,
    FileTooLargeError,
    NotNowError,
    SetupError,
)
from everturn_channels.inbound.access_control import NOT_AVAILABLE, TOO_FAST
from everturn_channels.inbound.running_channel import Limits
from everturn_channels.settings import (
    AccessRules,
    BufferRules,
    ChannelSettings,
    DmRules,
    GroupRules,
    QueueRules,
    Route,
    StatusReactions,
)
from everturn_channels.texts import busy, no_private_chats, not_kept

PNG = png()
BOB = Person(id="8", name="Bob")
BOBS = ChatRef(id="8")


async def _user_texts(fed: Fed, chat: str = "7") -> list[str]:
    state = await fed.state(chat)
    assert state is not None
    turn = state.open_turn
    heard = [user for each in state.held_turns for user in each.heard]
    return [user.text for user in (*heard, *(turn.heard if turn else ()), *state.waiting)]


def _logged(caplog: pytest.LogCaptureFixture, message: str) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.getMessage() == message]


# --- in ---


async def test_a_message_is_durable_when_it_may_be_confirmed(tmp_path: Path) -> None:
    """The platform forgets what was confirmed, so it has to be in the log by then."""
    disk = MemoryDisk()
    async with feeding(tmp_path, disk=disk, provider=ScriptedProvider("hi")) as fed:
        await fed.say("hello")
        (stored,) = disk.sessions.values()

        assert [each.body.text for each in stored.log if hasattr(each.body, "text")][:1] == [
            "hello"
        ]
        assert (await fed.until_idle()).held_turns[0].text == "hi"


async def test_the_same_message_makes_one_turn_also_after_a_restart(tmp_path: Path) -> None:
    """Platforms send again what they believe was not received (GW-01).

    A reaction says that it arrived, where the owner wants it, and a repeat is given none.
    """
    disk, clock = MemoryDisk(), ManualClock()
    acknowledging = ChannelSettings(acknowledge="👀")
    async with feeding(tmp_path, disk=disk, clock=clock, settings=acknowledging) as fed:
        message = await fed.say("once")
        await fed.adapter.feed(message)
        await fed.adapter.until(lambda: bool(fed.adapter.reacted))
        await fed.until_idle()

        assert fed.adapter.reacted == [("7", message.id, "👀")]
    async with feeding(tmp_path, disk=disk, clock=clock, settings=acknowledging) as fed:
        await fed.adapter.feed(message)
        state = await fed.state()

        assert state is not None
        assert state.turns == 1
        assert state.held_turns[0].users[0].reply_to == ""
        assert await _user_texts(fed) == ["once"]
        assert fed.adapter.reacted == []


async def test_a_full_disk_leaves_the_message_to_the_platform(tmp_path: Path) -> None:
    """What cannot be kept must not be confirmed: it comes again and is then taken."""
    disk = MemoryDisk()
    limits = Limits(flood_messages=1)  # to come again is no flood
    async with feeding(tmp_path, disk=disk, limits=limits) as fed:
        message = fed.message("keep me")
        for _ in range(2):
            disk.fail_append(errno.ENOSPC)
            with pytest.raises(NotNowError):
                await fed.adapter.feed(message)
        await fed.adapter.feed(message)
        await fed.until_idle()

        assert await _user_texts(fed) == ["keep me"]


async def test_a_damaged_conversation_is_told_and_does_not_stop_the_channel(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One bad file must not keep the platform's offset, and with it every chat, where it is."""
    disk = MemoryDisk()
    async with feeding(tmp_path, disk=disk) as fed:
        await fed.say("one")
        await fed.until_idle()
    (stored,) = disk.sessions.values()
    stored.snapshot, stored.log = None, stored.archive[2:]
    async with feeding(tmp_path, disk=disk) as fed:
        fed.numbers = 1
        await fed.say("two")
        await fed.say("elsewhere", chat=BOBS, sender=BOB)
        await fed.until_idle("8")

        assert ["damaged" in line for line in await fed.until_said()] == [True]
        assert _logged(caplog, "a conversation is damaged")


async def test_a_fault_of_ours_costs_one_message_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A message that makes our code fail would otherwise come again for ever."""

    async def save_file(_agent: str, _name: str, _data: bytes) -> str | None:
        msg = "a bug"
        raise ZeroDivisionError(msg)

    async with feeding(tmp_path, save_file=save_file) as fed:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fed.adapter.feed, fed.message("bad", files=(a_file(b"\0\1"),)))
            what = "an event could not be dealt with and is left out"
            await _pass_time(fed, lambda: _logged(caplog, what))
        await fed.say("good")
        await fed.until_idle()

        assert await _user_texts(fed) == ["good"]
        assert "could not take" in (await fed.until_said())[0]
        (record,) = _logged(caplog, "an event could not be dealt with and is left out")
        assert record.exc_info


async def test_a_command_whose_answer_fails_with_a_bug_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever happens to one event, `take` returns and the next one is dealt with."""
    async with feeding(tmp_path) as fed:
        tried: list[str] = []

        async def answer(text: str) -> None:
            tried.append(text)
            raise ZeroDivisionError

        command = Command(
            id="c1",
            name="help",
            argument="",
            chat=DM,
            sender=ANN,
            at=fed.clock.now(),
            answer=answer,
        )
        await fed.adapter.feed(command)
        await fed.until(lambda: len(tried) == 2)
        await fed.say("still here")
        await fed.until_idle()

        assert tried[1] == not_kept()
        assert _logged(caplog, "an event could not be dealt with and is left out")


async def test_a_burst_is_one_turn_and_a_command_ends_it(tmp_path: Path) -> None:
    """People write in pieces; who gives a command has said what they wanted to say (GW-05)."""
    rules = AccessRules(dm=DmRules(policy="open", queue=QueueRules(debounce_s=1.5)))
    provider = ScriptedProvider()
    provider.hold()
    async with feeding(tmp_path, rules=rules, provider=provider) as fed:
        await fed.say("look:", forwarded_from="Bob")
        await fed.say("what do you think?")
        state = await fed.state()
        assert state is not None
        held = state.turns
        status = await fed.command("status")
        provider.release()
        state = await fed.until_idle()

        assert held == 0
        assert "turn 1 is running" in status
        assert [user.text for user in state.held_turns[0].users] == [
            "[forwarded from Bob]\nlook:",
            "what do you think?",
        ]


async def test_an_album_is_one_turn_even_where_nothing_else_is_held(tmp_path: Path) -> None:
    """Platforms send the pictures of an album one by one (GW-05)."""
    async with feeding(tmp_path) as fed:
        for number in range(3):
            picture = a_file(PNG, f"{number}.png", "image/png")
            await fed.say("" if number else "my cats", files=(picture,), is_album=True)
        fed.clock.advance(20)
        state = await fed.until_idle()

        assert [len(turn.users) for turn in state.held_turns] == [3]
        assert all(user.attachments[0].is_image for user in state.held_turns[0].users)


async def test_groups_attribute_and_hear_what_was_not_for_them(tmp_path: Path) -> None:
    """An agent that is asked `what do you think?` has to know about what, and who asks (GW-06).

    Its name alone asks about what was said.
    """
    provider = ScriptedProvider()
    async with feeding(tmp_path, provider=provider) as fed:
        await fed.say("we could meet at noon", chat=GROUP, sender=BOB)
        asked = await fed.say("what do you think?", chat=GROUP, is_addressed=True)
        await fed.until_idle("-100")
        await fed.say("", chat=GROUP, is_addressed=True, quoted="is it noon?", quoted_name="Bob")
        state = await fed.until_idle("-100", turns=2)

        (user,), (named,) = (turn.users for turn in state.held_turns)
        assert user.text.endswith("\n[Ann] what do you think?")
        assert "\n[Bob] we could meet at noon\n" in user.text
        assert user.reply_to == asked.id
        assert named.text == '[Ann] [in reply to Bob: "is it noon?"]'
        assert fed.adapter.world.texts == []


async def test_passive_members_are_read_later_and_blocked_ones_never(tmp_path: Path) -> None:
    """The owner of a group decides whom the agent listens to."""
    groups = replace(
        OPEN.groups,
        context_buffer=BufferRules(mode="passive"),
        sender_overrides=(("8", "passive"), ("9", "block"), ("10", "silent")),
    )
    provider = ScriptedProvider()
    async with feeding(tmp_path, rules=replace(OPEN, groups=groups), provider=provider) as fed:
        for sender in ("8", "9", "10"):
            person = Person(id=sender, name=f"P{sender}")
            await fed.say("secret", chat=GROUP, sender=person, is_addressed=True)
        await fed.say("now", chat=GROUP, is_addressed=True)
        state = await fed.until_idle("-100")

        assert state.turns == 1
        assert texts(provider.requests[0])[-2:] == ["[P8] secret", "[Ann] now"]
        assert [user.untrusted for user in state.held_turns[0].users] == [True, False]
        assert "P9" not in str(provider.requests[0])
        assert "P10" not in str(provider.requests[0])


async def test_an_edit_counts_until_the_turn_begins(tmp_path: Path) -> None:
    """Who corrects a typo at once means the correction; what was answered stays as it was."""
    rules = AccessRules(dm=DmRules(policy="open", queue=QueueRules(debounce_s=1)))
    async with feeding(tmp_path, rules=rules) as fed:
        notes = a_file(b"milk", "notes.txt", "text/plain")
        message = await fed.say("reed this", files=(notes,))
        await fed.edit(message, "read this")
        fed.clock.advance(30)
        await fed.until_idle()
        await fed.edit(message, "something else")

        assert await _user_texts(fed) == ["read this\n[file notes.txt]\n```\nmilk\n```"]


async def test_an_edit_that_names_the_agent_is_answered_once(tmp_path: Path) -> None:
    """Who forgot to name it adds that; what is changed after it is no question any more."""
    async with feeding(tmp_path) as fed:
        message = await fed.say("what is on?", chat=GROUP)
        await fed.edit(message, "what is on tonight?")
        for text in ("bot: what is on tonight?", "bot: what is on now?"):
            await fed.edit(replace(message, is_addressed=True), text)
        state = await fed.until_idle("-100")

    assert state.turns == 1
    assert fed.provider.requests[0].messages[-1].text.endswith("[Ann] bot: what is on tonight?")


async def test_what_is_deleted_before_its_turn_begins_is_not_answered(tmp_path: Path) -> None:
    """Also in a chat that its platform gave another id since."""
    rules = AccessRules(dm=DmRules(policy="open", queue=QueueRules(debounce_s=1)))
    async with feeding(tmp_path, rules=rules) as fed:
        handler = await fed.adapter.handler()
        gone = await fed.say("never mind")
        await handler.moved(gone.chat.id, "70")
        other = await fed.say("nor this", chat=ChatRef(id="70", type="dm"))
        await fed.say("but this")
        await handler.deleted(gone.chat.id, gone.id)
        await handler.deleted("70", other.id)
        fed.clock.advance(30)
        await fed.until_idle()

        assert await _user_texts(fed) == ["but this"]


async def test_a_move_that_cannot_be_kept_comes_again(tmp_path: Path) -> None:
    """Without it, what is written there would begin another conversation."""
    async with feeding(tmp_path) as fed:
        handler = await fed.adapter.handler()
        in_the_way = tmp_path / "channels" / f"{fed.adapter.name}.aliases.json"
        (in_the_way / "file").mkdir(parents=True)
        with pytest.raises(NotNowError, match="another id cannot be kept"):
            await handler.moved("7", "70")


async def test_reactions_say_how_far_a_message_is(tmp_path: Path) -> None:
    """Seen, then worked on, then done; where the turn fails, that; one sign at a time."""
    wanted = ChannelSettings(
        acknowledge="👀", status_reactions=StatusReactions(working="⏳", done="👍", failed="👎")
    )
    async with feeding(tmp_path, settings=wanted) as fed:
        good = await fed.say()
        await fed.adapter.until(lambda: len(fed.adapter.reacted) == 3)
        shown = list(fed.adapter.reacted)
    taken_away = ChannelSettings(status_reactions=StatusReactions(working="⏳"))
    async with feeding(tmp_path / "more", settings=taken_away) as fed:
        other = await fed.say()
        await fed.adapter.until(lambda: len(fed.adapter.reacted) == 2)

        assert shown == [("7", good.id, each) for each in ("👀", "⏳", "👍")]
        assert fed.adapter.reacted == [("7", other.id, each) for each in ("⏳", "")]


async def test_one_chat_whose_file_hangs_stops_no_other(tmp_path: Path) -> None:
    """Chats have nothing to do with each other, and a download may take its time."""
    async with feeding(tmp_path) as fed, anyio.create_task_group() as slow:

        async def never(limit_bytes: int) -> bytes:
            del limit_bytes
            hanging.set()
            await anyio.sleep_forever()
            return b""

        hanging = anyio.Event()
        stuck = fed.message("", files=(replace(a_file(b""), fetch=never),))
        slow.start_soon(fed.adapter.feed, stuck)
        await hanging.wait()
        await fed.say(chat=BOBS, sender=BOB)
        state = await fed.until_idle("8")
        slow.cancel_scope.cancel()

        assert state.turns == 1


async def test_many_chats_at_once_lose_and_mix_nothing(tmp_path: Path) -> None:
    """A busy bot has hundreds of chats, each in an order of its own, with repeats in between."""
    queue = QueueRules(debounce_s=0, max_pending=100)
    rules = AccessRules(dm=DmRules(policy="open", queue=queue))
    async with feeding(tmp_path, rules=rules) as fed:

        async def one(chat_id: str) -> None:
            chat, sender = ChatRef(id=chat_id), Person(id=chat_id)
            for number in range(10):
                message = await fed.say(f"{number}", chat=chat, sender=sender)
                await fed.adapter.feed(message)

        async with anyio.create_task_group() as chats:
            for chat in range(40):
                chats.start_soon(one, f"c{chat}")

        for chat in range(40):
            assert await _user_texts(fed, f"c{chat}") == [f"{number}" for number in range(10)]


# --- who ---


async def test_a_stranger_is_given_a_code_once_and_let_in_when_it_is_approved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody should have to look up ids, and nobody should be able to make the bot chatter."""
    rules = AccessRules(dm=DmRules(queue=QueueRules(debounce_s=0)))
    async with feeding(tmp_path, rules=rules) as fed:
        await fed.say("let me in")
        await fed.say("hello?")
        line = (await fed.until_said())[0]
        code = line.split("everturn pair approve ")[1].split()[0]
        await Pairing(FileKeyedStore(tmp_path), fed.clock).approve(code)
        await fed.say("thanks")
        await fed.until_idle()

        assert await _user_texts(fed) == ["thanks"]
        assert fed.adapter.world.texts == [line]
        (record,) = _logged(caplog, "somebody was refused")
        assert "spec.access.dm.allowlist is empty" in record.__dict__["why"]


async def test_who_is_let_in_by_name_is_known_to_the_adapter(tmp_path: Path) -> None:
    """A platform may tell of their first messages only where it is asked about each of them."""
    rules = AccessRules(dm=DmRules(policy="allowlist", allowlist=("9", "1*", "")))
    async with feeding(tmp_path, rules=rules) as fed:
        handler = await fed.adapter.handler()
        before = await handler.people()
        await fed.say("let me in")
        (told,) = await fed.until_said()
        code = told.split("everturn pair approve ")[1].split()[0]
        await Pairing(FileKeyedStore(tmp_path), fed.clock).approve(code)

        assert before == ("9",)
        assert await handler.people() == ("9", "7")


async def test_an_invitation_is_followed_where_somebody_would_be_answered(tmp_path: Path) -> None:
    """Anybody can invite a bot; it must not be led into rooms in which it says nothing."""
    listed = GroupRules(policy="allowlist", allowlist=("test:g1",))
    cases = {
        "let in": (AccessRules(dm=DmRules(policy="open")), True, "x", True),
        "given a code": (AccessRules(), True, "x", True),
        "told nothing": (AccessRules(dm=DmRules(policy="disabled")), True, "x", False),
        "listed": (AccessRules(groups=listed), False, "g1", True),
        "not listed": (AccessRules(groups=listed), False, "g2", False),
    }
    found: dict[str, bool] = {}
    for name, (rules, is_direct, chat, _) in cases.items():
        async with feeding(tmp_path / name, rules=rules) as fed:
            handler = await fed.adapter.handler()
            found[name] = await handler.welcomes("7", chat, is_direct=is_direct)
            assert fed.adapter.world.texts == []

    assert found == {name: expected for name, (_, _, _, expected) in cases.items()}


async def test_without_pairing_a_stranger_learns_their_id_once_an_hour(tmp_path: Path) -> None:
    """The owner needs the id; the stranger needs no second line."""
    settings = ChannelSettings(pairing=False)
    async with feeding(tmp_path, rules=AccessRules(), settings=settings) as fed:
        await fed.say()
        await fed.say()
        await fed.until_said()
        fed.clock.advance(3601)
        await fed.say()
        lines = await fed.until_said(2)

        assert len(lines) == 2
        assert "`7`" in lines[0]


async def test_where_private_chats_are_off_nobody_is_sent_to_a_list(tmp_path: Path) -> None:
    """An entry in the list would change nothing there."""
    rules = AccessRules(dm=DmRules(policy="disabled", allowlist=("7",)))
    async with feeding(tmp_path, rules=rules) as fed:
        await fed.say()

        assert await fed.until_said() == [no_private_chats()]


async def test_a_group_that_is_not_admitted_learns_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody can put a bot into a group; it must not become a nuisance there (SE-02)."""
    async with feeding(tmp_path, rules=AccessRules()) as fed:
        for _ in range(3):
            await fed.say("@bot hello", chat=GROUP, is_addressed=True)
        answer = await fed.command("status", chat=GROUP, is_addressed=True)

        assert answer == ""
        assert await fed.state("-100") is None
        assert fed.adapter.world.texts == []
        (record,) = _logged(caplog, "somebody was refused")
        assert "spec.access.groups.allowlist" in record.__dict__["why"]


async def test_a_place_without_a_route_or_an_agent_is_logged_with_what_to_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A silent bot is only understood by whoever reads the log."""
    routes = (Route(agent="gone", chat_id="7"),)
    async with feeding(tmp_path, routes=routes) as fed:
        await fed.say()
        await fed.say(chat=BOBS, sender=BOB)
        lines = await fed.until_said()

        whys = [each.__dict__["why"] for each in _logged(caplog, "somebody was refused")]
        assert "agent 'gone'" in whys[0]
        assert "routes" in whys[1]
        assert ["not available" in line for line in lines] == [True]


async def test_an_agent_that_is_gone_from_the_service_is_told(tmp_path: Path) -> None:
    """Agents are reloaded while people write."""
    async with feeding(tmp_path, routes=(Route(agent="ghost"),)) as fed:
        fed.rules["ghost"] = OPEN
        await fed.say()
        (line,) = await fed.until_said()

        assert line == NOT_AVAILABLE


async def test_a_member_who_floods_is_told_once_and_others_notice_nothing(tmp_path: Path) -> None:
    """One person must not fill the disk or hold up the model for everybody."""
    limits = Limits(flood_messages=3, flood_s=60)
    provider = ScriptedProvider()
    provider.hold()
    async with feeding(tmp_path, limits=limits, provider=provider) as fed:
        for number in range(6):
            await fed.say(f"spam {number}", chat=GROUP, is_addressed=True)
        await fed.say("me too", chat=GROUP, sender=BOB, is_addressed=True)
        lines = await fed.until_said()
        provider.release()

        assert await _user_texts(fed, "-100") == [
            "[Ann] spam 0",
            "[Ann] spam 1",
            "[Ann] spam 2",
            "[Bob] me too",
        ]
        assert lines == [TOO_FAST]
        # A command counts as well: its sender is told, once; /stop is always heard.
        told = [await fed.command(name) for name in ("help", "nope", "start", "help", "nope")]
        assert [bool(word) for word in told] == [True, True, True, True, False]
        assert told[3] == TOO_FAST
        assert await fed.command("stop") not in {"", TOO_FAST}
        fed.clock.advance(60)
        assert await fed.command("help") == told[0]


async def test_what_comes_at_once_is_no_flood_by_when_it_was_written(tmp_path: Path) -> None:
    """After a downtime a whole afternoon of one person arrives in a second.

    And a platform whose clock is wrong for a moment must not cost a person days.
    """
    async with feeding(tmp_path, limits=Limits(flood_messages=2, flood_s=60)) as fed:
        start = fed.clock.now()
        for number in range(5):
            await fed.say(f"{number}", at=start - timedelta(minutes=10 - number))
        for number in range(3):
            at = start + timedelta(days=4)
            await fed.say(f"{number}", at=at, chat=BOBS, sender=BOB)
        fed.clock.advance(60)
        await fed.say("later", chat=BOBS, sender=BOB)

        assert await _user_texts(fed) == ["0", "1", "2", "3", "4"]
        assert await _user_texts(fed, "8") == ["0", "1", "later"]


# --- what is not taken ---


@table(
    ("queue", "heard", "lines", "logged"),
    [
        pytest.param(
            QueueRules(
                mode="sequential", max_pending=1, overflow="reject", reject_message="Later!"
            ),
            ["one", "two"],
            ["Later!"],
            0,
            id="rejected with the owner's words",
        ),
        pytest.param(
            QueueRules(mode="sequential", max_pending=1, overflow="drop_new"),
            ["one", "two"],
            [],
            0,
            id="the new dropped",
        ),
        pytest.param(QueueRules(mode="drop"), ["one"], [busy()], 3, id="dropped during a turn"),
    ],
)
async def test_what_a_full_queue_does_not_take_is_told_as_the_owner_set_it(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    queue: QueueRules,
    heard: list[str],
    lines: list[str],
    logged: int,
) -> None:
    """A message that vanished without a word would be waited for, and looks like a broken bot."""
    caplog.set_level(logging.INFO)
    provider = ScriptedProvider()
    provider.hold()
    rules = AccessRules(dm=DmRules(policy="open", queue=replace(queue, debounce_s=0)))
    async with feeding(tmp_path, rules=rules, provider=provider) as fed:
        for text in ("one", "two", "three", "four"):
            await fed.say(text)
        await fed.until_said(len(lines))
        await anyio.wait_all_tasks_blocked()
        taken = await _user_texts(fed)
        provider.release()

        assert taken == heard
        assert fed.adapter.world.texts == lines
        assert len(_logged(caplog, "a message was dropped, a turn runs")) == logged


async def test_what_an_agent_cannot_be_given_is_answered_with_the_reason_alone(
    tmp_path: Path,
) -> None:
    """Who sends a poll waits for something to happen; a group that talks to itself does not.

    A model has nothing to add to it, also where a file was all of the message.
    """
    async with feeding(tmp_path) as fed:
        await fed.say("", unsupported="a poll")
        await fed.say("", chat=GROUP, unsupported="a poll")
        await fed.say("x" * (1024 * 1024 + 1))
        await fed.say("", files=(a_file(FileTooLargeError(), "big.iso"),))
        poll, long, large = await fed.until_said(3)

        assert "I cannot read a poll" in poll
        assert "at most 1048576 are accepted" in long
        assert "big.iso was not taken" in large
        assert await fed.state() is None
        assert fed.adapter.world.chat("-100") == []


# --- files ---


async def test_files_become_images_text_or_something_for_the_tools(tmp_path: Path) -> None:
    """A model sees images and reads text; everything else is for the agent's tools."""
    files = (
        a_file(PNG, "cat.png", "image/png"),
        a_file("naïve".encode(), "list.csv", "text/csv"),
        a_file(b"OggS\0voice", "", "audio/ogg"),
        a_file(PNG, "../../etc/fake.jpg", "image/jpeg"),
    )
    async with feeding(tmp_path) as fed:
        await fed.say("see", files=files)
        state = await fed.until_idle()

        (user,) = state.held_turns[0].users
        (path,) = fed.saved
        assert [(each.file_name, each.media_type) for each in user.attachments] == [
            ("cat.png", "image/png"),
            ("list.csv", "text/csv"),
            ("", "audio/ogg"),
            ("fake.jpg", "image/png"),
        ]
        saved = path.removeprefix("test/")
        assert user.text == (
            f"see\n[file list.csv]\n```\nnaïve\n```\n[file audio/ogg saved as {saved}]"
        )
        assert fed.saved[path] == b"OggS\0voice"


async def test_files_that_cannot_be_had_cost_only_themselves(tmp_path: Path) -> None:
    """The words of a message are worth more than its attachment (a 20 MB file, a lost server)."""
    files = (
        a_file(b"", "said.iso", size=21 * 1024 * 1024),
        a_file(FileTooLargeError(), "big.iso"),
        a_file(ConnectionLostError(), "lost.pdf"),
        a_file(ZeroDivisionError("a bug"), "odd.pdf"),
        a_file(b"", "empty.txt"),
    )
    async with feeding(tmp_path) as fed:
        await fed.say("read these", files=files)
        state = await fed.until_idle()
        (line,) = await fed.until_said()

        (user,) = state.held_turns[0].users
        assert user.attachments == ()
        for words in (
            "said.iso was not taken: larger than 20 MB",
            "big.iso was not taken: larger than 20 MB",
            "lost.pdf was not taken: it could not be fetched",
            "odd.pdf was not taken: it could not be fetched",
            "empty.txt was not taken: empty",
        ):
            assert words in line
            assert f"[file {words}]" in user.text


async def test_a_file_that_comes_with_the_second_try_is_taken(tmp_path: Path) -> None:
    """Servers of files fail now and then, and people do not know why they should send it again."""
    tried: list[int] = []

    async def fetch(limit_bytes: int) -> bytes:
        tried.append(limit_bytes)
        if len(tried) < 3:
            raise ConnectionLostError
        return b"%PDF"

    settings = ChannelSettings(files_max_bytes=1000)
    async with feeding(tmp_path, settings=settings) as fed:
        await fed.say("", files=(replace(a_file(b"", "plan.pdf"), fetch=fetch),))
        state = await fed.until_idle()

        assert tried == [1000, 1000, 1000]
        assert state.held_turns[0].users[0].attachments[0].file_name == "plan.pdf"
        assert fed.adapter.world.texts == []


async def test_more_files_than_a_message_holds_are_refused_with_words(tmp_path: Path) -> None:
    """Ten are taken; what becomes of the others must not be a riddle."""
    files = tuple(a_file(b"x", f"{number}.bin") for number in range(12))
    async with feeding(tmp_path, has_files=False) as fed:
        await fed.say("many", files=files)
        state = await fed.until_idle()

        assert len(state.held_turns[0].users[0].attachments) == 10
        assert "11.bin was not taken: one too many" in (await fed.until_said())[0]


# --- after a downtime ---


async def test_what_is_too_old_is_counted_and_told_once(tmp_path: Path) -> None:
    """Nobody waits for an answer of last week, but they should know that none comes."""
    disk, clock = MemoryDisk(), ManualClock()
    async with feeding(tmp_path, disk=disk, clock=clock) as fed:
        await fed.say("hello")
        await fed.until_idle()
    async with feeding(tmp_path, disk=disk, clock=clock) as fed:
        fed.numbers = 100
        old, recent = clock.now() - timedelta(days=2), clock.now() - timedelta(hours=2)
        for number in range(3):
            await fed.say(f"old {number}", at=old)
        await fed.say("old and a stranger", at=old, chat=BOBS, sender=BOB)
        await fed.say("recent", at=recent)
        handler = await fed.adapter.handler()
        await handler.skipped(DM, 2, "too many")
        for _ in range(2):
            await clock.until_sleeping(3)
            clock.advance(3)
        lines = await fed.until_said()
        await fed.until_idle(turns=2)

        assert await _user_texts(fed) == ["hello", "recent"]
        assert ["5 messages" in line for line in lines] == [True]
        assert fed.adapter.world.chat("8") == []
        assert fed.health.status().skipped == 6


async def test_what_was_written_while_only_the_platform_was_away_is_read_however_late(
    tmp_path: Path,
) -> None:
    """The gateway ran all the time: for its people it was there."""
    async with feeding(tmp_path) as fed:
        await fed.adapter.handler()
        written = fed.clock.now() + timedelta(hours=1)
        fed.clock.advance(3 * 86_400)
        await fed.say("are you there?", at=written)

        assert await _user_texts(fed) == ["are you there?"]


# --- supervision ---


async def test_a_lost_connection_is_tried_again_with_longer_pauses(tmp_path: Path) -> None:
    """Platforms have outages of hours, and nobody is there to start the channel again (R18)."""
    adapter = FeedingAdapter()
    async with feeding(tmp_path, adapter=adapter) as fed:
        await adapter.handler()
        pauses: list[float] = []
        for _ in range(8):
            adapter.break_off(ConnectionLostError("no route to host"))
            await fed.until(lambda: fed.health.status().state == "retrying")
            status = fed.health.status()
            assert status.retry_at is not None
            pauses.append((status.retry_at - fed.clock.now()).total_seconds())
            await fed.clock.until_sleeping(pauses[-1])
            fed.clock.advance(pauses[-1])
            await adapter.handler()
        await fed.say()

        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
        assert (await fed.until_idle()).turns == 1


async def test_a_wrong_setting_is_logged_once_and_looked_at_every_five_minutes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner may set it right on the platform, and a log full of one line hides the others."""
    adapter = FeedingAdapter()
    adapter.setup_error = SetupError("the token was refused: set a new one")
    async with feeding(tmp_path, adapter=adapter) as fed:
        for _ in range(3):
            await fed.until_asleep(300)
            assert fed.health.status().state == "failed setup"
            fed.clock.advance(300)
        await fed.until_asleep(300)
        tried = adapter.serves
        adapter.setup_error = None
        fed.clock.advance(300)
        await fed.say()

        assert tried == 4
        assert len(_logged(caplog, "a channel cannot work as it is set up")) == 1
        assert fed.health.status().state == "connected"


async def _pass_time(fed: Fed, is_so: Callable[[], object]) -> None:
    """Let seconds go by until something is so."""
    while not is_so():
        await anyio.wait_all_tasks_blocked()
        fed.clock.advance(1)


async def test_an_adapter_that_ends_or_has_a_bug_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Libraries of platforms fail in ways nobody foresaw; a channel runs as the gateway does."""
    adapter = FeedingAdapter()
    async with feeding(tmp_path, adapter=adapter) as fed:
        await adapter.handler()
        adapter.break_off(None)
        await fed.until(lambda: fed.health.status().state == "retrying")
        await fed.until_asleep(1)
        fed.clock.advance(1)
        await fed.say()
        assert adapter.serves == 2
        assert not _logged(caplog, "a channel failed")

        adapter.break_off(ExceptionGroup("", [AttributeError("'NoneType' has no 'sequence'")]))
        await _pass_time(fed, lambda: adapter.serves == 3)
        await fed.say()

        (record,) = _logged(caplog, "a channel failed")
        assert record.exc_info
        assert adapter.serves == 3


async def test_a_channel_that_hears_nothing_begins_anew(tmp_path: Path) -> None:
    """A connection can look alive for ever and bring nothing."""
    adapter = FeedingAdapter()
    async with feeding(tmp_path, adapter=adapter) as fed:
        handler = await adapter.handler()
        await fed.until_asleep(180)
        fed.clock.advance(100)
        handler.received()
        fed.clock.advance(80)
        await fed.until_asleep(100)
        after_hearing = adapter.serves
        fed.clock.advance(100)
        await fed.until_asleep(1)
        fed.clock.advance(1)
        await fed.until(lambda: adapter.serves == 2)

        assert after_hearing == 1


async def test_places_and_counts_are_noted_for_others(tmp_path: Path) -> None:
    """Previews depend on the kind of chat, and a status page on what arrived."""
    async with feeding(tmp_path) as fed:
        await fed.say()
        status, health = fed.health.status(), fed.health

        assert fed.chat_types.type_of(fed.key()) == "dm"
        assert fed.chat_types.type_of(fed.key("-100")) == "group"
        assert (status.received, status.account, status.is_healthy) == (1, "@test", True)
    assert health.status().state == "stopped"
