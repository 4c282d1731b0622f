"""The Telegram channel: the real aiogram against a Bot API on loopback."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from aiogram.client.telegram import TelegramAPIServer
from support.inbox import Inbox, QuickClock, serving
from support.tables import table
from support.telegram_api import ANN, TOKEN, TelegramApi, open_telegram_api, units

from everturn_actors.ports import Clock
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
    Reaction,
)
from everturn_channels.errors import (
    ChatMovedError,
    ConnectionLostError,
    FileTooLargeError,
    NotSentError,
    RefusedError,
    SendError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.telegram import TelegramAdapter, WebhookPlace

HERE = str(ANN)
BOB = 1002


def make(api: TelegramApi, clock: Clock | None = None, **settings: Any) -> TelegramAdapter:
    """Return the adapter of the bot that the server knows."""
    settings = {"name": "telegram", "token": TOKEN, "api_base": api.url, **settings}
    return TelegramAdapter(clock=clock or QuickClock(), **settings)


@asynccontextmanager
async def open_bot(
    inbox: Inbox | None = None,
    **settings: Any,
) -> AsyncGenerator[tuple[TelegramApi, TelegramAdapter, Inbox]]:
    """Serve a bot while the block runs; Ann has written to it before."""
    async with open_telegram_api() as api:
        api.chat(ANN)
        adapter = make(api, **settings)
        async with serving(adapter, inbox or Inbox()) as served:
            await api.until(lambda: api.has_poll)
            yield api, adapter, served


class SlowFiles(Inbox):
    """An handler in which each message waits for its file, and nothing else does."""

    def __init__(self) -> None:
        super().__init__()
        self.has_file = anyio.Event()

    async def handle(self, event: InboundEvent) -> None:
        if isinstance(event, Message):
            await self.has_file.wait()
        await super().handle(event)


def texts(inbox: Inbox, chat: int = ANN) -> list[str]:
    """Return what was taken of a chat."""
    return [a.text for a in inbox.taken if isinstance(a, Message) and a.chat.id == str(chat)]


def out(text: str = "hello", **fields: Any) -> Outbound:
    """Return a message to send to Ann."""
    payload = json.dumps({"text": text, "entities": []}) if text else ""
    return Outbound(**{"chat_id": HERE, "payload": payload, **fields})


# --- receiving -----------------------------------------------------------------------------------


async def test_an_update_is_confirmed_only_when_it_was_taken() -> None:
    """What Telegram counts as confirmed is gone for ever: it has to be durable before."""
    async with open_bot() as (api, _, inbox):
        gate = inbox.hold(HERE)
        api.say("do not lose me")
        await api.until(lambda: len(api.sent("getUpdates")) > 2)
        waiting = list(api.updates)
        gate.set()
        await api.until(lambda: not api.updates and api.has_poll)

    assert len(waiting) == 1
    assert texts(inbox) == ["do not lose me"]
    assert inbox.account == "@everturn_bot"
    assert "callback_query" in api.sent("getUpdates")[0].params["allowed_updates"]
    assert [c["command"] for c in api.commands][:3] == ["start", "help", "reset"]


async def test_a_command_is_taken_once_beside_what_hangs_in_its_chat() -> None:
    """Who wonders what takes so long asks for the status; to forget everything has to wait."""
    slow = SlowFiles()
    async with open_bot(slow) as (api, _, inbox):
        for text in ("a file", "and this", "/status", "/reset"):
            api.say(text)
        await inbox.until(lambda: inbox.taken)
        api.say("/stop")
        await inbox.until(lambda: len(inbox.taken) == 2)
        waiting = len(api.updates)
        slow.has_file.set()
        await api.until(lambda: not api.updates and api.has_poll)

    taken = [a.name if isinstance(a, Command) else getattr(a, "text", "") for a in inbox.taken]
    assert waiting == 5
    assert taken == ["status", "stop", "a file", "and this", "reset"]


async def test_a_message_that_cannot_be_kept_stays_with_telegram() -> None:
    """A full disk must cost time and no message, and only where it is full."""
    async with open_bot() as (api, _, inbox):
        inbox.full_chats.add(HERE)
        for text in ("one", "two"):
            api.say(text)
        api.say("elsewhere", chat=BOB)
        await inbox.until(lambda: len(inbox.refused) > 2 and texts(inbox, BOB))
        before = [u["message"]["text"] for u in api.updates]
        inbox.full_chats.clear()
        await api.until(lambda: not api.updates and api.has_poll)

    assert before == ["one", "two", "elsewhere"]
    assert texts(inbox) == ["one", "two"]
    assert texts(inbox, BOB) == ["elsewhere"]
    assert {a.text for a in inbox.refused if isinstance(a, Message)} == {"one"}


async def test_one_chat_that_cannot_be_kept_does_not_hide_all_others() -> None:
    """Telegram shows a hundred updates at a time, from the first on that was not confirmed."""
    clock = QuickClock()
    async with open_telegram_api() as api, serving(make(api, clock=clock), Inbox()) as inbox:
        await api.until(lambda: api.has_poll)
        inbox.full_chats.add(HERE)
        api.say("stuck")
        api.say("stuck, too")
        await inbox.until(lambda: inbox.refused)
        clock.advance(10)
        for number in range(120):
            api.say(f"{number}", chat=BOB)
        await inbox.until(lambda: len(texts(inbox, BOB)) == 98)
        unseen = list(inbox.skips)
        clock.advance(60)
        await inbox.until(lambda: len(texts(inbox, BOB)) == 120)

    assert unseen == []
    ((chat, count, why),) = inbox.skips
    assert (chat.id, count) == (HERE, 2)
    assert "could not be kept" in why


async def test_while_nothing_can_be_kept_nothing_is_left_out() -> None:
    """A full disk concerns all: to give up what waits for it would help nobody."""
    clock = QuickClock()
    async with open_telegram_api() as api, serving(make(api, clock=clock), Inbox()) as inbox:
        await api.until(lambda: api.has_poll)
        inbox.full_chats |= {HERE, str(BOB)}
        for number in range(120):
            api.say(f"{number}", chat=BOB if number % 2 else ANN)
        await inbox.until(lambda: len(inbox.refused) > 2)
        clock.advance(600)
        await inbox.until(lambda: len(inbox.refused) > 6)
        inbox.full_chats.clear()
        await inbox.until(lambda: len(inbox.taken) == 120)

    assert inbox.skips == []


async def test_the_first_start_answers_nothing_old() -> None:
    """Whoever connects a bot must not see it answer last week."""
    async with open_telegram_api() as api:
        for number in range(150):
            api.say(f"old {number}")
        inbox = Inbox(is_new=True)
        async with serving(make(api), inbox):
            await api.until(lambda: api.has_poll)
            api.say("new")
            await inbox.until(lambda: inbox.taken)

    assert texts(inbox) == ["new"]
    assert inbox.skips == []
    assert inbox.cursors


async def test_a_long_backlog_is_cut_and_reported() -> None:
    """After a long outage the newest matter; who wrote the others has to know."""
    async with open_telegram_api() as api:
        for number in range(130):
            api.say(f"{number}", chat=ANN if number % 2 else BOB)
        inbox = Inbox()
        async with serving(make(api, backlog_max_messages=20), inbox):
            await inbox.until(lambda: len(inbox.taken) == 20)
            await api.until(lambda: not api.updates and api.has_poll)

    assert texts(inbox)[0] == "111"
    assert texts(inbox)[-1] == "129"
    assert {(chat.id, count) for chat, count, _ in inbox.skips} == {(HERE, 55), ("1002", 55)}


async def test_polling_survives_webhooks_and_other_pollers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A forgotten webhook or a second program must not silence the bot for good."""
    async with open_telegram_api() as api:
        api.webhook = {"url": "https://old.example/hook"}
        api.say("waited with the webhook")
        async with serving(make(api), Inbox()) as inbox:
            await inbox.until(lambda: texts(inbox))
            await api.until(lambda: api.has_poll)
            webhook = {"url": "https://other.example/hook"}
            api.webhook = webhook
            api._conflict("terminated by setWebhook request")
            await api.until(lambda: api.webhook is not webhook and api.has_poll)
            api.fail("getUpdates", 409, "Conflict: terminated by other getUpdates request", times=6)
            api._conflict("terminated by other getUpdates request")
            await api.until(lambda: len([c for c in api.calls if c.status == 409]) >= 8)
            api.say("after all")
            await inbox.until(lambda: len(texts(inbox)) == 2)

    assert texts(inbox) == ["waited with the webhook", "after all"]
    assert "another program receives this bot's messages" in caplog.text


