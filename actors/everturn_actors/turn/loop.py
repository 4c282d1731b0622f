"""The only agentic loop there is: call the model, run what it asks for, until it has answered.

The loop looks at the state alone to decide what comes next, so a turn that a crash cut short goes
on exactly as one that did not.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio

from everturn_actors.context.catalog import policy_of
from everturn_actors.errors import (
    ActorStoppedError,
    JournalWriteError,
    ModelError,
    StoreAwayError,
)
from everturn_actors.events import (
    Body,
    ModelCallFailed,
    ModelReplied,
    ReplyBroken,
    Steered,
    TurnFinished,
)
from everturn_actors.faults import first_cause, is_cancelled, kind_of
from everturn_actors.model import OpenTurn, Outage, ToolCall
from everturn_actors.ports import Agent
from everturn_actors.scopes import loop_time
from everturn_actors.state.queue import steering
from everturn_actors.state.recovery import close_turn, first_step
from everturn_actors.turn.calls.tool_calls import run_calls
from everturn_actors.turn.model_call import Timing, TurnHost, call_model, deadline_stopped
from everturn_actors.turn.model_retry import wait_s
from everturn_actors.turn.recollection import recollect
from everturn_actors.turn.voice.hearing import hear
from everturn_actors.turn.voice.speaking import is_to_be_spoken, speak

logger = logging.getLogger(__name__)

SAME_CALLS = 5  # in a row end a turn: nothing new will come of the sixth
BROKEN_REPLIES = 2  # in a row end a turn: the model was told what was wrong, and did no better


async def run_turn(
    host: TurnHost, number: int, agent: Agent, timing: Timing, scope: anyio.CancelScope
) -> None:
    """Carry turn `number`, the open one of `host`, to its end, and record that end.

    The boundary around a turn: a model that cannot answer, or a fault of whatever works on it,
    ends it as failed, with the reason in words. The session goes on.

    Args:
        host: The session.
        number: The turn.
        agent: Who answers.
        timing: How it waits between tries.
        scope: Around this call; gets the deadline of the turn. Where that has passed, the caller
            ends the turn, for the reason `too_slow`.

    Raises:
        ActorStoppedError: The service or the actor stops; the turn goes on at the next start.
        JournalWriteError: What belongs to the turn could not be written down.
        StoreAwayError: What belongs to it cannot be read now.
    """
    opened = _open_turn(host, number)
    # What a chat page asks for itself is answered by the model alone, without tools and notes.
    if opened is not None and opened.options.is_bare:
        agent = agent.bare()
    scope.deadline = loop_time() + agent.spec.session.turn_timeout_s
    error = await _work(host, number, agent, timing, scope)
    turn = _open_turn(host, number)
    # Whoever ended the turn meanwhile has written its end; a second one could not stand.
    if error and turn is not None:
        await host.record(*close_turn(turn, "failed", error, partial=host.partial))


def too_slow(agent: Agent) -> str:
    """Return why a turn whose deadline has passed has failed."""
    return f"the turn took longer than its {agent.spec.session.turn_timeout_s:g} s"


async def _work(
    host: TurnHost, number: int, agent: Agent, timing: Timing, deadline: anyio.CancelScope
) -> str:
    """Work on the turn; return why it failed, empty where it came to its end.

    Raises:
        ActorStoppedError, JournalWriteError, StoreAwayError: See `run_turn`.
    """
    failure: BaseException
    try:
        if agent.prepare is not None:
            await agent.prepare()
        await _take_steps(host, number, agent, timing, deadline)
    except ModelError as error:
        return str(error)
    except anyio.get_cancelled_exc_class() as cancelled:
        if is_cancelled():
            raise
        failure = cancelled
    except Exception as error:  # noqa: BLE001 - the boundary around a turn; logged below
        failure = error
    else:
        return ""
    cause = first_cause(failure)
    # Not a fault of the turn: it goes on when the service or the disk does.
    if isinstance(cause, ActorStoppedError | JournalWriteError | StoreAwayError):
        raise cause
    logger.error(
        "a turn failed by a fault",
        extra={"session_id": host.state.session_id, "turn": number, "error": str(cause)},
        exc_info=failure,
    )
    return f"the turn could not go on: {kind_of(cause)}"


def _open_turn(host: TurnHost, number: int) -> OpenTurn | None:
    """Return the turn, unless it is over; the next one may have begun, and is not ours."""
    turn = host.state.open_turn
    return turn if turn is not None and turn.number == number else None


async def _take_steps(
    host: TurnHost, number: int, agent: Agent, timing: Timing, deadline: anyio.CancelScope
) -> None:
    """Do what is next in the turn, until it is over."""
    is_reminded = False
    while (turn := _open_turn(host, number)) is not None:
        # Each branch is a place where a crash may have stopped: what is next stands in the state.
        if turn.step is None:
            aloud: Sequence[Body] = ()
            if is_to_be_spoken(turn, agent):
                with deadline_stopped(deadline):  # it has one of its own; the answer is there
                    aloud = await speak(host, turn, agent)
            await host.record(*aloud, *_between_steps(host, turn, agent))
        elif turn.step.reply is None:
            turn = await hear(host, turn, agent)
            # Once, before the first call: a turn that goes on has its notes already.
            if not turn.steps and not is_reminded:
                is_reminded = True
                await recollect(host, turn, agent, timing.clock.now())
            if turn.outage is not None:
                turn = await _after_outage(host, turn, turn.outage, agent, timing, deadline)
            replied = await call_model(host, turn, agent, timing)
            await host.record(replied, *_after_call(turn, agent, replied))
        else:
            await run_calls(host, turn, agent, timing, deadline)


async def _after_outage(
    host: TurnHost,
    turn: OpenTurn,
    outage: Outage,
    agent: Agent,
    timing: Timing,
    deadline: anyio.CancelScope,
) -> OpenTurn:
    """Wait until the call is to be made again; return the turn with what was said meanwhile."""
    left_s = wait_s(outage, timing.clock.now())
    if left_s > 0:
        with deadline_stopped(deadline):  # an outage may last longer than a turn
            await timing.clock.sleep(left_s)
    steered = _steered(host, turn, agent)
    if not steered:
        return turn
    await host.record(*steered)
    return await hear(host, _open_turn(host, turn.number) or turn, agent)


def _after_call(
    turn: OpenTurn, agent: Agent, replied: ModelReplied | ReplyBroken | ModelCallFailed
) -> list[Body]:
    """Return what follows the event that a call gave, in the same append."""
    match replied:
        case ModelReplied():
            # The text of an answer that is spoken goes out first; the turn ends with the sound.
            goes_on = bool(replied.calls) or is_to_be_spoken(turn, agent)
            return [] if goes_on else [TurnFinished(turn=turn.number, outcome="answered")]
        case ReplyBroken():
            return _after_broken(turn, replied)
        case ModelCallFailed():
            return []


def _after_broken(turn: OpenTurn, reply: ReplyBroken) -> list[Body]:
    """Return the end of the turn, where this was one too many."""
    times = len(turn.broken) + 1
    if times < BROKEN_REPLIES:
        return []
    error = f"the model's reply could not be used, {times} times in a row: {reply.reason}"
    return close_turn(turn, "failed", error)


def _goes_in_circles(turn: OpenTurn) -> bool:
    """Whether the newest steps all asked for the same calls."""
    newest = turn.steps[turn.retried_steps :][-SAME_CALLS:]
    # By what is asked, not by ids: a model gives each call a new one.
    asked = {tuple((call.name, call.arguments) for call in step.reply.calls) for step in newest}
    return len(newest) == SAME_CALLS and len(asked) == 1


def _between_steps(host: TurnHost, turn: OpenTurn, agent: Agent) -> list[Body]:
    """Return what follows the last closed step: the next one, or the end of the turn.

    Messages that came meanwhile are read with the next call.
    """
    # A crash between the reply and the end of its turn leaves only the end to be written.
    if turn.steps and not turn.steps[-1].reply.calls:
        return [TurnFinished(turn=turn.number, outcome="answered")]
    session = agent.spec.session
    policy = policy_of(session.context)
    limit = policy.step_limit(policy.numbers) or session.max_tool_iterations
    if _goes_in_circles(turn):
        error = f"the model made the same call {SAME_CALLS} times in a row"
        return [TurnFinished(turn=turn.number, outcome="failed", error=error)]
    asked = len(turn.steps) - turn.retried_steps
    if asked > limit:
        error = f"the model asked for tools {asked} times; the limit is {limit}"
        return [TurnFinished(turn=turn.number, outcome="failed", error=error)]
    # Before the first step there is nothing to steer: what came is of this turn anyway.
    steered = _steered(host, turn, agent) if turn.steps else []
    return [*steered, first_step(turn, agent.spec)]


def _steered(host: TurnHost, turn: OpenTurn, agent: Agent) -> list[Body]:
    """Return the event of the messages that came meanwhile, if the model is to read any."""
    came = steering(host.state.waiting) if agent.spec.session.steering else ()
    return [Steered(turn=turn.number, received=tuple(each.seq for each in came))] if came else []


def is_repeatable(agent: Agent | None, call: ToolCall) -> bool:
    """Whether a restart runs a call of `agent` again."""
    tool = agent.tools.get(call.name) if agent else None
    return tool is not None and (tool.capabilities.repeatable or tool.capabilities.read_only)
