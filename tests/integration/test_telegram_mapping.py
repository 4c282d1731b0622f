"""What Telegram reports, as events: who, where, what, and whether the bot is meant."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiogram.types import Update
from support.tables import table
from support.telegram_api import ANN, BOT, BOT_ID, Json, TelegramApi

from everturn_channels.adapter import ButtonClick, ChatMoved, Command, Edit, Message, Reaction
from everturn_channels.inbound.message_text import compose
from everturn_channels.telegram.mapping import Note, Reading, chat_ref_of
from everturn_channels.telegram.updates import read_update

NOW = datetime(2026, 11, 22, tzinfo=UTC)
GROUP = -100
SELF = {"id": BOT_ID, "is_bot": True, "first_name": "Everturn", "username": BOT}
BOB = {"id": 1002, "is_bot": False, "first_name": "Bob", "last_name": "Ray"}


class _NoReach:
    """Nothing is answered or fetched here."""

    async def fetch(self, file_id: str, size_bytes: int | None, limit_bytes: int) -> bytes:
        raise AssertionError((file_id, size_bytes, limit_bytes))

    async def answer(self, chat: str, topic: str, reply_to: str, text: str) -> None:
        raise AssertionError((chat, topic, reply_to, text))

    async def answer_click(self, query_id: str, text: str) -> None:
        raise AssertionError((query_id, text))

    def whole_of(self, chat: str, message_id: str) -> str:
        """Know of no album."""
        return message_id if chat else ""

    def topic_of(self, chat: str, message_id: str) -> str | None:
        return {"8": "17"}.get(message_id) if chat else None


READING = Reading(bot_id=BOT_ID, username=BOT, reach=_NoReach())


def read(kind: str = "message", **content: Any) -> object:
    """Return what an update of a kind says."""
    update = Update.model_validate({"update_id": 1, kind: content})
    return READING.event(update, NOW)


def said(text: str = "", *, chat: int = GROUP, **fields: object) -> Message:
    """Return the message that something of Ann's arrives as."""
    event = read(**TelegramApi().message(text, chat=chat, **fields))

    assert isinstance(event, Message), event
    return event


def test_a_reaction_stands_in_the_topic_of_its_message() -> None:
    """Telegram does not tell it; where nobody knows any more, no other conversation is told."""

    def put(message_id: int, *new: str, chat_type: str = "supergroup") -> object:
        chat = {"id": GROUP, "type": chat_type, "is_forum": True}
        kinds = [{"type": "emoji", "emoji": each} for each in new]
        change = {"message_id": message_id, "date": 1, "old_reaction": [], "new_reaction": kinds}
        return read("message_reaction", chat=chat, actor_chat=chat | {"title": "Us"}, **change)

    found = put(8, "👍")

    assert isinstance(found, Reaction)
    assert (found.chat.topic, found.sender.id, found.emoji) == ("17", str(GROUP), "👍")
    assert [type(put(9, "👍")), type(put(8))] == [Note, Note]


def test_a_message_says_who_where_and_when() -> None:
    """Routes, access and order depend on it."""
    dm, group = said("hello", chat=ANN), said("hello")
    post = read(
        "channel_post",
        **TelegramApi().message("news", chat=-7)
        | {"chat": {"id": -7, "type": "channel"}, "from": None},
    )

    assert (dm.chat.type, dm.chat.id, dm.chat.topic) == ("dm", str(ANN), "")
    assert (dm.sender.id, dm.sender.name, dm.text) == (str(ANN), "Ann", "hello")
    assert dm.at.tzinfo is UTC
    assert (group.chat.type, group.chat.title) == ("group", "Friends")
    assert isinstance(post, Message)
    assert (post.chat.type, post.sender.id) == ("channel", "")


def test_only_forum_topics_are_topics() -> None:
    """A thread of replies in a plain group is no conversation of its own."""
    topic = said("x", message_thread_id=9, is_topic_message=True)
    thread = said("x", message_thread_id=9)

    assert (topic.chat.topic, thread.chat.topic) == ("9", "")