async def test_short_outages_are_waited_out_and_long_ones_reported() -> None:
    """A bad gateway for seconds is nothing; one for minutes has to show in the health."""
    clock = QuickClock()
    async with open_bot(clock=clock) as (api, adapter, inbox):
        api.fail("getUpdates", 502, "Bad Gateway", times=3)
        api.cut("getUpdates")
        api.say("before")  # ends the request that waits
        await inbox.until(lambda: texts(inbox))
        api.say("in between")
        await inbox.until(lambda: len(texts(inbox)) == 2)
    async with open_telegram_api() as api:
        api.fail("getUpdates", 502, "Bad Gateway", times=99)
        with pytest.raises(ConnectionLostError):
            await make(api).serve(Inbox())
    with pytest.raises(ConnectionLostError):
        await make(api).serve(Inbox())  # nobody listens there any more

    assert texts(inbox) == ["before", "in between"]
    assert clock.slept_s[:3] == [0.5, 1.0, 2.0]
    with pytest.raises(NotSentError):
        await adapter.send(out())


@table("token", ["", "no token", "4242424242:AAHanother-token_of-thirty-five-chars"])
async def test_a_bad_token_names_the_setting(token: str) -> None:
    """Its owner has to know where to put another one."""
    async with open_telegram_api() as api:
        with pytest.raises(SetupError, match=r"channels\.telegram\.bot_token"):
            await make(api, token=token).serve(Inbox())
        with pytest.raises(SetupError, match=r"channels\.telegram\.bot_token"):
            await make(api, token=token).check()


