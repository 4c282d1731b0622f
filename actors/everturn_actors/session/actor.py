"""The actor of one session: the only writer of its state. Journal, then apply, then acknowledge.

It owns the state, the running turn and the snapshot. Commands come through its mailbox; all that
wait are planned against one another, made durable in one append, applied, and only then
answered. The turn runs beside the command loop and records its events through the same mailbox,
so that a long model call never keeps a command waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeVar, assert_never

import anyio

from everturn_actors.context.estimation.window import window_messages
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.context.render import Renderer
from everturn_actors.delivery.port import DeliveryPort
from everturn_actors.delivery.worker import DeliveryWorker
from everturn_actors.errors import (
    ActorFailedError,
    ActorStoppedError,
    BusyError,
    CommandFailedError,
    CoreError,
    CorruptJournalError,
    FencedError,
    MailboxFullError,
    NothingToRetryError,
    PassivatedError,
    QueueFullError,
    SessionEndedError,
    UnknownAgentError,
    UnknownSessionError,
)
from everturn_actors.events import (
    Announced,
    ApprovalDecided,
    Body,
    Discarded,
    Edited,
    Event,
    Received,
    SessionEnded,
    SessionShared,
    SessionStarted,
    SilentMessage,
    StatusChanged,
    Summarised,
    TurnStarted,
)
from everturn_actors.faults import first_cause, is_cancelled
from everturn_actors.model import ConversationKey, EndReason, Inbound, Joins, Resolution
from everturn_actors.ports import (
    Agent,
    Agents,
    ModelStatisticsStore,
    NullObserver,
    Observer,
    SessionStore,
    ToolContext,
)
from everturn_actors.protocol.background import Background
from everturn_actors.protocol.commands import (
    Accepted,
    Announce,
    Cancel,
    ClientDisconnected,
    Command,
    Compact,
    Edit,
    End,
    GetState,
    Pause,
    RecordDelivery,
    RecordTurn,
    ResolveApproval,
    Resume,
    Retry,
    Share,
    Stop,
    StoreAmbient,
    Submit,
    Summary,
    Tick,
)
from everturn_actors.protocol.feed import Feed, LiveReply
from everturn_actors.protocol.mailbox import Mailbox, ReplySlot
from everturn_actors.session.debounce import Debouncer
from everturn_actors.state.queue import ambient_bytes, next_turn
from everturn_actors.state.recovery import (
    PAUSED,
    Recovered,
    close_interrupted,
    close_turn,
    is_expired,
    recover,
    why_no_retry,
)
from everturn_actors.state.session_state import SessionState, apply
from everturn_actors.turn.approvals import find_approval, has_new_word, why_not
from everturn_actors.turn.compaction import Compactor
from everturn_actors.turn.loop import first_step, is_repeatable, run_turn
from everturn_actors.turn.media import MediaReader
from everturn_actors.turn.model_call import Pace

logger = logging.getLogger(__name__)

T = TypeVar("T")

SNAPSHOT_EVENTS = 50  # a snapshot follows so many events
WAITING_LIMIT = 256  # messages that wait for a turn; more come from a loop, not from people
QUIET_LIMIT = 100  # of them that begin no turn; the oldest go
CARRY_ON_S = 5.0  # that the delivery port of a session that has ended may take to leave
FLUSH_S = 5.0  # deadline of the last snapshot when the actor is cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What all actors of a service share."""

    store: SessionStore
    agents: Agents
    model_statistics: ModelStatisticsStore
    pace: Pace
    passivate_after_s: float
    leave_grace_s: float
    "How long a client may be gone before its turn is paused."
    delivery_ports: Mapping[str, DeliveryPort] = field(default_factory=dict[str, DeliveryPort])
    "By the name of their channel: whoever tells its people what is said."
    observer: Observer = field(default_factory=NullObserver)

    def now(self) -> datetime:
        """Return the present instant, UTC."""
        return self.pace.clock.now()


@dataclass(slots=True)
class _Draft:
    """The next state and the events that lead to it, before they are durable."""

    state: SessionState | None
    now: datetime
    checkpoint: SessionState | None = None
    "The last of the states on the way that is a checkpoint; None where none is."
    events: list[Event] = field(default_factory=list[Event])

    @property
    def known(self) -> SessionState:
        assert self.state is not None, "the session has begun"
        return self.state

    def add(self, *bodies: Body) -> None:
        for body in bodies:
            seq = 1 if self.state is None else self.state.last_seq + 1
            event = Event(seq=seq, at=self.now, body=body)
            self.state = apply(self.state, event)
            self.events.append(event)
            if self.state.checkpoint_seq == seq:
                self.checkpoint = self.state

    def mark(self) -> tuple[SessionState | None, SessionState | None, int]:
        """Return where the draft stands, to go back to."""
        return self.state, self.checkpoint, len(self.events)

    def go_back(self, to: tuple[SessionState | None, SessionState | None, int]) -> None:
        self.state, self.checkpoint, events = to
        del self.events[events:]


