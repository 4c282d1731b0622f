"""The only agentic loop there is: call the model, run what it asks for, until it has answered.

The loop looks at the state alone to decide what comes next, so a turn that a crash cut short goes
on exactly as one that did not.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from everturn_actors.asking import Pace, TurnHost, call_model
from everturn_actors.calls import run_calls
from everturn_actors.errors import ModelError
from everturn_actors.events import Body, ReplyBroken, Steered, StepStarted, TurnFinished
from everturn_actors.model import OpenTurn, ToolCall
from everturn_actors.ports import Agent
from everturn_actors.queueing import steering
from everturn_actors.recovery import close_turn

SAME_CALLS = 5  # in a row end a turn: nothing new will come of the sixth
BROKEN_REPLIES = 2  # in a row end a turn: the model was told what was wrong, and did no better


async def run_turn(host: TurnHost, number: int, agent: Agent, pace: Pace) -> None:
    """Carry turn `number`, the open one of `host`, to its end, and record that end.

    A model that cannot answer, or a deadline, ends the turn as failed, with the reason in words.

    Raises:
        JournalError: What happened could not be written down.
    """
    timeout_s = agent.spec.session.turn_timeout_s
    try:
        with anyio.fail_after(timeout_s) as deadline:
            if agent.prepare is not None:
                await agent.prepare()
            await _take_steps(host, number, agent, pace, deadline)
            return
    except TimeoutError:
        error = f"the turn took longer than its {timeout_s:g} s"
    except ModelError as failure:
        error = str(failure)
    turn = _open_turn(host, number)
    if turn is not None:
        await host.record(*close_turn(turn, "failed", error))


def first_step(turn: OpenTurn, agent: Agent) -> StepStarted:
    """Return the event that begins the next step of `turn`."""
    return StepStarted(turn=turn.number, step=len(turn.steps) + 1, model=agent.spec.model.name)


def _open_turn(host: TurnHost, number: int) -> OpenTurn | None:
    """Return the turn, unless it is over; the next one may have begun, and is not ours."""
    turn = host.state.open_turn
    return turn if turn is not None and turn.number == number else None


async def _take_steps(
    host: TurnHost, number: int, agent: Agent, pace: Pace, deadline: anyio.CancelScope
) -> None:
    while (turn := _open_turn(host, number)) is not None:
        if turn.step is None:
            await host.record(*_between_steps(host, turn, agent))
        elif turn.step.reply is None:
            replied = await call_model(host, turn, agent, pace)
            if isinstance(replied, ReplyBroken):
                await host.record(replied, *_after_broken(turn, replied))
            else:
                done = () if replied.calls else (TurnFinished(turn=number, outcome="answered"),)
                await host.record(replied, *done)
        else:
            await run_calls(host, turn, agent, pace, deadline)


def _after_broken(turn: OpenTurn, reply: ReplyBroken) -> list[Body]:
    """Return the end of the turn, where this was one too many."""
    times = len(turn.broken) + 1
    if times < BROKEN_REPLIES:
        return []
    error = f"the model's reply could not be used, {times} times in a row: {reply.reason}"
    return close_turn(turn, "failed", error)


def _goes_in_circles(turn: OpenTurn) -> bool:
    newest = turn.steps[-SAME_CALLS:]
    asked = {tuple((call.name, call.arguments) for call in step.reply.calls) for step in newest}
    return len(newest) == SAME_CALLS and len(asked) == 1


def _between_steps(host: TurnHost, turn: OpenTurn, agent: Agent) -> list[Body]:
    """Return what follows the last closed step: the next one, or the end of the turn.

    Messages that came meanwhile are read with the next call.
    """
    if turn.steps and not turn.steps[-1].reply.calls:
        return [TurnFinished(turn=turn.number, outcome="answered")]
    session = agent.spec.session
    limit = int(session.context.numbers.get("max_iterations", session.max_tool_iterations))
    if _goes_in_circles(turn):
        error = f"the model made the same call {SAME_CALLS} times in a row"
        return [TurnFinished(turn=turn.number, outcome="failed", error=error)]
    if len(turn.steps) > limit:
        error = f"the model asked for tools {len(turn.steps)} times; the limit is {limit}"
        return [TurnFinished(turn=turn.number, outcome="failed", error=error)]
    came = tuple(each.seq for each in steering(host.state.waiting)) if session.steering else ()
    steered = [Steered(turn=turn.number, received=came)] if came and turn.steps else []
    return [*steered, first_step(turn, agent)]


def is_repeatable(agent: Agent | None) -> Callable[[ToolCall], bool]:
    """Return the rule by which a restart runs a call of `agent` again."""

    def rule(call: ToolCall) -> bool:
        tool = agent.tools.get(call.name) if agent else None
        return tool is not None and (tool.traits.repeatable or tool.traits.read_only)

    return rule