async def test_albums_arrive_as_one_message() -> None:
    """Three pictures with one question are one thing to answer, also when one comes late."""

    def photo(number: int, **fields: object) -> dict[str, object]:
        size = {"file_id": f"p{number}", "file_unique_id": f"p{number}", "width": 9, "height": 9}
        return {"photo": [size], "media_group_id": "77", **fields}

    clock = ManualClock()
    async with open_bot(clock=clock) as (api, _, inbox):
        first = api.say("", chat=-5, **photo(1, caption="@everturn_bot what is this?"))
        first["caption_entities"] = [{"type": "mention", "offset": 0, "length": 13}]
        await clock.until_sleeping(1)
        api.say("", chat=-5, **photo(2))
        api.say("next", chat=-5)
        clock.advance(1)
        await clock.until_sleeping(1)
        early = list(inbox.taken)
        clock.advance(1)
        await inbox.until(lambda: len(inbox.taken) == 2)
        await api.until(lambda: not api.updates and api.has_poll)
        api.say("", chat=-5, **photo(3))
        await clock.until_sleeping(1)
        clock.advance(1)
        await inbox.until(lambda: len(inbox.taken) == 3)

    assert early == []
    album, after, late = (a for a in inbox.taken if isinstance(a, Message))
    assert (album.id, album.text) == (str(first["message_id"]), "what is this?")
    assert [f.file_name for f in album.files] == ["photo-2.jpg", "photo-3.jpg"]
    assert after.text == "next"
    assert late.is_album
    assert late.is_addressed


async def test_what_can_be_read_of_an_odd_message_is_answered() -> None:
    """A poll as no library knows it must not take the words beside it with it."""
    async with open_bot() as (api, _, inbox):
        api.say("vote!", poll={"id": 7, "options": "none"}, reply_markup=5)
        api.say("", poll={"id": 7})
        api.say("hello")
        await inbox.until(lambda: "hello" in texts(inbox))

    assert texts(inbox) == ["vote!", "hello"]
    assert [(kind, chat.id if chat else "") for kind, _, chat in inbox.unread] == [
        ("message", HERE)
    ]


@table("inside", [b"[" * 60_000 + b"]" * 60_000, b"9" * 5_000, b'"\\ud800"'])
async def test_a_page_that_is_no_json_hides_no_other_update(inside: bytes) -> None:
    """The same page comes with each poll: a bot that waits for a better one is deaf for ever."""
    async with open_bot() as (api, _, inbox):
        api.raw[api.push({"message": {"text": "RAW"}})] = (b'"RAW"', inside)
        for number in range(3):
            api.say(f"{number}")
        await inbox.until(lambda: len(texts(inbox)) == 3)
        await api.until(lambda: not api.updates and api.has_poll)

    assert texts(inbox) == ["0", "1", "2"]
    assert len(inbox.unread) == 1


async def test_updates_that_are_numbered_anew_are_seen() -> None:
    """After a quiet week Telegram begins anywhere, and the bot must not wait for higher numbers."""
    async with open_bot() as (api, _, inbox):
        api.say("before")
        await api.until(lambda: not api.updates and api.has_poll)
        api.end_poll(next_update=7)
        polls = len(api.sent("getUpdates"))
        await api.until(lambda: len(api.sent("getUpdates")) > polls and api.has_poll)
        api.say("after a week")
        await inbox.until(lambda: len(inbox.taken) == 2)

    assert texts(inbox) == ["before", "after a week"]


async def test_a_proxy_is_used() -> None:
    """In some places there is no other way to Telegram."""
    async with open_telegram_api() as api:
        # a request that a proxy gets names the server: this one answers in its place
        adapter = make(api, api_base="http://telegram.invalid", proxy=api.url)
        found = await adapter.check()
        with pytest.raises(SetupError, match=r"channels\.telegram\.proxy"):
            await make(api, proxy="gopher://ann:pass@127.0.0.1:9").check()

    assert "@everturn_bot" in found[0]


