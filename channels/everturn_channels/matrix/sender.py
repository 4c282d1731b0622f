"""What the bot says and does in rooms: each request once, under a name that the homeserver knows.

A request with the same transaction id is done once, however often it is made: so nothing is doubled
by a restart. Source: https://spec.matrix.org/v1.16/client-server-api/#transaction-identifiers.
"""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, TypeVar

import anyio

from everturn_channels.adapter import Button, Outbound, OutgoingFile
from everturn_channels.errors import NotSentError, RefusedError, SendError
from everturn_channels.ingestion.json_fields import objects_of, text_of
from everturn_channels.languages import said
from everturn_channels.matrix import markup
from everturn_channels.matrix.content import BUTTONS, NUMBERS, VOICE
from everturn_channels.matrix.encryption import Encryption
from everturn_channels.matrix.requests import (
    Homeserver,
    RequestFailedError,
    in_path,
    room_path,
)
from everturn_channels.matrix.rooms import Rooms
from everturn_channels.names import one_line

T = TypeVar("T")

logger = logging.getLogger(__name__)

FILES_MAX_BYTES: Final = 50 * 1024 * 1024
"What homeservers take by default (Synapse: `max_upload_size`); a smaller one refuses."
TYPING_MS: Final = 12_000
_SIGN_S: Final = 10.0  # a sign that takes longer is of no use to anybody
_BODY_CHARS: Final = 200  # of a change, for clients that cannot show it as one
_REMEMBERED: Final = 2_000
_KINDS: Final = ("image", "audio", "video")


