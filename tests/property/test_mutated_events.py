"""Whatever is wrong with one event of a platform, the next good message of its chat is taken.

The real adapters, against platforms on loopback, over a real service in memory. For longer:

    FUZZ_EXAMPLES=500 pytest --timeout=0 tests/property/test_mutated_events.py

tells 10,000 odd events on each platform, others with each run.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from support.discord_world import Payload
from support.examples import examples
from support.mutating import (
    Odd,
    tell_discord,
    tell_discord_history,
    tell_plugin,
    tell_telegram,
)
from support.mutations import mutated
from support.odd_events import DISCORD_MESSAGES, DISCORD_USES, TELEGRAM_UPDATES, WORLD

from everturn_channels.discord import client

AT_ONCE: Final = 20
"Odd events of one run of a channel."
POLL: Final[Payload] = {
    "question": {"text": "When?"},
    "answers": [{"answer_id": 1, "poll_media": {"text": "now"}}],
    "expiry": None,
    "allow_multiselect": False,
    "layout_type": 1,
}
SAID: Final = DISCORD_MESSAGES[0]
RICH: Final[Payload] = SAID | {
    "poll": POLL | {"expiry": "2026-11-23T12:00:00+00:00"},
    "embeds": [{"type": "rich", "title": "t", "fields": [{"name": "n", "value": "v"}]}],
    "components": [{"type": 1, "components": [{"type": 2, "style": 1, "custom_id": "x"}]}],
    "sticker_items": [{"id": "5", "name": "wave", "format_type": 1}],
    "reactions": [{"count": 1, "me": False, "emoji": {"id": None, "name": "x"}}],
}
GUILD: Final = WORLD.guild()
DISCORD: Final[tuple[Odd, ...]] = (
    *(("MESSAGE_CREATE", message) for message in (*DISCORD_MESSAGES, RICH)),
    ("MESSAGE_UPDATE", RICH | {"edited_timestamp": "2026-11-22T12:00:00+00:00"}),
    *(("INTERACTION_CREATE", use) for use in DISCORD_USES),
    ("CHANNEL_UPDATE", WORLD.channels[WORLD.general]),
    ("CHANNEL_CREATE", WORLD.channels[WORLD.general] | {"id": "7"}),
    ("GUILD_UPDATE", GUILD),
    ("GUILD_CREATE", GUILD),
    ("GUILD_ROLE_UPDATE", {"guild_id": WORLD.guild_id, "role": GUILD["roles"][1]}),
    ("MESSAGE_DELETE", {"id": SAID["id"], "channel_id": WORLD.general}),
)
CHAT: Final = {"id": "c", "type": "dm", "topic": "", "title": "t"}
LINES: Final[tuple[dict[str, Any], ...]] = (
    {
        "type": "message",
        "id": 1,
        "message_id": "m1",
        "chat": CHAT,
        "sender": {"id": "u", "name": "Ann"},
        "text": "hi",
        "at": "2026-11-22T12:00:00Z",
        "files": [{"file": "f1", "file_name": "a.txt", "size_bytes": 5}],
        "quoted": "before",
    },
    {
        "type": "edited",
        "id": 2,
        "message_id": "m1",
        "chat": CHAT,
        "sender": {"id": "u"},
        "text": "ho",
    },
    {"type": "command", "id": 3, "message_id": "m3", "chat": CHAT, "name": "status"},
    {"type": "click", "id": 4, "chat": CHAT, "data": "approve"},
    {"type": "skipped", "chat": CHAT, "count": 2, "why": "too old"},
    {"type": "cursor_set", "value": "5"},
    {"type": "received"},
    {"type": "result", "request": 1, "outcome": "done", "message_id": "m9"},
)


@pytest.fixture(autouse=True, scope="module")
def _no_pauses() -> Generator[None]:
    """Shorten what the product waits out of politeness; no outcome depends on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "IDENTIFY_PAUSE_S", (0.0, 0.0))
        patch.setattr(client, "GUILD_READY_S", 0.02)
        patch.setattr(client, "CONNECT_PAUSE_S", (0.01, 0.01))
        yield


def odd(events: Sequence[Odd]) -> SearchStrategy[list[Odd]]:
    """Return lists of events that are damaged at a few places each."""
    one = st.sampled_from(events).flatmap(
        lambda event: st.tuples(st.just(event[0]), mutated(event[1]))
    )
    return st.lists(one, min_size=AT_ONCE, max_size=AT_ONCE)


def plain(values: Sequence[dict[str, Any]]) -> tuple[Odd, ...]:
    """Return events of a platform that has no kinds outside of them."""
    return tuple(("", value) for value in values)


@examples(4)
@given(odd(plain(TELEGRAM_UPDATES)))
def test_no_update_of_telegram_costs_a_later_message(odds: list[Odd]) -> None:
    """The offset is one for all chats."""
    anyio.run(tell_telegram, odds)


@examples(4)
@given(odd(DISCORD))
@example([("MESSAGE_CREATE", SAID | {"poll": POLL})])
def test_no_event_of_discord_costs_a_later_message(odds: list[Odd]) -> None:
    """The connection is one for all chats."""
    anyio.run(tell_discord, odds)


@examples(4)
@given(odd(DISCORD[: len(DISCORD_MESSAGES) + 1]))
@example([("MESSAGE_CREATE", SAID | {"poll": POLL})])
def test_no_message_of_a_history_costs_a_later_one(odds: list[Odd]) -> None:
    """A page has a hundred of them."""
    anyio.run(tell_discord_history, odds)


@examples(4)
@given(odd(plain(LINES)))
def test_no_line_of_a_plug_in_costs_a_later_message(odds: list[Odd]) -> None:
    """The pipe is one for all chats."""
    anyio.run(tell_plugin, odds)