async def test_edits_commands_and_presses_arrive_and_can_be_answered() -> None:
    """What is more than a message has to reach the person who did it."""
    async with open_bot() as (api, adapter, inbox):
        said = api.say("helo")
        api.push({"edited_message": {**said, "text": "hello", "edit_date": said["date"] + 1}})
        api.say("/status now")
        await adapter.send(out("allow?", buttons=(Button(label="Yes", data="y:1"),)))
        question = api.sent("sendMessage")[0].result
        api.click(question, "y:1")
        await inbox.until(lambda: len(inbox.taken) == 4)
        command = next(a for a in inbox.taken if isinstance(a, Command))
        click = next(a for a in inbox.taken if isinstance(a, ButtonClick))
        await command.answer("**fine** " + "x" * 5000)
        await click.answer("done " + "x" * 300)

    edit = next(a for a in inbox.taken if isinstance(a, Edit))
    assert (edit.id, edit.text) == (str(said["message_id"]), "hello")
    assert (command.name, command.argument) == ("status", "now")
    assert (click.data, click.sender.id) == ("y:1", HERE)
    assert [units(c.result["text"]) <= 4096 for c in api.sent("sendMessage")[1:]] == [True, True]
    assert api.sent("sendMessage")[1].result["entities"][0]["type"] == "bold"
    assert api.sent("answerCallbackQuery")[0].params["text"].startswith("done x")


async def test_pictures_are_an_album_and_documents_where_one_is_none() -> None:
    """An album that may be there already says so, once; a reaction on a part of it is one on it."""
    pictures = [
        OutgoingFile(data=b"png%d" % n, file_name=f"{n}.png", media_type="image/png")
        for n in range(2)
    ]
    album = out("", file=pictures[0], more_files=(pictures[1],), is_repeat=True)
    async with open_bot() as (api, adapter, inbox):
        first = await adapter.send(album)
        (sent_first,) = api.sent("sendMediaGroup")
        last = sent_first.result[-1]
        liked = {"message_id": last["message_id"], "chat": last["chat"], "date": 1}
        thumb = [{"type": "emoji", "emoji": "👍"}]
        api.push({"message_reaction": liked | {"old_reaction": [], "new_reaction": thumb}})
        await inbox.until(lambda: bool(inbox.taken))
        api.fail("sendMediaGroup", 400, "Bad Request: PHOTO_INVALID_DIMENSIONS")
        second = await adapter.send(album)
        api.fail("sendMediaGroup", 400, "Bad Request: chat not found")
        with pytest.raises(RefusedError):
            await adapter.send(album)

    sent = [call.result for call in api.sent("sendMediaGroup")]
    assert [str(each[0]["message_id"]) for each in sent] == [first, second]
    (reaction,) = inbox.taken
    assert isinstance(reaction, Reaction)
    assert reaction.message_id == first  # which is what the log knows of it
    assert [["photo" in part for part in each] for each in sent] == [[True, True], [False, False]]
    assert [part.get("caption", "") for part in sent[0]] == ["(This may be a repeat.)", ""]


async def test_files_are_fetched_up_to_a_limit() -> None:
    """A picture has to reach the model, and a film must not fill the memory."""
    async with open_bot() as (api, _, inbox):
        api.files |= {"docs/a b.txt": b"hello", "docs/long": b"x" * 2000}
        for path, size in (("docs/a b.txt", 5), ("docs/long", None), ("docs/gone", 5)):
            file: dict[str, object] = {"file_id": path, "file_unique_id": path, "file_name": path}
            api.say("", document=file | ({"file_size": size} if size else {}))
        await inbox.until(lambda: len(inbox.taken) == 3)
        small, long, gone = (a.files[0] for a in inbox.taken if isinstance(a, Message))
        fetched = await small.fetch(100)
        for file_, limit in ((small, 4), (long, 1000)):
            with pytest.raises(FileTooLargeError):
                await file_.fetch(limit)
        with pytest.raises(ConnectionLostError):
            await gone.fetch(100)
        api.fail("getFile", 400, "Bad Request: file is too big")
        with pytest.raises(FileTooLargeError, match="20 MB"):
            await long.fetch(10**9)

    assert fetched == b"hello"
    assert small.file_name == "a b.txt"


# --- sending -------------------------------------------------------------------------------------


