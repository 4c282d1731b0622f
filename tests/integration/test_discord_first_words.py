"""A first direct message that comes while nobody listens: of it Discord tells nothing by itself."""

from __future__ import annotations

import pytest
from support.discord_api import DiscordApi, open_discord_api
from support.discord_bot import bot
from support.inbox import Inbox

from everturn_channels.adapter import Message
from everturn_channels.discord import catch_up, client
from everturn_channels.discord.catch_up import OPENED_MAX
from everturn_channels.discord.cursors import HEARD


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten what the product waits out of politeness; no outcome depends on it."""
    monkeypatch.setattr(client, "IDENTIFY_PAUSE_S", (0.0, 0.0))
    monkeypatch.setattr(client, "GUILD_READY_S", 0.02)
    monkeypatch.setattr(catch_up, "OPEN_PAUSE_S", 0.0)


def opened(api: DiscordApi) -> int:
    """Return how many direct channels were opened."""
    return len(api.requests("POST", "/users/@me/channels"))


async def test_a_first_message_of_somebody_who_was_let_in_is_read_after_an_absence() -> None:
    """Somebody was let in, writes for the first time in a bad moment, and waits for ever."""
    async with open_discord_api() as api:
        world, inbox = api.world, Inbox()
        ann, bob = world.add_user("ann"), world.add_user("bob")
        inbox.known = ["not-a-number", "*", "²", "9" * 300, ann["id"]]
        inbox.cursors[HEARD] = world.new_id()
        world.add_message(ann, world.dm(ann), "are you there?")
        world.add_message(bob, world.dm(bob), "nobody let me in")
        async with bot(api, inbox):
            await inbox.until(lambda: inbox.taken)
        once = opened(api)
        world.add_message(ann, world.dm(ann), "and now?")
        async with bot(api, inbox):
            await inbox.until(lambda: len(inbox.taken) == 2)

    assert [a.text for a in inbox.taken if isinstance(a, Message)] == ["are you there?", "and now?"]
    assert once == opened(api) == 1


async def test_what_was_written_before_the_bot_ever_ran_stays_unread() -> None:
    """A new bot answers nothing old; from then on each person's channel is known."""
    async with open_discord_api() as api:
        world, inbox = api.world, Inbox(is_new=True)
        ann = world.add_user("ann")
        inbox.known = [ann["id"]]
        world.add_message(ann, world.dm(ann), "last week")
        async with bot(api, inbox):
            await api.until(lambda: inbox.cursor(f"person {ann['id']}"))
        world.add_message(ann, world.dm(ann), "today")
        async with bot(api, inbox):
            await inbox.until(lambda: inbox.taken)

    assert [a.text for a in inbox.taken if isinstance(a, Message)] == ["today"]


async def test_few_channels_are_opened_at_a_time_and_refusals_stop_nothing() -> None:
    """Discord blocks bots that open many; and people leave."""
    async with open_discord_api() as api:
        world, inbox = api.world, Inbox()
        people = [world.add_user(f"person {n}") for n in range(OPENED_MAX + 5)]
        inbox.known = [person["id"] for person in people]
        async with bot(api, inbox):
            await api.until(lambda: opened(api) == OPENED_MAX)
            await api.says("hello")
            await inbox.until(lambda: inbox.taken)
        first = opened(api)
        inbox.known = ["5"]
        async with bot(api, inbox):
            await api.until(lambda: opened(api) > first)
            await api.says("still here")
            await inbox.until(lambda: len(inbox.taken) == 2)

    assert first == OPENED_MAX
