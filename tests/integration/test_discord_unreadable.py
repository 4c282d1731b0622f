"""Events of Discord that cannot be read: passed over one by one, told of, and in nobody's way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.discord_api import open_discord_api
from support.discord_bot import bot
from support.discord_world import Payload
from support.inbox import Inbox

from everturn_channels.adapter import Message
from everturn_channels.discord import client

POLL: Payload = {
    "question": {"text": "When?"},
    "answers": [{"answer_id": 1, "poll_media": {"text": "now"}}],
    "expiry": None,
    "allow_multiselect": False,
    "layout_type": 1,
}
"A poll without an end, which the library cannot read."


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten what the product waits out of politeness; no outcome depends on it."""
    monkeypatch.setattr(client, "IDENTIFY_PAUSE_S", (0.0, 0.0))
    monkeypatch.setattr(client, "GUILD_READY_S", 0.02)


def texts(inbox: Inbox) -> list[str]:
    """Return the texts of the messages, in order."""
    return [each.text for each in inbox.taken if isinstance(each, Message)]


async def test_what_cannot_be_read_costs_nobody_the_connection() -> None:
    """Each connection serves all chats of all servers.

    A poll without an end is answered all the same; an id from the future moves no cursor, else its
    channel would never be caught up; and in a private chat somebody waits to be told, in a channel
    most likely not.
    """
    async with open_discord_api() as api:
        world, inbox = api.world, Inbox()
        ann = world.add_user("ann")
        async with bot(api, inbox):
            await api.says("vote!", author=ann, poll=POLL)
            await api.says("and now?", author=ann)
            await api.until(lambda: len(texts(inbox)) == 2)
            assert [kind for kind, _, _ in inbox.unread] == ["MESSAGE"]

            dm = world.dm(ann)
            await api.says("", author=ann, channel=dm, timestamp=7, id=world.new_id(), type=[])
            await api.says("", author=ann, timestamp=7, type=[])
            await api.says("fine", author=ann, channel=dm)
            await api.until(lambda: "fine" in texts(inbox))
            assert [chat.id if chat else "" for _, _, chat in inbox.unread][1:] == [dm, ""]

            await api.says("odd", author=ann, id=str(2**63 - 1))
            said = await api.says("even", author=ann)
            await api.until(lambda: inbox.cursor(world.general) == said["id"])

    assert texts(inbox) == ["vote!", "and now?", "fine", "odd", "even"]
    assert len(api.identifies) == 1


async def test_a_history_is_read_one_by_one() -> None:
    """A page that is read as a whole fails as a whole, at each start, for ever."""
    async with open_discord_api() as api:
        world, inbox = api.world, Inbox()
        ann = world.add_user("ann")
        inbox.cursors[world.general] = world.general
        world.add_message(ann, world.general, "before")
        world.add_message(ann, world.general, "vote!", poll=POLL)
        del world.add_message(ann, world.general, "nobody's")["author"]
        last = world.add_message(ann, world.general, "after")
        async with bot(api, inbox):
            await api.until(lambda: inbox.cursor(world.general) == last["id"])
        asked = len(api.requests("GET", "/messages"))

    assert texts(inbox) == ["before", "vote!", "after"]
    assert asked == 1


ODD: Sequence[tuple[str, Payload]] = (
    ("CHANNEL_UPDATE", {"id": "x"}),
    ("CHANNEL_CREATE", {}),
    ("THREAD_CREATE", {"id": None}),
    ("THREAD_LIST_SYNC", {"guild_id": []}),
    ("GUILD_UPDATE", {"id": {}}),
    ("GUILD_ROLE_CREATE", {}),
    ("MESSAGE_UPDATE", {"id": "1"}),
    ("MESSAGE_CREATE", {}),
    ("INTERACTION_CREATE", {}),
    ("MESSAGE_DELETE", {}),
    ("SOMETHING_NEW", {"id": 1}),
)


async def test_no_odd_event_ends_the_connection() -> None:
    """Each connection serves all chats of all servers."""
    async with open_discord_api() as api:
        inbox, said = Inbox(), list[str]()
        async with bot(api, inbox):
            for kind, event in ODD:
                for session in list(api.sessions.values()):
                    await api._dispatch(session, kind, event)
                said.append(f"still here after {kind}")
                await api.says(said[-1])
                await api.until(lambda: texts(inbox) == said)
                assert len(api.identifies) == 1, kind


async def test_a_server_with_an_odd_channel_is_known_all_the_same() -> None:
    """Else its threads would be taken for channels, and what was missed in it would be lost."""
    async with open_discord_api() as api:
        world, inbox = api.world, Inbox()
        odd = world.add_channel("odd", permission_overwrites=7)
        ann = world.add_user("ann")
        inbox.cursors[world.general] = world.general
        world.add_message(ann, world.general, "missed")
        async with bot(api, inbox):
            await api.until(lambda: texts(inbox) == ["missed"])
            await api.says("here too", author=ann, channel=odd)
            await api.until(lambda: len(texts(inbox)) == 2)

    assert texts(inbox) == ["missed", "here too"]


async def test_a_history_that_never_becomes_readable_leaves_its_chat_open() -> None:
    """Repeating what fails in the same way each time leaves a chat deaf for ever."""
    async with open_discord_api() as api:
        world, inbox = api.world, Inbox()
        ann = world.add_user("ann")
        inbox.cursors[world.general] = world.general
        world.add_message(ann, world.general, "missed")
        api.fail("GET", r"/messages$", 400, times=1000)
        async with bot(api, inbox):
            await api.says("live", author=ann)
            await api.until(lambda: texts(inbox) == ["live"])

    assert [kind for kind, _, _ in inbox.unread] == ["history"]


async def test_a_chat_whose_history_is_not_told_is_shown_as_blocked() -> None:
    """Discord is away for a while: the chat waits, and whoever looks sees it."""
    async with open_discord_api() as api:
        world, inbox = api.world, Inbox()
        ann = world.add_user("ann")
        inbox.cursors[world.general] = world.general
        world.add_message(ann, world.general, "missed")
        api.fail("GET", r"/messages$", 0, times=3)
        async with bot(api, inbox):
            await api.until(lambda: texts(inbox) == ["missed"])

    told = [bool(why) for chat, why in inbox.blocks if chat == world.general]
    assert told[0]
    assert not told[-1]