async def test_messages_are_sent_as_they_were_laid_out() -> None:
    """Formatting, reply, topic, buttons and the label of a repeat have to arrive as such."""
    async with open_bot() as (api, adapter, _):
        api.chat(-7, is_forum=True)
        (payload,) = adapter.render("**bold** and `code`")
        said = api.message("question", chat=-7)
        sent = await adapter.send(
            Outbound(
                chat_id="-7",
                topic="9",
                payload=payload,
                reply_to=str(said["message_id"]),
                buttons=(Button(label="Yes", data="y"), Button(label="No", data="n")),
                is_repeat=True,
            )
        )
        await adapter.send(out(reply_to="99999"))

    message = api.messages[-7, int(sent)]
    assert message["text"] == "(This may be a repeat.)\nbold and code"
    assert [(e["type"], e["offset"]) for e in message["entities"]] == [("bold", 24), ("code", 33)]
    assert message["message_thread_id"] == 9
    assert message["reply_to_message"]["text"] == "question"
    assert message["reply_markup"]["inline_keyboard"][0][1]["callback_data"] == "n"
    assert "parse_mode" not in api.sent("sendMessage")[0].params


async def test_what_telegram_refuses_for_its_form_goes_plain() -> None:
    """Words without formatting are better than none; an edit that changes nothing is done."""
    async with open_bot() as (api, adapter, _):
        (payload,) = adapter.render("**bold**")
        api.fail("sendMessage", 400, "Bad Request: can't parse entities: unsupported")
        sent = await adapter.send(out(payload=payload))
        await adapter.edit(HERE, "", sent, payload)
        await adapter.edit(HERE, "", sent, payload)
        api.fail("editMessageText", 400, "Bad Request: can't parse entities: unsupported")
        await adapter.edit(HERE, "", sent, adapter.render("**bolder**")[0])
        edited = api.messages[ANN, int(sent)]["text"]
        with pytest.raises(RefusedError) as gone:
            await adapter.edit(HERE, "", "99999", payload)
        api.fail("sendPhoto", 400, "Bad Request: PHOTO_INVALID_DIMENSIONS")
        api.fail("sendVoice", 400, "Bad Request: VOICE_MESSAGES_FORBIDDEN")
        picture = OutgoingFile(data=b"\x89PNG", file_name='a"b\n.png', media_type="image/png")
        for repeat in (False, True):
            await adapter.send(out("", file=picture, is_repeat=repeat))
        sound = OutgoingFile(
            data=b"OggS", file_name="reply.ogg", media_type="audio/ogg", is_voice=True, duration_s=2
        )
        for _ in range(2):  # first she lets nobody send her voice notes
            await adapter.send(out("", file=sound))

    plain = api.asked("sendMessage")
    assert [call.status for call in plain] == [400, 200]
    assert plain[1].params["text"] == "bold"
    assert "entities" not in plain[1].params
    assert [call.status for call in api.asked("editMessageText")] == [200, 400, 400, 200, 400]
    assert edited == "bolder"
    assert not gone.value.is_chat_gone
    assert api.files["sent/ab.png"] == b"\x89PNG"
    methods = ("sendDocument", "sendPhoto", "sendVoice")
    assert [len(api.sent(method)) for method in methods] == [2, 1, 1]
    assert api.sent("sendVoice")[0].params["duration"] == "2"
    assert api.sent("sendPhoto")[0].result["caption"] == "(This may be a repeat.)"


async def test_signs_and_drafts_are_shown() -> None:
    """People see that something happens; a draft shows the end of a long text."""
    async with open_bot() as (api, adapter, _):
        await adapter.type(HERE, "")
        await adapter.react(HERE, "5", "👀")
        await adapter.react(HERE, "5", "")
        await adapter.show_draft(HERE, "", 3, "a" * 5000 + "🔥end")
        await adapter.show_draft(HERE, "", 3, "  ")
        with pytest.raises(RefusedError):
            await adapter.show_draft("-7", "", 3, "no drafts in groups")

    ((chat, draft, text),) = api.drafts
    assert (chat, draft) == (ANN, 3)
    assert text.endswith("aaa🔥end")
    assert [c.params["reaction"] for c in api.sent("setMessageReaction")] == [
        [{"type": "emoji", "emoji": "👀"}],
        [],
    ]


async def test_nothing_that_is_said_is_previewed() -> None:
    """Telegram fetches what it previews, and an address may carry what the conversation says."""
    async with open_bot() as (api, adapter, _):
        sent = await adapter.send(out("see https://evil.example/?what-it-knows"))
        await adapter.edit(HERE, "", sent, out("see https://evil.example/?more").payload)

    said = [*api.sent("sendMessage"), *api.sent("editMessageText")]
    assert [each.params["link_preview_options"]["is_disabled"] for each in said] == [True, True]


