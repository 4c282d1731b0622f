"""What Telegram reports, as the values of a channel. Pure: it only hands on how to answer.

Telegram counts offsets in UTF-16 units, so text is cut as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias

from aiogram import types
from msgspec import Struct, structs

from everturn_channels.adapter import (
    ButtonClick,
    ChatMoved,
    ChatRef,
    ChatType,
    Command,
    Edit,
    InboundEvent,
    IncomingFile,
    Message,
    Person,
    Reaction,
)
from everturn_channels.telegram.content import described, is_anothers
from everturn_channels.telegram.markup import head
from everturn_channels.telegram.rich_text import words_of

UPDATES: Final = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
    "message_reaction",
    "my_chat_member",
)
"The kinds of updates that are asked for."

_QUOTE_UNITS: Final = 1_000  # of a message that somebody replies to
_CHAT_TYPES: Final[dict[str, ChatType]] = {
    "private": "dm",
    "group": "group",
    "supergroup": "group",
    "channel": "channel",
}
_QUOTATIONS: Final = frozenset(("blockquote", "expandable_blockquote"))


class Reach(Protocol):
    """What events need to be answered, and their files to be fetched."""

    async def fetch(self, file_id: str, size_bytes: int | None, limit_bytes: int) -> bytes:
        """Get a file. See `IncomingFile.fetch`."""
        ...

    async def answer(self, chat: str, topic: str, reply_to: str, text: str) -> None:
        """Answer a command. See `Command.answer`."""
        ...

    async def answer_click(self, query_id: str, text: str) -> None:
        """Answer a click. See `ButtonClick.answer`."""
        ...

    def topic_of(self, chat: str, message_id: str) -> str | None:
        """Return in which topic the bot sent a message; None where that is not known any more."""
        ...

    def whole_of(self, chat: str, message_id: str) -> str:
        """Return the first message of the album that a file of the bot's is in; else the same."""
        ...


class Note(Struct, frozen=True, kw_only=True):
    """Something for the log, and nothing for anybody else."""

    text: str
    chat: str
    detail: str = ""
    level: Literal["debug", "info", "warning"] = "debug"


Mapped: TypeAlias = InboundEvent | Note | ChatMoved


