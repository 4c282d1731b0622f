"""What a message brings, as the value of a channel, or as much of it as can be read."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import discord
from msgspec.structs import replace

from everturn_actors.ports import Clock
from everturn_channels.adapter import (
    ChatRef,
    Command,
    Edit,
    InboundHandler,
    Message,
    Person,
    Reaction,
)
from everturn_channels.command_registry import typed_command
from everturn_channels.discord.client import Client
from everturn_channels.discord.failures import NETWORK_ERRORS
from everturn_channels.discord.files import Files
from everturn_channels.discord.mapping import (
    UNREADABLE,
    Channel,
    chat_ref_of,
    is_addressed,
    is_from_people,
    person_of,
    read_message,
    read_text,
)
from everturn_channels.discord.payloads import Heard, Payload, awaited_at, id_of
from everturn_channels.discord.sender import Sender

LOOK_UP_S = (0.5, 2.0, 5.0)
"Pauses between the tries of looking a channel up; then it is taken for what its message says."

UNKNOWN_PART = "something that Discord sent with it"
"What stands for the parts of a message that had to be left out."

log = logging.getLogger(__name__)

Answerer: TypeAlias = Callable[[discord.Message, ChatRef], Callable[[str], Awaitable[None]]]


class EventReader:
    """Reads messages for one login."""

    def __init__(
        self,
        *,
        handler: InboundHandler,
        client: Client,
        files: Files,
        answerer: Answerer,
        sender: Sender,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._handler, self._client, self._files = handler, client, files
        self._answerer, self._sender = answerer, sender

    @property
    def me(self) -> int:
        """The bot's id."""
        assert self._client.user is not None
        return self._client.user.id

    async def read(self, heard: Heard) -> Message | Command | None:
        """Return what a message brings; None where no person wrote it, or nothing can be read.

        Where it cannot be read whole, parts of it are left out.
        """
        message = heard.message
        fault: Exception | str = "a part of it cannot be read"
        if heard.is_whole:
            try:
                if not is_from_people(message):
                    return None
                return self._inbound_event(message, await self._known(message.channel))
            except Exception as error:  # the boundary around one message
                fault = error
            reduced = self._client.payloads.reduced(heard.raw)
            if reduced is None:
                self._handler.unreadable("MESSAGE", fault, awaited_at(heard.raw, self.me))
                return None
            message = reduced.message
        event = self._inbound_event(message, message.channel)
        if event is not None:
            self._handler.unreadable("MESSAGE", fault)
        if isinstance(event, Message) and not event.unsupported:
            return replace(event, unsupported=UNKNOWN_PART)
        return event

    async def edit(self, message: discord.Message) -> Edit:
        """Return what a change of a message brings.

        Raises:
            Exception: It cannot be read.
        """
        channel = await self._known(message.channel)
        is_named = is_addressed(message, self.me)
        return Edit(
            id=str(message.id),
            chat=self._chat(message, channel, is_named=is_named),
            sender=person_of(message.author),
            text=read_text(message, self.me),
            at=message.edited_at or message.created_at,
            is_addressed=is_named or self._is_own_thread(channel),
        )

    def _chat(self, message: discord.Message, channel: Channel, *, is_named: bool) -> ChatRef:
        """Return where a message stands: in the thread that is opened below it, where one is."""
        chat = chat_ref_of(channel, message.author.display_name)
        has_threads = self._sender.opens_threads and isinstance(channel, discord.TextChannel)
        return replace(chat, topic=str(message.id)) if has_threads and is_named else chat

    def _is_own_thread(self, channel: Channel) -> bool:
        """Whether the bot opened a thread: all that is said there is said to it."""
        return isinstance(channel, discord.Thread) and channel.owner_id == self.me

    async def reaction(self, raw: Payload) -> tuple[Reaction, ...]:
        """Return a reaction; nothing where it says neither what it is, nor whose, nor on what.

        Raises:
            Exception: It cannot be read.
        """
        channel_id, user_id = id_of(raw, "channel_id"), id_of(raw, "user_id")
        message_id, emoji = id_of(raw, "message_id"), raw["emoji"]
        member: Payload = raw.get("member") or {}
        user: Payload = member.get("user") or {}
        if not (channel_id and user_id and message_id and emoji.get("name")):
            return ()
        channel = self._client.get_partial_messageable(
            channel_id, guild_id=id_of(raw, "guild_id") or None
        )
        known = self._client.get_channel(channel_id) or await self._known(channel)
        names = (member.get("nick"), user.get("global_name"), user.get("username"))
        name = next((str(each) for each in names if each), "")
        chat = chat_ref_of(known, name)
        chat = replace(chat, topic=chat.topic or self._sender.topics.get(str(message_id), ""))
        if chat.type == "dm" and not name:
            name = chat.title
        return (
            Reaction(
                message_id=str(message_id),
                emoji=f":{emoji['name']}:" if emoji.get("id") else str(emoji["name"]),
                chat=chat,
                sender=Person(id=str(user_id), name=name, is_bot=bool(user.get("bot"))),
                at=self._clock.now(),  # Discord does not say when
            ),
        )

    def _inbound_event(
        self, message: discord.Message, channel: Channel
    ) -> Message | Command | None:
        """Return a message as the message or the command that it is; None where it is neither."""
        if not is_from_people(message):
            return None
        is_own = self._is_own_thread(channel)
        if is_own and message.type is discord.MessageType.thread_starter_message:
            return None  # the question, once more
        read = read_message(message, channel, self.me, lambda a: self._files.incoming(a, message))
        if read.chat.topic:
            self._sender.remember_home(message.id, int(read.chat.topic))
        if isinstance(channel, discord.Thread) and channel.id == message.id:
            # The first message of a post in a forum: often the title is the question.
            read = replace(read, described=(f'post "{channel.name}"', *read.described))
        command = typed_command(read.text)
        is_meant = read.is_addressed or is_own or read.chat.type == "dm"
        chat = self._chat(message, channel, is_named=read.is_addressed)
        if chat.topic == read.id:
            self._sender.remember_title(read.id, read.text)
        if command is None or not is_meant or read.forwarded_from:
            return replace(read, chat=chat, is_addressed=read.is_addressed or is_own)
        return Command(
            id=read.id,
            name=command[0],
            argument=command[1],
            chat=read.chat,
            sender=read.sender,
            at=read.at,
            is_addressed=read.is_addressed or is_own,
            is_typed=_is_typed(message),
            otherwise=replace(read, chat=chat, is_addressed=read.is_addressed or is_own),
            answer=self._answerer(message, read.chat),
        )

    async def _known(self, channel: Channel) -> Channel:
        """Return a channel that says what it is: of some only the id came."""
        if not isinstance(channel, discord.PartialMessageable) or channel.guild_id is None:
            return channel
        known = self._client.get_channel(channel.id)
        if known is not None:
            return known
        for backoff_s in (*LOOK_UP_S, None):
            try:
                return await self._client.fetch_channel(channel.id)
            except (discord.DiscordServerError, *NETWORK_ERRORS):
                if backoff_s is not None:  # a thread would be taken for a channel
                    await anyio.sleep(backoff_s)
            except (discord.DiscordException, *UNREADABLE):
                break
        log.warning("a channel could not be looked up", extra={"channel_id": channel.id})
        return channel


def _is_typed(message: discord.Message) -> bool:
    """Whether a command was typed as a new message. See `Command.is_typed`.

    What is read from a history stands there as it was changed last.
    """
    is_new = message.type in {discord.MessageType.default, discord.MessageType.reply}
    return is_new and message.edited_at is None and not message.attachments and not message.stickers
