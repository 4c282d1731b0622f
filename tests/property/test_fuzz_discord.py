"""Events of Discord, made bad: left out, or an event that a channel can take.

discord.py checks nothing of what it is sent. What fails inside it is its own; what it makes of the
rest has to be readable, or to fail as `UNREADABLE` says: that is caught where messages are taken.

See `test_fuzz_journal` for how to run it for longer.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from support.discord_payloads import PayloadReader, file_of
from support.discord_world import Payload
from support.examples import examples
from support.mutations import as_json, mutated
from support.odd_events import DISCORD_MESSAGES, DISCORD_USES, WORLD

from everturn_channels.adapter import ButtonClick, Command, Message
from everturn_channels.command_registry import typed_command
from everturn_channels.discord import discord  # with what its import warns of kept quiet
from everturn_channels.discord.cursors import cursor_of, dms_of
from everturn_channels.discord.interactions import read_click
from everturn_channels.discord.interactions import read_command as read_slash
from everturn_channels.discord.mapping import (
    UNREADABLE,
    is_from_people,
    read_message,
    read_text,
)

DESK: Final = PayloadReader(WORLD)


def heard(payload: Payload) -> tuple[discord.Message, Any] | None:
    """Return what the library makes of a payload; None where it fails, which ends a connection."""
    try:
        return DESK.hears(payload)
    except Exception:  # noqa: BLE001 - whatever it is: the library's own
        return None


async def answer(_text: str) -> None:
    """Answer nobody."""


@examples(60)
@given(st.sampled_from(DISCORD_MESSAGES).flatmap(mutated).map(as_json))
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
            typed_command(read_text(message, DESK.me))

    if found is not None:
        assert isinstance(found.text, str)
        assert found.id.lstrip("-").isdigit()
        assert found.chat.id == str(known[1].id)
        assert found.at.tzinfo is not None


@examples(30)
@given(st.sampled_from(DISCORD_USES).flatmap(mutated).map(as_json))
def test_any_use_of_a_command_or_a_button_is_left_out_or_arrives(data: bytes) -> None:
    """Anything else would end the bot's connection for everybody."""
    payload: Any = parsed(data)
    try:
        interaction: Any = discord.Interaction(data=payload, state=DESK._state)
    except Exception:  # noqa: BLE001 - whatever it is: the library's own
        return
    for read in (read_slash, read_click):
        event: Command | ButtonClick | None = None
        with suppress(*UNREADABLE):
            event = read(interaction, answer)

        if isinstance(event, Command):
            assert isinstance(event.name, str)
        elif event is not None:
            assert isinstance(event.data, str)


class Kept:
    """An handler that remembers one cursor."""

    def __init__(self, kept: str) -> None:
        self._kept = kept

    def cursor(self, _name: str) -> str:
        """Return it, whatever it is asked for."""
        return self._kept


@examples(18)
@given(st.text(st.sampled_from("0123456789,x \u0663\x00-"), max_size=30))
def test_any_cursor_is_a_message_or_the_beginning(kept: str) -> None:
    """The file is a hint: damaged, it must not keep the channel from starting."""
    handler: Any = Kept(kept)

    assert 0 <= cursor_of(handler, 5) < 10**20
    assert all(0 <= each < 10**20 for each in dms_of(kept))


def parsed(data: bytes) -> object:
    """Return what the library's own parser makes of an event."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
