"""Updates of Telegram, read one by one: what polling and webhook have in common."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from aiogram import types
from aiogram.methods import DeleteWebhook, GetWebhookInfo
from aiogram.methods.base import TelegramMethod
from msgspec import Struct, structs
from pydantic import ValidationError

from everturn_actors.json_values import is_object
from everturn_actors.ports import Clock
from everturn_channels.adapter import ChatMoved, ChatRef, InboundEvent, InboundHandler, Message
from everturn_channels.ingestion.events import PlatformEvent
from everturn_channels.telegram.connection import REQUEST_S, Line, UnreadableAnswerError
from everturn_channels.telegram.mapping import (
    UPDATES,
    Mapped,
    Note,
    Reading,
    chat_of,
    chat_ref_of,
    merged,
    message_of,
    moved,
)

logger = logging.getLogger(__name__)

BATCH: Final = 100  # updates; the most that Telegram hands out at once
_PARTS_MAX: Final = 8  # of a message that are left out, one after the other, to read the rest
_NEEDED: Final = frozenset(
    (
        *("message_id", "date", "chat", "from", "sender_chat", "via_bot", "text", "caption"),
        *("message_thread_id", "is_topic_message"),
    )
)
"Parts of a message without which nobody knows who says what, and where."
_TELLS_WHO_WROTE: Final = frozenset(
    (
        *("forward_origin", "forward_date", "is_automatic_forward", "edit_date"),
        *("sender_business_bot", "guest_bot_caller_user", "guest_bot_caller_chat"),
    )
)
"Parts of a message without which nobody knows whether its sender typed it."
_ALBUMS_KNOWN: Final = 256  # whose late parts are still recognised
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}


class RawUpdates(TelegramMethod[list[object]]):
    """getUpdates, read one by one: one that the library cannot read must not hide the others.

    Source: https://core.telegram.org/bots/api#getupdates
    """

    __returning__ = list[object]
    __api_method__ = "getUpdates"

    offset: int
    limit: int = BATCH
    timeout: int = 0
    allowed_updates: tuple[str, ...] = UPDATES


async def ask_updates(
    line: Line, *, offset: int, limit: int = BATCH, wait_s: int = 0, deadline_s: float = REQUEST_S
) -> list[dict[str, object]]:
    """Return a page of updates, those without a number left out.

    Where a page cannot be read it is asked for again with one update, and where that cannot be
    read either its number alone is returned, so that the offset can pass it.

    Raises:
        TelegramAPIError, SendError: It did not work; nothing was lost.
    """
    for size in (limit, 1):
        request = RawUpdates(offset=offset, limit=size, timeout=wait_s)
        try:
            return numbered(await line.ask(request, deadline_s=deadline_s))
        except UnreadableAnswerError as error:
            if size == 1:
                if not error.updates:
                    raise
                return [{"update_id": min(error.updates)}]
    raise AssertionError


def read_update(raw: Mapping[str, object]) -> types.Update | None:
    """Return an update, or what can be read of it; None where that is nothing.

    The library reads an update all or nothing: parts of a message that no answer needs are left
    out until the rest can be read.
    """
    left: Mapping[str, object] = raw
    for _ in range(_PARTS_MAX):
        try:
            update = types.Update.model_validate(left)
            chat_of(update)
            album_of(update)
        except ValidationError as error:
            fewer = _without_faults(left, error)
            if fewer is None:
                return None
            left = fewer
        except Exception:  # the boundary around one update
            return None
        else:
            return update
    return None


def _without_faults(raw: Mapping[str, object], error: ValidationError) -> dict[str, object] | None:
    """Return an update without the parts that cannot be read; None where one is needed."""
    fewer = dict(raw)
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    for kind, part in {(*map(str, fault["loc"]), "", "")[:2] for fault in faults}:
        message = fewer.get(kind)
        if part in _NEEDED or not is_object(message) or part not in message:
            return None
        less = {key: value for key, value in message.items() if key != part}
        if part in _TELLS_WHO_WROTE:  # what somebody else may have said is no command
            less.pop("entities", None)
        if not (less.get("text") or less.get("caption")):
            return None
        fewer[kind] = less
    return fewer


def awaited_at(raw: Mapping[str, object]) -> ChatRef | None:
    """Return where somebody waits for an answer to an update that cannot be read; None = nowhere.

    That is a private chat; in others few messages are meant for the bot.
    """
    match raw:
        case {"message": {"chat": {"id": int(chat), "type": "private"}, "from": dict()}}:
            return ChatRef(id=str(chat))
        case _:
            return None


def numbered(page: list[object]) -> list[dict[str, object]]:
    """Return the updates of a page that have a number: others cannot be told apart or confirmed."""
    updates = [raw for raw in page if is_object(raw)]
    found = [raw for raw in updates if type(n := raw.get("update_id")) is int and n > 0]
    if len(found) < len(page):
        logger.warning(
            "updates without a number are left out", extra={"count": len(page) - len(found)}
        )
    return found


def number_of(raw: Mapping[str, object]) -> int:
    """Return the number of an update that is `numbered`."""
    return cast("int", raw["update_id"])


def album_of(update: types.Update) -> str:
    """Return the id of the album that an update brings a part of; empty = none."""
    message = message_of(update)
    return (message.media_group_id or "") if message is not None else ""


class UpdateReader:
    """Says what updates mean."""

    def __init__(self, *, handler: InboundHandler, reading: Reading, clock: Clock) -> None:
        self._handler, self._reading, self._clock = handler, reading, clock
        self._albums: OrderedDict[str, bool] = OrderedDict()
        "Whether those that were read are addressed to the bot."

    def read(self, raw: Mapping[str, object]) -> types.Update | None:
        """Return an update; None for one that cannot be read, which is told of."""
        update = read_update(raw) if len(raw) > 1 else None
        if update is None:
            kind = next((key for key in raw if key != "update_id"), "update")
            self._handler.unreadable(kind, "it is not as Telegram documents it", awaited_at(raw))
        return update

    def event(
        self,
        updates: Sequence[types.Update],
        *,
        confirm: Callable[[], Awaitable[None]],
        send_back: Callable[[float], Awaitable[None]] | None = None,
    ) -> PlatformEvent:
        """Return what is handed over for one update, or for the parts of one album."""
        return PlatformEvent(
            chat=str(chat_of(updates[0])),
            read=partial(self._meaning, updates),
            kind="update",
            confirm=confirm,
            send_back=send_back,
            position=updates[0].update_id,
        )

    async def _meaning(self, updates: Sequence[types.Update]) -> Sequence[InboundEvent | ChatMoved]:
        parts: list[Message] = []
        others: list[InboundEvent | ChatMoved] = []
        for update in updates:
            mapped = self._mapped(update)
            if isinstance(mapped, Note):
                logger.log(
                    _LEVELS[mapped.level],
                    "something of Telegram is not for the agent",
                    extra={"what": mapped.text, "chat": mapped.chat, "detail": mapped.detail},
                )
            elif isinstance(mapped, Message):
                parts.append(mapped)
            else:
                others.append(mapped)
        if not parts:
            return others
        message = merged(parts) if len(parts) > 1 else parts[0]
        return (*others, self._of_album(message, album_of(updates[0])))

    def _mapped(self, update: types.Update) -> Mapped:
        try:
            return self._reading.event(update, self._clock.now())
        except Exception as error:  # the boundary around one update
            message = message_of(update)
            chat = chat_ref_of(message) if message is not None else None
            self._handler.unreadable(
                "update", error, chat if chat is not None and chat.type == "dm" else None
            )
            return Note(text="an update that cannot be read", chat=str(chat_of(update)))

    def _of_album(self, message: Message, album: str) -> Message:
        """Return a message that is meant for the bot where another part of its album is.

        Who is meant stands below one picture only.
        """
        if not album:
            return message
        is_addressed = message.is_addressed or self._albums.get(album, False)
        self._albums[album] = is_addressed
        while len(self._albums) > _ALBUMS_KNOWN:
            self._albums.popitem(last=False)
        return structs.replace(message, is_addressed=is_addressed)


async def begin(
    line: Line, handler: InboundHandler, *, skips_all: bool, backlog_max_messages: int
) -> int:
    """Take the webhook away, leave out what is too old, and return the offset to go on from.

    A bot that never ran before begins with what comes from now on. Afterwards the newest
    `backlog_max_messages` updates are read, and those who wrote the others are told so.

    Raises:
        TelegramAPIError, SendError: It did not work; nothing was lost, it can be done again.
    """
    info = await line.ask(GetWebhookInfo())
    if info.url:
        logger.info("the webhook is taken away", extra={"pending": info.pending_update_count})
        await line.ask(DeleteWebhook(drop_pending_updates=False))
    if skips_all:
        return await _skip_all(line, info.pending_update_count)
    return await _skip(line, handler, info.pending_update_count - backlog_max_messages)


async def _skip_all(line: Line, pending: int) -> int:
    newest = await ask_updates(line, offset=-1, limit=1)
    if not newest:
        return 0
    logger.info(
        "the bot runs for the first time: older messages are not read", extra={"count": pending}
    )
    return await _confirmed(line, number_of(newest[-1]) + 1)


async def _skip(line: Line, handler: InboundHandler, count: int) -> int:
    offset, left = 0, count
    skipped: dict[tuple[str, str], tuple[ChatRef, int]] = {}
    while left > 0:
        page = await ask_updates(line, offset=offset, limit=min(left, BATCH))
        if not page:
            break
        for raw in page:
            update = read_update(raw)
            message = message_of(update) if update is not None else None
            chat = chat_ref_of(message) if message is not None else None
            if message is not None and (move := moved(message)) is not None:
                await handler.moved(move.old, move.new)  # nothing tells it again
            elif chat is not None:
                key = (chat.id, chat.topic)
                skipped[key] = (chat, skipped.get(key, (chat, 0))[1] + 1)
        offset, left = number_of(page[-1]) + 1, left - len(page)
    for chat, number in skipped.values():
        await handler.skipped(chat, number, "too many messages came while the bot was away")
    return await _confirmed(line, offset) if offset else 0


async def _confirmed(line: Line, offset: int) -> int:
    await ask_updates(line, offset=offset, limit=1)
    return offset


class Served(Struct, frozen=True, kw_only=True):
    """What a bot is served with while it is connected, however its updates come."""

    line: Line
    handler: InboundHandler
    updates: UpdateReader
    clock: Clock
    where: str
    "Where its settings stand, for people."
