"""The life of a turn: begun, resumed, asked again, paused, cancelled. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from everturn_actors.context.estimation.window import window_messages
from everturn_actors.errors import CoreError, NothingToRetryError
from everturn_actors.events import StatusChanged, TurnStarted
from everturn_actors.protocol.commands import Accepted, Cancel, ClientDisconnected, Retry
from everturn_actors.session.approvals import has_new_decision
from everturn_actors.session.decide.decision import (
    AwaitFollower,
    Draft,
    Later,
    ReleaseTurn,
    ScheduleTick,
    StartTurn,
    StopTurn,
)
from everturn_actors.state.ambient import ambient_bytes
from everturn_actors.state.queue import next_turn
from everturn_actors.state.recovery import (
    PAUSED,
    close_interrupted,
    close_turn,
    first_step,
    why_no_retry,
)


def begin(draft: Draft) -> None:
    """Begin a turn over all that waits, in the same append as what made it possible."""
    state, context, memory = draft.state, draft.context, draft.memory
    # Ambient messages alone begin no turn: nobody waits for an answer to them.
    if state is None or not state.is_asked or state.status != "active":
        return
    if state.open_turn is not None or memory.ending or memory.is_stopping or not context.resumes:
        return
    # Somebody is still writing: a turn that began now would answer half a thought.
    until = memory.debounce.until(draft.now)
    if until is not None:
        draft.effects.append(ScheduleTick(until))
        return
    # All that waits goes into this turn, so that nothing is held any more.
    release(draft)
    # Numbers go into the event: a replay must not depend on the settings of its day.
    limit, told_bytes = state.window_messages, 0
    window_tokens = context.window_tokens()
    if window_tokens is not None:
        limit = window_messages(window_tokens)
        told_bytes = ambient_bytes(window_tokens) if state.ambient else 0
    draft.add(
        TurnStarted(
            turn=state.turns + 1,
            received=tuple([message.seq for message in next_turn(state.waiting)]),
            window_messages=limit,
            ambient=tuple([e.seq for e in state.ambient if draft.now <= e.until]),
            ambient_bytes=told_bytes,
            delivers=context.delivers,
        )
    )
    turn = draft.known.open_turn
    # Begun in the same append, which saves a sync before the first model call.
    if context.spec is not None and turn is not None:
        draft.add(first_step(turn, context.spec))


def work(draft: Draft) -> None:
    """Let go of a task whose turn is over, and start one for the turn that is open."""
    state = draft.state
    if state is None:
        return
    turn = state.open_turn
    is_over = turn is None or state.status == "paused"
    # The task may still be on its way out; it gets no say in another turn.
    if is_over or (draft.running and not draft.is_worked_on):
        _let_go(draft)
    is_workable = state.status == "active" and draft.context.resumes
    if turn is None or draft.running or not is_workable or draft.memory.is_stopping:
        return
    # A task that left this turn by itself leaves it for a person to wake: it would fail again.
    if turn.number != draft.context.left:
        draft.effects.append(StartTurn(turn.number))


def _let_go(draft: Draft) -> None:
    if draft.running or draft.is_cancelled:
        draft.running, draft.is_cancelled = 0, False
        draft.effects.append(ReleaseTurn())  # whoever asked for the cancel is answered with it


def release(draft: Draft) -> None:
    """Hold the next turn no longer."""
    debounce = draft.memory.debounce.release()
    if debounce is not draft.memory.debounce:
        draft.memory = replace(draft.memory, debounce=debounce)


def resume(draft: Draft) -> bool:
    """Let a paused turn go on; answer whether there was one."""
    is_paused = draft.known.status == "paused"
    if is_paused:
        draft.add(StatusChanged(status="active"))
    return is_paused


def cancel(command: Cancel, draft: Draft) -> bool | Later:
    """Close the open turn: at once, or when its task has let go of it."""
    turn = draft.known.open_turn
    if turn is None:
        return False
    # Its task writes the end itself, with what its calls had done until then.
    if draft.is_worked_on:
        draft.is_cancelled = True
        draft.effects.append(StopTurn(command.by))
        return Later.CLOSED
    draft.add(*close_turn(turn, "cancelled", "cancelled by its user", command.by))
    if draft.known.status == "paused":
        draft.add(StatusChanged(status="active"))
    return True


def retry(command: Retry, draft: Draft) -> Accepted | CoreError:
    """Ask the newest turn again, which failed."""
    state, key = draft.known, command.idempotency_key
    seen = state.seen.get(key) if key else None
    if seen is not None:
        return draft.accepted(seen)
    failed, error = state.newest_turn, draft.why_refused() or why_no_retry(state)
    if error is not None or failed is None:
        return error or NothingToRetryError()
    if state.status == "paused":
        draft.add(StatusChanged(status="active"))
    draft.add(
        TurnStarted(
            turn=state.turns + 1,
            # The same messages, those that steered it too.
            received=tuple(user.seq for user in failed.heard),
            window_messages=state.window_messages,
            delivers=draft.context.delivers,
            retries=failed.number,
            idempotency_key=key,
        )
    )
    return draft.accepted(None)


def leave(command: ClientDisconnected, draft: Draft) -> None:
    """Pause the turn a client waited for, by its agent's setting, unless somebody comes back."""
    turn, spec = draft.known.open_turn, draft.context.spec
    if turn is None or turn.delivers or spec is None:  # of one that is delivered, people wait
        return
    waits = any(user.seq == command.seq for user in turn.heard)
    # Not at once: a phone that changes its network is back in a second.
    if waits and spec.session.on_disconnect == "pause":
        draft.effects.append(AwaitFollower(command.seq))


def pause(draft: Draft) -> None:
    """Pause the turn whose task was stopped as nobody waits for it, unless somebody does again."""
    state, turn, is_cancelled = draft.known, draft.known.open_turn, draft.is_cancelled
    _let_go(draft)  # its task only waits for this answer
    if turn is None:
        return
    if is_cancelled:  # a cancel came on the way to the pause
        draft.add(*close_turn(turn, "cancelled", "cancelled by its user"))
        return
    # It goes on later, or at once, and must not run again what was cut short just now.
    draft.add(*close_interrupted(turn, draft.context.is_repeatable, PAUSED))
    is_wanted = draft.context.is_followed or draft.memory.ending or has_new_decision(state)
    if not state.is_asked and not is_wanted:
        draft.add(StatusChanged(status="paused"))


def close_cut_short(draft: Draft) -> None:
    """Close what a restart interrupted."""
    turn = draft.state.open_turn if draft.state else None
    if turn is not None and draft.memory.ending is None:
        draft.add(*close_interrupted(turn, draft.context.is_repeatable))