@table(
    ("text", "fields", "left"),
    [
        ("@everturn_bot hello", {}, "hello"),
        ("🔥 @Everturn_Bot, hello", {}, "🔥 @Everturn_Bot, hello"),
        ("@EVERTURN_BOT: hello", {}, "hello"),
        ("@everturn_bot", {}, ""),
        (
            "Ever, hello",
            {"entities": [{"type": "text_mention", "offset": 0, "length": 4, "user": SELF}]},
            "hello",
        ),
        ("sure", {"reply_to_message": TelegramApi().message("?") | {"from": SELF}}, "sure"),
    ],
)
def test_the_bot_knows_when_it_is_meant(text: str, fields: dict[str, Any], left: str) -> None:
    """In groups it answers nobody else; its own name is no part of what is asked."""
    message = said(text, **fields)

    assert message.is_addressed
    assert message.text == left
    assert message.quoted == ""


@table(
    ("text", "fields"),
    [
        ("hello", {}),
        ("@everturn_bot2 hello", {}),
        ("@someone hello", {}),
        ("mail me@everturn_bot", {"entities": []}),
        ("hm", {"reply_to_message": TelegramApi().message("?") | {"from": BOB}}),
        (
            "first in a topic that the bot opened",
            {
                "reply_to_message": TelegramApi().message()
                | {"from": SELF, "forum_topic_created": {"name": "t", "icon_color": 1}}
            },
        ),
    ],
)
def test_the_bot_knows_when_others_are_meant(text: str, fields: dict[str, Any]) -> None:
    """A bot that answers everything is thrown out."""
    assert not said(text, **fields).is_addressed


def test_what_a_message_refers_to_comes_with_it() -> None:
    """Who replies or passes something on means that as well."""
    bobs = TelegramApi().message("b" * 3000) | {"from": BOB}
    reply = said("so?", reply_to_message=bobs)
    part = said("so?", reply_to_message=bobs, quote={"text": "bbb", "position": 0})
    picture = said(
        "so?",
        reply_to_message=TelegramApi().message(location={"latitude": 1, "longitude": 2}),
    )
    story = said("wow", chat=ANN, reply_to_story={"chat": NEWS, "id": 1})
    passed_on = [
        said("x", forward_origin={"date": 1, **origin}).forwarded_from
        for origin in (
            {"type": "user", "sender_user": BOB},
            {"type": "hidden_user", "sender_user_name": "Eve"},
            {
                "type": "channel",
                "message_id": 1,
                "chat": {"id": 1, "type": "channel", "title": "News"},
            },
        )
    ]

    assert reply.quoted.startswith("bbb")
    assert len(reply.quoted) <= 1000
    assert reply.quoted_name == "Bob Ray"
    assert part.quoted == "bbb"
    assert picture.quoted == "location 1, 2"
    assert (story.quoted, story.quoted_name) == ("story", "News")
    assert passed_on == ["Bob Ray", "Eve", "News"]


def test_links_behind_words_stay_visible() -> None:
    """Else the agent does not know what `here` is; offsets count emojis twice."""
    link = {"type": "text_link", "offset": 3, "length": 4, "url": "https://a.example/x"}

    assert said("🔥 here!", entities=[link]).text == "🔥 here (https://a.example/x)!"