class Reading(Struct, frozen=True, kw_only=True):
    """Reads updates of one bot."""

    bot_id: int
    username: str
    "Without the @."
    reach: Reach

    def event(self, update: types.Update, now: datetime) -> Mapped:
        """Return what an update says; `now` dates clicks, which Telegram does not."""
        if message := update.message or update.channel_post:
            return self._message(message)
        if message := update.edited_message or update.edited_channel_post:
            return self._edit(message)
        if query := update.callback_query:
            return self._click(query, now)
        if reaction := update.message_reaction:
            return self._reaction(reaction)
        if change := update.my_chat_member:
            status = change.new_chat_member.status
            gone = status in {"kicked", "left"}
            text = "the bot was blocked or removed" if gone else "the bot's place in a chat changed"
            chat = str(change.chat.id)
            return Note(text=text, chat=chat, detail=status, level="warning" if gone else "info")
        return Note(text="an update of a kind that is not used", chat="")

    def _message(self, message: types.Message) -> Mapped:
        if (move := moved(message)) is not None:
            return move
        chat = chat_ref_of(message)
        refusal = self._refusal(message)
        if refusal or chat is None:
            return refusal or _unknown_chat(message)
        if (command := self._command(message, chat)) is not None:
            return command
        text, is_addressed = self._text(message)
        quoted, quoted_name = self._quoted(message)
        files, more = self._files(message), described(message)
        is_rich = message.rich_message is not None and bool(text)
        if not (text or message.text or message.caption or files or more):  # a pin, a new member
            return Note(text="a message without content", chat=chat.id)
        return Message(
            id=str(message.message_id),
            chat=chat,
            sender=_sender(message),
            text=text,
            at=_sent_at(message),
            is_addressed=is_addressed,
            files=files,
            quoted=quoted,
            quoted_name=quoted_name,
            forwarded_from=_origin(message.forward_origin) if message.forward_origin else "",
            described=(more,) if more and not files and not is_rich else (),
            is_outside=message.forward_origin is not None or is_anothers(message),
            is_album=message.media_group_id is not None,
        )

    def _edit(self, message: types.Message) -> Mapped:
        chat = chat_ref_of(message)
        refusal = self._refusal(message)
        if refusal or chat is None:
            return refusal or _unknown_chat(message)
        text, is_addressed = self._text(message)
        return Edit(
            id=str(message.message_id),
            chat=chat,
            sender=_sender(message),
            text=text,
            at=_edited_at(message),
            is_addressed=is_addressed,
        )

    def _click(self, query: types.CallbackQuery, now: datetime) -> Mapped:
        message = query.message
        chat = chat_ref_of(message) if message is not None else None
        if message is None or chat is None or query.data is None:
            return Note(text="a press of a button of no message of ours", chat="")
        user = query.from_user
        return ButtonClick(
            data=query.data,
            chat=chat,
            sender=_person(user),
            at=now,
            answer=partial(self.reach.answer_click, query.id),
        )

    def _reaction(self, change: types.MessageReactionUpdated) -> Mapped:
        """Return what was put on a message; Telegram says neither whose it is nor its topic."""
        chat, message_id = change.chat, str(change.message_id)
        before = {_emoji(each) for each in change.old_reaction}
        added = [each for each in map(_emoji, change.new_reaction) if each not in before]
        kind, topic = _CHAT_TYPES.get(chat.type), self.reach.topic_of(str(chat.id), message_id)
        if kind is None or not added:
            return Note(text="a reaction that was taken back", chat=str(chat.id))
        if topic is None and chat.is_forum:
            return Note(text="a reaction whose topic is not known any more", chat=str(chat.id))
        actor = change.actor_chat
        sender = _person(change.user) if change.user is not None else Person(id="")
        if actor is not None:
            sender = Person(id=str(actor.id), name=actor.title or actor.full_name)
        title = chat.title or (chat.full_name if kind == "dm" else "")
        return Reaction(
            message_id=self.reach.whole_of(str(chat.id), message_id),
            emoji=added[-1],
            chat=ChatRef(id=str(chat.id), type=kind, topic=topic or "", title=title),
            sender=sender,
            at=change.date.astimezone(UTC),
        )

    def _refusal(self, message: types.Message) -> Note | None:
        """Return why a message is nobody's word to the bot; None where it is."""
        chat = str(message.chat.id)
        # people who write in the name of a chat come as a bot of Telegram's
        by_bot = message.from_user is not None and message.from_user.is_bot
        if by_bot and message.sender_chat is None:
            return Note(text="a message of a bot", chat=chat)
        if message.via_bot is not None and message.via_bot.id == self.bot_id:
            return Note(text="a message of this bot", chat=chat)
        return None

    # --- text ---

    def _command(self, message: types.Message, chat: ChatRef) -> Mapped | None:
        entities = message.entities or []
        entity = next((e for e in entities if e.type == "bot_command" and e.offset == 0), None)
        if entity is None or message.forward_origin is not None or message.text is None:
            return None
        word, rest = _cut(message.text, 0, entity.length), _cut(message.text, entity.length)
        if rest and not rest[0].isspace():
            return None  # a path, not a command: /etc/hosts
        name, at, bot = word.removeprefix("/").partition("@")
        if at and bot.lower() != self.username.lower():
            return Note(text="a command for another bot", chat=chat.id)
        message_id, replied = str(message.message_id), message.reply_to_message
        is_reply = replied is not None and self._is_own(replied)
        reply_to = message_id if chat.type == "group" else ""
        return Command(
            id=message_id,
            name=name.lower(),
            argument=rest.strip(),
            chat=chat,
            sender=_sender(message),
            at=_sent_at(message),
            is_addressed=bool(at) or chat.type == "dm" or is_reply,
            is_typed=_is_typed(message, entity),
            answer=partial(self.reach.answer, chat.id, chat.topic, reply_to),
        )

    def _text(self, message: types.Message) -> tuple[str, bool]:
        """Return what a message says, and whether it is meant for the bot."""
        raw = message.text or message.caption or words_of(message.rich_message)
        entities = (message.entities if message.text else message.caption_entities) or []
        mentions = [e for e in entities if self._is_mention(raw, e)]
        replied = message.reply_to_message
        addressed = (
            message.chat.type == "private"
            or bool(mentions)
            or (replied is not None and self._is_own(replied))
        )
        data = _bytes(raw)
        for link in sorted(entities, key=lambda e: -(e.offset + e.length)):
            shown = _cut(raw, link.offset, link.length)
            if link.type == "text_link" and link.url and link.url.rstrip("/") != shown.rstrip("/"):
                end = 2 * (link.offset + link.length)
                data = data[:end] + _bytes(f" ({link.url})") + data[end:]
        first = next((e for e in mentions if not _cut(raw, 0, e.offset).strip()), None)
        if first is not None:
            data = data[2 * (first.offset + first.length) :]
        text = data.decode("utf-16-le", "replace")
        return (text.lstrip(" ,:\n\t") if first is not None else text).strip(), addressed

    def _is_mention(self, text: str, entity: types.MessageEntity) -> bool:
        match entity.type:
            case "mention":
                named = _cut(text, entity.offset, entity.length).removeprefix("@")
                return bool(self.username) and named.lower() == self.username.lower()
            case "bot_command":
                _, at, bot = _cut(text, entity.offset, entity.length).partition("@")
                return bool(at) and bot.lower() == self.username.lower() and entity.offset > 0
            case "text_mention":
                return entity.user is not None and entity.user.id == self.bot_id
            case _:
                return False

    def _is_own(self, message: types.Message) -> bool:
        """Tell whether the bot said that; who opened a topic said nothing by it."""
        by_bot = message.from_user is not None and message.from_user.id == self.bot_id
        return by_bot and message.forum_topic_created is None

    def _quoted(self, message: types.Message) -> tuple[str, str]:
        replied, elsewhere = message.reply_to_message, message.external_reply
        part = message.quote.text if message.quote is not None else ""
        if elsewhere is not None:
            return head(part or described(elsewhere), _QUOTE_UNITS), _origin(elsewhere.origin)
        if message.reply_to_story is not None:
            chat = message.reply_to_story.chat
            return "story", chat.title or chat.full_name
        if replied is None or self._is_own(replied) or replied.forum_topic_created is not None:
            return "", ""
        whole = replied.text or replied.caption or words_of(replied.rich_message)
        if not (part or whole):
            files = self._files(replied)
            whole = files[0].file_name if files else described(replied)
        quoted = head(part or whole, _QUOTE_UNITS)
        return quoted, _sender(replied).name if quoted else ""

    # --- files ---

    def _files(self, message: types.Message) -> tuple[IncomingFile, ...]:
        number = message.message_id
        if photos := message.photo or (message.live_photo and message.live_photo.photo):
            largest = max(photos, key=lambda p: p.width * p.height)
            return (self._file(largest, f"photo-{number}.jpg", "image/jpeg"),)
        if message.animation:  # comes as a document too
            return (self._file(message.animation, f"animation-{number}.mp4", "video/mp4"),)
        if message.document:
            return (self._file(message.document, f"document-{number}", ""),)
        if message.voice:
            return (self._file(message.voice, f"voice-{number}.ogg", "audio/ogg"),)
        if message.audio:
            return (self._file(message.audio, f"audio-{number}.mp3", "audio/mpeg"),)
        if message.video:
            return (self._file(message.video, f"video-{number}.mp4", "video/mp4"),)
        if message.video_note:
            return (self._file(message.video_note, f"video-note-{number}.mp4", "video/mp4"),)
        return ()

    def _file(self, file: _Media, name: str, media_type: str) -> IncomingFile:
        called = getattr(file, "file_name", None) or name
        return IncomingFile(
            fetch=partial(self.reach.fetch, file.file_id, file.file_size),
            file_name=called.replace("\\", "/").rpartition("/")[2] or name,
            media_type=getattr(file, "mime_type", None) or media_type,
            size_bytes=file.file_size,
            is_voice=isinstance(file, types.Voice),
            duration_s=getattr(file, "duration", 0) or 0,
        )


