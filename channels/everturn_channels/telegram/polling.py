"""Asking Telegram for updates, and confirming them only when they are durable.

An update is confirmed by asking for those after it: the offset passes an update only when it and
all before it were taken.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
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

from everturn_channels.errors import (
    ConnectionLostError,
    SendError,
    paused_s,
)
from everturn_channels.ingestion.chat_queues import ChatQueues, open_chat_queues
from everturn_channels.ingestion.watermark import Watermark
from everturn_channels.telegram.connection import explained
from everturn_channels.telegram.mapping import chat_of
from everturn_channels.telegram.updates import (
    BATCH,
    Served,
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
_ALBUM_S: Final = 0.5  # so long nothing came of an album: it is complete
_FAILURES_MAX: Final = 5  # then the connection is made anew
_BACKOFF_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
_CONFLICT_S: Final = (2.0, 5.0, 10.0, 30.0)
_TAKE_S: Final = 0.5  # so long the next poll waits for what is being taken


class Poller:
    """Asks for updates, again and again."""

    def __init__(
        self,
        served: Served,
        *,
        offset: int,
    ) -> None:
        self._line, self._handler, self._updates = served.line, served.handler, served.updates
        self._clock, self._where, self._offset = served.clock, served.where, offset
        self._mark: Watermark[int] = Watermark()
        self._waiting: list[types.Update] = []
        "What is not in the queues yet: albums of which more may come, and what follows them."
        self._parts: Counter[str] = Counter()
        "How many parts of each of them came."

    async def run(self) -> None:
        """Receive until cancelled.

        Raises:
            SetupError: The token is not known any more.
            ConnectionLostError: Several requests in a row failed.
        """
        async with open_chat_queues(self._handler, self._clock) as queues:
            await self._receive(queues)

    async def _receive(self, queues: ChatQueues) -> None:
        # The first request does not wait: that the platform answers is known at once. Nor do those
        # that show again what is not confirmed yet.
        timeout_s = 0
        while True:
            asked_at = anyio.current_time()
            batch = await self._ask(timeout_s)
            self._handler.received()
            if not batch and timeout_s and anyio.current_time() - asked_at < _TOO_SOON_S:
                await self._clock.sleep(_TOO_SOON_S)  # a server that does not wait, as it should
            await self._put(batch, queues)
            with anyio.move_on_after(_TAKE_S):  # a slow chat does not hold up the others
                await queues.until_idle()
            await self._make_room(batch, queues)
            self._offset = self._next_offset(batch)
            timeout_s = POLL_S if self._mark.first_open is None else 0
            if self._waiting:
                await self._clock.sleep(_ALBUM_S)

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

    async def _put(self, batch: Sequence[dict[str, object]], queues: ChatQueues) -> None:
        """Put what is new of a batch into the queues, but for albums of which more may come."""
        for raw in batch:
            if (number := number_of(raw)) in self._mark:
                continue
            self._mark.begin(number)
            update = self._updates.read(raw)
            if update is None:
                await self._mark.settle(number)
            else:
                self._waiting.append(update)
        parts = Counter(album for update in self._waiting if (album := album_of(update)))
        growing = {album for album, count in parts.items() if self._parts[album] != count}
        self._parts = parts
        left: list[types.Update] = []
        for _, updates in _by(self._waiting, chat_of):
            for album, several in itertools.groupby(updates, album_of):
                same = list(several)
                if album in growing or (left and chat_of(left[-1]) == chat_of(same[0])):
                    left += same  # what follows in this chat waits for it
                    continue
                for unit in [same] if album else [[update] for update in same]:
                    numbers = [update.update_id for update in unit]
                    confirm = partial(self._mark.settle, *numbers)
                    await queues.put(self._updates.event(unit, confirm=confirm))
        self._waiting = left

    async def _make_room(self, batch: Sequence[dict[str, object]], queues: ChatQueues) -> None:
        """See to it that one chat does not keep what others write out of sight.

        Telegram shows a page from the offset on, and the offset stays before the first update that
        was not taken.
        """
        if len(batch) < BATCH:
            return
        stuck = next((raw for raw in batch if number_of(raw) == self._mark.first_open), None)
        update = read_update(stuck) if stuck is not None else None
        if update is not None:
            await queues.make_room(str(chat_of(update)))

    def _next_offset(self, batch: Sequence[dict[str, object]]) -> int:
        """Return from which update on Telegram is asked, which confirms all before it.

        Where none is left the offset ends: after a week without updates their numbers begin
        anywhere, also below it. Source: https://core.telegram.org/bots/api#update
        """
        if not batch:
            return 0
        self._mark.advance()
        first = self._mark.first_open
        return first if first is not None else number_of(batch[-1]) + 1


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