def test_a_rich_message_says_what_stands_in_it() -> None:
    """Other bots write such, and people pass them on; a live photo is a picture."""
    link = {"type": "url", "text": {"type": "bold", "text": "here"}, "url": "https://a.example"}
    item = {"label": "1.", "has_checkbox": True, "is_checked": True, "blocks": [paragraph("milk")]}
    place = {"align": "left", "valign": "top"}
    blocks: list[Json] = [
        {"type": "heading", "text": "Plan", "size": 1},
        paragraph("see ", link, "!"),
        {"type": "list", "items": [item]},
        {"type": "pre", "text": "x = 1", "language": "py"},
        {"type": "blockquote", "blocks": [paragraph("old"), paragraph("words")], "credit": "Bob"},
        {"type": "table", "cells": [[place | {"text": "a|b"}], [place | {"text": "c"}]]},
    ]
    photo = {**FILE, "width": 1, "height": 1}
    rich = said("", chat=ANN, rich_message={"blocks": blocks})
    empty = said("", chat=ANN, rich_message={"blocks": [{"type": "divider"}]})
    live = said("", chat=ANN, live_photo={**photo, "duration": 3, "photo": [photo]})

    assert compose(rich, in_group=False) == (
        "Plan\n\nsee here (https://a.example)!\n\n1. ☑ milk\n\n```py\nx = 1\n```\n\n"
        "> old\n> \n> words\n> Bob\n\n| a\\|b |\n| --- |\n| c |"
    )
    assert compose(empty, in_group=False) == "[rich message]"
    assert [each.media_type for each in live.files] == ["image/jpeg"]


def paragraph(*text: object) -> Json:
    """Return a block of a rich message."""
    return {"type": "paragraph", "text": list(text)}


def test_commands_are_told_from_paths_and_from_those_of_other_bots() -> None:
    """`/stop` for somebody else's bot must not stop this one."""
    own = read(**TelegramApi().message("/Stop@Everturn_Bot now please", chat=GROUP))
    bare = read(**TelegramApi().message("/stop", chat=GROUP))
    answers = TelegramApi().message("?", chat=GROUP) | {"from": SELF}
    reply = read(**TelegramApi().message("/stop", chat=GROUP, reply_to_message=answers))
    other = read(**TelegramApi().message("/stop@other_bot", chat=GROUP))
    entity = {"type": "bot_command", "offset": 0, "length": 4}
    path = read(**TelegramApi().message("/etc/hosts is odd", entities=[entity]))
    later = read(**TelegramApi().message("what does /stop do?"))
    passed_on = read(
        **TelegramApi().message(
            "/reset", forward_origin={"type": "user", "date": 1, "sender_user": BOB}
        )
    )

    assert isinstance(own, Command)
    assert (own.name, own.argument, own.is_addressed) == ("stop", "now please", True)
    assert isinstance(bare, Command)
    assert not bare.is_addressed
    assert isinstance(reply, Command)
    assert reply.is_addressed, "whoever replies to the bot means it"
    assert isinstance(other, Note)
    assert [type(a) for a in (path, later, passed_on)] == [Message, Message, Message]


@table(
    "fields",
    [
        {"forward_date": 1, "forward_from": BOB},  # a server of before 2024
        {"via_bot": {"id": 5, "is_bot": True, "first_name": "Inline"}},
        {"edit_date": 1},
        {"is_automatic_forward": True},
        {"sender_chat": {"id": GROUP, "type": "supergroup", "title": "Friends"}},
        {"sender_business_bot": {"id": 5, "is_bot": True, "first_name": "Business"}},
        {
            "entities": [
                {"type": "blockquote", "offset": 0, "length": 9},
                {"type": "bot_command", "offset": 0, "length": 5},
            ]
        },
    ],
)
def test_what_somebody_else_may_have_written_is_not_typed(fields: Json) -> None:
    """An owner's command counts only where the owner wrote it."""
    typed = read(**TelegramApi().message("/pair ABC", chat=ANN))
    other = read(**TelegramApi().message("/pair ABC", chat=ANN, **fields))
    below = read(**TelegramApi().message("", chat=ANN, caption="/pair ABC", document=FILE))
    changed = read("edited_message", **TelegramApi().message("/pair ABC", chat=ANN, edit_date=1))

    assert isinstance(typed, Command)
    assert typed.is_typed
    assert not (isinstance(other, Command) and other.is_typed)
    assert isinstance(below, Message)
    assert isinstance(changed, Edit)


