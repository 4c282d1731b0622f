"""Whether a state that was read, perhaps after somebody edited it, is one to go on from. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TypeAlias

from everturn_actors.model import OpenStep, OpenTurn, Reply, Turn
from everturn_actors.state.session_state import SessionState

Fault: TypeAlias = tuple[str, str]
"The path of a field, and what is wrong with it."


def find_fault(state: SessionState) -> Fault | None:
    """Return the first thing that no session could have come to; None where there is none."""
    return next(_faults(state), None)


def _faults(state: SessionState) -> Iterator[Fault]:
    yield from _fault_of_numbers(state)
    for path, moment in _timestamps(state):
        if moment.utcoffset() != timedelta():
            yield path, f"{path} must be in UTC, as 2026-11-21T22:49:56Z"
    for name, turns in (("checkpointed", state.checkpointed), ("pending", state.pending)):
        for index, turn in enumerate(turns):
            yield from _faults_of_turn(f"{name}[{index}]", turn)
    if state.open_turn is not None:
        yield from _faults_of_turn("open_turn", state.open_turn)
        yield from _faults_of_step("open_turn.step", state.open_turn.step)
    for seq, replaced in state.reductions.replaced.items():
        if seq != replaced.seq:
            yield "reductions", f"what replaces message {seq} has the seq {replaced.seq}"


def _fault_of_numbers(state: SessionState) -> Iterator[Fault]:
    """Check what is counted: a session must be able to go on from there."""
    running = state.open_turn
    last = 0
    numbers = [(f"checkpointed[{at}]", each.number) for at, each in enumerate(state.checkpointed)]
    numbers += [(f"pending[{at}]", each.number) for at, each in enumerate(state.pending)]
    numbers += [("open_turn", running.number)] if running else []
    for path, number in numbers:
        if number <= last:
            yield path, f"turn {number} stands after turn {last}"
        last = number
    is_last = state.turns == last if running else state.turns >= last
    for name, is_right, what in (
        ("last_seq", state.last_seq > 0, "the number of an event, from 1 on"),
        ("checkpoint_seq", 0 <= state.checkpoint_seq <= state.last_seq, "from 0 to last_seq"),
        ("turns", is_last, f"the number of the last turn, {last}"),
    ):
        if not is_right:
            yield name, f"{name} must be {what}"


def _timestamps(state: SessionState) -> Iterator[tuple[str, datetime]]:
    yield "created", state.created_at
    yield "updated", state.updated_at
    if state.reductions.retry_at is not None:
        yield "reductions", state.reductions.retry_at
    for index, ambient in enumerate(state.ambient):
        yield f"ambient[{index}]", ambient.until
    for index, item in enumerate(state.outbox):
        if item.pending_since is not None:
            yield f"outbox[{index}]", item.pending_since
    turn = state.open_turn
    if turn is None:
        return
    yield "open_turn", turn.started_at
    if turn.outage is not None:
        outage = turn.outage
        for moment in (outage.since, outage.failed_at, outage.retry_at, outage.give_up_at):
            yield "open_turn.outage", moment
    for approval in turn.step.approvals.values() if turn.step else ():
        yield "open_turn.step.approvals", approval.expires_at


def _faults_of_turn(path: str, turn: Turn | OpenTurn) -> Iterator[Fault]:
    if not turn.users:
        yield path, f"turn {turn.number} begins with no message of the user"
    for index, step in enumerate(turn.steps):
        yield from _faults_of_reply(f"{path}.steps[{index}]", step.reply)
    done = 0
    for index, each in enumerate(turn.steered):
        if not done < each.after_steps <= len(turn.steps):
            why = f"after_steps must be from {done + 1} to {len(turn.steps)}"
            yield f"{path}.steered[{index}]", why
        done = each.after_steps


def _faults_of_reply(path: str, reply: Reply) -> Iterator[Fault]:
    if len({call.call_id for call in reply.calls}) < len(reply.calls):
        yield f"{path}.reply", "two calls of a reply have the same call_id"


def _faults_of_step(path: str, step: OpenStep | None) -> Iterator[Fault]:
    """Check that all that is known of calls is known of calls of the step's reply."""
    if step is None:
        return
    made = set[str]()
    if step.reply is not None:
        yield from _faults_of_reply(path, step.reply)
        made = {call.call_id for call in step.reply.calls}
    named = [*step.started, *step.results, *step.approvals]
    named += [each.call_id for each in step.results.values()]
    named += [each.call_id for each in step.approvals.values()]
    for call_id in named:
        if call_id not in made:
            yield path, f"the running step has no call {call_id!r}"
    if step.reply and all(call_id in step.results for call_id in made):
        yield path, "the step that runs has no call that waits: it is done, and belongs to steps"
