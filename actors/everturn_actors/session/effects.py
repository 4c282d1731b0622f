"""What follows from a decision besides its events: started here, after they are durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import assert_never

from msgspec import Struct, field

from everturn_actors.errors import ActorStoppedError
from everturn_actors.protocol.background import Background
from everturn_actors.protocol.commands import Tick
from everturn_actors.protocol.feed import Feed
from everturn_actors.protocol.mailbox import Envelope, Mailbox
from everturn_actors.session.decide.decision import (
    AwaitFollower,
    Effect,
    Later,
    NotifyStopping,
    ReleaseTurn,
    ReportDrop,
    ReportFault,
    ScheduleTick,
    StartTurn,
    StopTurn,
)
from everturn_actors.session.runtime import Runtime
from everturn_actors.session.turn_runner import TurnRunner

logger = logging.getLogger(__name__)


class News:
    """Wakes who waits for something new."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._changed: asyncio.Event | None = None  # there is one while somebody waits for it

    async def wait(self) -> None:
        """Wait for the next of it."""
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    def notify(self) -> None:
        """Wake all of them."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None


class Waiters:
    """Callers whose answer comes later, by what they wait for."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self.closed: list[Envelope] = []
        "For the running turn to be closed."
        self.ended: list[Envelope] = []
        "For the session to end."
        self.stopped: list[Envelope] = []
        "For the actor to put everything away."

    def add(self, later: Later, envelope: Envelope) -> None:
        """Let a caller wait; for a summary the one who makes it lets it wait."""
        if later is Later.CLOSED:
            self.closed.append(envelope)
        elif later is Later.ENDED:
            self.ended.append(envelope)
        elif later is Later.STOPPED:
            self.stopped.append(envelope)

    def take_unfinished(self) -> list[Envelope]:
        """Return who waits for the end of a turn, or of the session, and forget them."""
        taken, self.closed, self.ended = [*self.closed, *self.ended], [], []
        return taken


class Effects(Struct, kw_only=True):
    """Starts the effects of one actor's decisions."""

    session_id: str
    runtime: Runtime
    mailbox: Mailbox
    feed: Feed
    runner: TurnRunner
    news: News
    waiters: Waiters = field(default_factory=Waiters)
    tick_at: datetime | None = None
    "When it is looked again whether a turn that is held may begin; None = none is held."

    def start(self, effects: Iterable[Effect], tasks: Background) -> None:
        """Start effects, in their order.

        Args:
            effects: What a decision says.
            tasks: Where that which takes its time runs.
        """
        for effect in effects:
            match effect:
                case StartTurn(number):
                    self.runner.start(number, tasks)
                case StopTurn(by):
                    self.runner.stop("cancel", by)
                case ReleaseTurn():
                    self.runner.release()
                    # Who asked for the cancel is answered when nothing of the turn runs any more.
                    closed, self.waiters.closed = self.waiters.closed, []
                    for each in closed:
                        each.answer.give(value=True)
                case ScheduleTick(at):
                    # One timer is enough: the decision that it brings sets the next.
                    if self.tick_at is None or at < self.tick_at:
                        self.tick_at = at
                        tasks.start_soon(self._tick, at)
                case AwaitFollower(seq):
                    tasks.start_soon(self.runner.pause_unless_followed, seq)
                case NotifyStopping():
                    self.news.notify()
                    self.feed.nudge()
                case ReportDrop(messages, why):
                    logger.warning(
                        "messages that waited are not answered",
                        extra={"session_id": self.session_id, "messages": messages, "why": why},
                    )
                case ReportFault(command, error):
                    logger.error(
                        "a command failed",
                        extra={"session_id": self.session_id, "command": command},
                        exc_info=error,
                    )
                case _:
                    assert_never(effect)

    async def _tick(self, at: datetime) -> None:
        clock = self.runtime.timing.clock
        delay_s = (at - clock.now()).total_seconds()
        if delay_s > 0:  # else the append that came between took longer
            await clock.sleep(delay_s)
        # Else a nearer one took its place meanwhile, and that one is still to come.
        if self.tick_at == at:
            self.tick_at = None
        with suppress(ActorStoppedError):  # then the next start begins it
            self.mailbox.put(Tick(), own=True)
