"""What an adapter hands arrivals to. Here each is settled, whatever happens to it.

A message that makes our own code fail counts as not accepted: it is logged with its traceback, its
sender is told, and the channel goes on.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from typing import Final, assert_never

import anyio

from everturn_actors.errors import ActorStoppedError, CoreError, JournalError
from everturn_channels.adapter import Adapter, Arrival, Command, Edit, Message, Place, Press
from everturn_channels.cursors import Cursors
from everturn_channels.delivery.pace import Pace
from everturn_channels.hall import Hall
from everturn_channels.health import Health
from everturn_channels.inbound.attending import Attendant
from everturn_channels.inbound.backlog import Backlog
from everturn_channels.inbound.doorkeeper import Doorkeeper, Limits
from everturn_channels.inbound.receiving import TAKE_S, Receiver
from everturn_channels.inbound.speaking import Errands, Voice
from everturn_channels.pacing import Lately, Seldom
from everturn_channels.places import Places
from everturn_channels.settings import ChannelSettings
from everturn_channels.wording import not_kept

logger = logging.getLogger(__name__)

FAULT_EVERY_S: Final = 60  # how often a chat is told of a fault of ours
_HOUR_S: Final = 3600


class ChannelInlet:
    """The inlet of one channel; see `Inlet`."""

    def __init__(
        self,
        *,
        adapter: Adapter,
        hall: Hall,
        settings: ChannelSettings,
        health: Health,
        cursors: Cursors,
        errands: Errands,
        limits: Limits,
        places: Places,
        pace: Pace,
    ) -> None:
        self._places = places
        self._pace = pace
        self._adapter = adapter
        self._hall = hall
        self._settings = settings
        self._health = health
        self._cursors = cursors
        self._errands = errands
        self._voice = Voice(adapter, errands=errands, pace=pace, clock=hall.clock, health=health)
        self._doorkeeper = Doorkeeper(adapter, hall, settings, limits)
        self._receiver = Receiver(
            adapter=adapter,
            hall=hall,
            settings=settings,
            limits=limits,
            errands=errands,
            voice=self._voice,
            doorkeeper=self._doorkeeper,
        )
        self._attendant = Attendant(
            channel=adapter.name,
            hall=hall,
            errands=errands,
            voice=self._voice,
            doorkeeper=self._doorkeeper,
        )
        self._backlog = Backlog(
            channel=adapter.name,
            clock=hall.clock,
            health=health,
            errands=errands,
            voice=self._voice,
            is_known=self._is_known,
        )
        self._settled: Lately[tuple[str, str, str]] = Lately()
        self._faults: Seldom[str] = Seldom(FAULT_EVERY_S)
        self._began = hall.clock.now()
        self.heard_at = self._began
        "When the platform was last heard from; before that, when the present try began. UTC."
        self.was_heard = False
        "Whether it was heard from in the present try."

    def begin(self) -> None:
        """Note that the adapter is about to serve."""
        self.heard_at, self.was_heard = self._hall.clock.now(), False

    # --- what arrives ---

    async def take(self, arrival: Arrival) -> None:
        """Deal with one arrival. See `Inlet.take`."""
        self.received()
        self._health.count_in()
        self._places.note(arrival.place)
        name = _name_of(arrival)
        if name is not None and name in self._settled:
            return
        await self._settle(arrival)
        if name is not None:
            self._settled.note(name)

    async def _settle(self, arrival: Arrival) -> None:
        try:
            if not self._is_stale(arrival):
                await self._receive(arrival)
        except (ActorStoppedError, JournalError):
            raise  # the adapter does not confirm it
        except Exception as error:  # the channel runner's boundary
            fields = {
                "channel": self._adapter.name,
                "chat": arrival.place.chat,
                "kind": type(arrival).__name__,
                "error": str(error),
            }
            logger.exception("an arrival could not be dealt with and is left out", extra=fields)
            self._tell_fault(arrival)

    async def _receive(self, arrival: Arrival) -> None:
        match arrival:
            case Message():
                await self._receiver.message(arrival)
            case Edit():
                with anyio.fail_after(TAKE_S):
                    await self._receiver.edit(arrival)
            case Command():
                with anyio.fail_after(TAKE_S):
                    await self._attendant.command(arrival)
            case Press():
                with anyio.fail_after(TAKE_S):
                    await self._attendant.press(arrival)
            case _:
                assert_never(arrival)

    def _tell_fault(self, arrival: Arrival) -> None:
        """Tell the sender of something that made our code fail, where they await an answer."""
        match arrival:
            case Command() | Press():
                self._errands.start("an answer", partial(arrival.answer, not_kept()))
            case Message() if arrival.is_addressed or arrival.place.type == "dm":
                if self._faults.may(arrival.place.chat, self._hall.clock.now()):
                    self._voice.say(arrival.place, not_kept())
            case _:
                pass

    # --- what is left out ---

    def _is_stale(self, arrival: Arrival) -> bool:
        """Whether something was written so long before the start that nobody waits for it now."""
        age_max = timedelta(seconds=self._settings.backlog_max_age_s)
        if arrival.at >= self._began or self._hall.clock.now() - arrival.at <= age_max:
            return False
        if isinstance(arrival, Message):
            hours = self._settings.backlog_max_age_s / _HOUR_S
            self._backlog.skip(arrival.place, 1, f"more than {hours:g} hours old")
        return True

    async def skipped(self, place: Place, count: int, why: str) -> None:
        """Count messages that were not read, and tell of them. See `Inlet.skipped`."""
        self._backlog.skip(place, count, why)

    async def _is_known(self, place: Place) -> bool:
        """Whether a conversation goes on in a place."""
        key = self._doorkeeper.key_of(place)
        if key is None:
            return False
        try:
            return bool(await self._hall.service.current(key))
        except CoreError:
            return False

    # --- what the channel tells of itself ---

    def received(self) -> None:
        """Note that the platform was heard from. See `Inlet.received`."""
        self.heard_at, self.was_heard = self._hall.clock.now(), True
        self._health.received()
        self._pace.heard()

    def connected(self, account: str) -> None:
        """Note that the login worked. See `Inlet.connected`."""
        logger.info("connected", extra={"channel": self._adapter.name, "account": account})
        self._health.connected(account)
        self._pace.stop_backing_off()  # what could not be sent meanwhile need not wait any longer

    def cursor(self, name: str) -> str:
        """Return what was kept under a name. See `Inlet.cursor`."""
        return self._cursors.get(name)

    async def keep_cursor(self, name: str, value: str) -> None:
        """Keep a value under a name. See `Inlet.keep_cursor`."""
        await self._cursors.put(name, value)

    @property
    def is_new(self) -> bool:
        """Whether this channel never ran before. See `Inlet.is_new`."""
        return self._cursors.is_new


def _name_of(arrival: Arrival) -> tuple[str, str, str] | None:
    """Return what tells an arrival from all others; None for those that may come again."""
    match arrival:
        case Message() | Command():
            return type(arrival).__name__, arrival.place.chat, arrival.id
        case Edit() | Press():
            return None
        case _:
            assert_never(arrival)
