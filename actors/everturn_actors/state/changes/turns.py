"""Turns as they begin, go on and end, and the replies of the model in them. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from everturn_actors.events import (
    Event,
    ModelCallFailed,
    ModelReplied,
    PromptCounted,
    ReplyBroken,
    Steered,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import OpenStep, OpenTurn, Outage, Reply, Steering, Step, Usage
from everturn_actors.state.ambient import with_ambient
from everturn_actors.state.changes.messages import with_seen
from everturn_actors.state.changes.steps import (
    advance,
    after,
    impossible,
    is_overtaken,
    needed_messages,
    needed_turn,
    with_checkpoint,
    within_window,
)
from everturn_actors.state.outbox import end_items, line_items, reply_items
from everturn_actors.state.session_state import SessionState

ROLL_MESSAGES = 50  # pending messages that become checkpointed at once


ROLL_EVENTS = 50  # or so many events, so that no snapshot leaves more to replay than about that


RETRIED: Final = frozenset(("failed", "interrupted"))  # outcomes of a turn that can be asked again


def apply_turn_started(state: SessionState, event: Event, body: TurnStarted) -> SessionState:
    """Open a turn over messages that wait, or in the place of one that failed."""
    if state.open_turn is not None:
        raise impossible(event, f"turn {state.open_turn.number} is open")
    if body.turn != state.turns + 1:
        raise impossible(event, "it has a wrong number")
    if body.retries:
        return _turn_retried(state, event, body)
    users = needed_messages(state, event, body.received)
    told = tuple([each for each in state.ambient if each.seq in body.ambient])
    if len(told) != len(body.ambient):
        raise impossible(event, "it tells of messages that were not kept for it")
    return within_window(
        advance(
            state,
            event,
            open_turn=OpenTurn(
                number=body.turn,
                users=with_ambient(users, told, body.ambient_bytes),
                started_at=event.at,
                delivers=body.delivers,
            ),
            ambient=(),
            waiting=tuple([m for m in state.waiting if m.seq not in body.received]),
            turns=body.turn,
            window_messages=body.window_messages,
            logged_messages=state.logged_messages + len(users),
        )
    )


def _turn_retried(state: SessionState, event: Event, body: TurnStarted) -> SessionState:
    """Let a turn take the place of the newest one, which failed, with all that stood in it."""
    failed = state.newest_turn
    if failed is None or failed.number != body.retries or failed.outcome not in RETRIED:
        raise impossible(event, "the turn it is to take the place of is not there, or did not fail")
    if body.received != tuple(user.seq for user in failed.heard):
        raise impossible(event, "its messages are not those of the turn whose place it takes")
    size = failed.size_messages
    left: dict[str, object] = (
        {"pending": state.pending[:-1], "pending_messages": state.pending_messages - size}
        if state.pending
        else {
            "checkpointed": state.checkpointed[:-1],
            "checkpointed_messages": state.checkpointed_messages - size,
        }
    )
    return within_window(
        advance(
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
                quoted=failed.quoted,
            ),
            turns=body.turn,
            window_messages=body.window_messages,
            seen=with_seen(state, event, body.idempotency_key),
            fingerprint=replace(
                state.fingerprint, prefix="", messages=0
            ),  # it had another turn in it
            **left,
        )
    )


def apply_steered(state: SessionState, event: Event, body: Steered) -> SessionState:
    """Let the open turn read messages that came meanwhile."""
    turn = needed_turn(state, event)
    if (turn.step is not None and turn.outage is None) or body.turn != turn.number:
        raise impossible(event, "a step is open, or the number is wrong")
    if not turn.steps and turn.outage is None:
        raise impossible(event, "the turn has no step yet that a message could come after")
    users = needed_messages(state, event, body.received)
    steered, after = turn.steered, len(turn.steps)
    if not turn.steps:  # nothing was said yet: they are of those that the turn answers
        return _heard_more(state, event, replace(turn, users=(*turn.users, *users)), body)
    came = users
    if steered and steered[-1].after_steps == after:  # a crash came before the next step
        steered, came = steered[:-1], (*steered[-1].users, *users)
    steering = Steering(after_steps=after, users=came)
    return _heard_more(state, event, replace(turn, steered=(*steered, steering)), body)


def _heard_more(state: SessionState, event: Event, turn: OpenTurn, body: Steered) -> SessionState:
    return within_window(
        advance(
            state,
            event,
            open_turn=turn,
            waiting=tuple(m for m in state.waiting if m.seq not in body.received),
            logged_messages=state.logged_messages + len(body.received),
        )
    )


def apply_step_started(state: SessionState, event: Event, body: StepStarted) -> SessionState:
    """Open the next step: the model is called."""
    turn = needed_turn(state, event)
    if turn.step is not None or body.turn != turn.number or body.step != len(turn.steps) + 1:
        raise impossible(event, "another step is open, or the number is wrong")
    if turn.preview_step and turn.preview_step != body.step:
        # A try that broke off was shown, and the reply that came then had no text to put there.
        stays = bool(turn.preview_id) and not turn.steps[-1].reply.text.strip()
        step, name = (body.step, turn.preview_id) if stays else (0, "")
        turn = replace(turn, preview_step=step, preview_id=name)
    return advance(state, event, open_turn=replace(turn, step=OpenStep()))


def apply_model_replied(state: SessionState, event: Event, body: ModelReplied) -> SessionState:
    """Close the step with a reply, or let it wait for the results of its calls."""
    turn = needed_turn(state, event)
    if turn.step is None or turn.step.reply is not None:
        raise impossible(event, "no step waits for a reply")
    if len({call.call_id for call in body.calls}) < len(body.calls):
        raise impossible(event, "two of its calls have the same id")
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
    is_passing = bool(turn.broken) or is_overtaken(state)
    outbox = (*state.outbox, *reply_items(event, turn, body))
    if body.images and turn.delivers:
        turn = replace(turn, sent_files=True)
    if body.calls:
        turn = replace(turn, step=OpenStep(reply=reply), broken=(), outage=None)
    else:
        steps = (*turn.steps, Step(reply=reply))
        turn = replace(turn, step=None, steps=steps, broken=(), outage=None)
    return within_window(
        advance(
            state,
            event,
            open_turn=turn,
            logged_messages=state.logged_messages + 1,
            outbox=outbox,
            usage=state.usage + body.usage,
            fingerprint=replace(body.fingerprint, prefix="", messages=0)
            if is_passing
            else body.fingerprint,
            replied_at=event.at,
            reported=Usage() if body.fallback else body.usage,  # another model's say nothing
            cache_misses=state.cache_misses + body.fingerprint.is_cache_miss,
        )
    )


def apply_prompt_counted(state: SessionState, event: Event, body: PromptCounted) -> SessionState:
    """Know what the next request costs, as if it had been sent and reported."""
    turn = needed_turn(state, event)
    if turn.step is None or turn.step.reply is not None or body.turn != turn.number:
        raise impossible(event, "no step waits for a reply, or the number is wrong")
    return advance(
        state,
        event,
        fingerprint=body.fingerprint,
        # What a cache served of the request before says that there is a cache.
        reported=replace(state.reported, input_tokens=body.tokens, output_tokens=0),
        cache_misses=state.cache_misses + body.fingerprint.is_cache_miss,
    )


def apply_reply_broken(state: SessionState, event: Event, body: ReplyBroken) -> SessionState:
    """Note a reply that could not be used: the model is told, and called again."""
    turn = needed_turn(state, event)
    if turn.step is None or turn.step.reply is not None or body.step != len(turn.steps) + 1:
        raise impossible(event, "no step waits for a reply, or the number is wrong")
    return advance(
        state,
        event,
        open_turn=replace(turn, broken=(*turn.broken, body.reason), outage=None),
        usage=state.usage + body.usage,
    )


def apply_model_call_failed(
    state: SessionState, event: Event, body: ModelCallFailed
) -> SessionState:
    """Note a failed call: it is made again later."""
    turn, before = needed_turn(state, event), state.open_turn and state.open_turn.outage
    if turn.step is None or turn.step.reply is not None or body.step != len(turn.steps) + 1:
        raise impossible(event, "no step waits for a reply, or the number is wrong")
    if body.attempt != (before.attempts if before else 0) + 1:
        raise impossible(event, "a failure before it is missing")
    outage = Outage(
        attempts=body.attempt,
        since=before.since if before else event.at,
        failed_at=event.at,
        retry_at=after(event, body.retry_in_ms / 1000),
        give_up_at=before.give_up_at if before else after(event, body.give_up_in_ms / 1000),
        error=body.error,
    )
    told = turn.notified_of_outage or body.tells
    outbox = (*state.outbox, *line_items(event, turn, body))
    turn = replace(turn, outage=outage, notified_of_outage=told)
    return advance(state, event, open_turn=turn, outbox=outbox)


def apply_turn_finished(state: SessionState, event: Event, body: TurnFinished) -> SessionState:
    """Close the open turn; where enough is pending, this is a checkpoint."""
    turn = needed_turn(state, event)
    if body.turn != turn.number or (turn.step is not None and turn.step.reply is not None):
        raise impossible(event, "a call has no result, or the number is wrong")
    done = turn.finished(body.outcome, body.error)
    state = advance(
        state,
        event,
        open_turn=None,
        outbox=(*state.outbox, *end_items(event, turn, body)),
        pending=(*state.pending, done),
        pending_messages=state.pending_messages + done.size_messages,
    )
    since_events = state.last_seq - state.checkpoint_seq
    if state.pending_messages >= ROLL_MESSAGES or since_events >= ROLL_EVENTS:
        return with_checkpoint(state)
    return state
