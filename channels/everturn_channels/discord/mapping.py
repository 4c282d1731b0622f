"""What discord.py tells, as events. Pure: no IO, no clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import discord

from everturn_channels.adapter import ChatRef, IncomingFile, Message, Person
from everturn_channels.ingestion.described import unknown_kind

QUOTE_CHARS = 500
"Of a message that is replied to."
Channel: TypeAlias = discord.abc.Messageable | discord.abc.GuildChannel | discord.abc.PrivateChannel
Fetcher: TypeAlias = Callable[[discord.Attachment], IncomingFile]

UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, OverflowError)
"What reading raises where Discord leaves out what it promises: the library checks nothing."
_PEOPLE_S_TYPES = frozenset(
    {
        discord.MessageType.default,
        discord.MessageType.reply,
        discord.MessageType.thread_starter_message,
    }
)
_CUSTOM_EMOJI = re.compile(r"<a?:(\w+):\d+>")
_PERSON, _ROLE, _CHANNEL = (
    re.compile(r"<@!?(\d{1,20})>"),
    re.compile(r"<@&(\d{1,20})>"),
    re.compile(r"<#(\d{1,20})>"),
)
_SLASH = re.compile(r"</([^:>]+):\d+>")


def is_from_people(message: discord.Message) -> bool:
    """Whether a person wrote it: no bot, no webhook, no notice of Discord's own."""
    written = _written(message)
    return (
        message.type in _PEOPLE_S_TYPES
        and message.webhook_id is None
        and not written.author.bot
        and not message.author.bot
    )


def chat_ref_of(channel: Channel, person: str = "") -> ChatRef:
    """Return where a channel stands among chats; `person` names a direct one."""
    match channel:
        case discord.Thread():
            parent = f"#{channel.parent.name} " if channel.parent else ""
            return ChatRef(
                id=str(channel.parent_id),
                type="group",
                topic=str(channel.id),
                title=f"{channel.guild.name} {parent}/ {channel.name}",
            )
        case discord.abc.GuildChannel():
            title = f"{channel.guild.name} #{channel.name}"
            return ChatRef(id=str(channel.id), type="group", title=title)
        case discord.DMChannel():
            name = channel.recipient.display_name if channel.recipient else person
            return ChatRef(id=str(channel.id), type="dm", title=name)
        case discord.PartialMessageable():
            is_dm = channel.guild_id is None
            return ChatRef(
                id=str(channel.id), type="dm" if is_dm else "group", title=person if is_dm else ""
            )
        case _:
            return ChatRef(id=str(getattr(channel, "id", "")), type="group")


def person_of(user: discord.User | discord.Member, language: str = "") -> Person:
    """Return somebody, by the name that people see there; only an interaction says the language."""
    return Person(id=str(user.id), name=user.display_name, is_bot=user.bot, language=language)


def read_message(message: discord.Message, channel: Channel, me: int, to_file: Fetcher) -> Message:
    """Return what a person wrote.

    Args:
        message: One that `is_from_people`.
        channel: Where it stands; what the message itself says may be a stand-in.
        me: The bot's id.
        to_file: Makes a file of an attachment.
    """
    written = _written(message)
    snapshot = message.message_snapshots[0] if message.message_snapshots else None
    attachments = list(written.attachments)
    stickers, embeds = list(written.stickers), list(written.embeds)
    text, forwarded_from = read_text(written, me), ""
    if snapshot is not None:
        text, forwarded_from = _plain(snapshot.content, message), _forwarded_from(message)
        attachments += snapshot.attachments
        stickers += snapshot.stickers
        embeds += snapshot.embeds
    quoted, quoted_name = _quote(message, me)
    more = (
        *_invitation(written),
        *_described(stickers, [message.poll] if message.poll else [], embeds),
    )
    if snapshot is not None and not (text or attachments or more):
        more = (unknown_kind(),)  # of a poll that is passed on nothing comes
    return Message(
        id=str(message.id),
        chat=chat_ref_of(channel, written.author.display_name),
        sender=person_of(written.author),
        text=text,
        at=message.created_at,
        is_addressed=is_addressed(written, me),
        files=tuple(to_file(a) for a in attachments),
        quoted=quoted,
        quoted_name=quoted_name,
        forwarded_from=forwarded_from,
        described=more,
        is_outside=snapshot is not None or bool(embeds),
    )


