"""The calls of one reply: judged, asked about, run, and their results recorded in their order.

Every stage looks at the state alone, so a restart goes on where the process ended: a call that had
begun is known as such, a question that was asked is still open, a decision still holds.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile
from typing import Literal

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec.structs import replace

from everturn_actors.errors import ActorStoppedError, CoreError, InvalidInputError
from everturn_actors.events import CallFinished, CallsHandedOver, CallStarted
from everturn_actors.faults import is_cancelled
from everturn_actors.model import (
    OpenStep,
    OpenTurn,
    ToolCall,
    ToolResult,
)
from everturn_actors.outside import one_source
from everturn_actors.ports import Agent, Clock, ToolOutput
from everturn_actors.state.queue import steering
from everturn_actors.state.recovery import close_turn
from everturn_actors.state.validation import check_images, check_uploads
from everturn_actors.turn.calls.approvals import People, asked_before, until_changed
from everturn_actors.turn.calls.clearance import OVERTAKEN, Cleared, cleared, finished, why_not_now
from everturn_actors.turn.media import keep_files
from everturn_actors.turn.model_call import Timing, TurnHost, deadline_stopped

logger = logging.getLogger(__name__)

PARALLEL_CALLS = 8  # of one reply; a model that asks for more gets them in turns


async def run_calls(
    host: TurnHost, turn: OpenTurn, agent: Agent, timing: Timing, deadline: anyio.CancelScope
) -> None:
    """Take the open step one stage further: a question, a decision, or the next calls' results.

    Calls that only read run side by side, as far as none of another kind stands between them.

    Args:
        host: The session.
        turn: Its open turn, whose step has a reply with calls that have no result.
        agent: Who makes the calls.
        timing: Tells the time.
        deadline: Of the turn; it stands still while a person is asked.

    Raises:
        JournalError: What happened could not be written down.
    """
    step = turn.step
    assert step is not None
    assert step.reply is not None
    # What has a result was done before a restart, and is not done again.
    waiting = [call for call in step.reply.calls if call.call_id not in step.results]
    # The caller runs its own tools: here there is nothing to judge, only to wait.
    if is_callers(waiting[0], turn, agent):
        await _await_caller(host, turn, waiting, agent, timing.clock, deadline)
        return
    people = People(host, agent, timing.clock, deadline)
    # A call that runs asks for itself; after a restart it asks anew.
    open_ones = (each for each in step.approvals.values() if each.resolution is None)
    asked = next((each for each in open_ones if each.call_id not in step.started), None)
    if asked is not None:
        await people.await_decision(asked)
        return
    # Only those at the head: results are recorded in the order of the calls.
    overtaken = tuple(takewhile(lambda call: _is_overtaken(host, step, call, agent), waiting))
    if overtaken:
        await host.record(*(finished(call, OVERTAKEN, is_error=True) for call in overtaken))
        return
    # Judged one by one: what one call does may change what the next may do.
    first = await cleared(host, step, waiting[0], agent)
    # A refusal is its result; a question is recorded, and the loop comes back for the answer.
    if not isinstance(first, Cleared):
        await host.record(first)
        return
    batch = [first]
    # Calls that write wait for each other, as the model may count on their order.
    if first.tool.capabilities.read_only:
        batch += await _more_readers(host, step, waiting[1:PARALLEL_CALLS], agent)
    # One that a restart cut short is marked already; its tool said that it may run again.
    begun = [each.call.call_id for each in batch if each.call.call_id not in step.started]
    if begun:
        await host.record(*(CallStarted(call_id=call_id) for call_id in begun))
    # Durable before they run: after a crash it is known which may have had their effect.
    outputs = await _run_all(batch, host, agent, people)
    taken = [
        await _taken_in(host, turn, step, each.call, output, agent)
        for each, output in zip(batch, outputs, strict=True)
    ]
    # In one append, in the order of the calls, whichever was done first.
    await host.record(*taken)


def _is_overtaken(host: TurnHost, step: OpenStep, call: ToolCall, agent: Agent) -> bool:
    """Whether a message came before the call: not one that began, or that a person decided."""
    if (
        not (agent.spec.session.steering and steering(host.state.waiting))
        or call.call_id in step.started
    ):
        return False
    # A person who said yes meant this call: a message that came later does not take that back.
    approval = step.approvals.get(call.call_id)
    if approval is None:
        return True
    return approval.resolution == "overtaken" and approval.inquiry is None


# --- tools of the caller ---


def is_callers(call: ToolCall, turn: OpenTurn, agent: Agent) -> bool:
    """Whether the caller of a turn runs a call itself; a tool of the agent goes before its own."""
    # A caller that names a tool of the agent must not get in its place, past its gate.
    if call.name in agent.tools:
        return False
    return any(tool.name == call.name for tool in turn.options.tools)


async def _await_caller(
    host: TurnHost,
    turn: OpenTurn,
    waiting: Sequence[ToolCall],
    agent: Agent,
    clock: Clock,
    deadline: anyio.CancelScope,
) -> None:
    """Take the first of the calls that wait one stage further: handed over, or its result.

    All that the caller has to run of a reply is handed over at once, and their results are taken
    in their places. A message that comes first overtakes them.
    """
    step, first = turn.step, waiting[0]
    assert step is not None
    # All at once, so that the caller can run them side by side.
    if first.call_id not in step.handed_over:
        ids = tuple(call.call_id for call in waiting if is_callers(call, turn, agent))
        timeout_s = agent.spec.session.client_tool_timeout_s
        await host.record(CallsHandedOver(turn=turn.number, call_ids=ids, timeout_s=timeout_s))
        return
    with deadline_stopped(deadline):  # nobody here can hasten it
        become = await _answered(host, first.call_id, step.handed_over[first.call_id], clock)
    # It cannot be told to the model as a result: nobody knows what the caller did.
    if become == "expired":
        why = "its caller did not say in time what its tools gave"
        await host.record(*close_turn(turn, "cancelled", why))
        return
    if become == "overtaken":
        await host.record(finished(first, OVERTAKEN, is_error=True))
        return
    answered = host.state.open_turn and host.state.open_turn.step
    assert answered, "nobody but its own task closes the turn"
    output = ToolOutput(
        text=answered.answers[first.call_id].text,
        untrusted=True,
        source=f"the caller's tool {first.name}",
    )
    await host.record(await _taken_in(host, turn, step, first, output, agent))


async def _answered(
    host: TurnHost, call_id: str, until: datetime, clock: Clock
) -> Literal["answered", "overtaken", "expired"]:
    """Wait for what the caller says of a call; return what became of it."""
    while True:
        step = host.state.open_turn.step if host.state.open_turn else None
        if step is None or call_id in step.answers:
            return "answered"
        # Somebody changed their mind: what they wrote is more than what the caller is doing.
        if any(not message.ambient for message in host.state.waiting):
            return "overtaken"
        left_s = (until - clock.now()).total_seconds()
        # A moment that is stored, so that a restart does not begin the wait anew.
        if left_s <= 0:
            return "expired"
        await until_changed(host, clock, left_s)


# --- may it run? ---


async def _more_readers(
    host: TurnHost, step: OpenStep, calls: Sequence[ToolCall], agent: Agent
) -> list[Cleared]:
    """Return the calls at the head of `calls` that only read and may run at once."""
    readers: list[Cleared] = []
    for call in calls:
        tool = agent.tools.get(call.name)
        if (
            tool is None
            or not tool.capabilities.read_only
            or _is_overtaken(host, step, call, agent)
        ):
            break
        # The first that may not run at once ends the batch: results keep the order of the calls.
        found = await cleared(host, step, call, agent)
        if not isinstance(found, Cleared):
            break
        readers.append(found)
    return readers


# --- running ---


async def _run_all(
    batch: Sequence[Cleared], host: TurnHost, agent: Agent, people: People
) -> list[ToolOutput]:
    """Run calls side by side; return what they gave, in the order of the calls."""
    # The usual case needs no task group.
    if len(batch) == 1:
        return [await _run(batch[0], host, agent, people)]
    outputs: dict[int, ToolOutput] = {}

    async def run(index: int, each: Cleared) -> None:
        outputs[index] = await _run(each, host, agent, people)

    async with anyio.create_task_group() as tasks:
        for index, each in enumerate(batch):
            tasks.start_soon(run, index, each)
    return [outputs[index] for index in range(len(batch))]


async def _run(each: Cleared, host: TurnHost, agent: Agent, people: People) -> ToolOutput:
    """Run a call, if it still may; whatever it fails of is its result.

    Raises:
        ActorStoppedError: The gateway stops; the call goes on, or is told of, at its next start.
    """
    call, timeout_s = each.call, each.tool.capabilities.timeout_s
    # Right before it begins: what it was judged by may be another since it was written down.
    if reason := await why_not_now(host, each, agent):
        return ToolOutput(text=reason, is_error=True)
    with anyio.move_on_after(timeout_s) as scope:
        context = replace(
            host.tool_context, ask=people.of(call, scope), asked=asked_before(each.approval)
        )
        try:
            await checkpoint_if_cancelled()  # what begins with an effect must not even begin
            output = await each.tool.run(call, context)
        except anyio.get_cancelled_exc_class() as error:
            if is_cancelled():
                raise
            # Nobody called it off: work of its own was. Let out, it would end this task unnoticed.
            logger.warning(
                "a tool was cancelled from inside",
                extra={"tool": call.name, "session_id": context.session_id},
            )
            return ToolOutput(text=f"the tool failed: {_told(error)}", is_error=True)
        except ActorStoppedError:
            raise
        except CoreError as error:
            return ToolOutput(text=str(error), is_error=True)
        except Exception as error:  # a boundary: the tool's own fault, and the model goes on
            logger.exception(
                "a tool failed", extra={"tool": call.name, "session_id": context.session_id}
            )
            return ToolOutput(text=f"the tool failed: {_told(error)}", is_error=True)
        output = ToolOutput(text=output) if isinstance(output, str) else output
        return _checked(output)
    await checkpoint_if_cancelled()  # who was called off did not take too long
    text = f"it took longer than its {timeout_s:g} s and was stopped"
    return ToolOutput(text=text, is_error=True)


def _checked(output: ToolOutput) -> ToolOutput:
    """Return an output with files that can be sent and shown; else the reason why they cannot."""
    try:
        # A file that no channel can send is told to the model now, and not to people later.
        check_uploads(output.files)
        check_images(output.images)
    except InvalidInputError as error:
        return replace(output, text=str(error), is_error=True, files=(), images=())
    return output


def _told(error: BaseException) -> str:
    """Return what a model is told of a fault in the program: its kind, not its text."""
    return type(error).__name__


async def _taken_in(
    host: TurnHost,
    turn: OpenTurn,
    step: OpenStep,
    call: ToolCall,
    output: ToolOutput,
    agent: Agent,
) -> CallFinished:
    """Return the event of a result; one that is too large for the policy is kept in a file first.

    Raises:
        JournalError: It could not be kept.
    """
    assert step.reply is not None
    ids = [each.call_id for each in step.reply.calls]
    path = f"{turn.number}-{len(turn.steps) + 1}-{ids.index(call.call_id) + 1}.txt"
    statistics = host.model_statistics.of(agent.spec.model)
    result = ToolResult(
        call_id=call.call_id, name=call.name, text=output.text, is_error=output.is_error
    )
    text = host.renderer.shorten_result(
        agent.spec, agent.offered(statistics, turn), statistics, result, path
    )
    # Only what was cut is kept apart: the log has the rest as it is.
    if text == output.text:
        path = ""
    else:
        context = host.tool_context
        await context.store.save_result(context.session_id, path, output.text)
    return CallFinished(
        call_id=call.call_id,
        text=text,
        is_error=output.is_error,
        path=path,
        untrusted=output.untrusted,
        source=one_source(output.source),
        attachments=await keep_files(output.files, host.tool_context),
        images=await keep_files(output.images, host.tool_context),
    )