class SessionActor:
    """One session while it is active."""

    def __init__(
        self,
        *,
        session_id: str,
        begin_with: SessionStarted | None,
        mailbox: Mailbox[Command],
        feed: Feed,
        runtime: Runtime,
        passivate_at_once: bool = False,
        resumes: bool = True,
    ) -> None:
        """Prepare an actor; `run` brings it to life.

        Args:
            session_id: The session.
            begin_with: How the session begins, where the store knows nothing of it; None = it
                has to exist.
            mailbox: Where its commands come from.
            feed: Where its followers read.
            runtime: What all actors share.
            passivate_at_once: Passivate as soon as there is nothing to do.
            resumes: Let what is open go on at once. Without it nothing goes on before a command
                asks for more than to look at the session or to end it.
        """
        self.session_id = session_id
        self._resumes = resumes
        self._begin_with = begin_with
        self._mailbox = mailbox
        self._feed = feed
        self._runtime = runtime
        self._passivate_after_s = 0.0 if passivate_at_once else runtime.passivate_after_s
        self._passivates_soon = False
        self._state: SessionState | None = None
        self._checkpoint: SessionState | None = None
        self._saved: SessionState | None = None
        self._has_written = False
        self._turn: anyio.CancelScope | None = None
        self._turn_number = 0
        self._left_turn = 0  # it waits for the next start of the session
        self._close_as: str | None = None
        self._closed_by = ""  # who wants the running turn closed
        self._on_closed: list[ReplySlot[bool]] = []
        self._changed: anyio.Event | None = None  # there is one while somebody waits for it
        self._ending: EndReason | None = None
        self._ended_by = ""
        self._on_ended: list[ReplySlot[None]] = []
        self._stopping: list[ReplySlot[None]] = []
        self._renderer = Renderer()
        self._media = MediaReader(runtime.store, session_id)
        self._compactor = Compactor(
            session_id=session_id,
            store=runtime.store,
            model_statistics=runtime.model_statistics,
            pace=runtime.pace,
            renderer=self._renderer,
            mailbox=mailbox,
            present=lambda: self.state,
        )
        self._holds = Debouncer()
        self._alarm: datetime | None = None
        self._delivery = DeliveryWorker(
            session_id=session_id,
            delivery_ports=runtime.delivery_ports,
            mailbox=mailbox,
            feed=feed,
            store=runtime.store,
            clock=runtime.pace.clock,
            present=lambda: self._state,
            changed=self.until_changed,
            stopping=self._may_stop,
        )
        self._tasks: Background
        self._was_fenced = False  # since the last append
        self._finished_before = 0  # turns, when it was loaded

    @property
    def known(self) -> SessionState | None:
        """The present state; None until it is loaded, or before the session has begun."""
        return self._state

    @property
    def goes_on(self) -> bool:
        """Whether it works as any other: what is open goes on, or the session has ended."""
        return self._resumes or self._has_ended()

    @property
    def has_progressed(self) -> bool:
        """Whether a turn came to its end since it was loaded."""
        return self._state is not None and _finished(self._state) > self._finished_before

    # --- what a turn needs (TurnHost) ---

    @property
    def state(self) -> SessionState:
        """The present state; there is one as soon as the session has begun."""
        assert self._state is not None, "the session has begun"
        return self._state

    @property
    def renderer(self) -> Renderer:
        """Renders the session's requests."""
        return self._renderer

    @property
    def model_statistics(self) -> ModelStatisticsStore:
        """What was learnt about models."""
        return self._runtime.model_statistics

    @property
    def tool_context(self) -> ToolContext:
        """Where calls of this session run."""
        return ToolContext(
            session_id=self.session_id,
            key=self.state.key,
            store=self._runtime.store,
            conversation=self.state.conversation,
            principal=self.state.principal,
        )

    async def read_media(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Return the bytes of the session's images of these names."""
        return await self._media.read(names)

    async def record(self, *bodies: Body) -> None:
        """Make events of the running turn durable and apply them.

        Raises:
            ActorStoppedError: They are not; the actor ends, of that or of something else.
        """
        answer: ReplySlot[None] = (
            ReplySlot()
        )  # not `ReplySlot[None]()`, which takes ten times as long
        self._mailbox.put(RecordTurn(bodies, answer), own=True)
        await self._own_answer(answer)

    async def settle(self, call_id: str, resolution: Resolution) -> None:
        """Settle an approval, unless somebody did in the same moment; as `record`."""
        answer = ReplySlot[None]()
        self._mailbox.put(
            ResolveApproval(call_id=call_id, resolution=resolution, by="", own=True, answer=answer),
            own=True,
        )
        await self._own_answer(answer)

    async def _own_answer(self, answer: ReplySlot[None]) -> None:
        """Wait for what a task of the actor itself asked for.

        Not cancelled half way: whoever closes the turn has to know what stands in its log. The
        actor answers or refuses whatever is in its mailbox when it stops, so this ends.

        Raises:
            ActorStoppedError: What it met ends the actor, and is told to whoever waits for that.
        """
        with anyio.CancelScope(shield=True):
            try:
                await answer.wait()
            except CoreError as error:
                raise ActorStoppedError from error

    async def until_changed(self) -> None:
        """Wait until something new is durable."""
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def begin_reply(self, turn: int, step: int) -> LiveReply:
        """Begin to show the text of a model call."""
        return self._feed.begin_reply(turn, step)

    def add_text(self, live: LiveReply, text: str) -> None:
        """Show a piece of it."""
        self._feed.add_text(live, text)

    # --- life ---

    async def run(self) -> None:
        """Load the session, go on with what is open, serve commands until it is passivated.

        Where another writer appended to the log, it drops its state and loads again, once: who
        asked for something waits a little longer.

        Raises:
            UnknownSessionError: There is no such session.
            JournalError: Its files cannot be read or written.
        """
        await self._load()
        while await self._is_fenced():
            logger.warning(
                "another writer appended to a session; it is loaded again",
                extra={"session_id": self.session_id},
            )
            shown = self._state.last_seq if self._state else 0
            self._feed.catch_up(await self._load(), shown)

    async def _is_fenced(self) -> bool:
        """Serve until it is passivated; return whether its state is that of the log no more."""
        is_fenced = False
        async with anyio.create_task_group() as tasks:
            self._tasks = Background(tasks, self._mailbox)
            reason: CoreError = ActorStoppedError()
            try:
                if self._resumes:
                    await self._resume()
                await self._serve()
            except FencedError as error:
                is_fenced, reason = not self._was_fenced, error
                if not is_fenced:
                    raise
            except anyio.get_cancelled_exc_class() as cancelled:
                reason = self._reason(cancelled)
                if is_cancelled():
                    raise
                raise reason from cancelled  # else the task group takes it for its own
            except BaseException as error:
                reason = self._reason(error)
                raise
            finally:
                if is_fenced:
                    self._set_back()
                else:
                    await self._leave_behind(reason)
        return is_fenced

    def dispose(self) -> None:
        """Let go of all that the session held in memory; ask the actor for nothing afterwards.

        The actor and its parts know each other. What is held in such a circle is found by the
        collector alone, in a round over everything that can wait for a long time.
        """
        vars(self).clear()

    async def _load(self) -> tuple[Event, ...]:
        """Load the session; return the events that the log holds of it behind its snapshot."""
        loaded = await self._runtime.store.load(self.session_id)
        recovered: Recovered | None = None
        if loaded is not None:
            for repair in loaded.repairs:
                logger.warning(
                    "a journal was repaired", extra={"session_id": self.session_id, "what": repair}
                )
            for loss in loaded.losses:
                logger.warning(
                    "a part of a session's history is lost",
                    extra={"session_id": self.session_id, "what": loss},
                )
            recovered = recover(loaded.snapshot, loaded.events)
            self._saved = loaded.snapshot
        if recovered is not None:
            self._state, self._checkpoint = recovered.state, recovered.checkpoint
            self._finished_before = _finished(recovered.state)
        elif self._begin_with is None:
            raise UnknownSessionError(self.session_id)
        else:
            self._state = self._checkpoint = None
        return loaded.events if loaded else ()

    async def _resume(self) -> None:
        """Close what a restart interrupted, and let the open turn go on."""
        self._resumes = True
        await self._runtime.store.mark_active(self.session_id)
        state = self._state
        if state is None:
            return
        draft = _Draft(state, self._runtime.now())
        self._plan_expiry(draft)
        if state.open_turn is not None and self._ending is None:
            rule = is_repeatable(self._agent(state.key))
            draft.add(*close_interrupted(state.open_turn, rule))
        self._plan_turn(draft)
        await self._commit(draft)

    async def _serve(self) -> None:
        while not self._may_stop() or self._delivery.works:
            batch = await self._mailbox.take(self._passivates_after_s())
            if batch:
                await self._handle(batch)
                if not self._resumes and any(map(_goes_on_with, batch)):
                    await self._resume()
            if batch is not None:
                self._consider_summary()
                if self._is_snapshot_due():
                    await self._save(self._checkpoint)
            elif await self._may_passivate():
                return

    def _passivates_after_s(self) -> float | None:
        """Return after which time without a command it is passivated; None while it has work.

        Asked anew whenever something that runs beside the command loop has ended.
        """
        if self._turn is not None or self._compactor.busy or self._alarm is not None:
            return None  # with an alarm, a message is held
        if self._delivery.works:  # who has ended owes nothing, and does not wait for long
            return CARRY_ON_S if self._has_ended() else None
        return self._passivate_after_s if self._resumes and not self._passivates_soon else 0.0

    def passivate(self) -> bool:
        """Passivate as soon as nothing waits; return False, and do nothing, where there is work.

        A turn, a summary, a delivery and what waits in the mailbox are work. A command that comes
        meanwhile is taken, and the actor stays.
        """
        is_idle = self._state is not None and self._mailbox.is_empty
        if not is_idle or self._passivates_after_s() is None:
            return False
        self._passivates_soon = True
        self._mailbox.nudge()
        return True

    def _may_stop(self) -> bool:
        """Whether the service stops, and no turn is waited for.

        One that waits for a person, or until its model is called again, is not: it goes on at the
        next start.
        """
        if not self._stopping or self._turn is None:
            return bool(self._stopping)
        return bool(self.state.open_approvals) or self._waits_for_model()

    def _waits_for_model(self) -> bool:
        outage = self.state.open_turn.outage if self.state.open_turn else None
        return outage is not None and self._runtime.now() < outage.retry_at

    def _has_ended(self) -> bool:
        return self._state is not None and self._state.status == "ended"

    def _consider_summary(self) -> None:
        """Between two turns, when everybody has been answered, older ones may be summarised."""
        state = self._state
        if state is None or self._turn is not None or self._stopping or not self._resumes:
            return
        if state.turns == self._compactor.considered:
            return  # most commands end no turn
        agent = self._agent(state.key)
        if agent is not None:
            self._compactor.consider(agent, self._tasks)

    async def _may_passivate(self) -> bool:
        """Put things away; whether nothing arrived meanwhile."""
        await self._put_away()
        if self._mailbox.is_empty:
            return True
        self._passivates_soon = False
        await self._runtime.store.mark_active(self.session_id)
        return False

    async def _put_away(self) -> None:
        """Save the state as it is, and take the mark back where nothing is left to do."""
        state = self._state
        if self._has_written:  # who only looked has nothing to put away
            await self._save(state)
        if state is None or not state.is_due:
            try:
                await self._runtime.store.mark_passive(self.session_id)
            except Exception as error:  # noqa: BLE001 - a boundary: the mark is a hint
                self._log_failure("the mark of a passive session stays", error)

    async def _leave_behind(self, reason: CoreError) -> None:
        """Let nobody wait for an actor that is gone; on a clean stop, put things away.

        Each of them is told the one reason. Nothing here asks another actor in their place: that
        one may fail of the same, as often as it is asked.
        """
        for command in self._mailbox.close():
            command.answer.fail(reason)
        self._compactor.close(reason)
        for closed in self._on_closed:
            closed.fail(reason)
        for ended in self._on_ended:
            ended.fail(reason)
        self._tasks.cancel()
        if self._stopping:
            with anyio.move_on_after(FLUSH_S, shield=True):
                try:
                    await self._put_away()
                except FencedError as error:
                    self._log_failure("a snapshot could not be saved", error)
            for answer in self._stopping:
                answer.give(None)

    def _set_back(self) -> None:
        """Keep nothing but what callers have asked for: all else is made of the log again.

        What the actor's own tasks asked for goes with these tasks.
        """
        asked: list[Command] = []
        for command in self._mailbox.drain():
            if _is_own(command):
                command.answer.fail(PassivatedError())
            else:
                asked.append(command)
        again = {command.answer for command in asked}
        before: list[Command] = [
            Cancel(each, self._closed_by) for each in self._on_closed if each not in again
        ]
        if self._ending is not None:
            before += [
                End(self._ending, each, self._ended_by)
                for each in self._on_ended
                if each not in again
            ]
        self._mailbox.put_back((*before, *asked))
        self._compactor.close(None)
        self._tasks.cancel()
        self._was_fenced = True
        self._turn, self._turn_number, self._left_turn, self._close_as = None, 0, 0, None
        self._on_closed, self._on_ended, self._ending, self._alarm = [], [], None, None
        self._closed_by = self._ended_by = ""
        self._renderer = self._compactor.renderer = Renderer()

    # --- commands ---

    async def _handle(self, batch: list[Command]) -> None:
        """Plan all commands of `batch`, make their events durable, answer their callers."""
        draft = _Draft(self._state, self._runtime.now())
        if draft.state is None and self._begin_with is not None:
            draft.add(self._begin_with)
        try:
            self._plan_expiry(draft)
            answers = [self._plan_safely(command, draft) for command in batch]
            self._plan_end(draft)
            self._plan_turn(draft)
            await self._commit(draft)
        except BaseException as error:
            if isinstance(error, FencedError) and not self._was_fenced:
                self._mailbox.put_back(batch)  # nothing was written: they are planned again
                raise
            reason = self._reason(error)
            for command in batch:
                command.answer.fail(reason)
            raise
        for give in answers:
            give()

    def _plan_safely(self, command: Command, draft: _Draft) -> Callable[[], None]:
        """Plan one command; a fault of it is its own caller's, and leaves the others alone.

        What the actor's own tasks record cannot be left out: what follows stands on it.
        """
        before = draft.mark()
        try:
            return self._plan(command, draft)
        except Exception as error:
            if _is_own(command):
                raise
            draft.go_back(before)
            logger.exception(
                "a command failed",
                extra={"session_id": self.session_id, "command": type(command).__name__},
            )
            return partial(command.answer.fail, CommandFailedError(self.session_id, error))

    def _plan(self, command: Command, draft: _Draft) -> Callable[[], None]:
        """Add the events of one command to `draft`; return how to answer when they are durable."""
        match command:
            case Submit():
                return self._plan_submit(command, draft)
            case StoreAmbient():
                return self._plan_ambient(command, draft)
            case Announce():
                return self._plan_announcement(command, draft)
            case Edit():
                return self._plan_edit(command, draft)
            case Tick(answer, release):
                if release:
                    self._holds.release()
                return partial(answer.give, None)
            case RecordDelivery():
                return self._plan_delivery(command, draft)
            case GetState(answer):
                return partial(answer.give, draft.known)
            case Resume(answer):
                is_paused = draft.known.status == "paused"
                if is_paused:
                    draft.add(StatusChanged(status="active"))
                return partial(answer.give, value=is_paused)
            case Cancel():
                return self._plan_cancel(command, draft)
            case Retry():
                return self._plan_retry(command, draft)
            case End(reason, answer, by):
                self._ending, self._ended_by = reason, by
                self._on_ended.append(answer)
                self._stop_turn("cancel", by)
                return _nothing
            case Share():
                return self._plan_share(command, draft)
            case ClientDisconnected():
                return self._plan_disconnected(command, draft)
            case RecordTurn(bodies, answer):
                draft.add(*bodies)
                return partial(answer.give, None)
            case ResolveApproval():
                return _plan_resolve(command, draft)
            case Compact():
                return self._plan_compact(command, draft)
            case Summary(body, answer):
                return self._plan_summary(body, answer, draft)
            case Pause(answer):
                return self._plan_pause(answer, draft)
            case Stop(answer):
                self._stopping.append(answer)
                self._notify()
                self._feed.nudge()
                return _nothing
            case _:
                assert_never(command)

    def _plan_submit(self, command: Submit, draft: _Draft) -> Callable[[], None]:
        inbound, answer, state = command.inbound, command.answer, draft.known
        seen = state.seen.get(inbound.idempotency_key) if inbound.idempotency_key else None
        ending = self._ending or (state.status == "ended" and state.ended_reason)
        error: CoreError | None = None
        if seen is None:
            if ending:
                error = SessionEndedError(self.session_id, ending)
            else:
                error = self._agent_error(state.key) or self._why_not_now(inbound, draft)
        if error is not None:
            return partial(answer.fail, error)
        if state.status == "paused" and not inbound.quiet:
            draft.add(StatusChanged(status="active"))
        if seen is None:
            self._make_room(inbound, draft)
            draft.add(
                Received(
                    text=inbound.text,
                    sender=inbound.sender,
                    idempotency_key=inbound.idempotency_key,
                    attachments=command.attachments,
                    untrusted=inbound.untrusted,
                    reply_to=inbound.reply_to,
                    joins=self._joins(inbound, draft.now),
                    quiet=inbound.quiet,
                    retry_for_s=-1 if inbound.retry_for_s is None else inbound.retry_for_s,
                )
            )
            if not inbound.quiet:
                self._holds.note(inbound.sender, inbound.queueing.hold_s, draft.now)
        seq = draft.known.last_seq if seen is None else seen
        accepted = Accepted(seq=seq, duplicate=seen is not None, state=draft.known)
        return partial(answer.give, accepted)

    def _joins(self, inbound: Inbound, now: datetime) -> Joins:
        if inbound.queueing.joins == "own" and self._holds.in_one_burst(inbound.sender, now):
            return "burst"
        return inbound.queueing.joins

    def _why_not_now(self, inbound: Inbound, draft: _Draft) -> CoreError | None:
        """Return why a message cannot join those that wait; None where it can."""
        state, rules = draft.known, inbound.queueing
        if len(state.waiting) >= WAITING_LIMIT:
            return MailboxFullError()
        if self._is_extra(inbound, draft.now):
            return None
        if rules.drops_when_busy and state.open_turn is not None:
            return BusyError()
        most = rules.max_waiting if state.open_turn is not None else None
        asked = sum(not message.quiet for message in state.waiting)
        if most is not None and asked >= most and rules.overflow != "drop_old":
            return QueueFullError(rules.overflow)
        return None

    def _is_extra(self, inbound: Inbound, now: datetime) -> bool:
        """Whether a message waits beside those that are counted: it begins nothing of its own."""
        return inbound.quiet or self._holds.in_one_burst(inbound.sender, now)

    def _make_room(self, inbound: Inbound, draft: _Draft) -> None:
        """Let the oldest messages go where too many wait."""
        rules, waiting = inbound.queueing, draft.known.waiting
        same = [message for message in waiting if message.quiet == inbound.quiet]
        most = QUIET_LIMIT if inbound.quiet else rules.max_waiting
        if not inbound.quiet and (
            rules.overflow != "drop_old"
            or draft.known.open_turn is None  # the next turn takes all that waits
            or self._is_extra(inbound, draft.now)
        ):
            return
        if most is None or not same or len(same) < most:
            return
        gone = tuple(message.seq for message in same[: len(same) - most + 1])
        why = "nobody spoke to the agent" if inbound.quiet else f"more than {most} waited"
        draft.add(Discarded(received=gone, reason=why))
        if not inbound.quiet:
            logger.warning(
                "messages that waited are not answered",
                extra={"session_id": self.session_id, "messages": len(gone), "why": why},
            )

    def _plan_ambient(self, command: StoreAmbient, draft: _Draft) -> Callable[[], None]:
        message, state = command.message, draft.known
        ending = self._ending or (state.status == "ended" and state.ended_reason)
        is_new = not message.idempotency_key or message.idempotency_key not in state.seen
        if is_new and ending:
            return partial(command.answer.fail, SessionEndedError(self.session_id, ending))
        if is_new:
            draft.add(
                SilentMessage(
                    text=message.text,
                    sender=message.sender,
                    idempotency_key=message.idempotency_key,
                    shown=message.shown,
                    untrusted=message.untrusted,
                    max_messages=message.max_messages,
                    max_age_s=message.max_age_s,
                )
            )
        return partial(command.answer.give, is_new)

    def _plan_announcement(self, command: Announce, draft: _Draft) -> Callable[[], None]:
        said, answer, state = command.announcement, command.answer, draft.known
        seen = state.seen.get(said.idempotency_key) if said.idempotency_key else None
        ending = self._ending or (state.status == "ended" and state.ended_reason)
        if seen is None:
            if ending:
                return partial(answer.fail, SessionEndedError(self.session_id, ending))
            if error := self._agent_error(state.key):
                return partial(answer.fail, error)
            draft.add(
                Announced(
                    text=said.text,
                    sender=said.sender,
                    idempotency_key=said.idempotency_key,
                    title=said.title,
                    untrusted=said.untrusted,
                    delivers=self._delivery.delivers(state.key.channel),
                )
            )
        seq = draft.known.last_seq if seen is None else seen
        accepted = Accepted(seq=seq, duplicate=seen is not None, state=draft.known)
        return partial(answer.give, accepted)

    def _plan_edit(self, command: Edit, draft: _Draft) -> Callable[[], None]:
        state = draft.known
        seq = state.seen.get(command.idempotency_key)
        waits = not self._ending and any(message.seq == seq for message in state.waiting)
        if waits and seq is not None:
            draft.add(Edited(received=seq, text=command.text))
        return partial(command.answer.give, waits)

    def _plan_delivery(self, command: RecordDelivery, draft: _Draft) -> Callable[[], None]:
        """Add what a delivery port did; what cannot have happened is refused, and harms nobody."""
        if draft.known.status == "ended":
            ended = SessionEndedError(self.session_id, draft.known.ended_reason)
            return partial(command.answer.fail, ended)
        before = draft.mark()
        try:
            draft.add(*command.bodies)
        except CorruptJournalError as error:
            draft.go_back(before)
            return partial(command.answer.fail, error)
        return partial(command.answer.give, None)

    def _plan_share(self, command: Share, draft: _Draft) -> Callable[[], None]:
        state, answer = draft.known, command.answer
        ending = self._ending or (state.status == "ended" and state.ended_reason)
        if ending:
            return partial(answer.fail, SessionEndedError(self.session_id, ending))
        if (command.principal in state.shared_with) == command.is_withdrawn:
            draft.add(
                SessionShared(
                    principal=command.principal, by=command.by, is_withdrawn=command.is_withdrawn
                )
            )
        return partial(answer.give, draft.known.shared_with)

    def _plan_cancel(self, command: Cancel, draft: _Draft) -> Callable[[], None]:
        turn, answer = draft.known.open_turn, command.answer
        if turn is None:
            return partial(answer.give, value=False)
        if self._turn is not None:
            self._on_closed.append(answer)
            self._stop_turn("cancel", command.by)
            return _nothing
        draft.add(*close_turn(turn, "cancelled", "cancelled by its user", command.by))
        if draft.known.status == "paused":
            draft.add(StatusChanged(status="active"))
        return partial(answer.give, value=True)

    def _plan_retry(self, command: Retry, draft: _Draft) -> Callable[[], None]:
        state, key, answer = draft.known, command.idempotency_key, command.answer
        seen = state.seen.get(key) if key else None
        ending = self._ending or (state.status == "ended" and state.ended_reason)
        if seen is None:
            if ending:
                return partial(answer.fail, SessionEndedError(self.session_id, ending))
            failed, error = state.newest_turn, self._agent_error(state.key) or why_no_retry(state)
            if error is not None or failed is None:
                return partial(answer.fail, error or NothingToRetryError())
            if state.status == "paused":
                draft.add(StatusChanged(status="active"))
            draft.add(
                TurnStarted(
                    turn=state.turns + 1,
                    received=tuple(user.seq for user in failed.heard),
                    window_messages=state.window_messages,
                    delivers=self._delivery.delivers(state.key.channel),
                    retries=failed.number,
                    idempotency_key=key,
                )
            )
        seq = draft.known.last_seq if seen is None else seen
        accepted = Accepted(seq=seq, duplicate=seen is not None, state=draft.known)
        return partial(answer.give, accepted)

    def _plan_compact(self, command: Compact, draft: _Draft) -> Callable[[], None]:
        state = draft.known
        error: CoreError | None = self._agent_error(state.key)
        if self._ending or state.status == "ended":
            error = SessionEndedError(self.session_id, self._ending or state.ended_reason)
        agent = self._agent(state.key)
        if error is not None or agent is None:
            return partial(command.answer.fail, error or ActorStoppedError())
        return partial(self._compactor.ask, command.focus, command.answer, agent, self._tasks)

    def _plan_summary(
        self, body: Summarised, answer: ReplySlot[bool], draft: _Draft
    ) -> Callable[[], None]:
        state, known = draft.known, draft.known.reductions.summary
        fits = state.status != "ended" and (known is None or body.last_turn >= known.last_turn)
        if fits:
            draft.add(body)
        return partial(answer.give, fits)

    def _plan_disconnected(self, command: ClientDisconnected, draft: _Draft) -> Callable[[], None]:
        turn = draft.known.open_turn
        agent = self._agent(draft.known.key)
        waits = turn is not None and any(user.seq == command.seq for user in turn.heard)
        waits = waits and not (turn is not None and turn.delivers)  # its people are elsewhere
        if waits and agent is not None and agent.spec.session.on_disconnect == "pause":
            self._tasks.start_soon(self._pause_unless_followed, command.seq)
        return partial(command.answer.give, None)

    def _plan_pause(self, answer: ReplySlot[None], draft: _Draft) -> Callable[[], None]:
        self._turn = None  # its task only waits for this answer
        state, turn = draft.known, draft.known.open_turn
        wanted = state.is_asked or self._feed.followers or self._ending or has_new_word(state)
        if turn is not None and self._on_closed:  # a cancel came on the way to the pause
            draft.add(*close_turn(turn, "cancelled", "cancelled by its user"))
        elif turn is not None:
            # It goes on later, or at once, and must not run again what was cut short just now.
            draft.add(*close_interrupted(turn, is_repeatable(self._agent(state.key)), PAUSED))
            if not wanted:
                draft.add(StatusChanged(status="paused"))
        return partial(answer.give, None)

    def _plan_expiry(self, draft: _Draft) -> None:
        """End a session in which nothing was said for longer than its agent allows."""
        state = draft.state
        if state is None or not self._resumes:
            return
        agent = self._agent(state.key)
        if agent is None or not is_expired(state, agent.spec.session.ttl_hours, draft.now):
            return
        if not self._delivery.is_due:
            self._ending = self._ending or "expired"
            self._plan_end(draft)

    def _plan_end(self, draft: _Draft) -> None:
        if self._ending is None or draft.state is None or draft.state.status == "ended":
            return
        if draft.state.open_turn is not None:
            if self._turn is not None:
                return  # the turn is being cancelled; its end comes through the mailbox
            closed = close_turn(
                draft.state.open_turn, "cancelled", "the session was ended", self._ended_by
            )
            draft.add(*closed)
        draft.add(SessionEnded(reason=self._ending, by=self._ended_by))

    def _plan_turn(self, draft: _Draft) -> None:
        """Begin a turn over all that waits, in the same append as what made it possible."""
        state = draft.state
        if state is None or not state.is_asked or state.status != "active":
            return
        if state.open_turn is not None or self._ending or self._stopping or not self._resumes:
            return
        until = self._holds.until(draft.now)
        if until is not None:
            self._set_alarm(until, draft.now)
            return
        self._holds.release()
        agent = self._agent(state.key)
        limit, told_bytes = state.window_messages, 0
        window_tokens = self._window_tokens(agent)
        if window_tokens is not None:
            limit = window_messages(window_tokens)
            told_bytes = ambient_bytes(window_tokens) if state.ambient else 0
        draft.add(
            TurnStarted(
                turn=state.turns + 1,
                received=tuple(message.seq for message in next_turn(state.waiting)),
                window_messages=limit,
                ambient=tuple(e.seq for e in state.ambient if draft.now <= e.until),
                ambient_bytes=told_bytes,
                delivers=self._delivery.delivers(state.key.channel),
            )
        )
        if agent is not None and draft.known.open_turn is not None:
            draft.add(first_step(draft.known.open_turn, agent))

    async def _commit(self, draft: _Draft) -> None:
        """Journal, then apply; then let the turn that is open now run."""
        if draft.events:
            # What the disk has begun cannot be called off. Whoever is cancelled here would not know
            # whether it was written, and a message that is written must not be tried again.
            with anyio.CancelScope(shield=True):
                await self._runtime.store.append(
                    self.session_id, draft.events, expected_seq=draft.events[0].seq - 1
                )
            before, self._state = self._state, draft.state
            self._has_written, self._was_fenced = True, False
            self._runtime.observer.durable(before, draft.known, draft.events)
            self._checkpoint = draft.checkpoint or self._checkpoint
            self._feed.publish(draft.events)
            self._notify()
        state = self._state
        if state is None:
            return
        turn = state.open_turn
        if turn is None or turn.number != self._turn_number or state.status == "paused":
            self._turn = None  # the task that ran it has nothing left to do
            _give_all(self._on_closed, value=True)
        is_workable = state.status == "active" and self._resumes and not self._stopping
        if turn is not None and is_workable and not self._turn and turn.number != self._left_turn:
            self._turn, self._turn_number = anyio.CancelScope(), turn.number
            self._close_as = None  # what was asked of the turn before, in its last moment
            self._tasks.start_soon(self._run_turn, self._turn, turn.number)
        if self._resumes:
            self._delivery.begin(self._tasks)
        if state.status == "ended":
            self._passivate_after_s = 0.0
            _give_all(self._on_ended, value=None)

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _set_alarm(self, until: datetime, now: datetime) -> None:
        """Look again at `until` whether the turn that is held may begin."""
        if self._alarm is None or until < self._alarm:
            self._alarm = until
            self._tasks.start_soon(self._wait_and_wake, until, (until - now).total_seconds())

    async def _wait_and_wake(self, until: datetime, delay_s: float) -> None:
        await self._runtime.pace.clock.sleep(delay_s)
        if self._alarm == until:
            self._alarm = None
        with suppress(ActorStoppedError):  # then the next start begins it
            self._mailbox.put(Tick(ReplySlot()), own=True)

    # --- the running turn ---

    async def _run_turn(self, scope: anyio.CancelScope, number: int) -> None:
        """Run the open turn; when it is stopped on the way, close or pause it."""
        agent = self._agent(self.state.key)
        with self._runtime.observer.answering(self.state, number, agent):
            with scope:
                if agent is not None:
                    try:
                        await run_turn(self, number, agent, self._runtime.pace)
                    except ActorStoppedError:
                        if self._turn is not scope:
                            raise  # another one works on it, or will
                        if self._close_as is None and self._mailbox.is_refusing:
                            # The service stops: it goes on at the next start, and not before.
                            self._turn, self._left_turn = None, number
                            raise
                        self._close_as = self._close_as or "stopped"
                    else:
                        return
                    finally:
                        self._media.forget()
            await self._close_turn(number, agent)

    async def _close_turn(self, number: int, agent: Agent | None) -> None:
        """Close, or pause, a turn that was stopped on the way or that nobody can work on."""
        close_as, self._close_as = self._close_as, None
        turn = self.state.open_turn
        if turn is None or turn.number != number:
            return  # it came to its end in the same moment
        if agent is None:
            why = self._agent_error(self.state.key) or "its agent was away for a moment"
            await self.record(*close_turn(turn, "failed", str(why)))
        elif close_as == "stopped":
            await self.record(*close_turn(turn, "failed", "what it asked for had stopped"))
        elif close_as == "cancel":
            cancelled = close_turn(turn, "cancelled", "cancelled by its user", self._closed_by)
            await self.record(*cancelled)
        elif close_as == "pause":
            answer = ReplySlot[None]()
            self._mailbox.put(Pause(answer), own=True)
            await answer.wait()

    def _stop_turn(self, close_as: str, by: str = "") -> None:
        if self._turn is not None:
            self._close_as, self._closed_by = close_as, by
            self._turn.cancel()

    async def _pause_unless_followed(self, seq: int) -> None:
        await self._runtime.pace.clock.sleep(self._runtime.leave_grace_s)
        turn = self.state.open_turn
        waits = turn is not None and any(user.seq == seq for user in turn.heard)
        if waits and not self._feed.followers and self._close_as is None:
            self._stop_turn("pause")

    # --- helpers ---

    def _reason(self, error: BaseException) -> CoreError:
        """Return what to tell callers whose commands this failure took down."""
        if self._tasks.fault is not None:  # it called the command loop off, which failed of nothing
            error = self._tasks.fault
        elif not isinstance(error, Exception) and is_cancelled():
            return ActorStoppedError()
        cause = first_cause(error)
        return cause if isinstance(cause, CoreError) else ActorFailedError(self.session_id, cause)

    def _agent(self, key: ConversationKey) -> Agent | None:
        found = self._found(key)
        return found if isinstance(found, Agent) else None

    def _agent_error(self, key: ConversationKey) -> UnknownAgentError | None:
        found = self._found(key)
        return found if isinstance(found, UnknownAgentError) else None

    def _window_tokens(self, agent: Agent | None) -> int | None:
        """Return the window of the agent's model; None where nobody can say."""
        if agent is None:
            return None
        try:
            return input_window(
                agent.spec.model, self._runtime.model_statistics.of(agent.spec.model)
            )
        except Exception:  # a boundary: the turn begins all the same, and ends in words if it must
            logger.exception("a model's window is not known", extra={"agent": agent.spec.name})
            return None

    def _found(self, key: ConversationKey) -> Agent | UnknownAgentError:
        """Return the session's agent, or why there is none."""
        try:
            return self._runtime.agents.get(key.agent)
        except UnknownAgentError as error:
            return error
        except Exception as error:
            # A boundary: whatever is wrong with the agents ends no session.
            logger.exception("an agent cannot be had", extra={"agent": key.agent})
            return UnknownAgentError(key.agent, why=f"it cannot be had: {type(error).__name__}")

    def _is_snapshot_due(self) -> bool:
        """Whether the checkpoint moved, and enough events or what lists go by followed."""
        checkpoint, state, saved = self._checkpoint, self._state, self._saved
        if checkpoint is None or state is None:
            return False
        if saved is None:
            is_plain = state.status == "active" and not state.shared_with
            return state.last_seq >= SNAPSHOT_EVENTS or not is_plain
        if checkpoint.last_seq <= saved.last_seq:
            return False
        is_listed_so = (saved.status, saved.shared_with) == (state.status, state.shared_with)
        return state.last_seq - saved.last_seq >= SNAPSHOT_EVENTS or not is_listed_so

    async def _save(self, state: SessionState | None) -> None:
        """Save a snapshot if it says more than the saved one.

        A failure is logged and tried again later: the log has everything.

        Raises:
            FencedError: The log ends before `state` does: another writer was there.
        """
        if state is None or (self._saved is not None and state.last_seq <= self._saved.last_seq):
            return
        agent = self._agent(state.key)
        compaction = agent.spec.session.compaction if agent else "disabled"
        try:
            await self._runtime.store.save_snapshot(state, compaction=compaction)
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001 - a boundary: nobody waits for a snapshot
            self._log_failure("a snapshot could not be saved", error)
        else:
            self._saved = state

    def _log_failure(self, what: str, error: Exception) -> None:
        """Log what failed and is tried again; with the traceback where the text may not do."""
        logger.error(
            what,
            extra={"session_id": self.session_id, "error": str(error)},
            exc_info=None if isinstance(error, CoreError) else error,
        )


def _finished(state: SessionState) -> int:
    """Return how many turns of a session came to their end."""
    return state.turns - (state.open_turn is not None)


def _is_own(command: Command) -> bool:
    """Whether a task of the actor itself sent it, and not somebody who waits outside."""
    match command:
        case RecordTurn() | RecordDelivery() | Summary() | Pause():
            return True
        case ResolveApproval(own=own):
            return own
        case Tick(release=release):
            return not release
        case _:
            return False


def _goes_on_with(command: Command) -> bool:
    """Whether a session that does not go on by itself does with this command."""
    return not isinstance(
        command, End | StoreAmbient | ClientDisconnected | GetState | Share | Stop
    )


def _plan_resolve(command: ResolveApproval, draft: _Draft) -> Callable[[], None]:
    """Settle an approval; a word that comes too late, or from somebody else, changes nothing."""
    state, answer = draft.known, command.answer
    approval = find_approval(state, command.call_id)
    error = None if command.own else why_not(approval, command, draft.now)
    if error is not None:
        return partial(answer.fail, error)
    if approval is not None and approval.resolution is None:
        decided = ApprovalDecided(
            call_id=command.call_id, decision=command.resolution, by=command.by
        )
        draft.add(decided)
        if state.status == "paused" and not command.own:
            draft.add(StatusChanged(status="active"))
    return partial(answer.give, None)


def _nothing() -> None:
    """Answer later."""


def _give_all(answers: list[ReplySlot[T]], *, value: T) -> None:
    for answer in answers:
        answer.give(value)
    answers.clear()