def read_text(message: discord.Message, me: int) -> str:
    """Return a message's text without the bot's name at its start, and with names for ids."""
    own = [rf"<@!?{me}>", *(rf"<@&{i}>" for i in _own_roles(message, me))]
    start = re.compile(rf"\s*(?:(?:{'|'.join(own)})[\s,:]*)*")
    found = start.match(message.content)
    return _plain(message.content[found.end() if found else 0 :], message).strip()


def is_addressed(message: discord.Message, me: int) -> bool:
    """Whether a message names the bot or its own role, or replies to the bot; not @everyone."""
    if any(user.id == me for user in message.mentions):
        return True
    if set(message.raw_role_mentions) & set(_own_roles(message, me)):
        return True
    replied = _replied(message)
    return replied is not None and replied.author.id == me


def _written(message: discord.Message) -> discord.Message:
    """Return the message that was written: a thread may begin with one from outside it."""
    if message.type is discord.MessageType.thread_starter_message:
        starter = message.reference.resolved if message.reference else None
        if isinstance(starter, discord.Message):
            return starter
    return message


def _replied(message: discord.Message) -> discord.Message | None:
    if message.type is not discord.MessageType.reply or message.reference is None:
        return None
    replied = message.reference.resolved
    return replied if isinstance(replied, discord.Message) else None


def _quote(message: discord.Message, me: int) -> tuple[str, str]:
    replied = _replied(message)
    if replied is None or replied.author.id == me:
        return "", ""
    text = _plain(replied.content, replied).strip()
    if len(text) > QUOTE_CHARS:
        text = f"{text[:QUOTE_CHARS]}…"
    return text, replied.author.display_name if text else ""


def _own_roles(message: discord.Message, me: int) -> list[int]:
    """Return the ids of the role that Discord made for the bot: some name that instead of it."""
    if message.guild is None:
        return []
    return [r.id for r in message.guild.roles if r.tags is not None and r.tags.bot_id == me]


def _plain(text: str, message: discord.Message) -> str:
    """Put names in the place of ids."""
    names = {user.id: user.display_name for user in message.mentions}
    guild = message.guild

    def person(found: re.Match[str]) -> str:
        name = names.get(int(found[1]))
        return f"@{name}" if name else found[0]

    def role(found: re.Match[str]) -> str:
        known = guild.get_role(int(found[1])) if guild else None
        return f"@{known.name}" if known else found[0]

    def channel(found: re.Match[str]) -> str:
        known = guild.get_channel_or_thread(int(found[1])) if guild else None
        return f"#{known.name}" if known else found[0]

    text = _CHANNEL.sub(channel, _ROLE.sub(role, _PERSON.sub(person, text)))
    return _SLASH.sub(r"/\1", _CUSTOM_EMOJI.sub(r":\1:", text))


def _forwarded_from(message: discord.Message) -> str:
    """Return where a message was taken from: Discord does not tell who wrote it."""
    reference = message.reference
    if reference is not None and message.guild is not None:
        known = message.guild.get_channel_or_thread(reference.channel_id)
        if known is not None:
            return f"#{known.name}"
    return "another chat"


def _invitation(message: discord.Message) -> tuple[str, ...]:
    """Return to what game or call a message invites, if it is nothing else."""
    if message.activity is None:
        return ()
    name = message.application.name if message.application is not None else ""
    return (f'invitation to "{name}"' if name else "invitation to an activity",)


def _described(
    stickers: Sequence[discord.StickerItem],
    polls: Sequence[discord.Poll],
    embeds: Sequence[discord.Embed],
) -> tuple[str, ...]:
    """Return what a message holds beside text and files, in words that a model reads."""
    return (
        *(f'sticker "{each.name}"' for each in stickers),
        *(
            f'poll "{each.question}": {" / ".join(a.text for a in each.answers)}'
            f"{', closed' if each.is_finalised() else ''}"
            for each in polls
        ),
        *(_embed(each) for each in embeds),
    )


def _embed(embed: discord.Embed) -> str:
    """Return an embed, or the preview of a link, whoever wrote it."""
    author = f"by {embed.author.name}" if embed.author.name else ""
    fields = (f"{each.name}: {each.value}" for each in embed.fields)
    parts = (embed.title, author, embed.description, *fields, embed.footer.text, embed.url)
    return f"embed {' | '.join(part for part in parts if part)}".rstrip()
