"""What a session is at one moment, and the one function that takes it to the next. Pure.

The live path and the replay after a crash both call `apply`, so what is recovered is what was
running.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Final, assert_never

from everturn_actors.context.estimation.window import DEFAULT_WINDOW_MESSAGES, let_go
from everturn_actors.errors import CorruptJournalError
from everturn_actors.events import (
    Announced,
    ApprovalAsked,
    ApprovalDecided,
    CallFinished,
    CallStarted,
    ChunkMarked,
    ContextReduced,
    DeliveryPlanned,
    Discarded,
    Edited,
    Event,
    ModelCallFailed,
    ModelReplied,
    PreviewSent,
    Received,
    ReplyBroken,
    SessionEnded,
    SessionShared,
    SessionStarted,
    SilentMessage,
    StatusChanged,
    Steered,
    StepStarted,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import (
    Approval,
    Conversation,
    ConversationKey,
    OpenStep,
    OpenTurn,
    Outage,
    OutboxItem,
    PendingAmbient,
    PromptFingerprint,
    Reductions,
    Reply,
    SessionStatus,
    Steering,
    Step,
    Summary,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    UserMessage,
)
from everturn_actors.state.ambient import as_announced, with_ambient
from everturn_actors.state.outbox import (
    deliver,
    given_up,
    owed_announcement,
    owed_drop,
    owed_end,
    owed_files,
    owed_line,
    owed_question,
    owed_reply,
    undelivered_note,
    with_undelivered,
)
from everturn_actors.state.queue import keep_ambient

AMBIENT_S = 10 * 366 * 86_400  # the longest that one of them is kept, whatever it asks for
ANNOUNCED_S = 30 * 86_400  # so long an announcement waits for a turn that is told of it
NOTE_CHARACTERS = 1_000  # of what is told beside a summary, the newest
ROLL_MESSAGES = 50  # pending messages that become checkpointed at once
ROLL_EVENTS = 50  # or so many events, so that no snapshot leaves more to replay than about that
RETRIED: Final = frozenset(("failed", "interrupted"))  # outcomes of a turn that can be asked again
_END = datetime.max.replace(tzinfo=UTC)
_OVERTAKEN = -1  # in `PromptFingerprint.messages`: a summary came while the model was answering
COOL_DOWNS_S = (60, 300, 900)  # after the first, second and every further failed summary
SEEN_KEYS = (
    1000  # idempotency keys a session remembers; a client repeats its latest, not its oldest
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """Everything a session knows. Two equal states render the same bytes."""

    session_id: str
    key: ConversationKey
    created_at: datetime
    updated_at: datetime
    last_seq: int
    instructions: str = ""
    status: SessionStatus = "active"
    ended_reason: str = ""
    window_messages: int = DEFAULT_WINDOW_MESSAGES
    checkpoint_seq: int = 0
    "The event at which pending last became checkpointed."
    checkpointed: tuple[Turn, ...] = ()
    "Finished turns that stand in the snapshot, oldest first."
    checkpointed_messages: int = 0
    pending: tuple[Turn, ...] = ()
    "Finished turns since the checkpoint, oldest first. Never cut."
    pending_messages: int = 0
    open_turn: OpenTurn | None = None
    waiting: tuple[UserMessage, ...] = ()
    "Received, not yet in a turn, oldest first."
    seen: Mapping[str, int] = field(default_factory=dict[str, int])
    "Idempotency key -> the event of what came with it, oldest first."
    turns: int = 0
    "Turns started since the session began."
    logged_messages: int = 0
    "Messages of all turns since the session began, held or not."
    usage: Usage = Usage()
    "Tokens of all model calls of the session, those for summaries included."
    reductions: Reductions = field(default_factory=Reductions)
    "What is hidden from the model for good."
    fingerprint: PromptFingerprint = PromptFingerprint()
    "The last request; empty since the last reduction."
    reported: Usage = Usage()
    "What the provider reported for it."
    cache_misses: int = 0
    "Requests that did not begin with the one before, though nothing had been reduced."
    ambient: tuple[PendingAmbient, ...] = ()
    "What the next turn is told of besides, oldest first."
    outbox: tuple[OutboxItem, ...] = ()
    "What the people of the channel have not got yet, oldest first."
    principal: str = ""
    "Who began it; empty = a chat channel, or whoever runs the gateway."
    shared_with: tuple[str, ...] = ()
    "Who was given it besides, by name."

    @property
    def has_work(self) -> bool:
        """Whether something that was accepted is not answered yet."""
        return self.status != "ended" and (self.open_turn is not None or self.is_asked)

    @property
    def is_due(self) -> bool:
        """Whether the next start has to wake it: something goes on, or is to be delivered."""
        return bool(self.outbox) or (self.has_work and self.status != "paused")

    @property
    def is_asked(self) -> bool:
        """Whether a message waits that begins a turn."""
        return any(not message.quiet for message in self.waiting)

    @property
    def open_approvals(self) -> tuple[Approval, ...]:
        """Approvals that nobody has answered yet, in the order in which they were asked."""
        step = self.open_turn.step if self.open_turn else None
        approvals = step.approvals.values() if step else ()
        return tuple(each for each in approvals if each.resolution is None)

    @property
    def held_turns(self) -> tuple[Turn, ...]:
        """Finished turns in memory, oldest first."""
        return self.checkpointed + self.pending

    @property
    def newest_turn(self) -> Turn | None:
        """The newest of the finished turns in memory."""
        newest = self.pending or self.checkpointed
        return newest[-1] if newest else None

    @property
    def held_messages(self) -> int:
        """How many messages are in memory: checkpointed, pending and running."""
        held = self.checkpointed_messages + self.pending_messages
        return held if self.open_turn is None else held + _size_messages(self.open_turn)

    @property
    def conversation(self) -> Conversation:
        """What the model may be shown."""
        step = self.open_turn.step if self.open_turn else None
        running = 0 if step is None or step.reply is None else 1 + len(step.results)
        return Conversation(
            turns=self.held_turns,
            current=self.open_turn,
            left_messages=max(self.logged_messages - self.held_messages, 0),
            counted_messages=self.held_messages - running,
            instructions=self.instructions,
            reductions=self.reductions,
            fingerprint=self.fingerprint,
            reported=self.reported,
            window_messages=self.window_messages,
        )


def apply(state: SessionState | None, event: Event) -> SessionState:
    """Return the state after `event`.

    Raises:
        CorruptJournalError: The event cannot follow this state: a hole in the numbers, or a log
            that no version of Everturn could have written.
    """
    body = event.body
    if state is None:
        if not isinstance(body, SessionStarted) or event.seq != 1:
            raise _impossible(event, "a log begins with session_started, number 1")
        return SessionState(
            session_id=body.session_id,
            key=body.key,
            instructions=body.instructions,
            created_at=event.at,
            updated_at=event.at,
            last_seq=1,
            seen=dict.fromkeys(body.seen, 1),
            principal=body.principal,
        )
    if event.seq != state.last_seq + 1:
        raise _impossible(event, f"event {state.last_seq + 1} is missing")
    if state.status == "ended":
        raise _impossible(event, "the session has ended")
    match body:
        case SessionStarted():
            raise _impossible(event, "the session has begun already")
        case SessionShared():
            others = {each for each in state.shared_with if each != body.principal}
            given = others if body.is_withdrawn else others | {body.principal}
            # With a snapshot, as its head is what the list of sessions goes by.
            return _checkpoint(_advance(state, event, shared_with=tuple(sorted(given))))
        case Received():
            return _received(state, event, body)
        case SilentMessage():
            return _silent_message(state, event, body)
        case Announced():
            return _announced(state, event, body)
        case Edited():
            return _edited(state, event, body)
        case Discarded():
            return _discarded(state, event, body)
        case TurnStarted():
            return _turn_started(state, event, body)
        case StepStarted():
            return _step_started(state, event, body)
        case ModelReplied():
            return _model_replied(state, event, body)
        case ReplyBroken():
            return _reply_broken(state, event, body)
        case ModelCallFailed():
            return _model_call_failed(state, event, body)
        case Steered():
            return _steered(state, event, body)
        case ApprovalAsked():
            return _approval_asked(state, event, body)
        case ApprovalDecided():
            return _approval_decided(state, event, body)
        case CallStarted():
            return _call_started(state, event, body)
        case CallFinished():
            return _call_finished(state, event, body)
        case PreviewSent():
            return _preview_sent(state, event, body)
        case DeliveryPlanned() | ChunkMarked():
            return _delivered(state, event, body)
        case ContextReduced():
            return _context_reduced(state, event, body)
        case Summarised():
            return _summarised(state, event, body)
        case TurnFinished():
            return _turn_finished(state, event, body)
        case StatusChanged():
            if body.status == "ended":
                raise _impossible(event, "a session ends with session_ended")
            return _checkpoint(_advance(state, event, status=body.status))
        case SessionEnded():
            if state.open_turn is not None:
                raise _impossible(event, "a turn is open")
            return _checkpoint(
                _advance(
                    state,
                    event,
                    status="ended",
                    ended_reason=body.reason,
                    waiting=(),
                    ambient=(),
                    outbox=(),
                )
            )
        case _:
            assert_never(body)


def _after(event: Event, seconds: float) -> datetime:
    """Return when so many seconds have passed since an event; at the latest when time ends."""
    try:
        return event.at + timedelta(seconds=seconds)
    except OverflowError:
        return _END


def _impossible(event: Event, why: str) -> CorruptJournalError:
    kind = type(event.body).__name__
    return CorruptJournalError(f"event {event.seq} ({kind}) cannot stand here: {why}")


_NAMES = tuple(each.name for each in fields(SessionState))
_values_of = attrgetter(*_NAMES)


def _advance(state: SessionState, event: Event, **changes: object) -> SessionState:
    """Return what `replace` would, in two thirds of its time: a replay does little else."""
    new, put = object.__new__(SessionState), object.__setattr__
    for name, value in zip(_NAMES, _values_of(state), strict=True):
        put(new, name, value)
    put(new, "last_seq", event.seq)
    put(new, "updated_at", event.at)
    for name, value in changes.items():
        put(new, name, value)
    return new


def _received(state: SessionState, event: Event, body: Received) -> SessionState:
    message = UserMessage(
        seq=event.seq,
        text=body.text,
        sender=body.sender,
        attachments=body.attachments,
        untrusted=body.untrusted,
        reply_to=body.reply_to,
        joins=body.joins,
        quiet=body.quiet,
        retry_for_s=body.retry_for_s,
    )
    seen = _seen(state, event, body.idempotency_key)
    return _advance(state, event, waiting=(*state.waiting, message), seen=seen)


def _discarded(state: SessionState, event: Event, body: Discarded) -> SessionState:
    gone = _waiting(state, event, body.received)
    waiting = tuple(message for message in state.waiting if message not in gone)
    turn = state.open_turn
    if turn is None or turn.told_of_drops or all(message.quiet for message in gone):
        return _advance(state, event, waiting=waiting)
    outbox = (*state.outbox, *owed_drop(event, turn, body))
    turn = replace(turn, told_of_drops=turn.delivers)
    return _advance(state, event, waiting=waiting, open_turn=turn, outbox=outbox)


def _seen(state: SessionState, event: Event, key: str) -> Mapping[str, int]:
    if not key:
        return state.seen
    seen = {**state.seen, key: event.seq}
    if len(seen) > SEEN_KEYS:
        del seen[next(iter(seen))]
    return seen


def _silent_message(state: SessionState, event: Event, body: SilentMessage) -> SessionState:
    seen = _seen(state, event, body.idempotency_key)
    if not body.shown:
        return _advance(state, event, seen=seen)
    heard = PendingAmbient(
        seq=event.seq,
        text=body.text,
        until=_after(event, min(max(body.max_age_s, 0), AMBIENT_S)),
        sender=body.sender,
        untrusted=body.untrusted,
    )
    return _advance(
        state, event, ambient=keep_ambient(state.ambient, heard, body.max_messages), seen=seen
    )


def _announced(state: SessionState, event: Event, body: Announced) -> SessionState:
    said = PendingAmbient(
        seq=event.seq,
        text=as_announced(body.title, body.text),
        until=_after(event, ANNOUNCED_S),
        sender=body.sender,
        untrusted=body.untrusted,
        own=True,
    )
    return _advance(
        state,
        event,
        ambient=keep_ambient(state.ambient, said),
        outbox=(*state.outbox, *owed_announcement(event, state.turns, body)),
        seen=_seen(state, event, body.idempotency_key),
    )


def _edited(state: SessionState, event: Event, body: Edited) -> SessionState:
    if all(message.seq != body.received for message in state.waiting):
        raise _impossible(event, "the message does not wait")
    waiting = tuple(
        replace(message, text=body.text) if message.seq == body.received else message
        for message in state.waiting
    )
    return _advance(state, event, waiting=waiting)


def _waiting(
    state: SessionState, event: Event, received: tuple[int, ...]
) -> tuple[UserMessage, ...]:
    """Return the messages with these numbers, which must all wait."""
    users = tuple(m for m in state.waiting if m.seq in received)
    if len(users) != len(received) or not users:
        raise _impossible(event, "it names messages that do not wait")
    return users


def _turn_started(state: SessionState, event: Event, body: TurnStarted) -> SessionState:
    if state.open_turn is not None:
        raise _impossible(event, f"turn {state.open_turn.number} is open")
    if body.turn != state.turns + 1:
        raise _impossible(event, "it has a wrong number")
    if body.retries:
        return _turn_retried(state, event, body)
    users = _waiting(state, event, body.received)
    told = tuple(each for each in state.ambient if each.seq in body.ambient)
    if len(told) != len(body.ambient):
        raise _impossible(event, "it tells of messages that were not kept for it")
    return _window(
        _advance(
            state,
            event,
            open_turn=OpenTurn(
                number=body.turn,
                users=with_ambient(users, told, body.ambient_bytes),
                started_at=event.at,
                delivers=body.delivers,
            ),
            ambient=(),
            waiting=tuple(m for m in state.waiting if m.seq not in body.received),
            turns=body.turn,
            window_messages=body.window_messages,
            logged_messages=state.logged_messages + len(users),
        )
    )


def _turn_retried(state: SessionState, event: Event, body: TurnStarted) -> SessionState:
    """Let a turn take the place of the newest one, which failed, with all that stood in it."""
    failed = state.newest_turn
    if failed is None or failed.number != body.retries or failed.outcome not in RETRIED:
        raise _impossible(
            event, "the turn it is to take the place of is not there, or did not fail"
        )
    if body.received != tuple(user.seq for user in failed.heard):
        raise _impossible(event, "its messages are not those of the turn whose place it takes")
    size = failed.size_messages
    left: dict[str, object] = (
        {"pending": state.pending[:-1], "pending_messages": state.pending_messages - size}
        if state.pending
        else {
            "checkpointed": state.checkpointed[:-1],
            "checkpointed_messages": state.checkpointed_messages - size,
        }
    )
    return _window(
        _advance(
            state,
            event,
            open_turn=OpenTurn(
                number=body.turn,
                users=failed.users,
                started_at=event.at,
                steps=failed.steps,
                steered=failed.steered,
                delivers=body.delivers,
                retried_steps=len(failed.steps),
            ),
            turns=body.turn,
            window_messages=body.window_messages,
            seen=_seen(state, event, body.idempotency_key),
            fingerprint=replace(
                state.fingerprint, prefix="", messages=0
            ),  # it had another turn in it
            **left,
        )
    )


def _steered(state: SessionState, event: Event, body: Steered) -> SessionState:
    turn = _open_turn(state, event)
    if (turn.step is not None and turn.outage is None) or body.turn != turn.number:
        raise _impossible(event, "a step is open, or the number is wrong")
    if not turn.steps and turn.outage is None:
        raise _impossible(event, "the turn has no step yet that a message could come after")
    users = _waiting(state, event, body.received)
    steered, after = turn.steered, len(turn.steps)
    if not turn.steps:  # nothing was said yet: they are of those that the turn answers
        return _heard_more(state, event, replace(turn, users=(*turn.users, *users)), body)
    came = users
    if steered and steered[-1].after_steps == after:  # a crash came before the next step
        steered, came = steered[:-1], (*steered[-1].users, *users)
    steering = Steering(after_steps=after, users=came)
    return _heard_more(state, event, replace(turn, steered=(*steered, steering)), body)


def _heard_more(state: SessionState, event: Event, turn: OpenTurn, body: Steered) -> SessionState:
    return _window(
        _advance(
            state,
            event,
            open_turn=turn,
            waiting=tuple(m for m in state.waiting if m.seq not in body.received),
            logged_messages=state.logged_messages + len(body.received),
        )
    )


def _open_turn(state: SessionState, event: Event) -> OpenTurn:
    if state.open_turn is None:
        raise _impossible(event, "no turn is open")
    return state.open_turn


def _open_calls(
    state: SessionState, event: Event, call_id: str
) -> tuple[OpenTurn, OpenStep, Reply]:
    """Return the running step, which must still wait for the result of `call_id`."""
    turn = _open_turn(state, event)
    step = turn.step
    if step is None or step.reply is None or call_id in step.results:
        raise _impossible(event, f"call {call_id!r} does not wait for a result")
    if all(call.call_id != call_id for call in step.reply.calls):
        raise _impossible(event, f"the reply makes no call {call_id!r}")
    return turn, step, step.reply


def _step_started(state: SessionState, event: Event, body: StepStarted) -> SessionState:
    turn = _open_turn(state, event)
    if turn.step is not None or body.turn != turn.number or body.step != len(turn.steps) + 1:
        raise _impossible(event, "another step is open, or the number is wrong")
    if turn.preview_step and turn.preview_step != body.step:
        # A try that broke off was shown, and the reply that came then had no text to put there.
        stays = bool(turn.preview_id) and not turn.steps[-1].reply.text.strip()
        step, name = (body.step, turn.preview_id) if stays else (0, "")
        turn = replace(turn, preview_step=step, preview_id=name)
    return _advance(state, event, open_turn=replace(turn, step=OpenStep()))


def _model_replied(state: SessionState, event: Event, body: ModelReplied) -> SessionState:
    turn = _open_turn(state, event)
    if turn.step is None or turn.step.reply is not None:
        raise _impossible(event, "no step waits for a reply")
    if len({call.call_id for call in body.calls}) < len(body.calls):
        raise _impossible(event, "two of its calls have the same id")
    reply = Reply(
        seq=event.seq,
        text=body.text,
        reasoning=body.reasoning,
        calls=body.calls,
        usage=body.usage,
        stop_reason=body.stop_reason,
        model=body.model,
        opaque=body.opaque,
        fallback=body.fallback,
        outside=body.outside,
        retells=body.retells,
    )
    # The request told of a broken reply, and no later one will: nothing to compare the next with.
    is_passing = bool(turn.broken) or _overtaken(state)
    outbox = (*state.outbox, *owed_reply(event, turn, body))
    if body.calls:
        turn = replace(turn, step=OpenStep(reply=reply), broken=(), outage=None)
    else:
        steps = (*turn.steps, Step(reply=reply))
        turn = replace(turn, step=None, steps=steps, broken=(), outage=None)
    return _window(
        _advance(
            state,
            event,
            open_turn=turn,
            logged_messages=state.logged_messages + 1,
            outbox=outbox,
            usage=state.usage + body.usage,
            fingerprint=replace(body.fingerprint, prefix="", messages=0)
            if is_passing
            else body.fingerprint,
            reported=Usage() if body.fallback else body.usage,  # another model's say nothing
            cache_misses=state.cache_misses + body.fingerprint.is_cache_miss,
        )
    )


def _reply_broken(state: SessionState, event: Event, body: ReplyBroken) -> SessionState:
    turn = _open_turn(state, event)
    if turn.step is None or turn.step.reply is not None or body.step != len(turn.steps) + 1:
        raise _impossible(event, "no step waits for a reply, or the number is wrong")
    return _advance(
        state,
        event,
        open_turn=replace(turn, broken=(*turn.broken, body.reason), outage=None),
        usage=state.usage + body.usage,
    )


def _model_call_failed(state: SessionState, event: Event, body: ModelCallFailed) -> SessionState:
    turn, before = _open_turn(state, event), state.open_turn and state.open_turn.outage
    if turn.step is None or turn.step.reply is not None or body.step != len(turn.steps) + 1:
        raise _impossible(event, "no step waits for a reply, or the number is wrong")
    if body.attempt != (before.attempts if before else 0) + 1:
        raise _impossible(event, "a failure before it is missing")
    outage = Outage(
        attempts=body.attempt,
        since=before.since if before else event.at,
        failed_at=event.at,
        retry_at=_after(event, body.retry_in_ms / 1000),
        give_up_at=before.give_up_at if before else _after(event, body.give_up_in_ms / 1000),
        error=body.error,
    )
    told = turn.told_of_outage or body.tells
    outbox = (*state.outbox, *owed_line(event, turn, body))
    turn = replace(turn, outage=outage, told_of_outage=told)
    return _advance(state, event, open_turn=turn, outbox=outbox)


def _approval_asked(state: SessionState, event: Event, body: ApprovalAsked) -> SessionState:
    turn, step, _ = _open_calls(state, event, body.call_id)
    if body.call_id in step.started:
        raise _impossible(event, "the call has begun")
    approval = Approval(
        call_id=body.call_id,
        arguments_hash=body.arguments_hash,
        expires_at=_after(event, body.timeout_s),
        reason=body.reason,
        pattern=body.pattern,
        approvers=body.approvers,
        files=body.files,
    )
    step = replace(step, approvals={**step.approvals, body.call_id: approval})
    outbox = (*state.outbox, *owed_question(event, turn, body))
    return _advance(state, event, open_turn=replace(turn, step=step), outbox=outbox)


def _approval_decided(state: SessionState, event: Event, body: ApprovalDecided) -> SessionState:
    turn, step, _ = _open_calls(state, event, body.call_id)
    approval = step.approvals.get(body.call_id)
    if approval is None or approval.resolution is not None:
        raise _impossible(event, "no approval waits for a word")
    resolution = replace(approval, resolution=body.decision, by=body.by)
    step = replace(step, approvals={**step.approvals, body.call_id: resolution})
    return _advance(state, event, open_turn=replace(turn, step=step))


def _call_started(state: SessionState, event: Event, body: CallStarted) -> SessionState:
    turn, step, _ = _open_calls(state, event, body.call_id)
    step = replace(step, started=(*step.started, body.call_id))
    return _advance(state, event, open_turn=replace(turn, step=step))


def _call_finished(state: SessionState, event: Event, body: CallFinished) -> SessionState:
    turn, step, reply = _open_calls(state, event, body.call_id)
    call: ToolCall = next(c for c in reply.calls if c.call_id == body.call_id)
    outbox = (*state.outbox, *owed_files(event, turn, body))
    if body.attachments:
        turn = replace(turn, sent_files=True)
    result = ToolResult(
        seq=event.seq,
        call_id=call.call_id,
        name=call.name,
        text=body.text,
        is_error=body.is_error,
        path=body.path,
        untrusted=body.untrusted,
        source=body.source,
        is_refused=body.is_refused,
    )
    results = {**step.results, body.call_id: result}
    if len(results) == len(reply.calls):
        done = Step(reply=reply, results=tuple(results[c.call_id] for c in reply.calls))
        turn = replace(turn, step=None, steps=(*turn.steps, done))
    else:
        turn = replace(turn, step=replace(step, results=results))
    return _advance(
        state, event, open_turn=turn, logged_messages=state.logged_messages + 1, outbox=outbox
    )


def _preview_sent(state: SessionState, event: Event, body: PreviewSent) -> SessionState:
    turn = state.open_turn
    if not 0 < body.turn <= state.turns or body.step < 1:
        raise _impossible(event, "it shows what was not begun")
    if (body.mark == "sent") != bool(body.platform_id):
        raise _impossible(event, "a message has a name when it is there, and no sooner")
    if turn is not None and turn.number == body.turn and turn.delivers:
        begun = len(turn.steps) + (turn.step is not None)
        if body.step > begun:
            raise _impossible(event, "it shows a step that was not begun")
        if body.step == begun and turn.step is not None and turn.step.reply is None:
            step = 0 if body.mark == "unsent" else body.step
            shown = replace(turn, preview_step=step, preview_id=body.platform_id)
            return _advance(state, event, open_turn=shown)
    # The platform answered after the model did: the reply takes its place all the same.
    seq = _seq_of_reply(state, body.turn, body.step)
    unknown = body.step if body.mark == "sending" else 0
    outbox = tuple(
        replace(item, preview=body.platform_id, preview_step=unknown)
        if item.seq == seq and item.chunks is None
        else item
        for item in state.outbox
    )
    return _advance(state, event, outbox=outbox)


def _seq_of_reply(state: SessionState, number: int, step: int) -> int:
    """Return the event of the reply of a step; 0 where there is none, or it is not held."""
    turn = state.open_turn
    if turn is not None and turn.number == number:
        running = turn.step.reply if turn.step is not None else None
        if running is not None and step == len(turn.steps) + 1:
            return running.seq
        steps = turn.steps
    else:
        held = reversed(state.held_turns)
        steps = next((each.steps for each in held if each.number == number), ())
    return steps[step - 1].reply.seq if step <= len(steps) else 0


def _delivered(
    state: SessionState, event: Event, body: DeliveryPlanned | ChunkMarked
) -> SessionState:
    try:
        outbox = deliver(state.outbox, body)
    except ValueError as error:
        raise _impossible(event, str(error)) from error
    lost = given_up(state.outbox, body)
    if lost is None:
        return _advance(state, event, outbox=outbox)
    # Nothing is given up in silence: people are owed a word of it, and the model is told.
    heard = PendingAmbient(
        seq=event.seq, text=undelivered_note(lost), until=_after(event, ANNOUNCED_S), own=True
    )
    return _advance(
        state,
        event,
        outbox=with_undelivered(outbox, event, lost),
        ambient=keep_ambient(state.ambient, heard),
    )


def _context_reduced(state: SessionState, event: Event, body: ContextReduced) -> SessionState:
    if body.cut_turn > _last_finished(state) + 1:
        raise _impossible(event, "it hides a turn that is not finished")
    if max((*body.dropped, *(each.seq for each in body.replaced)), default=0) >= event.seq:
        raise _impossible(event, "it hides what is not yet said")
    old = state.reductions
    new = replace(
        old,
        cut_turn=max(old.cut_turn, body.cut_turn),
        dropped=old.dropped.union(body.dropped),
        replaced={**old.replaced, **{each.seq: each for each in body.replaced}},
        note=f"{old.note}\n{body.note}".strip()[-NOTE_CHARACTERS:],
    )
    outbox = (*state.outbox, *owed_line(event, state.open_turn, body))
    return _stand(state, event, new, outbox=outbox)


def _summarised(state: SessionState, event: Event, body: Summarised) -> SessionState:
    old = state.reductions
    before = old.summary.last_turn if old.summary else 0
    if not before <= body.last_turn <= _last_finished(state):
        raise _impossible(event, "it tells of less than the summary before, or of what is to come")
    failures = old.failures + 1 if body.error else 0
    new = replace(
        old,
        cut_turn=max(old.cut_turn, body.last_turn + 1),
        summary=Summary(
            last_turn=body.last_turn,
            messages=body.messages,
            text=body.text,
            source=body.source,
            path=body.path,
            outside=body.outside,
        ),
        note="" if old.note in body.text else old.note,  # one may have come while it was made
        failures=failures,
        retry_at=_after(event, cool_down(failures).total_seconds()) if failures else None,
    )
    state = _stand(state, event, new, usage=state.usage + body.usage)
    step = state.open_turn.step if state.open_turn else None
    if step is None or step.reply is not None:
        return state
    # A request that does not know of it is on its way: the next one cannot begin with that.
    return replace(state, fingerprint=replace(state.fingerprint, messages=_OVERTAKEN))


def _overtaken(state: SessionState) -> bool:
    return state.fingerprint.messages == _OVERTAKEN


def _last_finished(state: SessionState) -> int:
    return state.turns - (state.open_turn is not None)


def cool_down(failures: int) -> timedelta:
    """Return how long no model is asked for a summary after so many failures in a row."""
    return timedelta(seconds=COOL_DOWNS_S[min(failures, len(COOL_DOWNS_S)) - 1])


def _stand(
    state: SessionState, event: Event, reductions: Reductions, **changes: object
) -> SessionState:
    """Return the state in which this is hidden, and nothing is left to compare a request with."""
    shown = next((t for t in state.held_turns if t.number >= reductions.cut_turn), state.open_turn)
    first = shown.users[0].seq if shown is not None else state.last_seq
    tidy = replace(  # what is said of single messages that are not shown anyway is forgotten
        reductions,
        dropped=frozenset(seq for seq in reductions.dropped if seq >= first),
        replaced={seq: each for seq, each in reductions.replaced.items() if seq >= first},
    )
    fingerprint = replace(
        state.fingerprint, prefix="", messages=0
    )  # what it cost is still worth knowing
    return _advance(state, event, reductions=tidy, fingerprint=fingerprint, **changes)


def _turn_finished(state: SessionState, event: Event, body: TurnFinished) -> SessionState:
    turn = _open_turn(state, event)
    if body.turn != turn.number or (turn.step is not None and turn.step.reply is not None):
        raise _impossible(event, "a call has no result, or the number is wrong")
    done = turn.finished(body.outcome, body.error)
    state = _advance(
        state,
        event,
        open_turn=None,
        outbox=(*state.outbox, *owed_end(event, turn, body)),
        pending=(*state.pending, done),
        pending_messages=state.pending_messages + done.size_messages,
    )
    since_events = state.last_seq - state.checkpoint_seq
    if state.pending_messages >= ROLL_MESSAGES or since_events >= ROLL_EVENTS:
        return _checkpoint(state)
    return state


def _size_messages(turn: OpenTurn) -> int:
    held = turn.size_messages
    if turn.step is not None and turn.step.reply is not None:
        held += 1 + len(turn.step.results)
    return held


def _checkpoint(state: SessionState) -> SessionState:
    """Make all pending turns checkpointed."""
    return _window(
        replace(
            state,
            checkpoint_seq=state.last_seq,
            checkpointed=state.checkpointed + state.pending,
            checkpointed_messages=state.checkpointed_messages + state.pending_messages,
            pending=(),
            pending_messages=0,
        )
    )


def _window(state: SessionState) -> SessionState:
    """Let whole turns leave the old end until the messages fit the window."""
    held = state.held_messages
    if held <= state.window_messages or not state.checkpointed:
        return state
    turns, messages = let_go(
        state.checkpointed, held_messages=held, limit_messages=state.window_messages
    )
    return replace(
        state,
        checkpointed=state.checkpointed[turns:],
        checkpointed_messages=state.checkpointed_messages - messages,
    )
