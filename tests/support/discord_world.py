"""What exists on the pretended Discord of `discord_api`: users, channels, messages, as payloads.

Only payloads and ids; no network. Field names and types are those of the documentation of
Discord's API, version 10. Source: https://docs.discord.com/developers/resources, 2026-11.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

Payload: TypeAlias = dict[str, Any]

TEXT, DM, FORUM, PUBLIC_THREAD = 0, 1, 15, 11
EPOCH = datetime(2015, 1, 1, tzinfo=UTC)
"Where the time of Discord's ids begins."
EVERYTHING = str(((1 << 50) - 1) & ~(1 << 3))
"All permissions but that of an administrator, whom no channel can refuse."


class World:
    """One bot, one guild, and what people wrote."""

    def __init__(self, now: datetime | None = None) -> None:
        self.now = now or datetime.now(UTC)  # noqa: TID251 - the pretended platform's own clock
        self._tick = 0
        self.users: dict[str, Payload] = {}
        self.channels: dict[str, Payload] = {}
        self.messages: dict[str, dict[str, Payload]] = {}
        self.bot = self.add_user("everturn", is_bot=True)
        self.owner = self.add_user("owner")
        self.guild_id = self.new_id()
        self.role_id = self.new_id()
        "The managed role of the bot."
        self.general = self.add_channel("general")

    def new_id(self, *, age_s: float = 0) -> str:
        """Return an id of now, or of so long ago; each is higher than those of its moment."""
        self._tick += 1
        at = self.now - timedelta(seconds=age_s) - EPOCH
        return str(
            (int(at.total_seconds() * 1000) + (0 if age_s else self._tick) << 22) + self._tick
        )

    def add_user(self, name: str, *, is_bot: bool = False) -> Payload:
        """Create somebody."""
        user: Payload = {
            "id": self.new_id(),
            "username": name,
            "global_name": name.title(),
            "discriminator": "0",
            "avatar": None,
            "bot": is_bot,
            "system": False,
            "public_flags": 0,
        }
        self.users[user["id"]] = user
        return user

    def add_channel(self, name: str, kind: int = TEXT, **extra: object) -> str:
        """Create a channel of the guild, or a thread; return its id."""
        channel: Payload = {
            "id": self.new_id(),
            "type": kind,
            "guild_id": self.guild_id,
            "name": name,
            "position": 0,
            "topic": None,
            "nsfw": False,
            "parent_id": None,
            "permission_overwrites": [],
            "rate_limit_per_user": 0,
            "last_message_id": None,
            "flags": 0,
        }
        channel |= extra
        self.channels[channel["id"]] = channel
        return str(channel["id"])

    def add_thread(
        self,
        parent: str,
        name: str = "a thread",
        *,
        owner: Payload | None = None,
        message_id: str = "",
    ) -> str:
        """Create a thread of a channel, or a post of a forum; return its id.

        One that stands below a message has its id.
        """
        at = self.now.isoformat()
        details: Payload = {
            "archived": False,
            "locked": False,
            "auto_archive_duration": 1440,
            "archive_timestamp": at,
            "create_timestamp": at,
        }
        return self.add_channel(
            name,
            PUBLIC_THREAD,
            **({"id": message_id} if message_id else {}),
            parent_id=parent,
            owner_id=(owner or self.owner)["id"],
            message_count=0,
            member_count=1,
            thread_metadata=details,
        )

    def dm(self, user: Payload) -> str:
        """Return the id of the channel between a person and the bot."""
        for channel in self.channels.values():
            if channel["type"] == DM and channel["recipients"][0]["id"] == user["id"]:
                return str(channel["id"])
        dm: Payload = {
            "id": self.new_id(),
            "type": DM,
            "recipients": [user],
            "last_message_id": None,
            "flags": 0,
        }
        self.channels[dm["id"]] = dm
        return str(dm["id"])

    def member(self, user: Payload) -> Payload:
        """Return somebody as a member of the guild."""
        return {
            "user": user,
            "nick": None,
            "roles": [self.role_id] if user["id"] == self.bot["id"] else [],
            "joined_at": self.now.isoformat(),
            "deaf": False,
            "mute": False,
            "flags": 0,
            "avatar": None,
            "premium_since": None,
            "pending": False,
            "permissions": EVERYTHING,
        }

    def _role(self, role_id: str, name: str, **extra: object) -> Payload:
        return {
            "id": role_id,
            "name": name,
            "color": 0,
            "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
            "hoist": False,
            "position": 0,
            "flags": 0,
            "permissions": EVERYTHING,
            "managed": False,
            "mentionable": True,
        } | extra

    def guild(self) -> Payload:
        """Return the guild as GUILD_CREATE tells it; of its members only the bot, as if big."""
        managed = self._role(
            self.role_id, "everturn", managed=True, tags={"bot_id": self.bot["id"]}
        )
        here = [c for c in self.channels.values() if c["type"] != DM]
        return {
            "id": self.guild_id,
            "name": "The Guild",
            "icon": None,
            "splash": None,
            "discovery_splash": None,
            "owner_id": self.owner["id"],
            "afk_channel_id": None,
            "afk_timeout": 300,
            "verification_level": 0,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "roles": [self._role(self.guild_id, "@everyone"), managed],
            "emojis": [],
            "features": [],
            "mfa_level": 0,
            "application_id": None,
            "system_channel_id": None,
            "system_channel_flags": 0,
            "rules_channel_id": None,
            "vanity_url_code": None,
            "description": None,
            "banner": None,
            "premium_tier": 0,
            "preferred_locale": "en-US",
            "public_updates_channel_id": None,
            "nsfw_level": 0,
            "stickers": [],
            "premium_progress_bar_enabled": False,
            "joined_at": self.now.isoformat(),
            "large": True,
            "unavailable": False,
            "member_count": 1000,
            "voice_states": [],
            "members": [self.member(self.bot)],
            "presences": [],
            "channels": [c for c in here if c["type"] != PUBLIC_THREAD],
            "threads": [c for c in here if c["type"] == PUBLIC_THREAD],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
        }

    def add_message(
        self,
        author: Payload,
        channel_id: str,
        content: str,
        *,
        age_s: float = 0,
        **extra: object,
    ) -> Payload:
        """Write a message without telling anybody, as while the bot is away."""
        channel = self.channels[channel_id]
        named = dict.fromkeys(re.findall(r"<@!?(\d+)>", content))
        message: Payload = {
            "id": self.new_id(age_s=age_s),
            "channel_id": channel_id,
            "author": author,
            "content": content,
            "timestamp": (self.now - timedelta(seconds=age_s)).isoformat(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mention_roles": re.findall(r"<@&(\d+)>", content),
            "mentions": [self.users[i] for i in named if i in self.users],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": 0,
            "flags": 0,
            "components": [],
        }
        message |= extra
        if "guild_id" in channel:
            member = {k: v for k, v in self.member(author).items() if k != "user"}
            message |= {"guild_id": channel["guild_id"], "member": member}
        self.messages.setdefault(channel_id, {})[message["id"]] = message
        channel["last_message_id"] = message["id"]
        return message

    def history(
        self, channel_id: str, *, limit: int, after: str | None, before: str | None
    ) -> list[Payload]:
        """Return a page of messages, newest first; after `after` it is the oldest page."""
        # by the ids under which they were written: what stands in them may be damaged
        found = sorted(
            ((int(number), m) for number, m in self.messages.get(channel_id, {}).items()),
            key=lambda each: each[0],
        )
        if before:
            found = [each for each in found if each[0] < int(before)]
        if after:
            return [m for number, m in found if number > int(after)][:limit][::-1]
        return [m for _, m in found[-limit:][::-1]]
