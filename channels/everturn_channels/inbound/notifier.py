"""Lines of the channel itself to people, and other small work beside it that may be left undone.

Nobody waits for any of it: it is bounded in number and time, and what fails is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup

from everturn_actors.errors import CoreError
from everturn_actors.ports import Clock
from everturn_actors.supervisor import attempt
from everturn_channels.adapter import Adapter, Button, ChatRef, Outbound
from everturn_channels.delivery.rate_limiter import RateLimiter
from everturn_channels.errors import ChannelError, NotSentError
from everturn_channels.health import Health
from everturn_channels.languages import said

logger = logging.getLogger(__name__)

TASKS_MAX: Final = 256  # at a time; a channel whose platform is down does not pile them up
TASK_S: Final = 60  # for one of them
ANSWER_S: Final = 10  # for the first try of an answer that somebody waits for
RETRY_S: Final = 1.0  # after a failure that names no time


class BackgroundTasks:
    """Work beside a channel, done in the task group of its owner."""

    def __init__(self, group: TaskGroup, channel: str) -> None:
        self._group = group
        self._channel = channel
        self._running = 0

    def start(
        self, what: str, task: Callable[[], Awaitable[None]], *, within_s: float = TASK_S
    ) -> bool:
        """Do something beside what runs; return whether there was room for it.

        Args:
            what: For the log.
            task: May raise ChannelError or CoreError; anything else is a fault of ours.
            within_s: It is given up after that.
        """
        if self._running >= TASKS_MAX:
            logger.warning(
                "left undone, too much is under way", extra={"channel": self._channel, "what": what}
            )
            return False
        self._running += 1
        self._group.start_soon(self._run, what, task, within_s)
        return True

    async def _run(self, what: str, task: Callable[[], Awaitable[None]], within_s: float) -> None:
        fields = {"channel": self._channel, "what": what}
        try:
            with anyio.move_on_after(within_s) as scope:
                failure = await attempt(task)
                if isinstance(failure, ChannelError | CoreError):
                    logger.info("could not be done", extra={**fields, "error": str(failure)})
                elif failure is not None:
                    logger.error("failed", extra=fields, exc_info=failure)
            if scope.cancelled_caught:
                logger.warning("given up, it took too long", extra=fields)
        finally:
            self._running -= 1


class Notifier:
    """Says lines of the channel itself, at the pace that its platform allows the whole bot."""

    def __init__(
        self,
        adapter: Adapter,
        *,
        tasks: BackgroundTasks,
        limiter: RateLimiter,
        clock: Clock,
        health: Health,
    ) -> None:
        self._adapter = adapter
        self._tasks = tasks
        self._limiter = limiter
        self._clock = clock
        self._health = health

    def notify_soon(self, chat: ChatRef, text: str, *, reply_to: str = "") -> None:
        """Say a line in a chat, soon and if it can be."""

        async def task() -> None:
            await self.notify(chat, text, reply_to=reply_to)

        self._tasks.start("a line", task)

    async def notify(
        self,
        chat: ChatRef,
        text: str,
        *,
        reply_to: str = "",
        buttons: tuple[Button, ...] = (),
        is_plain: bool = False,
    ) -> None:
        """Say a line in a chat, when the bot may speak; buttons stand below the end of it.

        Raises:
            SendError: It could not be said.
        """
        payloads = self._adapter.render(said(text), is_plain=is_plain)
        below = buttons if self._adapter.capabilities.buttons else ()
        for index, payload in enumerate(payloads):
            line = Outbound(
                chat_id=chat.id,
                topic=chat.topic,
                payload=payload,
                reply_to="" if index else reply_to,
                buttons=below if index == len(payloads) - 1 else (),
            )

            async def send(line: Outbound = line) -> None:
                await self._adapter.send(line)
                self._health.count_out()

            try:
                await self._paced(send)
            except NotSentError as error:
                await self._again(send, error)

    async def respond(self, answer: Callable[[str], Awaitable[None]], text: str) -> None:
        """Answer somebody who waits for it: at once if the bot may speak, or as soon as it may."""

        async def send() -> None:
            await answer(said(text))

        async def send_paced() -> None:
            await self._paced(send)

        if not self._limiter.acquire_nowait():
            self._tasks.start("an answer", send_paced)
            return
        try:
            with anyio.fail_after(ANSWER_S):
                await send()
        except NotSentError as error:
            self._note(error)
            self._tasks.start("an answer", partial(self._again, send, error))
        except (ChannelError, TimeoutError) as error:
            logger.info(
                "an answer did not get there",
                extra={"channel": self._adapter.name, "error": str(error)},
            )
        finally:
            self._limiter.release()

    async def _again(self, send: Callable[[], Awaitable[None]], error: NotSentError) -> None:
        """Try what failed once more."""
        if error.retry_after_s is None:
            await self._clock.sleep(RETRY_S)
        await self._paced(send)

    async def _paced(self, send: Callable[[], Awaitable[None]]) -> None:
        await self._limiter.acquire()
        try:
            await send()
        except NotSentError as error:
            self._note(error)
            raise
        else:
            self._limiter.heard()
        finally:
            self._limiter.release()

    def _note(self, error: NotSentError) -> None:
        """Let the whole bot be quiet where its platform says so."""
        if error.retry_after_s is not None:
            self._limiter.pause_for(error.retry_after_s)
