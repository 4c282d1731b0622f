"""What an event of a room means, as values of a channel. Asks the homeserver where it has to."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio
from msgspec import Struct

from everturn_actors.ports import Clock
from everturn_channels.adapter import (
    ButtonClick,
    ChatRef,
    Command,
    Edit,
    InboundEvent,
    InboundHandler,
    IncomingFile,
    Message,
    Outbound,
    Reaction,
)
from everturn_channels.command_registry import typed_command
from everturn_channels.errors import ConnectionLostError, SendError
from everturn_channels.ingestion.answers import replies
from everturn_channels.ingestion.history import BacklogLimits
from everturn_channels.ingestion.json_fields import Json, number_of, object_of, text_of, texts_of
from everturn_channels.languages import marked, said
from everturn_channels.matrix.content import (
    BEACONS,
    BUTTONS,
    QUOTE_CHARS,
    VOICE,
    body_of,
    button_of,
    described,
    files_in,
    is_message,
    mentions,
    previews,
    redacted_by,
    related,
    time_of,
    without_name,
)
from everturn_channels.matrix.encryption import Encryption, UndecryptableError
from everturn_channels.matrix.markup import render
from everturn_channels.matrix.requests import Homeserver, RequestFailedError, room_path
from everturn_channels.matrix.rooms import Room, Rooms
from everturn_channels.matrix.sender import Sender
from everturn_channels.rate_limits import Cooldown, RecentKeys

logger = logging.getLogger(__name__)

KEY_WAIT_S: Final = 10.0
"A key may come a moment after the message that it is for; what follows in the chat waits for it."
TOLD_EVERY_S: Final = 3600.0
_THREADS_KNOWN: Final = 5_000
_NAMED_KNOWN: Final = 50  # of the people whom the first message of a thread names
NO_KEY: Final = marked(
    "I cannot read what you wrote: it is encrypted, and its key was not given to me. If the key"
    " comes I read it then; or write it again."
)
NO_ENCRYPTION: Final = marked(
    "I cannot read what you wrote: this room is encrypted, and I was set up without encryption."
)


class MissingKeyError(Exception):
    """A message cannot be read before its key comes."""


class Connection(Struct, frozen=True, kw_only=True):
    """One login on a homeserver."""

    me: str
    "The account, `@bot:example.org`."
    name: str
    "What people call it; empty = it has no name."
    server: Homeserver
    handler: InboundHandler
    rooms: Rooms
    sender: Sender
    encryption: Encryption | None
    "None = encrypted rooms are not read."
    clock: Clock
    limits: BacklogLimits
    has_threads: bool
    "Whether a question in a room is answered in a thread below it."


class EventReader:
    """Reads the events of one login."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.on_missing_key: Callable[[str, str, Json], None] = _nobody
        "Told the room, the session and the message of each key that is missing."
        self._told: Cooldown[str] = Cooldown(TOLD_EVERY_S)
        self._missing: RecentKeys[tuple[str, str]] = RecentKeys()
        "The rooms and sessions whose key was waited for in vain."
        self._ours: OrderedDict[tuple[str, str], frozenset[str] | None] = OrderedDict()
        "By room and thread: whom its first message names; None = it is none with the bot."

    async def read(self, raw: Json, room_id: str) -> Sequence[InboundEvent]:
        """Return what an event means; nothing where it is for nobody.

        Raises:
            ConnectionLostError: The homeserver has to be asked, and cannot be reached now.
            Exception: It cannot be read.
        """
        try:
            room = await self._connection.rooms.get(room_id)
            event = await self._decrypted(raw, room)
            return await self._meaning(event, room)
        except RequestFailedError as error:
            if error.is_refusal and not error.is_token:
                raise
            raise ConnectionLostError(str(error)) from error

    async def _meaning(self, event: Json, room: Room) -> Sequence[InboundEvent]:
        content, kind = object_of(event, "content"), text_of(event, "type")
        if kind == "m.reaction":
            return await self._reaction(event, room)
        if kind == "m.room.redaction":
            await self._connection.handler.deleted(room.id, redacted_by(event))
            return ()
        if not content or text_of(content, "msgtype") in {"m.notice", "m.server_notice"}:
            return ()  # taken back, or written by a machine
        if kind not in BEACONS and not is_message(kind, content):
            return ()  # which shows only once it is decrypted
        relation = related(content)
        if relation.replaces:
            return await self._edit(event, room, relation.replaces)
        return [await self._message(event, room)]

    # --- messages ---

    async def _message(self, event: Json, room: Room) -> Message | Command:
        """Return a message of a room as what the gateway takes."""
        connection, content = self._connection, object_of(event, "content")
        sender = room.person(text_of(event, "sender"))
        relation = related(content)
        quoted, quoted_name, is_reply = await self._quote(room, relation.replies_to)
        text = body_of(content, sender.name)
        is_named = mentions(content, connection.me, connection.name)
        is_meant = is_named or is_reply
        event_id, here = text_of(event, "event_id"), room.chat(relation.thread)
        kind, embeds = text_of(event, "type"), previews(content)
        if kind in BEACONS:  # all places on the way of somebody are one message
            event_id = text_of(content, "m.relates_to", "event_id") or event_id
        if relation.thread and not is_meant and here.type == "group":
            is_meant = await self._is_ours(room, relation.thread, sender.id)
        more = described(kind, content)
        if more:
            text = ""  # which only stands for what cannot be read
        message = Message(
            id=event_id,
            chat=self._chat(room, relation.thread, event_id, content if is_meant else None),
            sender=sender,
            text=without_name(text, connection.me, connection.name) if is_named else text.strip(),
            at=time_of(event, connection.clock.now()),
            is_addressed=is_meant,
            files=tuple(map(self._file, files_in(content))),
            quoted=quoted,
            quoted_name=quoted_name,
            described=(*((more,) if more else ()), *embeds),
            is_outside=bool(embeds),
        )
        command = None if message.files or quoted else typed_command(message.text, marks="/!")
        if command is None or not (message.is_addressed or message.chat.type == "dm"):
            return message
        return Command(
            id=message.id,
            name=command[0],
            argument=command[1],
            chat=here,  # it begins no thread
            sender=sender,
            at=message.at,
            is_addressed=message.is_addressed,
            is_typed=text_of(content, "msgtype") == "m.text" and not relation.replies_to,
            otherwise=message,
            answer=self._answer(here, message.id),
        )

    def _chat(self, room: Room, thread: str, event_id: str, question: Json | None) -> ChatRef:
        """Return where a message stands: in its thread, or in the one that a question begins."""
        chat = room.chat(thread)
        has_threads = self._connection.has_threads and chat.type == "group"
        if thread or not has_threads or question is None:
            return chat
        self._note_thread(room.id, event_id, question)
        return room.chat(event_id)

    async def _is_ours(self, room: Room, thread: str, sender: str) -> bool:
        """Whether a thread began with a question to the bot, or with what the bot said.

        Not for whoever was asked beside the bot: that may be another bot, which Matrix does not
        tell, and two that answer each other never stop.
        """
        connection = self._connection
        if not connection.has_threads:
            return False
        if (room.id, thread) not in self._ours:
            first = await self._event(room, thread) or {}
            is_own = text_of(first, "sender") == connection.me
            content = object_of(first, "content")
            is_named = bool(content) and mentions(content, connection.me, connection.name)
            self._note_thread(room.id, thread, content if is_own or is_named else None)
        named = self._ours[room.id, thread]
        return named is not None and sender not in named

    def _note_thread(self, room_id: str, thread: str, first: Json | None) -> None:
        named = None if first is None else texts_of(first, "m.mentions", "user_ids")
        self._ours[room_id, thread] = None if named is None else frozenset(named[:_NAMED_KNOWN])
        if len(self._ours) > _THREADS_KNOWN:
            self._ours.popitem(last=False)

    async def _quote(self, room: Room, event_id: str) -> tuple[str, str, bool]:
        """Return what a message replies to, who wrote that, and whether it was the bot."""
        event = await self._event(room, event_id) if event_id else None
        if event is None:
            return "", "", False
        sender = text_of(event, "sender")
        if sender == self._connection.me:
            return "", "", True
        content = object_of(event, "content")
        text = described(text_of(event, "type"), content) if content else ""
        text = text or body_of(content, room.person(sender).name).strip()
        text = text or next((_name_of(each) for each in files_in(content)), "")
        if len(text) > QUOTE_CHARS:
            text = f"{text[:QUOTE_CHARS]}…"
        return text, room.person(sender).name if text else "", False

    async def _edit(self, event: Json, room: Room, target: str) -> Sequence[Edit]:
        """Return a change; homeservers let anybody send one, so its sender is looked at."""
        connection, sender = self._connection, text_of(event, "sender")
        original = await self._event(room, target)
        if original is None or text_of(original, "sender") != sender:
            return ()
        content = object_of(event, "content", "m.new_content")
        before = object_of(original, "content")
        person = room.person(sender)
        is_named = mentions(content, connection.me, connection.name)
        text = described(text_of(event, "type"), content)
        text = text or body_of(content, person.name).strip()
        thread = related(before).thread
        return [
            Edit(
                id=target,
                chat=self._chat(room, thread, target, content if is_named else None),
                sender=room.person(sender),
                text=without_name(text, connection.me, connection.name)
                if is_named
                else text.strip(),
                at=time_of(event, connection.clock.now()),
                is_addressed=is_named,
            )
        ]

    async def _event(self, room: Room, event_id: str) -> Json | None:
        """Return an event of a room, decrypted; None where it cannot be had, or read."""
        try:
            path = room_path(room.id, "event", event_id)
            raw = await self._connection.server.ask("GET", path)
            if text_of(raw, "type") != "m.room.encrypted":
                return raw
            encryption = self._connection.encryption
            return None if encryption is None else await encryption.decrypt(raw, room.id)
        except UndecryptableError:
            return None
        except RequestFailedError as error:
            if error.is_refusal and not error.is_token:
                return None
            raise

    def _file(self, content: Json) -> IncomingFile:
        """Return a file that is fetched when it is asked for."""
        server, encryption = self._connection.server, self._connection.encryption
        how = object_of(content, "file")
        address = text_of(how, "url") or text_of(content, "url")

        async def fetch(limit_bytes: int) -> bytes:
            try:
                data = await server.download(address, limit_bytes)
            except RequestFailedError as error:
                words = f"The homeserver does not give the file: {error}."
                raise ConnectionLostError(words) from error
            if not how or encryption is None:
                return data
            try:
                return await encryption.decrypt_file(data, how)
            except Exception as error:  # the boundary around what a stranger sent
                words = "The file is not the one that its message names."
                raise ConnectionLostError(words) from error

        return IncomingFile(
            fetch=fetch,
            file_name=_name_of(content),
            media_type=text_of(content, "info", "mimetype"),
            size_bytes=number_of(content, "info", "size"),
            is_voice=VOICE in content,
            duration_s=(number_of(content, "info", "duration") or 0) / 1000,
        )

    # --- buttons and answers ---

    async def _reaction(self, event: Json, room: Room) -> Sequence[ButtonClick | Reaction]:
        """Return a reaction on a message of the bot's, or the click that it stands for."""
        content = object_of(event, "content")
        event_id, key = (text_of(content, "m.relates_to", name) for name in ("event_id", "key"))
        said = await self._event(room, event_id) if event_id and key else None
        if said is None or text_of(said, "sender") != self._connection.me:
            return ()
        chat = room.chat(related(object_of(said, "content")).thread)
        sender = room.person(text_of(event, "sender"))
        at = time_of(event, self._connection.clock.now())
        carried, number = texts_of(said, "content", BUTTONS), button_of(content)
        if number is None or number >= len(carried):
            return [Reaction(message_id=event_id, emoji=key, chat=chat, sender=sender, at=at)]
        answer = self._answer(chat, event_id)
        data = carried[number]
        return [ButtonClick(data=data, chat=chat, sender=sender, at=at, answer=answer)]

    def _answer(self, chat: ChatRef, event_id: str) -> Callable[[str], Awaitable[None]]:
        """Return what answers a command or a click: notices, which no bot answers."""

        async def answer(text: str) -> None:
            for reply in replies(chat, render(text), event_id):
                await self._connection.sender.send(reply, kind="m.notice")

        return answer

    # --- encrypted messages ---

    async def _decrypted(self, raw: Json, room: Room) -> Json:
        """Return an event as it was written.

        Raises:
            MissingKeyError: Its key did not come so far; its sender is told.
            UndecryptableError: It cannot be read, and no key would help.
        """
        if text_of(raw, "type") != "m.room.encrypted":
            return raw
        encryption = self._connection.encryption
        if encryption is None:
            await self._tell(room, raw, NO_ENCRYPTION)
            msg = "it is encrypted, and channels.matrix.encryption is false"
            raise UndecryptableError(msg)
        with anyio.move_on_after(KEY_WAIT_S):
            while True:
                news = encryption.new_keys
                try:
                    return await encryption.decrypt(raw, room.id)
                except UndecryptableError as error:
                    if not error.session_id:
                        raise
                    if (room.id, error.session_id) in self._missing:
                        break  # one wait for all messages of a key
                    await news.wait()
        return await self._last_try(encryption, raw, room)

    async def _last_try(self, encryption: Encryption, raw: Json, room: Room) -> Json:
        try:
            return await encryption.decrypt(raw, room.id)
        except UndecryptableError as error:
            if error.session_id:
                self._missing.note((room.id, error.session_id))
                self.on_missing_key(room.id, error.session_id, raw)
                await self._tell(room, raw, NO_KEY)
                raise MissingKeyError(str(error)) from error
            raise

    async def _tell(self, room: Room, raw: Json, words: str) -> None:
        """Tell whoever wrote in private that it cannot be read, once in a while."""
        connection = self._connection
        is_dm = room.chat().type == "dm"
        if not is_dm or not self._told.may(room.id, connection.clock.now()):
            return
        (payload,) = render(said(words), is_plain=True)
        notice = Outbound(chat_id=room.id, payload=payload, reply_to=text_of(raw, "event_id"))
        try:
            await connection.sender.send(notice, kind="m.notice")
        except SendError as error:
            fields = {"room": room.id, "why": str(error)}
            logger.info("nobody could be told of a message that cannot be read", extra=fields)


def _name_of(file: Json) -> str:
    return text_of(file, "filename") or text_of(file, "body")


def _nobody(room_id: str, session_id: str, raw: Json) -> None:
    del room_id, session_id, raw


def awaited_at(rooms: Rooms, room_id: str) -> ChatRef | None:
    """Return where somebody waits for an answer to a message: in private; None = nowhere."""
    room = rooms.known(room_id)
    chat = room.chat() if room is not None else None
    return chat if chat is not None and chat.type == "dm" else None
