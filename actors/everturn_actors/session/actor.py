"""The actor of one session: the only writer of its state. Journal, then apply, then acknowledge.

It reads its mailbox, lets `decide` say what becomes of the commands that wait, makes the events
durable in one append, and only then takes over the new state, starts the effects and answers. The
turn runs beside the command loop and records its events through the same mailbox, so that a long
model call never keeps a command waiting.
"""

from __future__ import annotations

import logging
from functools import partial
from operator import attrgetter

import anyio

from everturn_actors.delivery.worker import DeliveryWorker
from everturn_actors.errors import (
    ActorStoppedError,
    CoreError,
    FencedError,
    MovedError,
    PassivatedError,
    UnknownSessionError,
)
from everturn_actors.events import Event
from everturn_actors.faults import is_cancelled
from everturn_actors.ports import Agent
from everturn_actors.protocol.background import Background
from everturn_actors.protocol.commands import (
    Compact,
    is_own,
    sets_going,
)
from everturn_actors.protocol.feed import Feed
from everturn_actors.protocol.mailbox import Envelope, Mailbox
from everturn_actors.session.decide.decider import decide, decide_restart
from everturn_actors.session.decide.decision import Context, Decision, Later, Memory
from everturn_actors.session.effects import Effects, News
from everturn_actors.session.runtime import Activation, Runtime
from everturn_actors.session.snapshots import Snapshots
from everturn_actors.session.turn_runner import TurnRunner
from everturn_actors.state.session_state import SessionState
from everturn_actors.turn.compaction import Compactor
from everturn_actors.turn.loop import is_repeatable

logger = logging.getLogger(__name__)

_command_of = attrgetter("command")
CARRY_ON_S = 5.0  # that the delivery port of a session that has ended may take to leave
FLUSH_S = 5.0  # deadline of the last snapshot when the actor is cancelled


