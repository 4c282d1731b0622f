"""`decide`: what becomes of commands, all of them in one append. Pure.

from datetime import UTC, datetime

decision = decide(state, context, [Submit(message)], datetime.now(UTC))
decision.events   # received, turn_started, step_started
decision.answers  # Accepted(seq=2, ...), to be given when the events are durable
decision.effects  # StartTurn(1)
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import assert_never

from everturn_actors.errors import CommandFailedError
from everturn_actors.protocol.commands import (
    AnswerCalls,
    AnyCommand,
    Cancel,
    ChooseModel,
    ClientDisconnected,
    Compact,
    Edit,
    End,
    GetState,
    GetStatus,
    Label,
    Pause,
    PinMessage,
    RecordDelivery,
    RecordTurn,
    ResolveApproval,
    Resume,
    Retry,
    Share,
    Stop,
    Submit,
    Summary,
    Tick,
    UnpinMessage,
    Withdraw,
    is_own,
)
from everturn_actors.session.decide import messages, records, session_end, turns
from everturn_actors.session.decide.decision import (
    Answer,
    Context,
    Decision,
    Draft,
    ReportFault,
)
from everturn_actors.state.session_state import SessionState


def decide(
    state: SessionState | None, context: Context, commands: Iterable[AnyCommand], now: datetime
) -> Decision:
    """Return what becomes of commands, oldest first, each decided after those before it.

    Args:
        state: The session; None where it begins with these commands.
        context: What else counts.
        commands: What is asked.
        now: The instant of all their events, UTC.

    Raises:
        CorruptJournalError: What the actor's own tasks record cannot have happened.
    """
    draft = Draft(state, context, now)
    # The session begins with its first command, in the same append: never one without the other.
    if state is None and context.begin_with is not None:
        draft.add(context.begin_with)
    session_end.expire(draft)
    answers: list[Answer] = []
    for command in commands:
        answers.append(_decide_safely(command, draft))  # noqa: PERF401 - a comprehension is one call more
    # After all commands: who asked to end the session waits for what came with it.
    session_end.finish(draft)
    turns.begin(draft)
    turns.work(draft)
    return draft.decision(answers)  # one append for all of them


def decide_restart(state: SessionState, context: Context, now: datetime) -> Decision:
    """Return how a session goes on that was loaded: what a restart interrupted is closed."""
    draft = Draft(state, context, now)
    session_end.expire(draft)
    # Before a turn begins: what the last process left open must not run beside it.
    turns.close_cut_short(draft)
    turns.begin(draft)
    turns.work(draft)
    return draft.decision([])


def _decide_safely(command: AnyCommand, draft: Draft) -> Answer:
    """Decide one command; a fault of it is its own caller's, and leaves the others alone.

    What the actor's own tasks record cannot be left out: what follows stands on it.
    """
    before = draft.mark()  # commands of one batch must not fail for each other
    try:
        return _decide_one(command, draft)
    except Exception as error:
        if is_own(command):
            raise  # a fault in what our own tasks ask is the actor's failure
        draft.go_back(before)
        draft.effects.append(ReportFault(type(command).__name__, error))
        return CommandFailedError(draft.context.session_id, error)


def _decide_one(command: AnyCommand, draft: Draft) -> Answer:
    """Return the answer to one command, and note in the draft what follows from it."""
    match command:
        case RecordTurn():  # most of what a session is told comes from its running turn
            draft.add(*command.bodies)
        case Submit():
            return messages.submit(command, draft)
        case RecordDelivery():
            return records.record_delivery(command, draft)
        case GetState():
            return draft.known
        case GetStatus():
            return records.status(command, draft)
        case ResolveApproval():
            return records.resolve_approval(command, draft)
        case AnswerCalls():
            return records.answer_calls(command, draft)
        case Edit():
            return messages.edit(command, draft)
        case Withdraw():
            return messages.withdraw(command, draft)
        case Tick():
            if command.release:
                turns.release(draft)
        case Resume():
            return turns.resume(draft)
        case Cancel():
            return turns.cancel(command, draft)
        case Retry():
            return turns.retry(command, draft)
        case ClientDisconnected():
            turns.leave(command, draft)
        case Pause():
            turns.pause(draft)
        case Summary():
            return records.record_summary(command, draft)
        case Compact():
            return records.compact(draft)
        case Share():
            return session_end.share(command, draft)
        case Label():
            return records.label(command, draft)
        case ChooseModel():
            return records.choose_model(command, draft)
        case PinMessage():
            return records.pin(command, draft)
        case UnpinMessage():
            return records.unpin(command, draft)
        case End():
            return session_end.end(command, draft)
        case Stop():
            return session_end.stop(draft)
        case _:
            assert_never(command)
    return None
