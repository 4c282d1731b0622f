"""What discord.py tells, turned into messages."""

from __future__ import annotations

from typing import Any

from support.discord_payloads import PayloadReader
from support.discord_world import FORUM, Payload
from support.tables import table

from everturn_channels.adapter import Message
from everturn_channels.discord import discord  # with what its import warns of kept quiet
from everturn_channels.discord.client import Client
from everturn_channels.discord.mapping import (
    chat_ref_of,
    is_from_people,
)


def _attachment(name: str) -> Payload:
    return {"id": "1", "filename": name, "size": 1, "url": "", "proxy_url": ""}


def test_the_bots_name_leaves_the_start_and_others_become_readable() -> None:
    """A model knows no ids, and its own name in front of each question only costs."""
    reader = PayloadReader()
    world = reader.world
    bob = world.add_user("bob")
    me, role = world.bot["id"], world.role_id
    where = f"in <#{world.general}> <:wave:12> </help:3>"
    got = reader.says(f"<@{me}>, <@&{role}>: ask <@{bob['id']}> {where} <@{me}>")

    assert got.text == "ask @Bob in #general :wave: /help @Everturn"
    assert got.is_addressed


@table(
    ("text", "is_addressed"),
    [("hello", False), ("@everyone", False), ("<@ME> hello", True), ("hi <@&ROLE>", True)],
)
def test_only_the_bots_own_names_address_it(text: str, *, is_addressed: bool) -> None:
    """A bot that answers @everyone is removed; one that misses its role is called broken."""
    reader = PayloadReader()
    names = {"ME": reader.world.bot["id"], "ROLE": reader.world.role_id}
    for key, value in names.items():
        text = text.replace(key, value)

    assert reader.says(text, mention_everyone="everyone" in text).is_addressed is is_addressed


def test_a_reply_to_the_bot_addresses_it_and_one_to_another_quotes() -> None:
    """People answer a bot by replying; what is said about another message needs that message."""
    reader = PayloadReader()
    world = reader.world
    mine = world.add_message(world.bot, world.general, "I said")
    other = world.add_message(world.add_user("bob"), world.general, "x" * 600)

    def reply(to: Payload) -> Message:
        reference = {"channel_id": world.general, "message_id": to["id"]}
        return reader.says("well", type=19, message_reference=reference, referenced_message=to)

    to_bot, to_bob = reply(mine), reply(other)

    assert (to_bot.is_addressed, to_bot.quoted) == (True, "")
    assert (to_bob.is_addressed, to_bob.quoted_name) == (False, "Bob")
    assert to_bob.quoted == "x" * 500 + "…"


def test_a_forwarded_message_brings_its_text_and_files() -> None:
    """The message that forwards it is empty itself."""
    reader = PayloadReader()
    snapshot = {
        "type": 0,
        "content": "their words",
        "embeds": [],
        "attachments": [_attachment("a.png")],
        "timestamp": reader.world.now.isoformat(),
        "edited_timestamp": None,
        "flags": 0,
    }
    reference = {"type": 1, "channel_id": reader.world.general, "message_id": "1"}
    got = reader.says("", message_reference=reference, message_snapshots=[{"message": snapshot}])
    nothing = snapshot | {"content": "", "attachments": []}
    poll = reader.says("", message_reference=reference, message_snapshots=[{"message": nothing}])

    assert (got.text, got.forwarded_from) == ("their words", "#general")
    assert poll.described == ("message of a kind that is not known here",)
    assert [f.file_name for f in got.files] == ["a.png"]


def test_stickers_and_polls_are_named() -> None:
    """A message of only those would otherwise be a silence."""
    reader = PayloadReader()
    poll = {
        "question": {"text": "When?"},
        "answers": [
            {"answer_id": 1, "poll_media": {"text": "now"}},
            {"answer_id": 2, "poll_media": {"text": "later"}},
        ],
        "expiry": reader.world.now.isoformat(),
        "allow_multiselect": False,
        "layout_type": 1,
    }
    sticker = {"id": "1", "name": "wave", "format_type": 1}
    embed = {"type": "article", "title": "Rain", "description": "all day", "url": "https://w.x"}
    got = reader.says("", sticker_items=[sticker], poll=poll)
    application = {"id": "1", "name": "Chess", "description": "", "icon": None}
    invited = reader.says("", activity={"type": 1, "party_id": "p"}, application=application)
    shown = reader.says("https://w.x", embeds=[embed])

    assert invited.described == ('invitation to "Chess"',)
    assert got.described == ('sticker "wave"', 'poll "When?": now / later')
    assert not got.is_outside
    assert shown.described == ("embed Rain | all day | https://w.x",)
    assert shown.is_outside


def test_a_thread_that_begins_with_a_message_begins_with_its_text() -> None:
    """The message stands in the channel; without it a thread's first question hangs in the air."""
    reader = PayloadReader()
    world = reader.world
    thread = world.add_thread(world.general)
    starter = world.add_message(reader.ann, world.general, "the plan")
    reference = {"channel_id": world.general, "message_id": starter["id"]}
    bob = world.add_user("bob")
    got = reader.reads(
        world.add_message(
            bob, thread, "", type=21, message_reference=reference, referenced_message=starter
        )
    )

    assert (got.text, got.sender.name, got.chat.topic) == ("the plan", "Ann", thread)


def test_notices_bots_and_webhooks_are_not_people() -> None:
    """`Ann pinned a message` is no question."""
    reader = PayloadReader()
    world = reader.world
    robot = world.add_user("robot", is_bot=True)
    payloads = [
        world.add_message(reader.ann, world.general, "", type=6),
        world.add_message(reader.ann, world.general, "", type=7),
        world.add_message(robot, world.general, "beep"),
        world.add_message(reader.ann, world.general, "hook", webhook_id="1"),
        world.add_message(world.bot, world.general, "me"),
    ]

    assert [is_from_people(reader.hears(p)[0]) for p in payloads] == [False] * 5


def test_places() -> None:
    """Sessions are kept by chat and topic, so these never change."""
    reader = PayloadReader()
    world = reader.world
    voice, news = (
        world.add_channel("voice", 2, bitrate=1, user_limit=0),
        world.add_channel("news", 5),
    )
    forum = world.add_channel("help", FORUM)
    post = world.add_thread(forum, "a post")
    dm = world.dm(reader.ann)
    chats = [
        reader.reads(world.add_message(reader.ann, c, "x")).chat for c in (voice, news, post, dm)
    ]

    assert [(p.type, p.id, p.topic) for p in chats] == [
        ("group", voice, ""),
        ("group", news, ""),
        ("group", forum, post),
        ("dm", dm, ""),
    ]
    assert [p.title for p in chats] == [
        "The Guild #voice",
        "The Guild #news",
        "The Guild #help / a post",
        "Ann",
    ]


def test_a_channel_of_which_only_the_id_came_is_a_group_of_its_server() -> None:
    """Taken for a direct chat it would pass the rules of direct chats."""
    state: Any = Client()._connection
    unknown = discord.PartialMessageable(state=state, id=5, guild_id=6)

    assert chat_ref_of(unknown).type == "group"