class SessionActor:
    """One session while it is active."""

    def __init__(
        self,
        *,
        session_id: str,
        activation: Activation,
        mailbox: Mailbox,
        feed: Feed,
        runtime: Runtime,
    ) -> None:
        """Prepare the actor of a session; `run` brings it to life.

        Args:
            session_id: Which one.
            activation: What it was started for.
            mailbox: Where its commands come from.
            feed: Where its followers read.
            runtime: What all actors share.
        """
        self.session_id = session_id
        self.known: SessionState | None = None
        "The present state; None until it is loaded, or before the session has begun."
        self.finished_before = 0
        "Turns that had come to their end when it was loaded."
        self.is_moving = False
        "Whether another process waits for the session: it goes without more ado."
        self._resumes, self._begin_with = activation.resumes, activation.begin_with
        self._is_new = activation.is_new
        self._mailbox, self._feed, self._runtime = mailbox, feed, runtime
        self._passivate_after_s = 0.0 if activation.passivate_at_once else runtime.passivate_after_s
        self._passivates_soon = self._was_fenced = False  # the latter since the last append
        self._memory, self._snapshots, self._news = Memory(), Snapshots(session_id, runtime), News()
        self._turns = TurnRunner(
            session_id=session_id,
            runtime=runtime,
            mailbox=mailbox,
            feed=feed,
            changed=self._news.wait,
        )
        self._effects = Effects(
            session_id=session_id,
            runtime=runtime,
            mailbox=mailbox,
            feed=feed,
            runner=self._turns,
            news=self._news,
        )
        self._compactor = Compactor(
            session_id=session_id,
            store=runtime.store,
            model_statistics=runtime.model_statistics,
            timing=runtime.timing,
            renderer=self._turns.renderer,
            mailbox=mailbox,
            present=lambda: self._turns.state,
        )
        self._delivery = DeliveryWorker(
            session_id=session_id,
            delivery_ports=runtime.delivery_ports,
            mailbox=mailbox,
            feed=feed,
            store=runtime.store,
            clock=runtime.timing.clock,
            present=lambda: self.known,
            changed=self._news.wait,
            stopping=lambda: self._memory.is_stopping and not self._turns.is_awaited,
        )
        self._tasks: Background
        self._scope: anyio.CancelScope
        "Of the command loop; a shield while something is appended."

    @property
    def goes_on(self) -> bool:
        """Whether it works as any other: what is open goes on, or the session has ended."""
        return self._resumes or _has_ended(self.known)

    # --- life ---

    async def run(self) -> None:
        """Load the session, go on with what is open, serve commands until it is passivated.

        Where another writer appended to the log, it drops its state and loads again, once: who
        asked for something waits a little longer.

        Raises:
            UnknownSessionError: There is no such session.
            JournalError: Its files cannot be read or written.
            MovedError: Another process works on it, and wrote.
        """
        if not self._is_new:
            await self._load()
            self._feed.loaded(self.known.last_seq if self.known else 0)
        while await self._is_fenced():
            if not self._runtime.is_here(self.session_id):
                raise MovedError(self.session_id)
            logger.warning(
                "another writer appended to a session; it is loaded again",
                extra={"session_id": self.session_id},
            )
            shown = self.known.last_seq if self.known else 0
            self._feed.catch_up(await self._load(), shown)

    def passivate(self) -> bool:
        """Passivate as soon as nothing waits; return False, and do nothing, where there is work.

        A turn, a summary, a delivery and what waits in the mailbox are work. A command that comes
        meanwhile is taken, and the actor stays.
        """
        is_idle = self.known is not None and self._mailbox.is_empty
        if not is_idle or self._idle_s() is None:
            return False
        self._passivates_soon = True
        self._mailbox.nudge()
        return True

    def dispose(self) -> None:
        """Let go of all that the session held in memory; ask the actor for nothing afterwards.

        The actor and its parts know each other. What is held in such a circle is found by the
        collector alone, in a round over everything that can wait for a long time.
        """
        self._turns.dispose()
        vars(self).clear()

    async def _load(self) -> tuple[Event, ...]:
        """Load the session; return the events that the log holds of it behind its snapshot."""
        self.known, events = await self._snapshots.load()
        if self.known is None and self._begin_with is None:
            raise UnknownSessionError(self.session_id)
        if self.known is not None:
            self._turns.state = self.known
        self.finished_before = finished_turns(self.known)
        return events

    async def _is_fenced(self) -> bool:
        """Serve until it is passivated; return whether its state is that of the log no more."""
        is_fenced = False
        async with anyio.create_task_group() as tasks:
            self._tasks = Background(tasks, self._mailbox)
            reason: CoreError = ActorStoppedError()
            try:
                with anyio.CancelScope() as self._scope:
                    if self._resumes:
                        await self._resume()
                    await self._serve()
            except FencedError as error:
                is_fenced, reason = not self._was_fenced, error
                if not is_fenced:
                    raise
            except anyio.get_cancelled_exc_class() as cancelled:
                reason = self._tasks.reason(self.session_id, cancelled)
                if is_cancelled():
                    raise
                raise reason from cancelled  # else the task group takes it for its own
            except BaseException as error:
                reason = self._tasks.reason(self.session_id, error)
                raise
            finally:
                if is_fenced:
                    self._set_back()
                else:
                    await self._leave_behind(reason)
        return is_fenced

    async def _resume(self) -> None:
        """Close what a restart interrupted, and let the open turn go on."""
        self._resumes = True
        await self._runtime.store.mark_active(self.session_id)
        if self.known is not None:
            await self._commit(self._decide(None), [])

    async def _serve(self) -> None:
        turns, delivery = self._turns, self._delivery
        while not self._memory.is_stopping or turns.is_awaited or delivery.works:
            batch = await self._mailbox.take(self._idle_s())
            if batch is None:
                await self._snapshots.put_away(self.known)
                if self._mailbox.is_empty:
                    return
                self._passivates_soon = False
                await self._runtime.store.mark_active(self.session_id)
                continue
            if batch:
                await self._handle(batch)
                if not self._resumes and any(sets_going(each.command) for each in batch):
                    await self._resume()
            state = self.known
            is_free = self._resumes and not (turns.running or self._memory.is_stopping)
            if is_free and state is not None and state.turns != self._compactor.considered:
                # Between two turns, when everybody has been answered, older ones are summarised.
                agent = self._runtime.agent(state.key.agent, state.model)
                await self._compactor.consider(agent, self._tasks)
            if self._snapshots.is_due(state):
                await self._snapshots.save()  # after the answers: nobody waits for it

    def _idle_s(self) -> float | None:
        """Return after which time without a command it is passivated; None while it has work.

        Asked anew whenever something that runs beside the command loop has ended.
        """
        if self._turns.running or self._compactor.busy or self._effects.tick_at is not None:
            return None
        has_ended = _has_ended(self.known)
        if self._delivery.works:  # who has ended owes nothing, and does not wait for long
            return CARRY_ON_S if has_ended else None
        if has_ended or self._passivates_soon or not self._resumes:
            return 0.0
        return self._passivate_after_s

    async def _leave_behind(self, reason: CoreError) -> None:
        """Let nobody wait for an actor that is gone; on a clean stop, put things away.

        Each of them is told the one reason. Nothing here asks another actor in their place: that
        one may fail of the same, as often as it is asked.
        """
        waiters = self._effects.waiters
        for each in (*self._mailbox.close(), *waiters.take_unfinished()):
            each.answer.fail(reason)
        self._compactor.close(reason)  # a summary that is being written is of no use any more
        self._tasks.cancel()
        if self._memory.is_stopping:
            with anyio.move_on_after(FLUSH_S, shield=True):
                try:
                    await self._snapshots.put_away(self.known, is_moving=self.is_moving)
                except FencedError as error:
                    self._snapshots.log_failure("a snapshot could not be saved", error)
            for each in waiters.stopped:
                each.answer.give(None)

    def _set_back(self) -> None:
        """Keep nothing but what callers have asked for: all else is made of the log again.

        What the actor's own tasks asked for goes with these tasks.
        """
        asked = self._effects.waiters.take_unfinished()
        for each in self._mailbox.drain():
            if is_own(each.command):
                each.answer.fail(PassivatedError())
            else:
                asked.append(each)
        self._mailbox.put_back(asked)
        self._compactor.close(None)
        self._tasks.cancel()
        self._was_fenced = True
        self._memory = Memory(is_stopping=self._memory.is_stopping, debounce=self._memory.debounce)
        self._effects.tick_at = None
        self._compactor.renderer = self._turns.reset()

    # --- commands ---

    def _decide(self, batch: list[Envelope] | None) -> Decision:
        """Return what becomes of commands; None = of the session, now that it goes on."""
        state, runtime = self.known, self._runtime
        begin = state or self._begin_with
        assert begin is not None, "a session that is not there was not loaded"
        found = runtime.find_agent(begin.key.agent, state.model if state else None)
        agent, error = (found, None) if isinstance(found, Agent) else (None, found)
        context = Context(
            session_id=self.session_id,
            memory=self._memory,
            begin_with=self._begin_with,
            spec=agent.spec if agent else None,
            agent_error=error,
            is_repeatable=partial(is_repeatable, agent),
            window_tokens=partial(runtime.window_tokens, agent),
            delivers=begin.key.channel in runtime.delivery_ports,
            is_followed=self._feed.followers > 0,
            resumes=self._resumes,
            running=self._turns.running,
            left=self._turns.left,
            is_cancelled=bool(self._effects.waiters.closed),
        )
        if batch is None and state is not None:
            return decide_restart(state, context, runtime.now())
        return decide(state, context, map(_command_of, batch or ()), runtime.now())

    async def _handle(self, batch: list[Envelope]) -> None:
        """Decide all commands of `batch`, make their events durable, answer their callers."""
        try:
            self._snapshots.check_end(self.known, map(_command_of, batch))
            decision = self._decide(batch)
            await self._commit(decision, batch)
        except BaseException as error:
            if isinstance(error, FencedError) and not self._was_fenced:
                self._mailbox.put_back(batch)  # nothing was written: they are decided again
                raise
            reason = self._tasks.reason(self.session_id, error)
            for each in batch:
                each.answer.fail(reason)
            raise
        for each, answer in zip(batch, decision.answers, strict=True):
            if isinstance(answer, Exception):
                each.answer.fail(answer)
            elif not isinstance(answer, Later):
                each.answer.give(answer)
            elif isinstance(each.command, Compact):
                known = self._turns.state
                found = self._runtime.find_agent(known.key.agent, known.model)
                if isinstance(found, Agent):
                    self._compactor.ask(each.command.focus, each.answer, found, self._tasks)
                else:
                    each.answer.fail(found)

    async def _commit(self, decision: Decision, batch: list[Envelope]) -> None:
        """Journal, then apply; then start what follows from it."""
        if decision.events:
            # What the disk has begun cannot be called off: whoever is cancelled here would not know
            # whether it was written. One scope serves all: to make one takes ten times as long.
            self._scope.shield = True
            try:
                await self._runtime.store.append(
                    self.session_id, decision.events, expected_seq=decision.events[0].seq - 1
                )
            finally:
                self._scope.shield = False
            assert decision.state is not None, "an event makes a state"
            before, self.known = self.known, decision.state
            self._turns.state = decision.state  # the turn's task reads it as soon as it is woken
            self._was_fenced = False
            self._snapshots.written(decision.checkpoint)
            self._runtime.observer.durable(before, decision.state, decision.events)
            self._feed.publish(decision.events)
            self._news.notify()  # after the feed: whoever is woken finds the events there
        self._memory = decision.memory  # not before the append: a failed one changes nothing
        for each, answer in zip(batch, decision.answers, strict=True):
            if isinstance(answer, Later):
                self._effects.waiters.add(answer, each)
        if decision.effects:
            self._effects.start(decision.effects, self._tasks)
        if self._resumes:
            self._delivery.begin(self._tasks)
        if self.known is not None and self.known.status == "ended":
            waiters = self._effects.waiters
            ended, waiters.ended = waiters.ended, []
            for each in ended:
                each.answer.give(None)


def finished_turns(state: SessionState | None) -> int:
    """Return how many turns of a session came to their end."""
    return state.turns - (state.open_turn is not None) if state is not None else 0


def _has_ended(state: SessionState | None) -> bool:
    return state is not None and state.status == "ended"
