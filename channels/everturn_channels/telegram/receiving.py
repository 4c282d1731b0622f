"""From updates to arrivals: what polling and webhook have in common."""

from __future__ import annotations

import dataclasses
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from aiogram import types
from aiogram.methods import DeleteWebhook, GetWebhookInfo
from aiogram.methods.base import TelegramMethod
from pydantic import ValidationError

from everturn_actors.ports import Clock
from everturn_channels.adapter import Arrival, Inlet, Message, Place
from everturn_channels.telegram.connection import REQUEST_S, Line
from everturn_channels.telegram.mapping import UPDATES, Note, Reading, merged, message_of, place_of

logger = logging.getLogger(__name__)

BATCH: Final = 100  # updates; the most that Telegram hands out at once
_ALBUMS_KNOWN: Final = 256  # whose late parts are still recognised
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}


class RawUpdates(TelegramMethod[list[dict[str, Any]]]):
    """getUpdates, read one by one: one that the library cannot read must not hide the others.

    Source: https://core.telegram.org/bots/api#getupdates
    """

    __returning__ = list[dict[str, Any]]
    __api_method__ = "getUpdates"

    offset: int
    limit: int = BATCH
    timeout: int = 0
    allowed_updates: tuple[str, ...] = UPDATES


def read_update(raw: Mapping[str, object]) -> types.Update | None:
    """Return an update; None where the library does not understand it, which is logged."""
    try:
        return types.Update.model_validate(raw)
    except ValidationError as error:
        logger.warning(
            "an update cannot be read and is left out",
            extra={"update": raw.get("update_id"), "faults": error.error_count()},
        )
        return None


def numbered(page: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the updates of a page that have a number: others cannot be told apart or confirmed."""
    found = [raw for raw in page if type(number := raw.get("update_id")) is int and number > 0]
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


class Receiver:
    """Hands in what updates say."""

    def __init__(self, *, inlet: Inlet, reading: Reading, clock: Clock) -> None:
        self._inlet, self._reading, self._clock = inlet, reading, clock
        self._albums: OrderedDict[str, bool] = OrderedDict()

    async def take(self, updates: Sequence[types.Update]) -> None:
        """Hand in one update, or the parts of one album as one message.

        Returns when it is durable.

        Raises:
            NotNowError: It is not, and has to be handed in again; do not confirm.
        """
        parts: list[Message] = []
        for update in updates:
            mapped = self._reading.arrival(update, self._clock.now())
            if isinstance(mapped, Note):
                logger.log(
                    _LEVELS[mapped.level],
                    "something of Telegram is not for the agent",
                    extra={"what": mapped.text, "chat": mapped.chat, "detail": mapped.detail},
                )
            elif isinstance(mapped, Message) and len(updates) > 1:
                parts.append(mapped)
            else:
                await self._hand_in(mapped, album_of(update))
        if parts:
            await self._hand_in(merged(parts), album_of(updates[0]))

    async def _hand_in(self, arrival: Arrival, album: str) -> None:
        if album and isinstance(arrival, Message):
            # who is meant stands below one picture only; the others are meant for the same
            addressed = arrival.is_addressed or self._albums.get(album, False)
            arrival = dataclasses.replace(arrival, is_addressed=addressed)
        await self._inlet.take(arrival)
        if album and isinstance(arrival, Message):
            self._albums[album] = arrival.is_addressed
            while len(self._albums) > _ALBUMS_KNOWN:
                self._albums.popitem(last=False)


async def begin(line: Line, inlet: Inlet, *, skips_all: bool, backlog_max_messages: int) -> int:
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
    return await _skip(line, inlet, info.pending_update_count - backlog_max_messages)


async def _skip_all(line: Line, pending: int) -> int:
    newest = numbered(await line.ask(RawUpdates(offset=-1, limit=1)))
    if not newest:
        return 0
    logger.info(
        "the bot runs for the first time: older messages are not read", extra={"count": pending}
    )
    return await _confirmed(line, number_of(newest[-1]) + 1)


async def _skip(line: Line, inlet: Inlet, count: int) -> int:
    offset, left = 0, count
    skipped: dict[tuple[str, str], tuple[Place, int]] = {}
    while left > 0:
        page = numbered(await line.ask(RawUpdates(offset=offset, limit=min(left, BATCH))))
        if not page:
            break
        for raw in page:
            update = read_update(raw)
            message = message_of(update) if update is not None else None
            place = place_of(message) if message is not None else None
            if place is not None:
                key = (place.chat, place.topic)
                skipped[key] = (place, skipped.get(key, (place, 0))[1] + 1)
        offset, left = number_of(page[-1]) + 1, left - len(page)
    for place, number in skipped.values():
        await inlet.skipped(place, number, "too many messages came while the bot was away")
    return await _confirmed(line, offset) if offset else 0


async def _confirmed(line: Line, offset: int) -> int:
    await line.ask(RawUpdates(offset=offset, limit=1), deadline_s=REQUEST_S)
    return offset
