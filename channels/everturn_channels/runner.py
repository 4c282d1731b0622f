"""Keeps one channel running: logs in, hands on what comes, and begins anew whatever happens.

A channel is given up never: its platform may come back, its owner may set things right.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NoReturn

import anyio

from everturn_actors.errors import ActorStoppedError, JournalError, is_group
from everturn_actors.ports import Clock
from everturn_actors.supervisor import attempt
from everturn_channels.adapter import Adapter
from everturn_channels.errors import ConnectionLostError, SetupError
from everturn_channels.health import Health
from everturn_channels.inbound.inbound_handler import ChannelInboundHandler
from everturn_channels.inbound.notifier import BackgroundTasks
from everturn_channels.inbound.running_channel import RunningChannel

logger = logging.getLogger(__name__)

FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 60.0  # the longest between two tries
SETUP_RETRY_S: Final = 300.0  # what its owner has to change is looked at so often
STEADY_S: Final = 60.0  # a channel that ran for so long begins with the first pause again
DEAF_TIMES: Final = 3  # a channel that was not heard from for so many `idle_s` begins anew
_FOR_EVER_S: Final = 10_000_000.0  # a platform that is never expected to say anything


async def run_channel(
    channel: RunningChannel, *, jitter: Callable[[], float] = random.random
) -> NoReturn:
    """Run a channel until cancelled. Whatever goes wrong is logged and it begins anew.

    `jitter` gives numbers from 0 to 1.
    """
    try:
        async with anyio.create_task_group() as group:
            tasks = BackgroundTasks(group, channel.name)
            handler = ChannelInboundHandler(channel, tasks)
            group.start_soon(handler.bring_questions)
            run = _Run(channel, handler, jitter)
            while True:
                await run.once()
    finally:
        channel.health.stopped()
    msg = "a task group without a way out ended"
    raise AssertionError(msg)


async def stand_by(adapter: Adapter, health: Health, clock: Clock) -> NoReturn:
    """Send until cancelled, while another process receives; begin anew where that fails."""
    while True:
        health.standing_by()
        failure = await attempt(adapter.stand_by)  # the boundary around one channel
        cause = _first_cause(failure) if failure else ConnectionLostError("the connection ended")
        retry_s = SETUP_RETRY_S if isinstance(cause, SetupError) else LAST_RETRY_S / 4
        retry_at = clock.now() + timedelta(seconds=retry_s)
        health.retrying(retry_at, str(cause) or type(cause).__name__)
        fields = {"channel": adapter.name, "error": str(cause)}
        logger.error("a channel cannot send", extra=fields)
        await clock.sleep(retry_s)


class _Run:
    """One channel, try after try."""

    def __init__(
        self,
        channel: RunningChannel,
        handler: ChannelInboundHandler,
        jitter: Callable[[], float],
    ) -> None:
        self._adapter = adapter = channel.adapter
        self._clock = channel.context.clock
        self._health = channel.health
        self._handler = handler
        self._jitter = jitter
        self._fields = {"channel": adapter.name, "platform": adapter.platform}
        self._tries = 0
        self._told = ""
        "What its owner was told to change."

    async def once(self) -> None:
        """Serve until that fails, then wait as long as the failure deserves."""
        began = self._clock.now()
        self._handler.begin()
        failure = await self._serve()
        if self._handler.was_heard:
            self._told = ""
            if self._clock.now() - began >= timedelta(seconds=STEADY_S):
                self._tries = 0
        backoff_s = self._pause_s(failure)
        self._tell(failure, backoff_s)
        await self._clock.sleep(backoff_s)

    async def _serve(self) -> Exception:
        """Run the adapter; return why it ended."""

        async def serve() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, group.cancel_scope)
                await self._adapter.serve(self._handler)
                group.cancel_scope.cancel()

        failure = await attempt(serve)  # the boundary around one channel
        if failure is not None:
            return failure
        if self._is_deaf():
            deaf_s = self._adapter.capabilities.idle_s * DEAF_TIMES
            return ConnectionLostError(f"nothing was heard from the platform for {deaf_s:.0f} s")
        return ConnectionLostError("the connection ended")

    async def _watch(self, scope: anyio.CancelScope) -> None:
        """End the try when the platform was not heard from for too long."""
        while not self._is_deaf():
            await self._clock.sleep(max(self._deaf_in_s(), 0.01))
        scope.cancel()

    def _is_deaf(self) -> bool:
        return self._deaf_in_s() <= 0

    def _deaf_in_s(self) -> float:
        idle_s = self._adapter.capabilities.idle_s
        if not idle_s:
            return _FOR_EVER_S
        deaf = timedelta(seconds=idle_s * DEAF_TIMES)
        return (self._handler.heard_at + deaf - self._clock.now()).total_seconds()

    def _pause_s(self, failure: Exception) -> float:
        if isinstance(_first_cause(failure), SetupError):
            return SETUP_RETRY_S
        backoff_s = min(FIRST_RETRY_S * 2.0 ** min(self._tries, 16), LAST_RETRY_S)
        self._tries += 1
        return backoff_s * (0.5 + self._jitter() / 2)

    def _tell(self, failure: Exception, backoff_s: float) -> None:
        """Log why a try ended, and note it for whoever asks."""
        cause = _first_cause(failure)
        retry_at = self._clock.now() + timedelta(seconds=backoff_s)
        fields = {**self._fields, "error": str(cause), "retry_s": round(backoff_s, 1)}
        match cause:
            case SetupError():
                self._health.failed(str(cause))
                self._health.retrying(retry_at)
                if str(cause) != self._told:
                    logger.error("a channel cannot work as it is set up", extra=fields)
                self._told = str(cause)
                return
            case ConnectionLostError():
                logger.warning("a channel lost its platform", extra=fields)
            case ActorStoppedError():
                logger.info("a channel pauses, the gateway stops", extra=fields)
            case JournalError():
                logger.error("a channel pauses, what comes cannot be kept", extra=fields)
            case _:
                logger.error("a channel failed", extra=fields, exc_info=failure)
        self._health.retrying(retry_at, str(cause) or type(cause).__name__)


def _first_cause(error: BaseException) -> BaseException:
    """Return what its owner can change where that is in a group of errors; else its first."""
    if is_group(error):
        causes = [_first_cause(leaf) for leaf in error.exceptions]
        return next((cause for cause in causes if isinstance(cause, SetupError)), causes[0])
    return error
