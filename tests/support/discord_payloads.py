"""discord.py's values made of payloads, without a network: what adapters read messages from."""

from __future__ import annotations

from typing import Any

from support.discord_world import Payload, World

from everturn_channels.adapter import IncomingFile, Message
from everturn_channels.discord import discord  # with what its import warns of kept quiet
from everturn_channels.discord.client import Client
from everturn_channels.discord.mapping import is_from_people, read_message


class PayloadReader:
    """Turns payloads into the library's messages, without a network."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        self.ann = self.world.add_user("ann")
        self._state: Any = Client()._connection
        self._state.user = discord.ClientUser(state=self._state, data=self._me())
        self.guild: discord.Guild | None = None

    def _me(self) -> Any:
        return self.world.bot | {"verified": True, "mfa_enabled": False}

    @property
    def me(self) -> int:
        """The bot's id."""
        return int(self.world.bot["id"])

    def hears(self, payload: Payload) -> tuple[discord.Message, Any]:
        """Return a message and its channel as the gateway brings them."""
        if self.guild is None:
            self.guild = self._state._add_guild_from_data(self.world.guild())
        data: Any = payload
        channel, _ = self._state._get_guild_channel(data)
        return discord.Message(state=self._state, channel=channel, data=data), channel

    def says(self, text: str, **extra: Any) -> Message:
        """Return what Ann's message becomes."""
        return self.reads(self.world.add_message(self.ann, self.world.general, text, **extra))

    def reads(self, payload: Payload) -> Message:
        """Return what a message becomes."""
        message, channel = self.hears(payload)
        assert is_from_people(message)
        return read_message(message, channel, self.me, file_of)


def file_of(attachment: discord.Attachment) -> IncomingFile:
    """Return a file that is empty."""

    async def fetch(_limit_bytes: int) -> bytes:
        return b""

    return IncomingFile(fetch=fetch, file_name=attachment.filename)
