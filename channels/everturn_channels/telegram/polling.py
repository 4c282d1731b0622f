"""Asking Telegram for updates, and confirming them only when they are durable.

An update is confirmed by asking for those after it. The offset passes an update only when it and
all before it were taken; what was taken behind one that could not be is remembered meanwhile.
Each chat is taken in its order, but for commands that something slow (a file) would hold up.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

import anyio
from aiogram import types
from aiogram.exceptions import (
    TelegramAPIError,
    TelegramConflictError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.methods import DeleteWebhook
from anyio.abc import TaskGroup

from everturn_actors.ports import Clock
from everturn_channels.adapter import InboundHandler
from everturn_channels.errors import (
    ConnectionLostError,
    NotNowError,
    SendError,
    SetupError,
    paused_s,
)
from everturn_channels.menu import PASSING
from everturn_channels.telegram.connection import Line, explained
from everturn_channels.telegram.mapping import chat_of, chat_ref_of, message_of
from everturn_channels.telegram.receiver import (
    BATCH,
    Receiver,
    album_of,
    ask_updates,
    number_of,
    read_update,
)

logger = logging.getLogger(__name__)

K = TypeVar("K", str, int)

POLL_S: Final = 25  # Telegram answers after that many seconds at the latest
_TOO_SOON_S: Final = 1.0  # for an answer that nothing has come
_SLACK_S: Final = 10.0  # and so long after it must have arrived
_CHATS_AT_ONCE: Final = 16
_ALBUM_S: Final = 0.5  # so long nothing came of an album: it is complete
_FAILURES_MAX: Final = 5  # then the connection is made anew
_BACKOFF_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
_CONFLICT_S: Final = (2.0, 5.0, 10.0, 30.0)
_TAKE_S: Final = 0.5  # so long everything waits for what is being taken; then commands pass it
_UNKEPT_S: Final = 1.0  # between two polls while something stays with Telegram
_CROWDED_S: Final = 60.0  # so long a message may keep all newer ones out of sight
_APART_S: Final = 5.0  # so long after it failed others still were taken: it is not all that fails
_PASSING: Final = re.compile(
    rf"/({'|'.join(sorted(PASSING))})(@\w+)?(\s.*)?", re.DOTALL | re.IGNORECASE
)


class Poller:
    """Asks for updates, again and again."""

    def __init__(
        self,
        *,
        line: Line,
        handler: InboundHandler,
        receiver: Receiver,
        clock: Clock,
        where: str,
        offset: int,
    ) -> None:
        self._line, self._handler, self._receiver = line, handler, receiver
        self._clock, self._where, self._offset = clock, where, offset
        self._taken: set[int] = set()
        self._albums: dict[str, int] = {}
        "How many parts came so far, of albums of which more may come."
        self._busy: dict[int, float] = {}
        "Chats of which something is being taken, and since when that is so of the present update."
        self._begun: set[int] = set()
        "Updates that are being taken at this moment."
        self._unkept: dict[int, datetime] = {}
        "Chats of which something cannot be taken now, and until when it is not tried again."
        self._stuck: dict[int, datetime] = {}
        "Chats of which something cannot be taken now, and since when."
        self._last_taken = clock.now()
        self._side_by_side = anyio.CapacityLimiter(_CHATS_AT_ONCE)
        self._idle = anyio.Event()

    async def run(self) -> None:
        """Receive until cancelled.

        Raises:
            SetupError: The token is not known any more.
            ConnectionLostError: Several requests in a row failed.
        """
        failure: SetupError | ConnectionLostError | None = None
        async with anyio.create_task_group() as tasks:
            try:
                await self._receive(tasks)
            except (SetupError, ConnectionLostError) as error:  # as itself, not in a group
                failure = error
                tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _receive(self, tasks: TaskGroup) -> None:
        wait_s, is_first = 0.0, True
        while True:
            # The first one does not wait: that the platform answers is known at once.
            timeout_s = 0 if wait_s or is_first else POLL_S
            is_first = False
            asked_at = anyio.current_time()
            batch = await self._ask(timeout_s)
            self._handler.received()
            if not batch and timeout_s and anyio.current_time() - asked_at < _TOO_SOON_S:
                await self._clock.sleep(_TOO_SOON_S)  # a server that does not wait, as it should
            self._begin_taking(batch, tasks)
            with anyio.move_on_after(_TAKE_S):  # a slow chat does not hold up the others
                while self._busy:
                    self._idle = anyio.Event()
                    await self._idle.wait()
            await self._make_room(batch)
            self._move_on([number_of(raw) for raw in batch])
            # not longer: those who write elsewhere wait for the next poll
            wait_s = _UNKEPT_S if self._unkept else 0.0
            if not wait_s and (self._albums or self._busy or self._begun):
                wait_s = _ALBUM_S
            if wait_s:
                await self._clock.sleep(wait_s)

    async def _ask(self, timeout_s: int) -> list[dict[str, object]]:
        """Return the updates from the offset on, oldest first."""
        failures = conflicts = 0
        while True:
            try:
                return await ask_updates(
                    self._line,
                    offset=self._offset,
                    wait_s=timeout_s,
                    deadline_s=timeout_s + _SLACK_S,
                )
            except TelegramConflictError as error:
                conflicts += 1
                await self._settle(error, conflicts)
            except TelegramRetryAfter as error:
                await self._clock.sleep(paused_s(error.retry_after))
            except (TelegramAPIError, SendError) as error:
                failures += 1
                fatal = isinstance(error, TelegramUnauthorizedError | TelegramNotFound)
                with explained(self._line, self._where):
                    if fatal or failures >= _FAILURES_MAX:
                        raise
                # a failure is no reason to log in again, several are
                why = self._said(error)
                logger.info("asking for updates failed", extra={"failures": failures, "why": why})
                await self._clock.sleep(_nth(_BACKOFF_S, failures))

    async def _settle(self, error: TelegramConflictError, conflicts: int) -> None:
        """Deal with somebody else who receives this bot's updates; it is tried for ever."""
        if "webhook" in error.message.lower():
            logger.warning(
                "somebody set a webhook for this bot; it is taken away. If another program uses "
                "the bot, give one of them a bot of its own"
            )
            try:
                await self._line.ask(DeleteWebhook(drop_pending_updates=False))
            except (TelegramAPIError, SendError) as fault:
                msg = f"the webhook cannot be taken away: {self._said(fault)}"
                raise ConnectionLostError(msg) from None
        else:
            logger.warning(
                "another program receives this bot's messages: stop it, or give it a bot of its "
                "own; trying again",
                extra={"conflicts": conflicts, "setting": f"{self._where}.bot_token"},
            )
        if conflicts > 1 or "webhook" not in error.message.lower():
            await self._clock.sleep(_nth(_CONFLICT_S, conflicts))

    def _said(self, error: TelegramAPIError | SendError) -> str:
        return str(self._line.refused(error) if isinstance(error, TelegramAPIError) else error)

    # --- taking ---

    def _begin_taking(self, batch: Sequence[dict[str, object]], tasks: TaskGroup) -> None:
        """Start to take what is new of a batch: chats side by side, each in its order.

        Where a chat hangs, its commands are taken beside it.
        """
        hanging_since = anyio.current_time() - _TAKE_S
        fresh: list[types.Update] = []
        for raw in batch:
            if number_of(raw) in self._taken or number_of(raw) in self._begun:
                continue
            update = self._receiver.read(raw)
            if update is None:
                self._taken.add(number_of(raw))
            elif (since := self._busy.get(chat_of(update))) is None:
                fresh.append(update)
            elif since <= hanging_since and _may_pass(update):
                tasks.start_soon(self._take_beside, update)
        seen = {album: len(parts) for album, parts in _by(fresh, album_of) if album}
        self._albums = {a: count for a, count in seen.items() if self._albums.get(a) != count}
        now, by_chat = self._clock.now(), _by(fresh, chat_of)
        # Telegram takes back after a day what it holds, and then nothing stays there any more.
        waiting = {chat for chat, _ in by_chat} | set(self._busy)
        self._unkept = {c: until for c, until in self._unkept.items() if c in waiting}
        self._stuck = {c: since for c, since in self._stuck.items() if c in waiting}
        for chat, updates in by_chat:
            if now < self._unkept.get(chat, now):
                for update in filter(_may_pass, updates):
                    tasks.start_soon(self._take_beside, update)
                continue
            self._busy[chat] = anyio.current_time()
            tasks.start_soon(self._take_chat, chat, updates)

    async def _make_room(self, batch: Sequence[dict[str, object]]) -> None:
        """Leave out what cannot be taken where it keeps what others write out of sight.

        Telegram shows a page from the offset on, and the offset stays before the first update that
        was not taken. Where all fails, the disk say, nothing is left out: it would help nobody.
        """
        left = [raw for raw in batch if number_of(raw) not in self._taken | self._begun]
        first = read_update(left[0]) if len(batch) >= BATCH and left else None
        chat_id = chat_of(first) if first is not None else 0
        since, now = self._stuck.get(chat_id), self._clock.now()
        if since is None or now < since + timedelta(seconds=_CROWDED_S):
            return
        if self._last_taken < since + timedelta(seconds=_APART_S):
            return
        updates = [update for raw in left if (update := read_update(raw)) is not None]
        given_up = [update for update in updates if chat_of(update) == chat_id]
        logger.error(
            "messages that cannot be kept hold up all other chats, and are left out",
            extra={"chat": chat_id, "messages": len(given_up)},
        )
        self._taken |= {update.update_id for update in given_up}
        messages = [message for update in given_up if (message := message_of(update)) is not None]
        chat = chat_ref_of(messages[0]) if messages else None
        if chat is not None:
            why = "they could not be kept, and held up everybody else"
            await self._handler.skipped(chat, len(messages), why)

    def _move_on(self, numbers: Sequence[int]) -> None:
        """Move the offset up to the first update that was not taken.

        Where none is left the offset ends: after a week without updates their numbers begin
        anywhere, also below it. Source: https://core.telegram.org/bots/api#update
        """
        if not numbers:
            self._offset = 0
            self._taken.clear()
        else:
            left = [number for number in numbers if number not in self._taken]
            self._offset = left[0] if left else numbers[-1] + 1
            self._taken = {number for number in self._taken if number > self._offset}

    async def _take_chat(self, chat: int, updates: Sequence[types.Update]) -> None:
        try:
            async with self._side_by_side:
                if await self._take(updates):
                    self._unkept.pop(chat, None)
                    self._stuck.pop(chat, None)
        finally:
            del self._busy[chat]
            if not self._busy:
                self._idle.set()

    async def _take_beside(self, update: types.Update) -> None:
        await self._take_unit([update])  # where that fails, its chat comes to it too

    async def _take(self, updates: Sequence[types.Update]) -> bool:
        """Take what came in one chat; tell whether nothing had to be left for its journal."""
        for album, parts in itertools.groupby(updates, album_of):
            several = list(parts)
            if album in self._albums:
                return True  # more of it may come; what follows in this chat waits for it
            for unit in [several] if album else [[update] for update in several]:
                self._busy[chat_of(unit[0])] = anyio.current_time()
                if not await self._take_unit(unit):
                    return False
        return True

    async def _take_unit(self, unit: Sequence[types.Update]) -> bool:
        """Take an update, or an album, unless that was done or is being done beside its chat."""
        numbers = {update.update_id for update in unit}
        if not numbers.isdisjoint(self._taken | self._begun):
            return True
        self._begun |= numbers
        try:
            await self._receiver.take(unit)
        except NotNowError as error:
            chat = chat_of(unit[0])
            logger.info(
                "a message cannot be taken now and stays with Telegram",
                extra={"chat": chat, "why": str(error)},
            )
            now = self._clock.now()
            self._unkept[chat] = now + timedelta(seconds=error.retry_after_s)
            self._stuck.setdefault(chat, now)
            return False
        finally:
            self._begun -= numbers
        self._taken |= numbers
        self._last_taken = self._clock.now()
        return True


def _may_pass(update: types.Update) -> bool:
    """Tell whether an update is a command that need not wait for what was written before it."""
    message = message_of(update)
    if message is None or message.forward_origin is not None:
        return False
    is_command = any(e.type == "bot_command" and e.offset == 0 for e in message.entities or ())
    return is_command and _PASSING.fullmatch(message.text or "") is not None


def _by(
    updates: Iterable[types.Update], key: Callable[[types.Update], K]
) -> list[tuple[K, list[types.Update]]]:
    """Return updates by what they have in common, each in their order."""
    found: dict[K, list[types.Update]] = {}
    for update in updates:
        found.setdefault(key(update), []).append(update)
    return list(found.items())


def _nth(delays_s: tuple[float, ...], number: int) -> float:
    return delays_s[min(number, len(delays_s)) - 1]
