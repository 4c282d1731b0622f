"""The only agentic loop there is: call the model, run what it asks for, until it has answered.

The loop looks at the state alone to decide what comes next, so a turn that a crash cut short goes
on exactly as one that did not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import anyio

from everturn_actors.context.calibration import learn, with_limit
from everturn_actors.context.render import Rendered, Renderer
from everturn_actors.errors import (
    ContextDoesNotFitError,
    ContextOverflowError,
    ModelError,
    ModelTransientError,
    ToolFailedError,
)
from everturn_actors.events import (
    Body,
    CallFinished,
    CallStarted,
    ModelReplied,
    StepStarted,
    TurnFinished,
)
from everturn_actors.feed import LiveReply
from everturn_actors.model import OpenStep, OpenTurn, Reply, ToolCall, ToolResult
from everturn_actors.ports import Agent, Clock, ModelMemory, ToolContext
from everturn_actors.recovery import close_turn
from everturn_actors.state import SessionState

CALL_TRIES = 4  # one, and three more after transient failures
FIRST_DELAY_S = 0.5  # doubled with every try, plus up to a quarter of jitter
MAX_DELAY_S = 60.0  # a provider that asks for more is not waited for


class TurnHost(Protocol):
    """What a turn needs from the session it runs in."""

    @property
    def state(self) -> SessionState:
        """The session's present state."""
        ...

    @property
    def renderer(self) -> Renderer:
        """Renders the session's requests."""
        ...

    @property
    def memory(self) -> ModelMemory:
        """What was learnt about models."""
        ...

    @property
    def tool_context(self) -> ToolContext:
        """Where its calls run."""
        ...

    async def record(self, *bodies: Body) -> None:
        """Make events durable and apply them; `state` is the new one when this returns."""
        ...

    def begin_reply(self, turn: int, step: int) -> LiveReply:
        """Begin to show the text of a model call to followers."""
        ...

    def add_text(self, live: LiveReply, text: str) -> None:
        """Show a piece of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a turn waits between tries."""

    clock: Clock
    jitter: Callable[[], float]
    "A number from 0 to 1, anew with every call."

    def delay_s(self, tries: int, asked_s: float | None) -> float:
        """Return how long to wait after `tries` failed tries; `asked_s` is the provider's wish."""
        base = FIRST_DELAY_S * 2 ** (tries - 1) if asked_s is None else asked_s
        return base * (1 + self.jitter() / 4)


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
            replied = await _call_model(host, turn, agent, pace)
            done = () if replied.calls else (TurnFinished(turn=turn.number, outcome="answered"),)
            await host.record(replied, *done)
        else:
            await _run_next_call(host, turn.step, turn.step.reply, agent)


def _between_steps(turn: OpenTurn, agent: Agent) -> Body:
    """Return what follows the last closed step: the next one, or the end of the turn."""
    if turn.steps and not turn.steps[-1].reply.calls:
        return TurnFinished(turn=turn.number, outcome="answered")
    limit = agent.spec.session.max_tool_iterations
    if len(turn.steps) > limit:
        error = f"the model asked for tools {len(turn.steps)} times; the limit is {limit}"
        return TurnFinished(turn=turn.number, outcome="failed", error=error)
    return first_step(turn, agent)


def _replied(reply: Reply, rendered: Rendered) -> ModelReplied:
    return ModelReplied(
        text=reply.text,
        reasoning=reply.reasoning,
        calls=reply.calls,
        usage=reply.usage,
        stop_reason=reply.stop_reason,
        model=reply.model,
        sent=rendered.sent,
    )