_Media: TypeAlias = (
    types.PhotoSize
    | types.Animation
    | types.Document
    | types.Voice
    | types.Audio
    | types.Video
    | types.VideoNote
)


def chat_ref_of(message: types.MaybeInaccessibleMessageUnion) -> ChatRef | None:
    """Return where a message stands; None in a chat of an unknown type."""
    chat_type = _CHAT_TYPES.get(message.chat.type)
    if chat_type is None:
        return None
    topic = ""
    if isinstance(message, types.Message) and message.is_topic_message:
        topic = str(message.message_thread_id or "")  # without it, a thread of replies
    title = message.chat.title or (message.chat.full_name if chat_type == "dm" else "")
    return ChatRef(id=str(message.chat.id), type=chat_type, topic=topic, title=title)


def moved(message: types.Message) -> ChatMoved | None:
    """Return what a message says of a group that became a supergroup; both chats get one."""
    here = str(message.chat.id)
    if message.migrate_to_chat_id is not None:
        return ChatMoved(old=here, new=str(message.migrate_to_chat_id))
    if message.migrate_from_chat_id is not None:
        return ChatMoved(old=str(message.migrate_from_chat_id), new=here)
    return None


def message_of(update: types.Update) -> types.Message | None:
    """Return the new message that an update brings."""
    return update.message or update.channel_post