@table("part", ["forward_origin", "edit_date", "sender_business_bot"])
def test_where_it_cannot_be_read_who_wrote_it_is_no_command(part: str) -> None:
    """A part of a message that is left out may be the one that says that it was passed on."""
    raw = {"update_id": 1, "message": TelegramApi().message("/pair ABC", chat=ANN, **{part: "?"})}

    update = read_update(raw)

    assert update is not None
    assert isinstance(READING.event(update, NOW), Message)


FILE = {"file_id": "f", "file_unique_id": "u", "file_size": 7}


@table(
    ("fields", "name", "media_type"),
    [
        ({"document": FILE | {"file_name": "../a/notes.txt"}}, "notes.txt", ""),
        ({"voice": FILE | {"duration": 1}}, "voice-2.ogg", "audio/ogg"),
        ({"audio": FILE | {"duration": 1, "mime_type": "audio/x"}}, "audio-2.mp3", "audio/x"),
        (
            {"video": FILE | {"duration": 1, "width": 1, "height": 1}},
            "video-2.mp4",
            "video/mp4",
        ),
        ({"video_note": FILE | {"duration": 1, "length": 1}}, "video-note-2.mp4", "video/mp4"),
        (
            {
                "animation": FILE | {"duration": 1, "width": 1, "height": 1},
                "document": FILE,
            },
            "animation-2.mp4",
            "video/mp4",
        ),
    ],
)
def test_each_kind_of_file_is_a_file(fields: Json, name: str, media_type: str) -> None:
    """What people send has to reach the agent's tools under a fit name."""
    message = said("", caption="look", **fields)
    (file,) = message.files

    assert (file.file_name, file.media_type, file.size_bytes) == (name, media_type, 7)
    assert message.text == "look"
    assert message.described == ()
    assert (file.is_voice, file.duration_s) == (
        "voice" in fields,
        "document" not in fields or name.startswith("anim"),
    )


def test_of_a_picture_the_largest_is_taken() -> None:
    """Telegram sends thumbnails beside it, in any order."""
    sizes = [
        FILE | {"file_id": str(w), "width": w, "height": w, "file_size": w} for w in (90, 800, 320)
    ]
    (file,) = said("", photo=sizes).files

    assert file.size_bytes == 800


PLACE = {"latitude": 52.52, "longitude": 13.405}
OPTION = {"persistent_id": "1", "voter_count": 0}
POLL = {
    "id": "1",
    "question": "Lunch?",
    "options": [OPTION | {"text": "Pizza"}, OPTION | {"text": "Salad\n[Bob] no"}],
    "total_voter_count": 0,
    "is_closed": False,
    "is_anonymous": True,
    "type": "regular",
    "allows_multiple_answers": False,
    "allows_revoting": False,
    "members_only": False,
}
STICKER = {
    "type": "regular",
    "width": 1,
    "height": 1,
    "is_animated": False,
    "is_video": False,
    "emoji": "👍",
    "set_name": "Cats",
}
NEWS = {"id": 9, "type": "channel", "title": "News"}


@table(
    ("fields", "words", "is_outside"),
    [
        ({"location": PLACE}, "location 52.52, 13.405", False),
        ({"location": PLACE | {"live_period": 60}}, "location 52.52, 13.405, live", False),
        (
            {
                "venue": {"location": PLACE, "title": "Bar", "address": "Main St 1"},
                "location": PLACE,
            },
            'venue "Bar", "Main St 1", location 52.52, 13.405',
            False,
        ),
        ({"contact": {"phone_number": "+49 1", "first_name": "B"}}, 'contact "B", +49 1', False),
        ({"poll": POLL}, 'poll "Lunch?": Pizza / Salad [Bob] no', False),
        (
            {"poll": POLL | {"is_closed": True}},
            'poll "Lunch?": Pizza / Salad [Bob] no, closed',
            False,
        ),
        ({"dice": {"emoji": "🎲", "value": 3}}, "dice 🎲 3", False),
        ({"sticker": STICKER | FILE}, 'sticker 👍 of "Cats"', False),
        ({"story": {"chat": NEWS, "id": 1}}, 'story of "News"', True),
        ({"wormhole": {"depth": 7}}, "message of a kind that is not known here", False),
    ],
)
def test_whatever_people_send_is_told_in_words(fields: Json, words: str, is_outside: bool) -> None:
    """Silence would look like a broken bot, and a model cannot ask about what it does not see."""
    message = said("", chat=ANN, **fields)

    assert (message.described, message.is_outside) == ((words,), is_outside)
    shown = words.translate({ord("["): "(", ord("]"): ")", ord('"'): "'"})
    assert compose(message, in_group=False) == f"[{shown}]"


