"""The calls of one reply: judged, asked about, run, and their results recorded in their order.

Every stage looks at the state alone, so a restart goes on where the process ended: a call that had
begun is known as such, a question that was asked is still open, a word that was given still holds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint_if_cancelled

from everturn_actors.asking import Pace, TurnHost, standing_still
from everturn_actors.errors import ActorStoppedError, CoreError, InvalidInputError
from everturn_actors.events import ApprovalAsked, CallFinished, CallStarted
from everturn_actors.faults import is_cancelled
from everturn_actors.ids import arguments_hash
from everturn_actors.intake import attachment_of, check_uploads
from everturn_actors.model import (
    PROGRAM_SENDERS,
    Approval,
    Attachment,
    OpenStep,
    OpenTurn,
    Settled,
    ToolCall,
    ToolResult,
    Upload,
    UserMessage,
)
from everturn_actors.outside import one_source
from everturn_actors.ports import ALLOW, Agent, Clock, Tool, ToolContext, ToolOutput, Verdict
from everturn_actors.queueing import steering

logger = logging.getLogger(__name__)

PARALLEL_CALLS = 8  # of one reply; a model that asks for more gets them in turns
OVERTAKEN = "not run: a new message came first"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cleared:
    """A call that may run."""

    call: ToolCall
    tool: Tool


async def run_calls(
    host: TurnHost, turn: OpenTurn, agent: Agent, pace: Pace, deadline: anyio.CancelScope
) -> None:
    """Take the open step one stage further: a question, a word, or the next calls' results.

    Calls that only read run side by side, as far as none of another kind stands between them.

    Args:
        host: The session.
        turn: Its open turn, whose step has a reply with calls that have no result.
        agent: Who makes the calls.
        pace: Tells the time.
        deadline: Of the turn; it stands still while a person is asked.

    Raises:
        JournalError: What happened could not be written down.
    """
    step = turn.step
    assert step is not None and step.reply is not None  # noqa: PT018
    waiting = [call for call in step.reply.calls if call.call_id not in step.results]
    asked = next((each for each in step.approvals.values() if each.settled is None), None)
    if asked is not None:
        await _await_word(host, asked, agent, pace.clock, deadline)
        return
    # Only those at the head: results are recorded in the order of the calls.
    overtaken = tuple(takewhile(lambda call: _is_overtaken(host, step, call, agent), waiting))
    if overtaken:
        await host.record(*(_finished(call, OVERTAKEN, is_error=True) for call in overtaken))
        return
    first = await _cleared(host, step, waiting[0], agent)
    if not isinstance(first, _Cleared):
        await host.record(first)
        return
    batch = [first]
    if first.tool.traits.read_only:
        batch += await _more_readers(host, step, waiting[1:PARALLEL_CALLS], agent)
    begun = [each.call.call_id for each in batch if each.call.call_id not in step.started]
    if begun:
        await host.record(*(CallStarted(call_id=call_id) for call_id in begun))
    outputs = await _run_all(batch, host.tool_context)
    taken = [
        await _taken_in(host, turn, step, each.call, output, agent)
        for each, output in zip(batch, outputs, strict=True)
    ]
    await host.record(*taken)


def _finished(call: ToolCall, text: str, *, is_error: bool) -> CallFinished:
    return CallFinished(call_id=call.call_id, text=text, is_error=is_error)


def _is_overtaken(host: TurnHost, step: OpenStep, call: ToolCall, agent: Agent) -> bool:
    """Whether a message came before the call: not one that began, or that a person decided."""
    if (
        not (agent.spec.session.steering and steering(host.state.waiting))
        or call.call_id in step.started
    ):
        return False
    approval = step.approvals.get(call.call_id)
    return approval is None or approval.settled == "overtaken"


# --- may it run? ---


async def _more_readers(
    host: TurnHost, step: OpenStep, calls: Sequence[ToolCall], agent: Agent
) -> list[_Cleared]:
    """Return the calls at the head of `calls` that only read and may run at once."""
    cleared: list[_Cleared] = []
    for call in calls:
        tool = agent.tools.get(call.name)
        if tool is None or not tool.traits.read_only or _is_overtaken(host, step, call, agent):
            break
        found = await _cleared(host, step, call, agent)
        if not isinstance(found, _Cleared):
            break
        cleared.append(found)
    return cleared


async def _cleared(
    host: TurnHost, step: OpenStep, call: ToolCall, agent: Agent
) -> _Cleared | CallFinished | ApprovalAsked:
    """Return the call as one that may run, its result where it may not, or the question."""
    tool = agent.tools.get(call.name)
    if tool is None:
        known = ", ".join(sorted(agent.tools)) or "none"
        text = f"there is no tool {call.name!r}; there are: {known}"
        return _finished(call, text, is_error=True)
    if call.call_id in step.started:  # it was cleared before a restart
        return _Cleared(call=call, tool=tool)
    hashed = arguments_hash(call.name, call.arguments)
    approval = step.approvals.get(call.call_id)
    if approval is not None and approval.arguments_hash == hashed:
        if not approval.is_allowed:
            return _finished(call, _not_allowed(approval), is_error=True)
        if approval.settled == "allow_always":
            await _remember(agent, approval.pattern)
        return _Cleared(call=call, tool=tool)
    verdict = await _judge(host, call, tool, agent)
    if verdict.word == "allow":
        return _Cleared(call=call, tool=tool)
    if verdict.word == "deny":
        return _finished(call, verdict.reason or "the tool policy refuses it", is_error=True)
    return ApprovalAsked(
        call_id=call.call_id,
        arguments_hash=hashed,
        timeout_s=verdict.timeout_s,
        reason=verdict.reason,
        pattern=verdict.pattern,
        approvers=verdict.approvers or _who_began(host),
    )


def _not_allowed(approval: Approval) -> str:
    if approval.settled == "deny":
        return f"not allowed by {approval.by}" if approval.by else "not allowed"
    if approval.settled == "expired":
        return "not run: nobody allowed it in time"
    return OVERTAKEN


def _who_began(host: TurnHost) -> tuple[str, ...]:
    """Return who may answer where the policy names nobody: whoever the turn answers.

    Not those that it only heard: they did not speak to the agent. Where a program began it, who
    spoke last. A platform's message without a sender lets nobody on the platform answer, and
    whoever runs the gateway always may; elsewhere nobody has a name, and all may.
    """
    state = host.state
    turn = state.open_turn
    senders = _askers(turn.heard) if turn else ()
    if not senders:
        before = (_askers(each.heard) for each in reversed(state.held_turns))
        senders = next(filter(None, before), ())
    delivers = turn is not None and turn.delivers
    return ("",) if delivers and not senders else () if "" in senders and not delivers else senders


def _askers(users: Iterable[UserMessage]) -> tuple[str, ...]:
    """Return who spoke to the agent, each once.

    Somebody whose own id ends with a star is left out: among approvers it would mean others too.
    """
    asked = (user.sender for user in users if not user.quiet and not user.sender.endswith("*"))
    return tuple(dict.fromkeys(each for each in asked if each not in PROGRAM_SENDERS))


async def _judge(host: TurnHost, call: ToolCall, tool: Tool, agent: Agent) -> Verdict:
    if agent.gate is None:
        return ALLOW
    try:
        return await agent.gate.judge(call, tool, host.tool_context)
    except Exception as error:  # a boundary: a policy that fails allows nothing
        logger.exception("a tool policy failed", extra={"tool": call.name})
        return Verdict(word="deny", reason=f"the tool policy could not be asked: {_told(error)}")


async def _remember(agent: Agent, pattern: str) -> None:
    if agent.gate is None or not pattern:
        return
    try:
        await agent.gate.remember(pattern)
    except CoreError as error:
        logger.warning(
            "what is allowed for good could not be kept; it holds for this call alone",
            extra={"agent": agent.spec.name, "pattern": pattern, "error": str(error)},
        )


# --- the word of a person ---


async def _await_word(
    host: TurnHost, approval: Approval, agent: Agent, clock: Clock, deadline: anyio.CancelScope
) -> None:
    """Wait until the approval is settled; settle it where nobody does."""
    with standing_still(deadline):  # a person may take longer than a turn
        settled = await _word(host, approval, clock, steers=agent.spec.session.steering)
    if settled is not None:
        await host.settle(approval.call_id, settled)


async def _word(
    host: TurnHost, approval: Approval, clock: Clock, *, steers: bool
) -> Settled | None:
    """Return what becomes of the approval; None where somebody has answered."""
    while True:
        step = host.state.open_turn.step if host.state.open_turn else None
        present = step.approvals.get(approval.call_id) if step else None
        if present is None or present.settled is not None:
            return None
        came = steering(host.state.waiting) if steers else ()
        if any(approval.may_answer(each.sender) for each in came if not each.quiet):
            return "overtaken"
        left_s = (approval.expires_at - clock.now()).total_seconds()
        if left_s <= 0:
            return "expired"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_wake, clock, left_s, tasks.cancel_scope)
            await host.until_changed()
            tasks.cancel_scope.cancel()


async def _wake(clock: Clock, delay_s: float, sleeper: anyio.CancelScope) -> None:
    await clock.sleep(delay_s)
    sleeper.cancel()


# --- running ---


async def _run_all(batch: Sequence[_Cleared], context: ToolContext) -> list[ToolOutput]:
    """Run calls side by side; return what they gave, in the order of the calls."""
    if len(batch) == 1:
        return [await _run(batch[0], context)]
    outputs: dict[int, ToolOutput] = {}

    async def run(index: int, each: _Cleared) -> None:
        outputs[index] = await _run(each, context)

    async with anyio.create_task_group() as tasks:
        for index, each in enumerate(batch):
            tasks.start_soon(run, index, each)
    return [outputs[index] for index in range(len(batch))]


async def _run(cleared: _Cleared, context: ToolContext) -> ToolOutput:
    """Run a call; whatever it fails of is its result.

    Raises:
        ActorStoppedError: The gateway stops; the call goes on, or is told of, at its next start.
    """
    call, timeout_s = cleared.call, cleared.tool.traits.timeout_s
    with anyio.move_on_after(timeout_s):
        try:
            await checkpoint_if_cancelled()  # what begins with an effect must not even begin
            output = await cleared.tool.run(call, context)
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
    """Return an output with files that can be sent; else the reason why they cannot."""
    try:
        check_uploads(output.files)
    except InvalidInputError as error:
        return replace(output, text=str(error), is_error=True, files=())
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
    facts = host.memory.facts(agent.spec.model)
    result = ToolResult(
        call_id=call.call_id, name=call.name, text=output.text, is_error=output.is_error
    )
    text = host.renderer.intake(agent.spec, agent.offered(facts), facts, result, path)
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
        attachments=await _kept(output.files, host.tool_context),
    )


async def _kept(files: Sequence[Upload], context: ToolContext) -> tuple[Attachment, ...]:
    """Keep the files that a call sends, before the event that names them is written."""
    if not files:
        return ()
    named = await to_thread.run_sync(lambda: tuple(map(attachment_of, files)))
    for file, attachment in zip(files, named, strict=True):
        await context.store.save_media(context.session_id, attachment.name, file.data)
    return named
