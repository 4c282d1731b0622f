"""A bot in a pretended workspace: threads, clicks, commands, files, sockets, what fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from copy import deepcopy

import anyio
import pytest
from support.slack_api import ANN, APP_TOKEN, BOB, BOT, BOT_TOKEN, Json
from support.slack_world import DM, ROOM, make_bot, open_slack_world

from everturn.testing import RecordingHandler
from everturn_channels.adapter import (
    Button,
    ButtonClick,
    Command,
    Edit,
    Message,
    Outbound,
    OutgoingFile,
)
from everturn_channels.errors import (
    ConnectionLostError,
    NotSentError,
    RefusedError,
    SendError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.inbound.message_text import compose
from everturn_channels.slack import SlackAdapter
from everturn_channels.slack.reading import EventReader
from everturn_channels.slack.requests import open_api

ME = f"<@{BOT}>"
CHOICES = (Button(label="Yes", data="ap:o:1"), Button(label="No", data="ap:d:1"))


def message_of(handler: RecordingHandler, text: str) -> Message:
    """Return the message of a text."""
    return next(each for each in handler.events if isinstance(each, Message) and each.text == text)


async def test_a_question_in_a_channel_begins_a_thread_which_is_a_conversation() -> None:
    """Once, though Slack tells of it twice; and what is said beside it is not for the bot."""
    async with open_slack_world() as world, world.running() as handler:
        first = await world.api.say(ROOM, f"{ME} shall <@{BOB}> &amp; I?", thread_ts=None)
        await handler.until(lambda: "shall @Bob & I?" in handler.texts())
        asked = message_of(handler, "shall @Bob & I?")
        await world.say(ROOM, "yes", topic=asked.chat.topic)
        await world.api.say(ROOM, "fine", thread_ts=first)
        await world.api.say(ROOM, "lunch?")
        other = await world.api.say(ROOM, "a thread of theirs")
        await world.api.say(ROOM, "not for you", BOB, thread_ts=other)
        await world.api.say(ROOM, f"{ME}, and you?", BOB, thread_ts=other)
        report = await world.say(ROOM, "a report of a job")
        for text in ("do it", "now"):
            await world.api.say(ROOM, text, thread_ts=report)
        await handler.until(lambda: {"and you?", "now"} <= set(handler.texts()))
        shown = world.api.shown(ROOM, first)

    got = {
        text: (message_of(handler, text).chat.topic, message_of(handler, text).is_addressed)
        for text in handler.texts()
    }
    assert got == {
        "shall @Bob & I?": (first, True),
        "fine": (first, True),
        "lunch?": ("", False),
        "a thread of theirs": ("", False),
        "not for you": (other, False),
        "and you?": (other, True),
        "do it": (report, True),
        "now": (report, True),
    }
    quotes = {text: message_of(handler, text).quoted for text in got}
    told = {"not for you": "a thread of theirs", "do it": "a report of a job"}
    assert {text: quoted for text, quoted in quotes.items() if quoted} == told
    assert len(handler.events) == len(got)
    assert asked.chat.title == "#general"
    assert (asked.sender.name, asked.sender.language) == ("Ann", "de-DE")
    assert shown == ["yes"]


async def test_a_message_that_is_read_twice_says_the_same() -> None:
    """A history that is read late has what was looked at already; the first brings the alert."""
    async with open_slack_world() as world, world.bot._logged_in() as login:
        alert = await world.api.say(ROOM, "the disk is full", "UBOT99999", bot_id="B9")
        asked = await world.api.say(ROOM, "why?", BOB, thread_ts=alert)
        later = await world.api.say(ROOM, "and now?", BOB, thread_ts=alert)
        raw, reader = world.api.channels[ROOM]["messages"], EventReader(login)
        read = [await reader.message(ROOM, raw[ts]) for ts in (asked, later, asked)]

    first, second, again = (each for found in read for each in found if isinstance(each, Message))
    assert (first.quoted, second.quoted) == ("the disk is full", "")
    assert again == first


async def test_without_threads_a_channel_is_one_conversation() -> None:
    """A setting; people may open threads all the same."""
    async with open_slack_world(has_threads=False) as world, world.running() as handler:
        await world.api.say(ROOM, f"{ME} hello")
        (event,) = await handler.until_handled(1)

    assert isinstance(event, Message)
    assert (event.chat.topic, event.is_addressed) == ("", True)


async def test_what_nobody_wrote_is_no_message() -> None:
    """Other bots, notes of Slack, and what changes without a change of its text."""
    async with open_slack_world() as world, world.running() as handler:
        api = world.api
        alert = await api.say(DM, "I am a bot", "UBOT99999", bot_id="B9")
        await api.say(ROOM, "ann has joined", subtype="channel_join")
        ts = await api.say(DM, "hello <https://e.org|there>")
        await handler.until_handled(1)
        await api._tell_change(
            DM, api.channels[DM]["messages"][ts], api.channels[DM]["messages"][ts]
        )
        await api.say(DM, "a reply", thread_ts=ts)
        await api.delete(DM, ts)
        await api.say(DM, "the future", subtype="hologram")
        await api.say(DM, "what is this?", thread_ts=alert)
        await handler.until(lambda: "what is this?" in handler.texts())

    assert handler.texts() == [
        "hello [there](https://e.org)",
        "a reply",
        "the future",
        "what is this?",
    ]
    assert handler.deletions == [(DM, ts)]
    below = message_of(handler, "what is this?")
    assert (below.quoted, below.is_outside) == ("I am a bot", True)
    assert not message_of(handler, "a reply").is_outside
    assert message_of(handler, "the future").described == (
        "message of a kind that is not known here: hologram",
    )
    assert not any(isinstance(each, Edit) for each in handler.events)


def section(*elements: Json) -> Json:
    """Return a rich text of one line."""
    return {"type": "rich_text_section", "elements": list(elements)}


RICH: Json = {
    "type": "rich_text",
    "elements": [
        section(
            {"type": "user", "user_id": BOB},
            {"type": "text", "text": " says 1 < 2 "},
            {"type": "link", "url": "https://e.org", "text": "there"},
            {"type": "emoji", "name": "tada"},
        ),
        {
            "type": "rich_text_list",
            "style": "ordered",
            "elements": [section({"type": "text", "text": each}) for each in ("one", "two")],
        },
        {"type": "rich_text_quote", "elements": [{"type": "text", "text": "old\nwords"}]},
        {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "x = 1"}]},
    ],
}
TABLE: Json = {
    "type": "table",
    "rows": [
        [{"type": "raw_text", "text": "Item"}, {"type": "raw_text", "text": "a | b"}],
        [{"type": "rich_text", "elements": [section({"type": "link", "url": "https://e.org"})]}],
        [{"type": "raw_text", "text": "C"}, {"type": "raw_number", "value": 7}],
    ],
}
PASTED: Json = {"id": 1, "fallback": "[no preview available]", "blocks": [TABLE]}
TABLE_TEXT = "| Item | a \\| b |\n| --- | --- |\n| https://e.org |  |\n| C | 7 |"
SHARED: Json = {"is_share": True, "author_name": "Bob", "text": "over &amp;\nout"}
IN_BLOCKS: Json = {"message_blocks": [{"message": {"blocks": [RICH, TABLE]}}]}
PREVIEW: Json = {
    "from_url": "https://w.x",
    "title": "Rain",
    "text": "all <https://w.x|day>",
    "fields": [{"title": "in", "value": "Berlin"}],
    "fallback": "Rain",
}
PREVIEW_TEXT = "https://w.x\n[embed Rain | all (day)(https://w.x) | in: Berlin | https://w.x]"
ALERT_TEXT = '[in reply to Grafana: "embed Disk full | on db1"]\nwhy?'
ALERT: Json = {"color": "danger", "title": "Disk full", "text": "on db1", "fallback": "Disk full"}


async def test_whatever_people_send_is_told_in_words() -> None:
    """What stands in blocks or attachments alone is no silence; the last are below alerts."""
    rich = "@Bob says 1 < 2 [there](https://e.org):tada:\n1. one\n2. two\n> old\n> words"
    rich = f"{rich}\n```\nx = 1\n```"
    rows: list[tuple[Json, str]] = [
        ({"text": "hi", "blocks": [RICH]}, "hi"),
        ({"blocks": [RICH]}, rich),
        ({"text": "which?", "attachments": [PASTED]}, f"which?\n\n{TABLE_TEXT}"),
        ({"blocks": [TABLE]}, TABLE_TEXT),
        ({"text": "waves", "subtype": "me_message"}, "* Ann waves"),
        ({"text": "https://w.x", "attachments": [PREVIEW]}, PREVIEW_TEXT),
        ({"attachments": [{"fallback": "A cat", "image_url": "https://c"}]}, "[embed A cat]"),
        ({"attachments": [SHARED]}, "[forwarded from Bob]\nover &\nout"),
        (
            {"text": "look", "attachments": [SHARED]},
            "look\n\n> over &\n> out\n[the quoted lines are forwarded from Bob]",
        ),
        (
            {"attachments": [{"is_msg_unfurl": True} | IN_BLOCKS]},
            f"[forwarded from somebody else]\n{rich}\n\n{TABLE_TEXT}",
        ),
        ({"text": "A huddle started", "room": {"id": "R1"}}, "A huddle started\n[huddle]"),
        ({"subtype": "hologram"}, "[message of a kind that is not known here: hologram]"),
        ({"blocks": [{"type": "cube"}]}, "[message of a kind that is not known here: cube]"),
        ({"blocks": [{"type": "cube", "text": {"text": "six sides"}}]}, "six sides"),
        (
            {"files": [{"mode": "tombstone", "name": "a.png"}]},
            "[file that Slack does not show: a.png]",
        ),
        (
            {"files": [{"mode": "external", "name": "b", "external_url": "https://d"}]},
            "[file that stands elsewhere: b https://d]",
        ),
        ({"files": [{"mode": "snippet", "name": "c.py"}]}, "file c.py"),
        ({"files": [{"mode": "email", "title": "Re: lunch"}]}, "file Re: lunch"),
        ({"files": [{"mode": "quip", "name": "F1", "title": "Plan"}]}, "file Plan.html"),
        (
            {"attachments": [SHARED | {"files": [{"name": "d.pdf"}]}]},
            "[forwarded from Bob]\nover &\nout\nfile d.pdf",
        ),
    ]
    async with open_slack_world() as world, world.running() as handler:
        alert = await world.api.say(
            DM, "", "", bot_id="B9", username="Grafana", attachments=[ALERT]
        )
        table = await world.api.say(DM, "", attachments=[PASTED])
        report = await world.api.say(DM, "word " * 200, "", bot_id="B9", username="Cron")
        said = f"this thread began with a message of Cron: '{('word ' * 200).strip()}'"
        below = [
            ({"text": "why?", "thread_ts": alert}, ALERT_TEXT),
            ({"text": "and this?", "thread_ts": report}, f"and this?\n[{said}]"),
        ]
        for fields, _ in (*rows, *below):
            await world.api.say(DM, **{"text": "", **fields})
        pasted = world.api.channels[DM]["messages"][table]
        other = {"attachments": [PASTED | {"blocks": [{"type": "table", "rows": [["x"]]}]}]}
        await world.api._tell_change(DM, pasted | other, pasted)
        await handler.until_handled(len(rows) + 4)

    messages = [each for each in handler.events if isinstance(each, Message)][1:]
    told = [
        "\n".join((compose(each, in_group=False), *(f"file {f.file_name}" for f in each.files)))
        for each in messages
    ]
    assert [each.strip() for each in told] == [words for _, words in (*rows, *below)]
    outside = {words for (_, words), each in zip(rows, messages, strict=False) if each.is_outside}
    assert outside == {words for _, words in rows if "[embed" in words or "forwarded" in words}
    (edit,) = (each for each in handler.events if isinstance(each, Edit))
    assert edit.text == "| x |\n| --- |"


async def test_questions_are_clicked_and_commands_given() -> None:
    """Answers go to that person alone; buttons vanish with the answer."""
    async with open_slack_world() as world, world.running() as handler:
        api = world.api
        first = await api.say(ROOM, f"{ME} do it")
        await handler.until_handled(1)
        asked = await world.say(ROOM, "May I?", topic=first, buttons=CHOICES, nonce="q")
        await api.click(ROOM, asked, 1)
        await handler.until(lambda: isinstance(handler.events[-1], ButtonClick))
        click = handler.events[-1]
        assert isinstance(click, ButtonClick)
        await click.answer("You said **no**.")
        (payload,) = world.bot.render("It was refused.")
        await world.bot.edit(ROOM, first, asked, payload)
        await api.command(DM, "Status now", BOB)
        await api.command(DM, "")
        await api.say(ROOM, f"{ME} /stop it", thread_ts=first)
        await api.say(DM, "!whoami")
        await api.say(DM, "/whoami", edited={"user": ANN, "ts": "1.000000"})
        await handler.until(lambda: sum(isinstance(e, Command) for e in handler.events) == 5)
        commands = [each for each in handler.events if isinstance(each, Command)]
        by_name = {each.name: each for each in commands}
        await by_name["status"].answer("all well")
        await by_name["stop"].answer("stopped")
        told, shown = api.answers, api.shown(ROOM, first)
        buttons = [b["type"] for b in api.channels[ROOM]["messages"][asked]["blocks"]]

    assert (click.data, click.chat.topic, click.sender.id) == ("ap:d:1", first, ANN)
    assert [each["response_type"] for each in told] == ["ephemeral", "ephemeral"]
    assert [each["blocks"][0]["text"] for each in told] == ["You said **no**.", "all well"]
    assert told[0]["thread_ts"] == first
    got = {(c.name, c.argument, c.sender.id, c.chat.topic, c.is_typed) for c in commands}
    assert got == {
        ("status", "now", BOB, "", True),
        ("help", "", ANN, "", True),
        ("stop", "it", ANN, first, True),
        ("whoami", "", ANN, "", True),
        ("whoami", "", ANN, "", False),
    }
    assert shown == ["It was refused.", "stopped"]
    assert buttons == ["markdown"]


async def test_what_was_written_during_an_outage_is_read_with_its_threads() -> None:
    """Longer than Slack repeats: from the history, in a chat that was never seen as well."""
    async with open_slack_world() as world:
        api = world.api
        async with world.running() as handler:
            first = await api.say(ROOM, f"{ME} begin")
            await handler.until_handled(1)
            await api.say(ROOM, "go on", thread_ts=first)
            await handler.until_handled(2)
            asked = await api.say(ROOM, f"{ME} and this?")
            await handler.until_handled(3)
            report = await world.say(ROOM, "a report of a job")
        missed = api.add_channel("DBOB00009", BOB, name="")
        await api.say(ROOM, "in the old thread", thread_ts=first)
        await api.say(ROOM, "under the question", thread_ts=asked)
        await api.say(ROOM, "under the report", thread_ts=report)
        later = await api.say(ROOM, f"{ME} a new one")
        await api.say(ROOM, "in the new thread", thread_ts=later)
        await api.say(missed, "a first word", BOB)
        api.pending.clear()
        async with world.running() as handler:
            await handler.until(lambda: len(handler.texts()) == 6)
            await api.say(ROOM, "after", thread_ts=first)
            await handler.until(lambda: "after" in handler.texts())

    assert handler.texts(ROOM) == [
        "in the old thread",
        "under the question",
        "under the report",
        "a new one",
        "in the new thread",
        "after",
    ]
    assert message_of(handler, "under the question").is_addressed
    assert message_of(handler, "under the report").is_addressed
    assert handler.texts("DBOB00009") == ["a first word"]
    assert message_of(handler, "in the new thread").chat.topic == later


async def test_a_repeat_of_minutes_later_is_the_same_message() -> None:
    """Slack repeats what it was not told of for five minutes, and to the next socket as well."""
    async with open_slack_world() as world:
        async with world.running() as handler:
            ts = await world.api.say(DM, "once")
            await handler.until_handled(1)
        raw = world.api.channels[DM]["messages"][ts]
        async with world.running() as handler:
            await world.api._tell(DM, raw)
            await world.api.say(DM, "next")
            await handler.until(lambda: "next" in handler.texts())
            again = [each for each in handler.events if isinstance(each, Message)]

    assert {each.id for each in again if each.text == "once"} <= {ts}
    assert handler.texts()[-1] == "next"


async def test_what_may_be_there_is_looked_for() -> None:
    """In threads, among files, and after a change; a nonce that somebody else wrote is none."""
    file = OutgoingFile(data=b"plan", file_name="plan.pdf", media_type="application/pdf")
    async with open_slack_world() as world:
        api = world.api
        async with world.running() as handler:
            first = await api.say(ROOM, f"{ME} begin")
            await handler.until_handled(1)
            said = await world.say(ROOM, "one", topic=first, nonce="n1")
            (payload,) = world.bot.render("changed")
            await world.bot.edit(ROOM, first, said, payload)
            sent = Outbound(chat_id=ROOM, topic=first, file=file, nonce="n2")
            api.cut_after = "files.completeUploadExternal"
            with pytest.raises(UnknownOutcomeError):
                await world.bot.send(sent)
        forged = {"event_type": "everturn", "event_payload": {"nonce": "n3"}}
        await api.say(DM, "forged", metadata=forged)
        async with world.running():
            again = await world.say(ROOM, "one", topic=first, nonce="n1", is_repeat=True)
            await world.bot.send(
                Outbound(chat_id=ROOM, topic=first, file=file, nonce="n2", is_repeat=True)
            )
            await world.say(DM, "new", nonce="n3", is_repeat=True)
            for history in ("conversations.history", "conversations.replies"):
                api.refusals[history] = deque(["internal_error"])
            with pytest.raises(NotSentError):
                await world.say(DM, "new", nonce="n3", is_repeat=True)

    assert again == said
    assert api.shown(ROOM, first) == ["changed", ""]
    assert api.sent_files(ROOM) == [b"plan"]
    assert api.shown(DM) == ["new"]


async def test_reactions_take_each_others_place_and_a_thread_shows_that_somebody_types() -> None:
    """Also those of a bot before; the same twice is one."""
    async with open_slack_world() as world:
        async with world.running() as handler:
            ts = await world.api.say(DM, "hello")
            await handler.until_handled(1)
            for emoji in ("👀", "👀", ":tada:"):
                await world.bot.react(DM, ts, emoji)
            with pytest.raises(RefusedError, match=":name:"):
                await world.bot.react(DM, ts, "🦑")
            await world.bot.type(DM, "")
            await world.bot.type(DM, ts)
        before = deepcopy(world.api.channels[DM]["messages"][ts]["reacted"])
        async with world.running():
            await world.bot.react(DM, ts, "")
        after = world.api.channels[DM]["messages"][ts]["reacted"]

    assert before == {"eyes": [], "tada": [BOT]}
    assert not any(after.values())
    assert world.api.statuses == [(DM, ts, "is typing…")]


async def test_another_bot_that_reacts_is_no_person() -> None:
    """A workflow that ticks whatever is said must not answer a question."""
    async with open_slack_world() as world, world.running() as handler:
        world.api.users["UBOT00002"] = "robot"
        asked = await world.say(ROOM, "shall I?")
        for user in ("UBOT00002", ANN):
            await world.api._deliver_event(
                {
                    "type": "reaction_added",
                    "reaction": "white_check_mark",
                    "user": user,
                    "item_user": BOT,
                    "item": {"type": "message", "channel": ROOM, "ts": asked},
                    "event_ts": "1780000000.000100",
                }
            )
        await handler.until(lambda: len(handler.events) == 2)
        senders = [each.sender for each in handler.events]

    assert [(each.id, each.is_bot) for each in senders] == [("UBOT00002", True), (ANN, False)]


async def test_an_answer_of_slack_says_what_may_be_tried_again() -> None:
    """And formatting that is refused goes as plain text."""
    rows: dict[str, tuple[type[SendError], bool | None]] = {
        "ratelimited": (NotSentError, None),
        "token_revoked": (NotSentError, None),
        "internal_error": (UnknownOutcomeError, None),
        "is_archived": (RefusedError, True),
        "msg_too_long": (RefusedError, False),
        "missing_scope chat:write": (RefusedError, False),
    }
    async with open_slack_world() as world, world.running():
        found: dict[str, tuple[type[Exception], bool | None]] = {}
        for code in rows:
            world.api.refusals["chat.postMessage"] = deque([code])
            with pytest.raises(SendError) as raised:
                await world.say(ROOM if code == "ratelimited" else DM, "hello")
            found[code] = (type(raised.value), getattr(raised.value, "is_chat_gone", None))
        world.api.refusals["chat.postMessage"] = deque(["invalid_blocks"])
        await world.say(DM, "**as** it <!here> stands")
        world.api.limits["chat.update"] = deque([30])
        ts = await world.say(DM, "and this")
        (payload,) = world.bot.render("changed")
        for _ in range(2):  # the second is not even asked
            with pytest.raises(NotSentError):
                await world.bot.edit(DM, "", ts, payload)
        await world.say(DM, "others go on")

    assert found == rows
    assert world.api.shown(DM) == ["**as** it <!here> stands", "and this", "others go on"]
    assert sum(method == "chat.update" for method, _ in world.api.calls) == 1


async def test_sockets_are_replaced_without_a_gap_and_their_end_is_told() -> None:
    """Slack closes each of them after some hours; Socket Mode may be switched off."""
    async with open_slack_world() as world:
        async with world.running() as handler:
            (old,) = world.api.sockets
            await world.api.disconnect("refresh_requested")
            while len(world.api.sockets) < 2:
                await world.api.say(DM, f"number {len(handler.events)}")
                await handler.until_handled(len(handler.events) + 1)
            await old.close()
            await world.api.say(DM, "through the new one")
            await handler.until(lambda: "through the new one" in handler.texts())
        logins = sum(method == "auth.test" for method, _ in world.api.calls)
        failures: list[str] = []
        for reason in ("link_disabled", "too_many_websockets"):
            bot, handler = make_bot(world.api), RecordingHandler(cursors=world.cursors)
            failures.append(await _ended(world.api.disconnect, bot, handler, reason))
        world.api.socket_mode = False
        with pytest.raises(SetupError, match=r"app_token .* \(connections:write\)"):
            await make_bot(world.api).serve(RecordingHandler())
        world.api.socket_mode = True
        world.api.refusals["users.conversations"] = deque(["missing_scope channels:read"])
        with pytest.raises(SetupError, match=r"slack.bot_token .* \(channels:read\)"):
            await make_bot(world.api).serve(RecordingHandler())
        world.api.revoked = True
        with pytest.raises(SetupError, match=r"channels.slack.bot_token .* token_revoked"):
            await make_bot(world.api).check()

    assert logins == 1
    assert [each.partition(":")[0] for each in failures] == ["SetupError", "ConnectionLostError"]


async def _ended(
    disconnect: Callable[[str], Awaitable[None]],
    bot: SlackAdapter,
    handler: RecordingHandler,
    reason: str,
) -> str:
    """Return why a bot ended that was told a reason."""
    found: list[str] = []

    async def serve() -> None:
        try:
            await bot.serve(handler)
        except (ConnectionLostError, SetupError) as error:
            found.append(f"{type(error).__name__}: {error}")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await handler.until_connected()
        await disconnect(reason)
    return found[0]


async def test_the_token_is_shown_to_slack_alone_and_a_look_names_missing_scopes() -> None:
    """An address in a message may be anybody's."""
    async with open_slack_world() as world:
        account = make_bot(world.api)._account
        async with open_api(account, where="channels.slack") as api:
            is_theirs = [
                api.is_slacks(each)
                for each in (
                    "https://files.slack.com/files-pri/T-F/a.pdf",
                    f"{world.api.url}/files/F1/a.pdf",
                    "https://files.slack.com.evil.org/a",
                    "https://evil.org/files.slack.com",
                    "http://files.slack.com/a",
                    "https://user@evil.org:443\\@files.slack.com/",
                    "https://files.slack.com:8443/a",
                    "file:///etc/passwd",
                    "http://[",
                )
            ]
        whole = await make_bot(world.api).check()
        world.api.scopes = "chat:write"
        less = await make_bot(world.api, app_token="xapp-wrong").check()  # noqa: S106 - of a test

    assert is_theirs == [True, True, *[False] * 7]
    assert whole == ["the bot is @everturn in Test", "it is in 1 channels", "Socket Mode is on"]
    assert "problem: the scope files:read is missing: the bot cannot read files" in less
    assert less[-1].startswith("problem: Slack does not let channels.slack.app_token")
    assert BOT_TOKEN not in repr(account)
    assert APP_TOKEN not in repr(account)
