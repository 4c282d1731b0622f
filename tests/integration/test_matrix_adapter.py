"""The Matrix adapter on a pretended homeserver: what it reads, says, and makes of failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from aiohttp import web
from support.inbox import QuickClock
from support.matrix_people import Json
from support.matrix_world import open_world
from support.tables import table

from everturn_channels.adapter import (
    Button,
    ButtonClick,
    Command,
    Edit,
    Message,
    Outbound,
    OutgoingFile,
    Reaction,
)
from everturn_channels.errors import (
    ConnectionLostError,
    FileTooLargeError,
    NotSentError,
    RefusedError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.inbound.message_text import compose
from everturn_channels.matrix import MatrixAccount, MatrixAdapter

BUTTONS: Final = (Button(label="Allow once", data="ap:o:1"), Button(label="Deny", data="ap:d:1"))
PICTURE: Final = OutgoingFile(data=b"\x89PNG of ours", file_name="a.png", media_type="image/png")

# --- what people write ---


PLACE: Final = {"uri": "geo:52.5200066,13.404954;u=9", "description": "at home"}
OLD_POLL: Final = {
    "question": {"org.matrix.msc1767.text": "When?"},
    "answers": [{"id": each, "org.matrix.msc1767.text": each} for each in ("now", "never")],
}
POLL: Final = {
    "question": {"m.text": [{"body": "When?"}]},
    "answers": [{"m.text": [{"body": each}]} for each in ("now", "never")],
}
PREVIEW: Final = {"matched_url": "https://w.x", "og:title": "Rain", "og:description": "all day"}
GALLERY: Final = [
    {"itemtype": "m.image", "body": "a.png", "url": "mxc://e.org/a"},
    {"itemtype": "m.file", "body": "the b", "filename": "b.pdf", "url": "mxc://e.org/b"},
    {"itemtype": "org.example.cube"},
]


def beacon(of: str, uri: str) -> Json:
    """Return one place of somebody who shares where they go."""
    place = {"org.matrix.msc3488.location": {"uri": uri}}
    return {"m.relates_to": {"rel_type": "m.reference", "event_id": of}, **place}


SENT: Final[list[tuple[str, Json, str]]] = [
    ("m.room.message", {"msgtype": "m.emote", "body": "waves"}, "* Ann waves"),
    (
        "m.room.message",
        {"msgtype": "m.location", "body": "at home", "geo_uri": "geo:52.52,13.405,30;u=9"},
        "[location 52.52, 13.405, 'at home']",
    ),
    (
        "m.room.message",
        {"msgtype": "m.location", "body": "Location geo:1,2 at 9:00", "geo_uri": "geo:1,2"},
        "[location 1, 2]",
    ),
    (
        "m.room.message",
        {"msgtype": "m.location", "body": "x", "org.matrix.msc3488.location": PLACE},
        "[location 52.52, 13.405, 'at home']",
    ),
    ("org.matrix.msc3672.beacon", beacon("$1", "geo:1,2"), "[location 1, 2, live]"),
    ("m.sticker", {"body": "a cat"}, "[sticker 'a cat']"),
    ("m.sticker", {"url": "mxc://e.org/c"}, "[sticker]"),
    ("m.poll.start", {"m.poll": POLL}, "[poll 'When?': now / never]"),
    (
        "org.matrix.msc3381.poll.start",
        {"org.matrix.msc3381.poll.start": OLD_POLL},
        "[poll 'When?': now / never]",
    ),
    (
        "org.matrix.msc3381.poll.end",
        {"org.matrix.msc1767.text": "Most say now"},
        "[poll that ended 'Most say now']",
    ),
    ("m.call.invite", {"call_id": "1"}, "[call, which cannot be taken here]"),
    (
        "m.room.message",
        {"msgtype": "m.key.verification.request", "body": "Please verify"},
        "[request to verify a device]",
    ),
    ("m.room.message", {"msgtype": "org.example.new", "body": "of tomorrow"}, "of tomorrow"),
    (
        "m.room.message",
        {"msgtype": "org.example.new"},
        "[message of a kind that is not known here: org.example.new]",
    ),
    ("org.example.new", {"m.text": [{"body": "of the day after"}]}, "of the day after"),
    (
        "m.room.message",
        {"msgtype": "m.text", "body": "https://w.x", "com.beeper.linkpreviews": [PREVIEW]},
        "https://w.x\n[embed Rain | all day | https://w.x]",
    ),
    (
        "m.room.message",
        {"msgtype": "dm.filament.gallery", "body": "of Rome", "itemtypes": GALLERY},
        "of Rome\nfile a.png\nfile b.pdf",
    ),
    (
        "m.room.message",
        {"msgtype": "m.image", "body": "a.png", "filename": "a.png", "url": "mxc://e.org/a"},
        "file a.png",
    ),
]
QUIET: Final[list[tuple[str, Json]]] = [
    ("m.room.message", {"msgtype": "m.notice", "body": "of a machine"}),
    ("m.poll.response", {"m.selections": ["now"]}),
    ("m.key.verification.ready", {"from_device": "A"}),
    ("org.example.receipt", {"status": "read"}),
]


@table("is_encrypted", [False, True])
async def test_whatever_people_send_is_told_in_words(tmp_path: Path, is_encrypted: bool) -> None:
    """Encrypted as well, where what it is shows late; what only machines mind is left alone."""
    async with open_world(tmp_path, is_encrypted=is_encrypted) as world:
        bot = world.adapter(keys=is_encrypted)
        async with world.serving(bot):
            room, ann = world.room, world.ann
            poll = {"m.poll": POLL}
            ids = [await ann.send(room, kind, content) for kind, content, _ in SENT]
            quoted = [n for n, (kind, *_) in enumerate(SENT) if kind == "m.sticker"]
            for n in (*quoted[:1], len(SENT) - 1):
                await ann.write(room, "this", **{"m.relates_to": reply_to(ids[n])})
            change = {"m.new_content": poll | {"m.poll": POLL | {"answers": []}}}
            target = ids[next(n for n, (kind, *_) in enumerate(SENT) if kind == "m.poll.start")]
            relation = {"rel_type": "m.replace", "event_id": target}
            await ann.send(room, "m.poll.start", change | {"m.relates_to": relation})
            for kind, content in QUIET:
                await ann.send(room, kind, content)
            await ann.send(room, "m.beacon", beacon("$1", "geo:3,4"))
            await ann.write(room, "the end")
            await world.heard("the end")

    events = world.handler.events
    messages = [each for each in events if isinstance(each, Message)]
    *sent, sticker, image, moved, _ = messages
    told = [
        "\n".join((compose(each, in_group=False), *(f"file {f.file_name}" for f in each.files)))
        for each in sent
    ]
    assert [each.strip() for each in told] == [words for *_, words in SENT]
    assert [each.is_outside for each in sent] == ["[embed" in words for *_, words in SENT]
    assert (sticker.quoted, sticker.quoted_name) == ('sticker "a cat"', "Ann")
    assert (image.quoted, image.quoted_name) == ("a.png", "Ann")
    live = next(each for each in sent if each.described == ("location 1, 2, live",))
    assert (moved.id, moved.described) == (live.id, ("location 3, 4, live",))
    assert [each.text for each in events if isinstance(each, Edit)] == ['poll "When?":']


def reply_to(event_id: str) -> Json:
    """Return what relates a message to the one that it replies to."""
    return {"m.in_reply_to": {"event_id": event_id}}


async def test_what_people_write_is_read_as_it_is_meant(tmp_path: Path) -> None:
    """Replies, threads, commands; and a change of it only by whoever wrote it."""
    # Replies with and without what older clients quote in them, threads, commands.
    folder = tmp_path / "read"
    folder.mkdir()
    async with open_world(folder) as world, world.serving() as bot:
        room, ann = world.room, world.ann
        first = await ann.write(room, "first")
        thread = {"m.relates_to": {"rel_type": "m.thread", "event_id": first}}
        await ann.write(room, "in a thread", **thread)
        relation = {"m.relates_to": reply_to(first)}
        await ann.write(room, "> <@ann:e.org> first\n> more\n\na reply", **relation)
        await ann.write(room, "> of mine\nquoted", **relation)
        (payload,) = bot.render("said")
        said = await bot.send(Outbound(chat_id=room, payload=payload, nonce="1"))
        await ann.write(room, "a reply to the bot", **{"m.relates_to": reply_to(said)})
        await ann.write(room, "/search cats and dogs")
        await world.handler.until(
            lambda: world.handler.events[-1:] and isinstance(world.handler.events[-1], Command)
        )

    events = world.handler.events
    assert [e.chat.type for e in events] == ["dm"] * len(events)
    found = {e.text: e for e in events if isinstance(e, Message)}
    assert [*found] == [
        "first",
        "in a thread",
        "a reply",
        "> of mine\nquoted",
        "a reply to the bot",
    ]
    assert found["in a thread"].chat.topic == first
    assert (found["a reply"].quoted, found["a reply"].quoted_name) == ("first", "Ann")
    assert (found["a reply to the bot"].is_addressed, found["a reply to the bot"].quoted) == (
        True,
        "",
    )
    command = events[-1]
    assert isinstance(command, Command)
    assert (command.name, command.argument, command.is_typed) == ("search", "cats and dogs", True)

    # Homeservers pass on a change by anybody.
    folder = tmp_path / "changed"
    folder.mkdir()
    async with open_world(folder) as world, world.serving():
        eve = world.person("eve")
        room = await world.share_room(eve)
        written = await world.ann.write(room, "at three")
        change = {
            "m.new_content": {"msgtype": "m.text", "body": "at four"},
            "m.relates_to": {"rel_type": "m.replace", "event_id": written},
        }
        await eve.write(room, "* at four", **change)
        await world.ann.write(room, "* at four", **change)
        await world.ann.write(room, "end")
        await world.heard("end")

    edits = [e for e in world.handler.events if isinstance(e, Edit)]
    assert [(e.id, e.text, e.sender.id) for e in edits] == [(written, "at four", world.ann.user)]


async def test_in_a_group_the_bot_is_named_by_mentions(tmp_path: Path) -> None:
    """What a client says of whom it names counts; older ones say nothing."""
    async with open_world(tmp_path) as world, world.serving():
        eve = world.person("eve")
        room = await world.share_room(eve)
        mention = {"m.mentions": {"user_ids": [world.bot.user]}}
        await eve.write(room, "Bot: what is on?", **mention)
        await eve.write(room, "the robot is none of it, nor @botany", **{"m.mentions": {}})
        await eve.write(room, "an old client says: @bot, hello")
        await eve.write(room, "!status")
        await world.heard("!status")

    events = [e for e in world.handler.events if isinstance(e, Message)]
    assert [(e.text, e.is_addressed, e.chat.type) for e in events] == [
        ("what is on?", True, "group"),
        ("the robot is none of it, nor @botany", False, "group"),
        ("an old client says: @bot, hello", True, "group"),
        ("!status", False, "group"),
    ]


async def test_a_question_in_a_group_begins_a_thread_which_is_a_conversation(
    tmp_path: Path,
) -> None:
    """A setting; who goes on in it names nobody, and commands begin none."""
    async with open_world(tmp_path) as world:
        eve = world.person("eve")
        room = await world.share_room(eve)
        mention = {"m.mentions": {"user_ids": [world.bot.user]}}
        nobody: dict[str, Any] = {"m.mentions": {}}
        async with world.serving(world.adapter(has_threads=True)):
            asked = await eve.write(room, "bot: what is on?", **mention)
            theirs = await eve.write(room, "lunch?", **nobody)
            await world.heard("lunch?")
        async with world.serving(world.adapter(has_threads=True)):  # which remembers nothing
            for root, text in ((asked, "and then?"), (theirs, "at one")):
                relation = {"rel_type": "m.thread", "event_id": root}
                await world.ann.write(room, text, **nobody, **{"m.relates_to": relation})
            await eve.write(room, "bot: !status", **mention)
            ids = {"user_ids": [world.bot.user, world.ann.user]}
            both = await eve.write(room, "bot, ann: hi", **{"m.mentions": ids})
            relation = {"rel_type": "m.thread", "event_id": both}
            for person, text in ((world.ann, "hi, I am a bot"), (eve, "go on")):
                await person.write(room, text, **nobody, **{"m.relates_to": relation})
            await world.handler.until(lambda: len(world.handler.events) == 8)

    got = {getattr(e, "text", "!"): (e.chat.topic, e.is_addressed) for e in world.handler.events}  # type: ignore[union-attr]
    assert got == {
        "what is on?": (asked, True),
        "lunch?": ("", False),
        "and then?": (asked, True),
        "at one": (theirs, False),
        "!": ("", True),
        "ann: hi": (both, True),
        "hi, I am a bot": (both, False),
        "go on": (both, True),
    }


@table("is_encrypted", [False, True])
async def test_files_go_both_ways(tmp_path: Path, is_encrypted: bool) -> None:
    """In encrypted rooms the homeserver sees neither the bytes nor the name."""
    async with (
        open_world(tmp_path, is_encrypted=is_encrypted) as world,
        world.serving(world.adapter(keys=is_encrypted)) as bot,
    ):
        await bot.send(Outbound(chat_id=world.room, file=PICTURE, nonce="1"))
        (content,) = await world.said()
        stored = [data for data, _ in world.api.media.values()]
        # Ann sends it back as it came, with words below it, and as what she said.
        spoken = {"info": {**content["info"], "duration": 2500}, "org.matrix.msc3245.voice": {}}
        await world.ann.write(world.room, "look", **{**content, **spoken, "body": "look"})
        message = await world.heard("look")
        (file,) = message.files
        data = await file.fetch(1_000)
        with pytest.raises(FileTooLargeError):
            await file.fetch(3)
        world.api.is_old = True
        from_old_server = await file.fetch(1_000)

    assert (content["msgtype"], content["info"]["mimetype"]) == ("m.image", "image/png")
    assert "org.matrix.msc3245.voice" not in content
    assert (data, file.file_name, file.media_type) == (PICTURE.data, "a.png", "image/png")
    assert from_old_server == PICTURE.data
    assert (file.is_voice, file.duration_s) == (True, 2.5)
    assert (stored == [PICTURE.data]) != is_encrypted


# --- what the bot says ---


async def test_what_is_sent_or_changed_twice_is_there_once(tmp_path: Path) -> None:
    """Also where the answer was lost; a change back to an earlier text is another."""
    # Also where the answer was lost, as by a crash between sending and noting it.
    folder = tmp_path / "sent"
    folder.mkdir()
    async with open_world(folder) as world, world.serving() as bot:
        (payload,) = bot.render("**once**")
        message = Outbound(chat_id=world.room, payload=payload, nonce="n-1")
        world.api.cut("/send/", times=2)  # aiohttp makes such a request once more by itself
        with pytest.raises(UnknownOutcomeError):
            await bot.send(message)
        late = Outbound(
            chat_id=world.room, payload=payload, nonce="n-1", is_repeat=True, is_late=True
        )
        name = await bot.send(late)
        again = await bot.send(late)
        said = await world.said()

    assert name == again
    assert [(c["body"], c["formatted_body"]) for c in said] == [
        ("**once**", "<p><strong>once</strong></p>")
    ]

    # The same change twice is one; back to an earlier text it is another.
    folder = tmp_path / "changed"
    folder.mkdir()
    async with open_world(folder) as world, world.serving() as bot:
        states = [bot.render(text, is_plain=True)[0] for text in ("a", "b", "b", "a")]
        name = await bot.send(Outbound(chat_id=world.room, payload=states[0], nonce="1"))
        for state in states[1:]:
            await bot.edit(world.room, "", name, state)
        changes = [c["m.new_content"]["body"] for c in (await world.said())[1:]]

    assert changes == ["b", "a"]


async def test_what_stands_in_a_thread_is_shown_there(tmp_path: Path) -> None:
    """As a reply for clients that know no threads."""
    async with open_world(tmp_path) as world, world.serving() as bot:
        root = await world.ann.write(world.room, "root")
        (payload,) = bot.render("in it", is_plain=True)
        await bot.send(Outbound(chat_id=world.room, topic=root, payload=payload, nonce="1"))
        reply = Outbound(chat_id=world.room, topic=root, payload=payload, reply_to=root, nonce="2")
        await bot.send(reply)
        said = await world.said()

    relation = {
        "rel_type": "m.thread",
        "event_id": root,
        "m.in_reply_to": {"event_id": root},
    }
    assert [c["m.relates_to"] for c in said] == [
        {**relation, "is_falling_back": True},
        {**relation, "is_falling_back": False},
    ]
    assert all(c["m.mentions"] == {} for c in said)  # nobody is notified by what a text holds


@table("is_encrypted", [False, True])
async def test_a_button_is_a_reaction(tmp_path: Path, is_encrypted: bool) -> None:
    """Its choices are numbered, and stand there to be clicked."""
    async with (
        open_world(tmp_path, is_encrypted=is_encrypted) as world,
        world.serving(world.adapter(keys=is_encrypted)) as bot,
    ):
        (payload,) = bot.render("May it run?", is_plain=True)
        name = await bot.send(
            Outbound(chat_id=world.room, payload=payload, nonce="1", buttons=BUTTONS)
        )
        shown = [e for e in await world.ann.events(world.room) if e["type"] == "m.reaction"]
        for key in ("👍", "7️⃣", "2⃣"):  # some clients leave out how it is drawn
            relation = {"rel_type": "m.annotation", "event_id": name, "key": key}
            await world.ann.send(world.room, "m.reaction", {"m.relates_to": relation})
        *others, click = await world.handler.until_handled(3)
        assert isinstance(click, ButtonClick)
        await click.answer("Denied.")
        said = await world.said()

    keys = [e["content"]["m.relates_to"]["key"] for e in shown]
    assert keys == ["1️⃣", "2️⃣"]
    assert said[0]["body"] == "May it run?\n\n1️⃣ Allow once\n2️⃣ Deny"
    assert (click.data, click.sender.id) == ("ap:d:1", world.ann.user)
    assert [e.emoji for e in others if isinstance(e, Reaction)] == ["👍", "7️⃣"]
    assert (said[1]["body"], said[1]["msgtype"]) == ("Denied.", "m.notice")


async def test_reactions_typing_and_receipts(tmp_path: Path) -> None:
    """The same reaction twice is there once, another takes its place."""
    async with open_world(tmp_path) as world, world.serving() as bot:
        written = await world.ann.write(world.room, "hello")
        await world.heard("hello")
        await bot.react(world.room, written, "👀")
        await bot.react(world.room, written, "👀")
        await bot.type(world.room, "")
        events = await world.ann.events(world.room)
        await bot.react(world.room, written, "")
        left = await world.ann.events(world.room)
        for emoji in ("👀", "👍"):
            await bot.react(world.room, written, emoji)
        replaced = await world.ann.events(world.room)
        await world.api.until(lambda: world.api.receipts)

    shown = [e["content"] for e in events if e["type"] == "m.reaction"]
    assert [c["m.relates_to"]["key"] for c in shown] == ["👀"]
    assert [e["content"] for e in left if e["type"] == "m.reaction"] == [{}]
    last = [e["content"] for e in replaced if e["type"] == "m.reaction" and e["content"]]
    assert [c["m.relates_to"]["key"] for c in last] == ["👍"]
    assert world.api.typing == {world.room}
    assert world.api.receipts == {world.room: written}


async def test_failures_say_what_is_known(tmp_path: Path) -> None:
    """Whether it was sent, and whether it is worth trying again."""
    async with open_world(tmp_path) as world, world.serving() as bot:
        (payload,) = bot.render("text")
        await bot.send(Outbound(chat_id=world.room, payload=payload, nonce="0"))
        found: list[tuple[type[Exception], object]] = []
        for number, (status, code, more) in enumerate(
            [
                (429, "M_LIMIT_EXCEEDED", {"retry_after_ms": 2500}),
                (403, "M_FORBIDDEN", {}),
                (413, "M_TOO_LARGE", {}),
                (401, "M_UNKNOWN_TOKEN", {}),
                (502, "", {}),
            ],
            1,
        ):
            world.api.fail("/send/", status, code, token=world.bot.token, **more)
            try:
                await bot.send(Outbound(chat_id=world.room, payload=payload, nonce=str(number)))
            except NotSentError as error:
                found.append((NotSentError, error.retry_after_s))
            except RefusedError as error:
                found.append((RefusedError, error.is_chat_gone))
            except UnknownOutcomeError:
                found.append((UnknownOutcomeError, None))
        await world.ann.ask("POST", f"/rooms/{world.room}/kick", {"user_id": world.bot.user})
        with pytest.raises(RefusedError) as gone:
            await bot.send(Outbound(chat_id=world.room, payload=payload, nonce="9"))

    assert found == [
        (NotSentError, 2.5),
        (RefusedError, True),
        (RefusedError, False),
        (NotSentError, None),
        (UnknownOutcomeError, None),
    ]
    assert gone.value.is_chat_gone
    with pytest.raises(NotSentError):  # nobody is logged in any more
        await bot.send(Outbound(chat_id=world.room, payload=payload))


# --- logging in ---


async def test_a_login_that_is_not_known_needs_its_owner(tmp_path: Path) -> None:
    """A homeserver that is away does not, nor is a token sent elsewhere."""
    # A homeserver that is away does not.
    folder = tmp_path / "unknown"
    folder.mkdir()
    async with open_world(folder) as world:
        for bot in (
            world.adapter(access_token="old"),  # noqa: S106 - of the double, as below
            world.adapter(user=world.bot.user, password="wrong"),  # noqa: S106
        ):
            with pytest.raises(SetupError):
                await bot.check()
            with pytest.raises(SetupError):
                await bot.serve(world.handler)
        away = MatrixAdapter(
            name="matrix",
            account=MatrixAccount(homeserver="http://127.0.0.1:1", access_token="t"),  # noqa: S106
            clock=QuickClock(),
        )
        with pytest.raises(ConnectionLostError):
            await away.serve(world.handler)

    # While it serves.
    folder = tmp_path / "taken"
    folder.mkdir()
    async with open_world(folder) as world:
        bot = world.adapter()
        with pytest.raises(ExceptionGroup) as raised:
            async with world.serving(bot):
                await world.bot.ask("POST", "/logout", {})
                world.api.wake()
                await world.ann.write(world.room, "hello?")
                await anyio.sleep_forever()

    assert [type(each) for each in raised.value.exceptions] == [SetupError]

    # A homeserver must not have the bot ask this machine for something, with its token.
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    async with open_world(folder) as world:
        elsewhere = web.HTTPTemporaryRedirect(f"{world.api.url}/_matrix/elsewhere")
        world.api.redirects = {"/account/whoami": elsewhere}
        with pytest.raises(ConnectionLostError, match="another address"):
            await world.adapter().check()

    assert not [path for _, path, _ in world.api.requests if path.endswith("/elsewhere")]


async def test_a_login_that_was_ended_is_made_anew_by_password(tmp_path: Path) -> None:
    """As the same device, which keeps its keys and its place."""
    async with open_world(tmp_path) as world:
        bot = world.adapter(user=world.bot.user, password="secret")  # noqa: S106 - of the double
        with pytest.raises(ExceptionGroup) as raised:
            async with world.serving(bot):
                device = world.handler.cursor("device")
                world.api.devices = {
                    token: each for token, each in world.api.devices.items() if each.id != device
                }
                world.api.wake()
                await world.ann.write(world.room, "are you there?")
                await anyio.sleep_forever()
        async with world.serving(bot):
            await world.heard("are you there?")

    assert [type(each) for each in raised.value.exceptions] == [ConnectionLostError]
    assert world.handler.cursor("device") == device


async def test_a_look_says_which_rooms_are_encrypted(tmp_path: Path) -> None:
    """With a password it leaves no login behind."""
    async with open_world(tmp_path) as world:
        plain = await world.adapter().check()
        await world.share_room(is_encrypted=True)
        lines = await world.adapter(user="bot", password="secret").check()  # noqa: S106
        logins = [d.user for d in world.api.devices.values()]

    assert [line for line in plain if "not encrypted" in line]
    assert [
        line for line in lines if line.startswith("problem: ") and "encryption is false" in line
    ]
    assert logins.count(world.bot.user) == 1  # that of the look has ended


# --- rooms ---


async def test_an_invitation_is_followed_where_a_person_is_welcome(tmp_path: Path) -> None:
    """Others see that it is turned down."""
    # A first message is often written before the bot is in; what is older is not for it.
    folder = tmp_path / "followed"
    folder.mkdir()
    async with open_world(folder) as world:
        room = await world.ann.create_room()
        await world.ann.write(room, "old")
        async with world.serving():
            await world.ann.ask("POST", f"/rooms/{room}/invite", {"user_id": world.bot.user})
            await world.ann.write(room, "hello")
            await world.ann.write(room, "there")
            await world.heard("there")
            await world.ann.ask("POST", f"/rooms/{room}/leave", {})
            rooms = world.api.rooms
            await world.api.until(lambda: rooms[room].membership(world.bot.user) == "leave")

    assert world.handler.texts(room) == ["hello", "there"]

    # So that they see it.
    folder = tmp_path / "down"
    folder.mkdir()
    async with open_world(folder) as world:
        asked: list[tuple[str, str, bool]] = []

        async def welcomes(person: str, chat: str, *, is_direct: bool) -> bool:
            asked.append((person, chat, is_direct))
            return False

        world.handler.welcomes = welcomes  # type: ignore[method-assign] # a person decides
        async with world.serving():
            room = await world.ann.create_room(world.bot.user)
            rooms = world.api.rooms
            await world.api.until(lambda: rooms[room].membership(world.bot.user) == "leave")

    assert asked == [(world.ann.user, room, True)]


async def test_a_room_that_takes_the_place_of_another_keeps_its_conversation(
    tmp_path: Path,
) -> None:
    """Both rooms have to say so: anybody can open one that claims to follow another."""
    async with open_world(tmp_path) as world:
        moves: list[tuple[str, str]] = []

        async def moved(old: str, new: str) -> None:
            moves.append((old, new))

        async def welcomes(person: str, chat: str, *, is_direct: bool) -> bool:
            del person, chat
            return is_direct  # the group is listed under its old id

        world.handler.moved = moved  # type: ignore[method-assign] # as the gateway does
        world.handler.welcomes = welcomes  # type: ignore[method-assign]
        follows = {"creation_content": {"predecessor": {"room_id": world.room}}}
        async with world.serving():
            false = {**follows, "invite": [world.bot.user], "is_direct": True}
            claimed = (await world.ann.ask("POST", "/createRoom", false))["room_id"]
            await world.ann.write(claimed, "I am the group")
            await world.heard("I am the group")
            new = (await world.ann.ask("POST", "/createRoom", follows))["room_id"]
            await world.ann.ask(
                "PUT",
                f"/rooms/{world.room}/state/m.room.tombstone",
                {"body": "moved", "replacement_room": new},
            )
            await world.ann.ask("POST", f"/rooms/{new}/invite", {"user_id": world.bot.user})
            await world.ann.write(new, "here now")
            await world.heard("here now")

    assert moves == [(world.room, new)]


async def test_what_was_missed_is_read_in_order_and_by_time(tmp_path: Path) -> None:
    """More than a sync brings, and where a homeserver was put back."""
    # More than a sync brings.
    folder = tmp_path / "gap"
    folder.mkdir()
    async with open_world(folder) as world:
        async with world.serving():
            await world.ann.write(world.room, "before")
            await world.heard("before")
        for number in range(90):
            await world.ann.write(world.room, f"missed {number}")
        async with world.serving():
            await world.heard("missed 89")

    assert world.handler.texts() == ["before", *(f"missed {n}" for n in range(90))]

    # It takes a token of a later time without a word, and tells nothing until then.
    folder = tmp_path / "back"
    folder.mkdir()
    async with open_world(folder) as world:
        async with world.serving():
            await world.ann.write(world.room, "kept")
            await world.heard("kept")
            copy = [*world.api.rooms[world.room].events]
            await world.ann.write(world.room, "lost")
            await world.heard("lost")
            await world.handler.until(lambda: "$" in world.handler.cursor("last"))
        world.api.rooms[world.room].events = copy
        world.handler.cursors["sync"] = "s100000"
        await world.ann.write(world.room, "afterwards")
        async with world.serving():
            await world.heard("afterwards")

    assert world.handler.texts() == ["kept", "lost", "afterwards"]
