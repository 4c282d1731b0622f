"""Events of Discord, made bad: left out, or an arrival that a channel can take.

discord.py checks nothing of what it is sent. What fails inside it is its own; what it makes of the
rest has to be readable, or to fail as `UNREADABLE` says: that is caught where messages are taken.

See `test_fuzz_journal` for how to run it for longer.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from support.discord_desk import Desk, file_of
from support.discord_world import Payload, World
from support.mutations import as_json, fuzz, mutated

from everturn_channels.adapter import Command, Message, Press
from everturn_channels.discord import discord  # with what its import warns of kept quiet
from everturn_channels.discord.catching_up import cursor_of, dms_of
from everturn_channels.discord.interactions import read_command as read_slash
from everturn_channels.discord.interactions import read_press
from everturn_channels.discord.mapping import (
    UNREADABLE,
    is_from_people,
    read_command,
    read_message,
    read_text,
)

DESK: Final = Desk(World(datetime(2026, 11, 22, tzinfo=UTC)))
WORLD: Final = DESK.world
BOB: Final = WORLD.add_user("bob")
FIRST: Final = WORLD.add_message(BOB, WORLD.general, "first")
SNAPSHOT: Final = {
    "type": 0,
    "content": "passed on",
    "embeds": [],
    "attachments": [{"id": "1", "filename": "a.txt", "size": 1, "url": "", "proxy_url": ""}],
    "timestamp": WORLD.now.isoformat(),
    "edited_timestamp": None,
    "flags": 0,
    "mentions": [],
    "mention_roles": [],
}
SEEN: Final = {"channel_id": WORLD.general, "message_id": FIRST["id"]}
MESSAGES: Final[tuple[Payload, ...]] = (
    WORLD.add_message(BOB, WORLD.general, f"<@{WORLD.bot['id']}> ask <#{WORLD.general}> <:x:1>"),
    WORLD.add_message(BOB, WORLD.general, "/status", attachments=SNAPSHOT["attachments"]),
    WORLD.add_message(
        BOB, WORLD.general, "so?", type=19, message_reference=SEEN, referenced_message=FIRST
    ),
    WORLD.add_message(
        BOB,
        WORLD.general,
        "",
        message_reference={**SEEN, "type": 1},
        message_snapshots=[{"message": SNAPSHOT}],
        sticker_items=[{"id": "5", "name": "wave", "format_type": 1}],
    ),
)
MEMBER: Final = WORLD.member(BOB)
USES: Final[tuple[Payload, ...]] = tuple(
    {
        "id": WORLD.new_id(),
        "application_id": WORLD.bot["id"],
        "type": kind,
        "token": "t",
        "version": 1,
        "guild_id": WORLD.guild_id,
        "channel_id": WORLD.general,
        "channel": WORLD.channels[WORLD.general],
        "member": MEMBER,
        "locale": "en-US",
        "entitlements": [],
        "authorizing_integration_owners": {},
        "attachment_size_limit": 1,
        "data": data,
    }
    for kind, data in (
        (
            2,
            {
                "id": "1",
                "name": "compact",
                "type": 1,
                "options": [{"name": "keep", "type": 3, "value": "x"}],
            },
        ),
        (3, {"custom_id": "approve:1", "component_type": 2}),
    )
)


def heard(payload: Payload) -> tuple[discord.Message, Any] | None:
    """Return what the library makes of a payload; None where it fails, which ends a connection."""
    try:
        return DESK.hears(payload)
    except Exception:  # noqa: BLE001 - whatever it is: the library's own
        return None


async def answer(_text: str) -> None:
    """Answer nobody."""


@fuzz(200)
@given(st.sampled_from(MESSAGES).flatmap(mutated).map(as_json))
def test_any_message_is_left_out_or_arrives(data: bytes) -> None:
    """One that failed otherwise would end the connection, and be read again from the history."""
    payload = parsed(data)
    known = heard(payload) if isinstance(payload, dict) else None
    if known is None:
        return
    found: Message | None = None
    with suppress(*UNREADABLE):
        message, channel = known
        if is_from_people(message):
            found = read_message(message, channel, DESK.me, file_of)
            read_command(read_text(message, DESK.me))

    if found is not None:
        assert isinstance(found.text, str)
        assert found.id.lstrip("-").isdigit()
        assert found.place.chat == str(known[1].id)
        assert found.at.tzinfo is not None


@fuzz(100)
@given(st.sampled_from(USES).flatmap(mutated).map(as_json))
def test_any_use_of_a_command_or_a_button_is_left_out_or_arrives(data: bytes) -> None:
    """Anything else would end the bot's connection for everybody."""
    payload: Any = parsed(data)
    try:
        interaction: Any = discord.Interaction(data=payload, state=DESK._state)
    except Exception:  # noqa: BLE001 - whatever it is: the library's own
        return
    for read in (read_slash, read_press):
        arrival: Command | Press | None = None
        with suppress(*UNREADABLE):
            arrival = read(interaction, answer)

        if isinstance(arrival, Command):
            assert isinstance(arrival.name, str)
        elif arrival is not None:
            assert isinstance(arrival.data, str)


class Kept:
    """An inlet that remembers one cursor."""

    def __init__(self, kept: str) -> None:
        self._kept = kept

    def cursor(self, _name: str) -> str:
        """Return it, whatever it is asked for."""
        return self._kept


@fuzz(30)
@given(st.text(st.sampled_from("0123456789,x \u0663\x00-"), max_size=30))
def test_any_cursor_is_a_message_or_the_beginning(kept: str) -> None:
    """The file is a hint: damaged, it must not keep the channel from starting."""
    inlet: Any = Kept(kept)

    assert 0 <= cursor_of(inlet, 5) < 10**20
    assert all(0 <= each < 10**20 for each in dms_of(kept))


def parsed(data: bytes) -> object:
    """Return what the library's own parser makes of an event."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