async def test_flood_control_quiets_the_whole_bot_for_as_long_as_told() -> None:
    """Who goes on sending is blocked for longer; nothing may be dropped meanwhile."""
    clock = QuickClock()
    async with open_bot(clock=clock) as (api, adapter, _):
        api.fail("editMessageText", 429, "Too Many Requests: retry after 33", retry_after=33)
        sent = await adapter.send(out())
        others: list[Callable[[], Awaitable[object]]] = [
            lambda: adapter.send(out(chat_id="1002")),
            lambda: adapter.type(HERE, ""),
            lambda: adapter.show_draft(HERE, "", 1, "x"),
            lambda: adapter.react(HERE, "5", ""),
        ]
        with pytest.raises(NotSentError) as told:
            await adapter.edit(HERE, "", sent, out("two").payload)
        before = len(api.calls)
        clock.advance(13)
        left: list[float | None] = []
        for other in others:
            with pytest.raises(NotSentError) as waits:
                await other()
            left.append(waits.value.retry_after_s)
        quiet = [c.method for c in api.calls[before:] if c.method != "getUpdates"]
        clock.advance(20)
        await adapter.edit(HERE, "", sent, out("two").payload)

    assert told.value.retry_after_s == 33
    assert left == [20.0] * 4
    assert quiet == []
    assert api.messages[ANN, int(sent)]["text"] == "two"


FAILURES: list[tuple[int, str, type[SendError], bool]] = [
    (403, "Forbidden: bot was blocked by the user", RefusedError, True),
    (403, "Forbidden: bot was kicked from the supergroup chat", RefusedError, True),
    (400, "Bad Request: chat not found", RefusedError, True),
    (400, "Bad Request: message thread not found", RefusedError, True),
    (400, "Bad Request: TOPIC_CLOSED", RefusedError, True),
    (400, "Bad Request: message is too long", RefusedError, False),
    (413, "Request Entity Too Large", RefusedError, False),
    (401, "Unauthorized", NotSentError, False),
    (429, "Too Many Requests", NotSentError, False),
    (500, "Internal Server Error", UnknownOutcomeError, False),
    (502, "Bad Gateway", UnknownOutcomeError, False),
    (504, "Gateway Timeout", UnknownOutcomeError, False),
]


PAGES: list[tuple[int, type[SendError]]] = [
    (502, NotSentError),
    (503, NotSentError),
    (521, NotSentError),
    (500, UnknownOutcomeError),
    (504, UnknownOutcomeError),
    (524, UnknownOutcomeError),
    (413, RefusedError),
    (404, NotSentError),
]


@table(("code", "expected"), PAGES)
async def test_a_page_of_a_gateway_says_whether_it_got_through(
    code: int, expected: type[SendError]
) -> None:
    """Who got no connection to Telegram sent nothing; who waited for it in vain may have."""
    async with open_bot() as (api, adapter, _):
        api.fail("sendMessage", code, "", page=f"<html><h1>{code} Bad Gateway</h1></html>")
        with pytest.raises(SendError) as failed:
            await adapter.send(out())

    assert type(failed.value).__mro__[:3].count(expected) == 1


async def test_an_error_without_a_reason_is_one_all_the_same() -> None:
    """What the library cannot read must not come out as a fault of ours."""
    async with open_bot() as (api, adapter, _):
        for code, expected in ((500, UnknownOutcomeError), (400, RefusedError)):
            api.fail("sendMessage", code, None)  # type: ignore[arg-type]
            with pytest.raises(expected):
                await adapter.send(out())


async def test_each_failure_says_whether_it_may_be_tried_again() -> None:
    """A wrong answer here repeats a message, or loses one; nothing is tried again by itself."""
    clock = QuickClock()
    found: list[tuple[type[SendError], bool]] = []
    async with open_bot(clock=clock) as (api, adapter, _):
        for code, description, _kind, _gone in FAILURES:
            api.fail("sendMessage", code, description)
            with pytest.raises(SendError) as failed:
                await adapter.send(out())
            found.append((type(failed.value), getattr(failed.value, "is_chat_gone", False)))
            clock.advance(60)
        tries = len(api.asked("sendMessage"))
        api.cut("sendMessage")
        with pytest.raises(UnknownOutcomeError):
            await adapter.send(out())
        arrived = len(api.sent("sendMessage"))
        for where in ({"chat_id": "nobody"}, {"topic": "x"}):
            with pytest.raises(RefusedError):
                await adapter.send(out(**where))
        upgraded = "Bad Request: group chat was upgraded to a supergroup chat"
        api.fail("sendMessage", 400, upgraded, migrate_to_chat_id=-1005)
        with pytest.raises(ChatMovedError) as moved:
            await adapter.send(out())

    assert found == [(kind, gone) for _, _, kind, gone in FAILURES]
    assert tries == len(FAILURES)
    assert arrived == 1
    assert (moved.value.to, moved.value.is_chat_gone) == ("-1005", True)


