"""The typing indicator: shown while a turn works, and never after it."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import anyio

from everturn_actors.delivery.port import Outgoing
from everturn_actors.ports import Clock
from everturn_channels.adapter import Adapter
from everturn_channels.delivery.rate_limiter import RateLimiter, unless
from everturn_channels.errors import NotSentError, SendError
from everturn_channels.health import mask_token

logger = logging.getLogger(__name__)

_RENEWED_AFTER: Final = 0.8  # of its time, so that it does not flicker


class TypingIndicator:
    """The typing indicator of one conversation."""

    def __init__(
        self, session: Outgoing, adapter: Adapter, limiter: RateLimiter, clock: Clock
    ) -> None:
        self._session, self._adapter = session, adapter
        self._limiter, self._clock = limiter, clock
        self._showing: anyio.CancelScope | None = None

    async def run(self) -> None:
        """Show it whenever the turn works, until cancelled."""
        every_s = self._adapter.capabilities.typing_s * _RENEWED_AFTER
        if every_s <= 0:
            return
        rests = partial(self._clock.sleep, every_s)
        while True:
            if self._is_over():
                await self._session.until_changed()
                continue
            await self._show()
            await unless(self._session, self._is_over, rests)

    def hush(self) -> None:
        """Let nothing that is under way be shown later than what is sent next."""
        if self._showing is not None and self._is_over():
            self._showing.cancel()

    def _is_over(self) -> bool:
        """Whether the turn does not work: it is over, or waits for a person."""
        state = self._session.state
        turn = state.open_turn
        works = turn is not None and turn.speaks and state.status == "active"
        return not works or bool(state.open_approvals) or self._session.is_stopping

    async def _show(self) -> None:
        if self._limiter.paused_s > 0:
            return
        key = self._session.state.key
        with anyio.CancelScope() as self._showing:
            try:
                await self._adapter.type(key.chat, key.topic)
                self._limiter.heard()
            except SendError as error:
                if isinstance(error, NotSentError) and error.retry_after_s is not None:
                    self._limiter.pause_for(error.retry_after_s)
                logger.debug(
                    "the typing indicator could not be shown",
                    extra={
                        "channel": key.channel,
                        "chat": key.chat,
                        "error": mask_token(str(error)),
                    },
                )
        self._showing = None
