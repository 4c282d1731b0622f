"""What an adapter tells of its platform: that it is there, cannot be read, or wants a login."""

from __future__ import annotations

import logging
from typing import Final

from everturn_channels.health import Login
from everturn_channels.inbound.running_channel import RunningChannel

logger = logging.getLogger(__name__)

_HISTORY: Final = "history"
"Stands for what was said in a chat and cannot be read now."


class PlatformStatus:
    """The part of `InboundHandler` that is no event: the status, and how far was read."""

    def __init__(self, channel: RunningChannel) -> None:
        """Note the status of `channel`."""
        self._name, self._clock = channel.name, channel.context.clock
        self._health, self._limiter = channel.health, channel.limiter
        self._aliases, self._cursors = channel.aliases, channel.cursors
        self.heard_at = self._clock.now()
        "When the platform was last heard from; before that, when the present try began. UTC."
        self.was_heard = False
        "Whether it was heard from in the present try."

    def begin(self) -> None:
        """Note that the adapter is about to serve."""
        self.heard_at, self.was_heard = self._clock.now(), False

    def deliverable(self, chat: str) -> None:
        """Let what waits be sent at once. See `InboundHandler.deliverable`."""
        del chat  # what waits elsewhere tries in vain, and asks nobody
        self._limiter.stop_backing_off()

    def blocked(self, chat: str, why: str) -> float:
        """Note that a chat cannot be read now. See `InboundHandler.blocked`."""
        # A chat that was moved has one lane, under the first of its ids.
        now, chat = self._clock.now(), self._aliases.first(chat)
        lane = self._health.lanes.block(
            chat, _HISTORY, self._health.words(why), began_at=now, now=now
        )
        return lane.retry_after_s

    def unblocked(self, chat: str) -> None:
        """Note that a chat can be read again. See `InboundHandler.unblocked`."""
        self._health.lanes.release(self._aliases.first(chat), _HISTORY, is_passing=True)

    def received(self) -> None:
        """Note that the platform was heard from. See `InboundHandler.received`."""
        self.heard_at, self.was_heard = self._clock.now(), True
        self._health.received()
        self._limiter.heard()  # whoever speaks can be spoken to: pauses may end

    def connected(self, account: str) -> None:
        """Note that the login worked. See `InboundHandler.connected`."""
        logger.info("connected", extra={"channel": self._name, "account": account})
        self._health.connected(account)
        # What could not be sent meanwhile need not wait any longer.
        self._limiter.stop_backing_off()

    def needs_login(self, text: str, qr: str) -> None:
        """Note what its owner has to do. See `InboundHandler.needs_login`."""
        logger.warning("a login is needed", extra={"channel": self._name})
        self._health.needs_login(Login(text=self._health.words(text), qr=qr))

    def cursor(self, name: str) -> str:
        """Return what was kept under a name. See `InboundHandler.cursor`."""
        return self._cursors.get(name)

    async def keep_cursor(self, name: str, value: str) -> None:
        """Keep a value under a name. See `InboundHandler.keep_cursor`."""
        await self._cursors.put(name, value)

    @property
    def is_new(self) -> bool:
        """Whether this channel never ran before. See `InboundHandler.is_new`."""
        return self._cursors.is_new