class Sender:
    """Says things as one account."""

    def __init__(
        self, server: Homeserver, me: str, rooms: Rooms, encryption: Encryption | None
    ) -> None:
        self._server, self._me, self._rooms = server, me, rooms
        self._encryption = encryption
        self._edits: OrderedDict[str, tuple[str, str]] = OrderedDict()
        "What messages were last changed to, and under which transaction id."
        self._reactions: OrderedDict[tuple[str, str], str] = OrderedDict()
        "The bot's reactions, by room and message."

    async def send(self, message: Outbound, *, kind: str = "m.text") -> str:
        """As `Adapter.send`. `kind` is `m.notice` for words that no bot answers."""
        content: dict[str, object]
        if message.file is not None:
            content = await self._file(message, message.file)
        else:
            # Homeservers forget transaction ids in the end; the label shows only if they did.
            is_repeat = message.is_repeat and message.is_late
            content = markup.content_of(message.payload, is_repeat=is_repeat)
            content["msgtype"] = kind
        if relation := _relation(message):
            content["m.relates_to"] = relation
        if message.buttons:
            _add_buttons(content, message.buttons)
        event_id = await self._say(message.chat_id, "m.room.message", content, message.nonce)
        for emoji in NUMBERS[: len(message.buttons)]:
            with anyio.move_on_after(_SIGN_S):
                try:
                    await self._annotate(message.chat_id, event_id, emoji)
                except SendError as error:  # people can react by themselves
                    logger.info("a button has no reaction", extra={"why": str(error)})
        return event_id

    async def edit(self, room_id: str, event_id: str, payload: str) -> None:
        """As `Adapter.edit`."""
        last, name = self._edits.get(event_id, ("", ""))
        if last != payload:
            # A message may come back to what it was before: so the change before counts, too.
            text = f"{event_id}\n{name}\n{payload}"
            name = sha256(text.encode()).hexdigest()[:24]
        content = markup.content_of(payload)
        shown = text_of(content, "body")[:_BODY_CHARS]
        change: dict[str, object] = {
            "msgtype": "m.text",
            "body": f"* {shown}",
            "m.mentions": {},
            "m.new_content": content,
            "m.relates_to": {"rel_type": "m.replace", "event_id": event_id},
        }
        await self._say(room_id, "m.room.message", change, name)
        _remember(self._edits, event_id, (payload, name))

    async def type(self, room_id: str) -> None:
        """As `Adapter.type`."""
        path = room_path(room_id, "typing", self._me)
        body = {"typing": True, "timeout": TYPING_MS}
        await self._ask("PUT", path, body, deadline_s=_SIGN_S)

    async def react(self, room_id: str, event_id: str, emoji: str) -> None:
        """As `Adapter.react`."""
        known = self._reactions.get((room_id, event_id), "")
        if emoji:
            name = await self._annotate(room_id, event_id, emoji)
            _remember(self._reactions, (room_id, event_id), name or known)
            old = [known] if known and name else []  # without a name it is the same once more
        else:
            self._reactions.pop((room_id, event_id), None)
            old = [known] if known else await self._own_reactions(room_id, event_id)
        for each in old:
            path = room_path(room_id, "redact", each, secrets.token_hex(8))
            await self._ask("PUT", path, {}, deadline_s=_SIGN_S)

    async def leave(self, room_id: str, why: str = "") -> None:
        """Leave a room, or turn an invitation down.

        Raises:
            SendError: It could not be done.
        """
        await self._ask("POST", room_path(room_id, "leave"), {"reason": why} if why else {})

    async def join(self, room_id: str) -> None:
        """Accept an invitation.

        Raises:
            SendError: It could not be done.
        """
        await self._ask("POST", room_path(room_id, "join"), {})

    # --- inside ---

    async def _say(self, room_id: str, kind: str, content: Mapping[str, object], nonce: str) -> str:
        """Send an event, encrypted where its room is; return its id."""
        try:
            room = await self._rooms.get(room_id)
            if room.is_encrypted:
                if self._encryption is None:
                    msg = "The room is encrypted, and channels.matrix.encryption is false."
                    raise RefusedError(msg)
                content = await self._encryption.encrypt(room_id, room.members, kind, content)
                kind = "m.room.encrypted"
        except RequestFailedError as error:
            found = error.to_send_error()
            if isinstance(found, RefusedError | NotSentError):
                raise found from error
            raise NotSentError(str(found)) from error  # it was only asked for what is needed
        name = nonce or secrets.token_hex(8)
        answer = await self._ask("PUT", room_path(room_id, "send", kind, name), content)
        return text_of(answer, "event_id")

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        deadline_s: float = 60.0,
    ) -> Mapping[str, object]:
        try:
            return await self._server.ask(method, path, body, deadline_s=deadline_s)
        except RequestFailedError as error:
            raise error.to_send_error() from error

    async def _annotate(self, room_id: str, event_id: str, emoji: str) -> str:
        """Put a reaction on a message; the same twice is there once. Reactions go in the clear."""
        relation = {"rel_type": "m.annotation", "event_id": event_id, "key": emoji}
        path = room_path(room_id, "send", "m.reaction", secrets.token_hex(8))
        try:
            answer = await self._server.ask(
                "PUT", path, {"m.relates_to": relation}, deadline_s=_SIGN_S
            )
        except RequestFailedError as error:
            if error.code == "M_DUPLICATE_ANNOTATION":
                return ""
            raise error.to_send_error() from error
        return text_of(answer, "event_id")

    async def _own_reactions(self, room_id: str, event_id: str) -> list[str]:
        path = (
            f"/_matrix/client/v1/rooms/{in_path(room_id)}/relations/{in_path(event_id)}"
            "/m.annotation/m.reaction"
        )
        found = await self._ask("GET", path, deadline_s=_SIGN_S)
        return [
            text_of(each, "event_id")
            for each in objects_of(found, "chunk")
            if text_of(each, "sender") == self._me
        ]

    async def _file(self, message: Outbound, file: OutgoingFile) -> dict[str, object]:
        """Upload a file; return the content of its message. What is uploaded twice is waste."""
        size = len(file.data)
        if size > FILES_MAX_BYTES:
            msg = f"Files of {FILES_MAX_BYTES:,} bytes at most can be sent."
            raise RefusedError(msg)
        major = file.media_type.partition("/")[0]
        name = one_line(file.file_name) or "file"
        info = {"mimetype": file.media_type or "application/octet-stream", "size": size}
        content: dict[str, object] = {
            "msgtype": f"m.{major}" if major in _KINDS else "m.file",
            "body": name,
            "filename": name,
            "info": info,
            "m.mentions": {},
        }
        if file.is_voice:
            content[VOICE] = {}
        if file.duration_s:
            content["info"] = {**info, "duration": round(file.duration_s * 1000)}
        if message.is_repeat and message.is_late:
            content["body"] = said(markup.REPEAT_LABEL)
        try:
            room = await self._rooms.get(message.chat_id)
            if room.is_encrypted and self._encryption is not None:
                data, how = await self._encryption.encrypt_file(file.data)
                # What it is and how it is called stand in the message alone, which is encrypted.
                address = await self._server.upload(data, media_type="", file_name="")
                content["file"] = {**how, "url": address}
            else:
                content["url"] = await self._server.upload(
                    file.data, media_type=file.media_type, file_name=name
                )
        except RequestFailedError as error:
            found = error.to_send_error()
            if isinstance(found, RefusedError) and error.code != "M_FORBIDDEN":
                raise RefusedError(str(found)) from error  # the file, and not the chat
            if isinstance(found, RefusedError | NotSentError):
                raise found from error
            raise NotSentError(str(found)) from error  # a lost upload shows to nobody
        return content


def _relation(message: Outbound) -> dict[str, object]:
    """Return how a message stands to others: in a thread, as a reply, or alone."""
    answered = {"m.in_reply_to": {"event_id": message.reply_to or message.topic}}
    if message.topic:
        # Clients without threads show it as a reply.
        thread = {"rel_type": "m.thread", "event_id": message.topic}
        return {**thread, **answered, "is_falling_back": not message.reply_to}
    return dict(answered) if message.reply_to else {}


def _add_buttons(content: dict[str, object], buttons: tuple[Button, ...]) -> None:
    """Number the choices below a text, and say in a field what each of them carries."""
    shown = buttons[: len(NUMBERS)]
    lines = [f"{emoji} {b.label}" for emoji, b in zip(NUMBERS, shown, strict=False)]
    content["body"] = "\n".join((f"{content['body']}", "", *lines))
    if "formatted_body" in content:
        escaped = "<br>".join(map(markup.escaped, lines))
        content["formatted_body"] = f"{content['formatted_body']}<p>{escaped}</p>"
    content[BUTTONS] = [b.data for b in shown]


K = TypeVar("K")


def _remember(kept: OrderedDict[K, T], key: K, value: T) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _REMEMBERED:
        kept.popitem(last=False)