@table(
    "fields",
    [
        {"new_chat_members": [BOB]},
        {"pinned_message": {"message_id": 1, "date": 0, "chat": {"id": 1, "type": "private"}}},
        {"text": "beep", "from": BOB | {"is_bot": True}},
        {"text": "?", "chat": {"id": 3, "type": "wormhole"}},
    ],
)
def test_what_is_nobodys_word_is_left_out(fields: Json) -> None:
    """Joins, pins, and other bots: two bots that answer each other never stop."""
    for chat in (GROUP, ANN):
        assert isinstance(read(**TelegramApi().message(chat=chat) | fields), Note)


def test_both_messages_of_a_group_that_becomes_a_supergroup_say_the_same() -> None:
    """Either may be missed."""
    old = read(**TelegramApi().message(chat=GROUP) | {"migrate_to_chat_id": -1009})
    new = read(**TelegramApi().message(chat=-1009) | {"migrate_from_chat_id": GROUP})

    assert old == new == ChatMoved(old=str(GROUP), new="-1009")


def test_who_writes_in_the_name_of_a_chat_is_that_chat() -> None:
    """Anonymous administrators come as a bot of Telegram's, and are people."""
    chat = {"id": GROUP, "type": "supergroup", "title": "Friends"}
    anonymous = BOB | {"id": 1087968824, "is_bot": True}
    fields: Json = {"sender_chat": chat, "from": anonymous}
    message = said("hello", **fields)

    assert (message.sender.id, message.sender.name, message.sender.is_bot) == (
        str(GROUP),
        "Friends",
        False,
    )


def test_edits_and_presses_say_what_they_belong_to() -> None:
    """An edit replaces its message, a click answers its question; old messages are only hinted."""
    edit = read("edited_message", **TelegramApi().message("hello") | {"edit_date": 1_795_400_000})
    stub = {"message_id": 5, "date": 0, "chat": {"id": ANN, "type": "private", "first_name": "A"}}
    query = {"id": "q", "from": BOB, "chat_instance": "1"}
    click = read("callback_query", **query, message=stub, data="y:1")
    game = read("callback_query", **query, message=stub, game_short_name="g")
    left = read(
        "my_chat_member",
        chat=stub["chat"],
        date=1,
        old_chat_member={"status": "member", "user": SELF},
        new_chat_member={"status": "kicked", "user": SELF, "until_date": 0},
        **{"from": BOB},
    )

    assert isinstance(edit, Edit)
    assert (edit.text, edit.at.year) == ("hello", 2026)
    assert isinstance(click, ButtonClick)
    assert (click.data, click.sender.id, click.chat.id, click.at) == (
        "y:1",
        "1002",
        str(ANN),
        NOW,
    )
    assert isinstance(game, Note)
    assert isinstance(left, Note)
    assert left.level == "warning"


def test_a_place_of_an_unknown_kind_is_none() -> None:
    """Closed by default: what it is decides who may speak there."""
    message = Update.model_validate(
        {
            "update_id": 1,
            "message": TelegramApi().message() | {"chat": {"id": 3, "type": "wormhole"}},
        }
    ).message

    assert message is not None
    assert chat_ref_of(message) is None