async def _call_model(host: TurnHost, turn: OpenTurn, agent: Agent, pace: Pace) -> ModelReplied:
    """Return the model's reply to the state as it stands, as an event.

    A transient failure is tried again, unless somebody has read a part of the reply: what was
    said cannot be taken back. What the provider finds too long is halved, as often as the policy
    allows.

    Raises:
        ModelError: No try succeeded, or the failure is not transient.
    """
    rendered = await _prepare(host, agent)
    tries = halved = 0
    while True:
        live = host.begin_reply(turn.number, len(turn.steps) + 1)
        tries += 1
        try:
            reply = await _complete(host, live, rendered, agent)
        except ContextOverflowError as error:
            if live.was_read or halved == host.renderer.overflow_tries(
                agent.spec, agent.definitions
            ):
                raise _too_long(rendered, error) from error
            halved += 1
            rendered = await _halve(host, agent, rendered, error)
        except ModelError as error:
            delay_s = pace.delay_s(tries, error.retry_after_s)
            final = not error.retryable or live.was_read or tries == CALL_TRIES
            if final or delay_s > MAX_DELAY_S:
                raise
            await pace.clock.sleep(delay_s)
        else:
            _learn(host, agent, rendered, reply)
            return _replied(reply, rendered)


async def _complete(host: TurnHost, live: LiveReply, rendered: Rendered, agent: Agent) -> Reply:
    """Call the model once.

    Raises:
        ModelError: It gave no reply.
    """
    timeout_s = agent.spec.session.call_timeout_s
    with anyio.move_on_after(timeout_s):
        reply = await agent.provider.complete(rendered.request, partial(host.add_text, live))
        return _checked(reply)
    msg = f"the model gave no reply within {timeout_s:g} s"
    raise ModelError(msg)  # not tried again: the next try would take as long


async def _prepare(host: TurnHost, agent: Agent) -> Rendered:
    """Return the next request, having recorded what had to be hidden for it.

    Raises:
        ContextDoesNotFitError: What cannot be hidden is larger than the window.
    """
    tools = agent.definitions
    facts = host.memory.facts(agent.spec.model)
    conversation = host.state.conversation
    hidden = host.renderer.reduce(conversation, agent.spec, tools, facts)
    if hidden:
        await host.record(*hidden)
        conversation = host.state.conversation
    return host.renderer.render(conversation, agent.spec, tools, facts)


async def _halve(
    host: TurnHost, agent: Agent, rendered: Rendered, error: ContextOverflowError
) -> Rendered:
    """Return a shorter request after the provider found `rendered` too long.

    Raises:
        ContextDoesNotFitError: Nothing more can be hidden; names what is left.
    """
    facts = host.memory.facts(agent.spec.model)
    if error.window_tokens:
        host.memory.learn(agent.spec.model, with_limit(facts, error.window_tokens))
    hidden = host.renderer.halve(
        host.state.conversation, agent.spec, agent.definitions, host.memory.facts(agent.spec.model)
    )
    if hidden is None:
        raise _too_long(rendered, error) from error
    await host.record(hidden)
    return await _prepare(host, agent)


def _too_long(rendered: Rendered, error: ContextOverflowError) -> ContextDoesNotFitError:
    msg = (
        f"{error}; nothing more can be left out: the request has {rendered.explain()};"
        " send less at once, shorten the prompt, or choose a model with a larger window"
    )
    return ContextDoesNotFitError(msg)


def _learn(host: TurnHost, agent: Agent, rendered: Rendered, reply: Reply) -> None:
    """Compare what the provider reported with what was estimated.

    What one prompt had more than the one before tells most; without one before, all of it does.
    """
    before, now = host.state, rendered.sent
    tokens, units = reply.usage.input_tokens, now.units
    if not tokens:
        return
    goes_on = before.sent.prefix and not now.drifted and before.reported.input_tokens
    if goes_on:
        tokens -= before.reported.input_tokens
        units -= before.sent.units
    model = agent.spec.model
    known = host.memory.facts(model)
    learnt = learn(known, units=units, tokens=tokens)
    if learnt != known:
        host.memory.learn(model, learnt)


def _checked(reply: Reply) -> Reply:
    """Return `reply`, whose calls can be told apart.

    Raises:
        ModelTransientError: They cannot; another try may do better.
    """
    ids = {call.call_id for call in reply.calls}
    if len(ids) < len(reply.calls) or "" in ids:
        msg = "the model made calls that share an id or have none"
        raise ModelTransientError(msg)
    return reply


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
    text = host.renderer.intake(agent.spec, agent.definitions, result, path)
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