async def test_a_group_that_becomes_a_supergroup_is_told_by_both_messages() -> None:
    """Also where they stand in a backlog that is not read: nothing tells it again."""
    async with open_bot() as (api, _, inbox):
        api.migrate(-5, -100)
        await inbox.until(lambda: inbox.heard and len(inbox.moves) == 2)
    assert inbox.moves == [("-5", "-100")] * 2

    async with open_telegram_api() as api:
        late = Inbox()
        api.migrate(-5, -100)
        for number in range(9):
            api.say(f"{number}")
        async with serving(make(api, backlog_max_messages=1), late):
            await late.until(lambda: texts(late))
    assert late.moves == [("-5", "-100")] * 2
    assert [count for _, count, _ in late.skips] == [8]


async def test_a_platform_that_is_away_is_known_not_to_have_been_reached() -> None:
    """Then nothing has to be labelled as a repeat."""
    async with open_telegram_api() as api:
        adapter = make(api)
        inbox = Inbox()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_lost, adapter, inbox)
            await api.until(lambda: api.has_poll)
            assert adapter._reach.line is not None
            adapter._reach.line._connection.api = TelegramAPIServer.from_base("http://127.0.0.1:9")
            with pytest.raises(NotSentError):
                await adapter.send(out())
            tasks.cancel_scope.cancel()


async def _lost(adapter: Adapter, inbox: Inbox) -> None:
    with pytest.raises(ConnectionLostError):
        await adapter.serve(inbox)


async def test_an_answer_newer_than_the_library_still_counts_as_sent() -> None:
    """Else each field that Telegram adds would repeat every message."""
    async with open_bot() as (api, adapter, _):
        api.chats[ANN]["type"] = {"kind": "private"}
        sent = await adapter.send(out())
        file = OutgoingFile(data=b"a", file_name="a.txt", media_type="text/plain")
        album = await adapter.send(out("", file=file, more_files=(file,)))

    assert (ANN, int(sent)) in api.messages
    assert int(album) == int(sent) + 1


# --- webhook, check, secrets ---------------------------------------------------------------------

HOOK = WebhookPlace(url="https://bot.example/hook", secret="s3cret")  # noqa: S106 - of the double


async def test_a_webhook_is_answered_when_the_update_is_durable() -> None:
    """200 tells Telegram to forget it."""
    async with open_telegram_api() as api:
        adapter = make(api, webhook=HOOK)
        update = {"update_id": 5, "message": api.message("by webhook")}
        body = json.dumps(update).encode()
        before = await adapter.take_webhook("s3cret", body)
        api.say("older than the bot")
        async with serving(adapter, Inbox(is_new=True)) as inbox:
            await api.until(lambda: api.sent("setWebhook") and inbox.heard)
            old = list(api.updates)
            statuses = [
                await adapter.take_webhook(secret, data)
                for secret, data in (
                    ("s3cret", body),
                    ("", body),
                    ("wrong-é", body),
                    ("s3cret", b"[1]"),
                    ("s3cret", b"{"),
                    ("s3cret", b'{"update_id": 6, "message": {"message_id": "odd"}}'),
                )
            ]
            inbox.full_chats.add(HERE)
            full = await adapter.take_webhook("s3cret", body)
        after = await adapter.take_webhook("s3cret", body)

    assert (before, after, full) == (503, 503, 503)
    assert old == []
    assert statuses == [200, 401, 401, 400, 400, 200]
    assert texts(inbox) == ["by webhook"]
    asked = api.sent("setWebhook")[-1].params
    assert asked["secret_token"] == HOOK.secret
    assert "callback_query" in asked["allowed_updates"]
    assert api.webhook["url"] == HOOK.url


async def test_what_a_webhook_sends_back_is_not_overtaken() -> None:
    """Telegram sends each update on its own, and again when it likes."""
    async with open_telegram_api() as api:
        adapter = make(api, webhook=HOOK)

        async def deliver(number: int, chat: int) -> int:
            update = {"update_id": number, "message": api.message(f"{number}", chat=chat)}
            return await adapter.take_webhook("s3cret", json.dumps(update).encode())

        async with serving(adapter, Inbox()) as inbox:
            await api.until(lambda: api.sent("setWebhook"))
            inbox.full_chats.add(str(ANN))
            first = await deliver(5, ANN)
            inbox.full_chats.clear()
            later = [await deliver(number, ANN) for number in (7, 6)]
            elsewhere = await deliver(8, BOB)
            again = [await deliver(number, ANN) for number in (7, 5, 7, 6, 7)]

    assert first == 503
    assert later == [503, 503]
    assert elsewhere == 200
    assert again == [503, 200, 503, 200, 200]
    assert texts(inbox) == ["5", "6", "7"]


