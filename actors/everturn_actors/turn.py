"""The only agentic loop there is: call the model, run what it asks for, until it has answered.

The loop looks at the state alone to decide what comes next, so a turn that a crash cut short goes
on exactly as one that did not.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from everturn_actors.asking import Pace, TurnHost, call_model
from everturn_actors.errors import ModelError, ToolFailedError
from everturn_actors.events import (
    Body,
    CallFinished,
    CallStarted,
    StepStarted,
    TurnFinished,
)
from everturn_actors.model import OpenStep, OpenTurn, Reply, ToolCall, ToolResult
from everturn_actors.ports import Agent
from everturn_actors.recovery import close_turn

SAME_CALLS = 5  # in a row end a turn: nothing new will come of the sixth


async def run_turn(host: TurnHost, number: int, agent: Agent, pace: Pace) -> None:
    """Carry turn `number`, the open one of `host`, to its end, and record that end.

    A model that cannot answer, or a deadline, ends the turn as failed, with the reason in words.

    Raises:
        JournalError: What happened could not be written down.
    """
    timeout_s = agent.spec.session.turn_timeout_s
    try:
        with anyio.fail_after(timeout_s):
            await _take_steps(host, number, agent, pace)
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


async def _take_steps(host: TurnHost, number: int, agent: Agent, pace: Pace) -> None:
    while (turn := _open_turn(host, number)) is not None:
        if turn.step is None:
            await host.record(_between_steps(turn, agent))
        elif turn.step.reply is None:
            replied = await call_model(host, turn, agent, pace)
            done = () if replied.calls else (TurnFinished(turn=turn.number, outcome="answered"),)
            await host.record(replied, *done)
        else:
            await _run_next_call(host, turn.step, turn.step.reply, agent)


def _goes_in_circles(turn: OpenTurn) -> bool:
    newest = turn.steps[-SAME_CALLS:]
    asked = {tuple((call.name, call.arguments) for call in step.reply.calls) for step in newest}
    return len(newest) == SAME_CALLS and len(asked) == 1


def _between_steps(turn: OpenTurn, agent: Agent) -> Body:
    """Return what follows the last closed step: the next one, or the end of the turn."""
    if turn.steps and not turn.steps[-1].reply.calls:
        return TurnFinished(turn=turn.number, outcome="answered")
    session = agent.spec.session
    limit = int(session.context.numbers.get("max_iterations", session.max_tool_iterations))
    if _goes_in_circles(turn):
        error = f"the model made the same call {SAME_CALLS} times in a row"
        return TurnFinished(turn=turn.number, outcome="failed", error=error)
    if len(turn.steps) > limit:
        error = f"the model asked for tools {len(turn.steps)} times; the limit is {limit}"
        return TurnFinished(turn=turn.number, outcome="failed", error=error)
    return first_step(turn, agent)


async def _run_next_call(host: TurnHost, step: OpenStep, reply: Reply, agent: Agent) -> None:
    """Run the first call that has no result, and record what it gave."""
    call = next(call for call in reply.calls if call.call_id not in step.results)
    tool = agent.tools.get(call.name)
    if tool is None:
        known = ", ".join(sorted(agent.tools)) or "none"
        text = f"there is no tool {call.name!r}; there are: {known}"
        await host.record(CallFinished(call_id=call.call_id, text=text, is_error=True))
        return
    if call.call_id not in step.started:
        await host.record(CallStarted(call_id=call.call_id))
    try:
        text, is_error = await tool.run(call, host.tool_context), False
    except ToolFailedError as error:
        text, is_error = str(error), True
    result = ToolResult(call_id=call.call_id, name=call.name, text=text, is_error=is_error)
    await host.record(await _taken_in(host, result, agent))


async def _taken_in(host: TurnHost, result: ToolResult, agent: Agent) -> CallFinished:
    """Return the event of a result; one that is too large for the policy is kept in a file first.

    Raises:
        JournalError: It could not be kept.
    """
    turn = host.state.open_turn
    assert turn is not None and turn.step is not None and turn.step.reply is not None  # noqa: PT018
    ids = [call.call_id for call in turn.step.reply.calls]
    path = f"{turn.number}-{len(turn.steps) + 1}-{ids.index(result.call_id) + 1}.txt"
    facts = host.memory.facts(agent.spec.model)
    text = host.renderer.intake(agent.spec, agent.offered(facts), facts, result, path)
    if text == result.text:
        path = ""
    else:
        context = host.tool_context
        await context.store.save_result(context.session_id, path, result.text)
    return CallFinished(call_id=result.call_id, text=text, is_error=result.is_error, path=path)


def is_repeatable(agent: Agent | None) -> Callable[[ToolCall], bool]:
    """Return the rule by which a restart runs a call of `agent` again."""

    def rule(call: ToolCall) -> bool:
        tool = agent.tools.get(call.name) if agent else None
        return tool is not None and tool.repeatable

    return rule