def chat_of(update: types.Update) -> int:
    """Return in which chat an update happened; 0 = in none."""
    message = (
        message_of(update)
        or update.edited_message
        or update.edited_channel_post
        or (update.callback_query.message if update.callback_query else None)
    )
    if message is not None:
        return message.chat.id
    if update.message_reaction is not None:
        return update.message_reaction.chat.id
    return update.my_chat_member.chat.id if update.my_chat_member else 0


def merged(parts: Sequence[Message]) -> Message:
    """Return the messages of an album as one: that of the first, with the files of all."""
    first = parts[0]
    texts = [part.text for part in parts if part.text]
    return structs.replace(
        first,
        text="\n\n".join(texts),
        is_addressed=any(part.is_addressed for part in parts),
        files=tuple(file for part in parts for file in part.files),
        described=tuple(each for part in parts for each in part.described),
        is_outside=any(part.is_outside for part in parts),
        is_album=True,
    )


def _is_typed(message: types.Message, command: types.MessageEntity) -> bool:
    """Whether a person typed a command as a new message of their own. See `Command.is_typed`.

    Servers of before 2024 say of a message that was passed on when that was, and not its origin.
    """
    others = (
        *(message.sender_chat, message.via_bot, message.sender_business_bot, message.edit_date),
        *(message.forward_origin, message.forward_date, message.is_automatic_forward),
        *(message.guest_bot_caller_user, message.guest_bot_caller_chat),
    )
    is_quoted = any(
        entity.type in _QUOTATIONS and entity.offset < command.length
        for entity in message.entities or ()
    )
    return message.from_user is not None and not any(others) and not is_quoted


def _unknown_chat(message: types.Message) -> Note:
    return Note(
        text="a message in a chat of an unknown type",
        chat=str(message.chat.id),
        detail=message.chat.type,
        level="warning",
    )


def _edited_at(message: types.Message) -> datetime:
    """Return when a message was edited; the library reads this one as a number, unchecked."""
    try:
        return datetime.fromtimestamp(message.edit_date or message.date.timestamp(), UTC)
    except (OverflowError, OSError, ValueError):  # no time that there is
        return _sent_at(message)


def _sent_at(message: types.Message) -> datetime:
    """Return when a message was sent; the library reads texts as well, with any zone."""
    try:
        return message.date.astimezone(UTC)
    except OverflowError:  # beyond the years that there are
        return message.date.replace(tzinfo=UTC)


def _emoji(reaction: types.ReactionTypeUnion) -> str:
    """Return a reaction as people see it; of those that somebody drew Telegram tells a number."""
    match reaction:
        case types.ReactionTypeEmoji():
            return reaction.emoji
        case types.ReactionTypeCustomEmoji():
            return ":custom:"
        case _:
            return "⭐"


def _person(user: types.User) -> Person:
    return Person(
        id=str(user.id),
        name=user.full_name,
        is_bot=user.is_bot,
        language=user.language_code or "",
    )


def _sender(message: types.Message) -> Person:
    """Return who wrote a message; in the name of a chat, that chat."""
    chat, user = message.sender_chat, message.from_user
    if message.chat.type == "channel":
        return Person(id="", name=message.author_signature or "")
    if chat is not None:
        return Person(id=str(chat.id), name=chat.title or chat.full_name)
    if user is not None:
        return _person(user)
    return Person(id="")


def _origin(origin: types.MessageOriginUnion) -> str:
    match origin:
        case types.MessageOriginUser():
            return origin.sender_user.full_name
        case types.MessageOriginHiddenUser():
            return origin.sender_user_name
        case types.MessageOriginChat():
            return origin.sender_chat.title or origin.author_signature or "a chat"
        case types.MessageOriginChannel():
            return origin.chat.title or "a channel"


def _cut(text: str, offset: int, length: int | None = None) -> str:
    """Return a part of a text, by UTF-16 units."""
    data = _bytes(text)
    end = None if length is None else 2 * (offset + length)
    return data[2 * offset : end].decode("utf-16-le", "replace")


def _bytes(text: str) -> bytes:
    """Return a text as Telegram counts it, two bytes a unit; half characters as they are."""
    return text.encode("utf-16-le", "surrogatepass")