async def test_a_webhook_that_telegram_cannot_reach_is_not_healthy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The process lives and nothing arrives: its owner has to see that."""
    async with open_telegram_api() as api:
        async with serving(make(api, webhook=HOOK), Inbox()) as inbox:
            await inbox.until(lambda: inbox.heard)
            api.webhook |= {"last_error_date": 1, "last_error_message": "Connection refused"}
            api.say("waits")
            await _looks(api, 2)
            before = inbox.heard
            await _looks(api, 3)
            meanwhile = inbox.heard
            api.updates.clear()
            await inbox.until(lambda: inbox.heard > meanwhile)
            api.webhook["url"] = "https://elsewhere.example"
            await api.until(lambda: api.webhook["url"] == HOOK.url)
        with pytest.raises(SetupError, match=r"webhook\.url.*webhook\.secret"):
            await make(api, webhook=WebhookPlace()).serve(Inbox())

    assert meanwhile == before
    assert caplog.text.count("Telegram could not deliver to the webhook") == 1


async def _looks(api: TelegramApi, count: int) -> None:
    """Wait until so many more looks at the webhook are over."""
    until = len(api.sent("getWebhookInfo")) + count
    await api.until(lambda: len(api.sent("getWebhookInfo")) >= until)


async def test_check_tells_what_is_wrong() -> None:
    """A bot that is silent in groups, or whose messages go elsewhere, is explained."""
    async with open_telegram_api() as api:
        api.webhook = {"url": f"https://other.example/bot{TOKEN}"}
        api.say("waits")
        api.me |= {"supports_inline_queries": True, "can_connect_to_business": True}
        polling = "\n".join(await make(api).check())
        api.webhook = {"url": HOOK.url, "last_error_message": "no route"}
        by_hook = "\n".join(await make(api, webhook=HOOK).check())
        unset = "\n".join(await make(api, webhook=WebhookPlace()).check())

    assert "@everturn_bot" in polling
    assert "privacy mode is on" in polling
    assert "inline mode switched on, which is not used" in polling
    assert "business mode switched on" in polling
    assert "guest mode" not in polling
    assert "problem: a webhook is set (https://other.example/bot4242424242:***)" in polling
    assert "messages that wait to be read: 1" in polling
    assert "problem: Telegram could not deliver to the webhook: no route" in by_hook
    assert "problem: channels.telegram.webhook.secret" in unset


async def test_the_token_is_in_no_log_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Logs are shown to others; the token is the whole bot."""
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    async with open_bot() as (api, adapter, inbox):
        link = f"https://api.telegram.org/bot{TOKEN}/getUpdates"
        file = {"file_id": "f", "file_unique_id": "f", "file_name": "f"}
        api.say("", document=file)
        await inbox.until(lambda: inbox.taken)
        (message,) = (a for a in inbox.taken if isinstance(a, Message))
        api.fail("sendMessage", 400, f"Bad Request: wrong URL {link}")
        api.fail("sendMessage", 502, f"Bad Gateway {link}")
        api.cut("sendMessage")
        for _ in range(3):
            with pytest.raises(SendError) as failed:
                await adapter.send(out())
            said.append(repr(failed.value) + repr(failed.value.__cause__))
        api.files["f"] = b"x"
        api.cut("getFile")
        with pytest.raises(ConnectionLostError) as lost:
            await message.files[0].fetch(10)
        said.append(repr(lost.value))
        api.fail("getUpdates", 502, f"no way to {link}", times=2)
        api.say("more")
        await inbox.until(lambda: len(inbox.taken) == 2)

    secret = TOKEN.partition(":")[2]
    assert secret not in "\n".join(said)
    assert secret not in caplog.text
    assert any("bot4242424242:***" in text for text in said)


# --- several processes ---------------------------------------------------------------------------


async def test_a_bot_that_stands_by_sends_and_asks_for_nothing() -> None:
    """Where another process polls, this one says things; to poll as well would be a conflict."""
    async with open_telegram_api() as api:
        api.chat(ANN)
        adapter = make(api)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(adapter.stand_by)
            await api.until(lambda: bool(api.sent("getMe")))
            await anyio.wait_all_tasks_blocked()
            await adapter.send(out("from here"))
            tasks.cancel_scope.cancel()
        with pytest.raises(NotSentError):
            await adapter.send(out("too late"))

        assert [call.params["text"] for call in api.sent("sendMessage")] == ["from here"]
        assert not api.sent("getUpdates")
