"""The way out of one session: keeps its delivery port at work while there is something to carry.

A boundary: a delivery port that fails is logged and begun anew, and the session goes on.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress

import anyio
from msgspec import Struct

from everturn_actors.delivery.port import DeliveryPort
from everturn_actors.errors import ActorStoppedError, SessionEndedError, is_group
from everturn_actors.events import Body
from everturn_actors.faults import is_cancelled
from everturn_actors.ports import Clock, SessionStore
from everturn_actors.protocol.background import Background
from everturn_actors.protocol.commands import RecordDelivery, Tick
from everturn_actors.protocol.feed import Feed, TakeDelta, Update
from everturn_actors.protocol.mailbox import Mailbox
from everturn_actors.protocol.subscription import follow, log_of
from everturn_actors.state.session_state import SessionState

logger = logging.getLogger(__name__)

RETRY_S = 1.0  # until a delivery port that failed is begun anew; doubled with each failure
RETRY_MAX_S = 60.0


class DeliveryWorker(Struct, kw_only=True):
    """Implements `Outgoing` for one actor; only the actor makes one."""

    session_id: str
    delivery_ports: Mapping[str, DeliveryPort]
    "By the name of their channel."
    mailbox: Mailbox
    "The actor's."
    feed: Feed
    "Where its followers read."
    store: SessionStore
    clock: Clock
    present: Callable[[], SessionState | None]
    "Gives the present state; None before the session has begun."
    changed: Callable[[], Awaitable[None]]
    "Waits until something new is durable."
    stopping: Callable[[], bool]
    "Whether the service stops."
    works: bool = False
    "Whether a delivery port is at work for the session."

    # --- the actor's side ---

    @property
    def is_due(self) -> bool:
        """Whether something is pending that may still be delivered: such a session stays."""
        state = self.present()
        return state is not None and bool(state.outbox) and self.delivers(state.key.channel)

    def delivers(self, channel: str) -> bool:
        """Whether what is said in a session of `channel` goes to its people."""
        return channel in self.delivery_ports

    def begin(self, tasks: Background) -> None:
        """Set the delivery port to work, if there is work and it is not at it."""
        if self.works:
            return
        delivery_port = self._needed()
        if delivery_port is not None:
            self.works = True
            tasks.start_soon(self._deliver)

    def _needed(self) -> DeliveryPort | None:
        state = self.present()
        if state is None or state.status == "ended":
            return None
        turn = state.open_turn
        if not state.outbox and (turn is None or not turn.delivers):
            return None
        return None if self.is_stopping else self.delivery_ports.get(state.key.channel)

    async def _deliver(self) -> None:
        delay_s = RETRY_S
        try:
            while (delivery_port := self._needed()) is not None:
                seen = self._newest()
                await self._deliver_once(delivery_port)
                await self._pause(delay_s, seen)
                delay_s = RETRY_S if self._has_more(seen) else min(delay_s * 2, RETRY_MAX_S)
        finally:
            self.works = False
            with suppress(ActorStoppedError):
                self.mailbox.put(Tick(), own=True)  # it may rest now

    async def _deliver_once(self, delivery_port: DeliveryPort) -> None:
        """Let the delivery port work until it comes back, or fails."""
        error: BaseException
        try:
            await delivery_port.deliver(self)
        except anyio.get_cancelled_exc_class() as cancelled:
            if is_cancelled():
                raise
            error = cancelled  # nobody called it off: work of its own was
        except Exception as failure:  # noqa: BLE001 - a boundary: the channel's; told of below
            if _is_end(failure):
                return
            error = failure
        else:
            return
        logger.error(
            "a delivery failed and is begun anew",
            extra={"session_id": self.session_id, "error": str(error)},
            exc_info=error,
        )

    def _newest(self) -> tuple[int, int]:
        """Return the newest turn, and the event of the newest outbox item that is pending."""
        state = self.state
        return state.turns, max((item.seq for item in state.outbox), default=0)

    def _has_more(self, seen: tuple[int, int]) -> bool:
        """Whether something came since `seen`."""
        return any(now > before for now, before in zip(self._newest(), seen, strict=True))

    async def _pause(self, delay_s: float, seen: tuple[int, int]) -> None:
        """Wait before a delivery port is begun anew; not when more came, or nothing is left."""

        def is_over() -> bool:
            return self._needed() is None or self._has_more(seen)

        async def watch(scope: anyio.CancelScope) -> None:
            while not is_over():
                await self.changed()
            scope.cancel()

        if is_over():
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, tasks.cancel_scope)
            await self.clock.sleep(delay_s)
            tasks.cancel_scope.cancel()

    # --- the delivery port's side (Outgoing) ---

    @property
    def state(self) -> SessionState:
        """Its present state."""
        state = self.present()
        assert state is not None, "a session in which something is pending has begun"
        return state

    @property
    def is_stopping(self) -> bool:
        """Whether the service stops: nothing new begins."""
        return self.stopping()

    async def record(self, *bodies: Body) -> None:
        """Make events of a delivery durable and apply them."""
        answer = self.mailbox.put(RecordDelivery(bodies), own=True)
        # Not cancelled half way: whoever goes on has to know what stands in the log. The actor
        # answers or refuses whatever is in its mailbox when it stops, so this ends.
        with anyio.CancelScope(shield=True):
            await answer.wait()

    async def until_changed(self) -> None:
        """Wait until something new is durable, or the service stops."""
        await self.changed()

    def updates(self, take: TakeDelta | None = None) -> AsyncGenerator[Update]:
        """Yield the events that come from now on, and the text of replies as it comes."""
        last_seq = self.state.last_seq
        return follow(
            self.feed,
            last_seq,
            log_of(self.store, self.session_id),
            last_seq=last_seq,
            pieces="live",
            take=take,
            is_over=lambda: self.is_stopping,
            waits=False,
        )

    async def read_file(self, name: str) -> bytes | None:
        """Return a file that is kept with the session; None where it is gone."""
        return await self.store.read_media(self.session_id, name)


def _is_end(error: BaseException) -> bool:
    """Whether it says no more than that the session or its actor came to an end."""
    if is_group(error):
        return all(map(_is_end, error.exceptions))
    return isinstance(error, SessionEndedError | ActorStoppedError)
