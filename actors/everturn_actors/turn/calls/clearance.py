"""Whether a call of the open step may run: judged, asked about, and judged again as it begins.

A person's decision holds for what was shown and for the files that the call named, as they stood.
So every call is judged by the state that it meets: before a question, after the answer (also where
the gateway was started anew in between), and, where files were part of it, once more as it begins.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final, cast

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import CoreError
from everturn_actors.events import ApprovalAsked, CallFinished
from everturn_actors.ids import arguments_hash
from everturn_actors.model import (
    PROGRAM_SENDERS,
    Approval,
    FileDigest,
    Inquiry,
    OpenStep,
    ToolCall,
    UserMessage,
)
from everturn_actors.outside import behind_calls
from everturn_actors.ports import ALLOW, Agent, AsksPeople, Tool, Verdict
from everturn_actors.turn.model_call import TurnHost

logger = logging.getLogger(__name__)

OVERTAKEN: Final = "not run: a new message came first"
_NAMED = 5  # files that changed, named to people; beyond it a number says enough


class Cleared(Struct, frozen=True, kw_only=True):
    """A call that may run."""

    call: ToolCall
    tool: Tool
    files: tuple[FileDigest, ...] = ()
    "What it was judged by beside the call; see `Verdict.files`."
    approval: Approval | None = None
    "The decision of a person that lets it run; None = nobody was asked."
    began_before: bool = False
    "Whether it began before a restart: what it was judged by then is not known."


async def cleared(
    host: TurnHost, step: OpenStep, call: ToolCall, agent: Agent
) -> Cleared | CallFinished | ApprovalAsked:
    """Return the call as one that may run, its result where it may not, or the question.

    A call that somebody allowed is judged anew. It is asked about again where a file that it names
    has changed since, and refused where the policy denies it meanwhile.
    """
    tool = agent.tools.get(call.name)
    if tool is None:
        known = ", ".join(sorted(agent.tools)) or "none"
        text = f"there is no tool {call.name!r}; there are: {known}"
        return finished(call, text, is_error=True)
    approval = step.approvals.get(call.call_id)
    if call.call_id in step.started:  # it began before a restart, and may run twice
        return Cleared(call=call, tool=tool, approval=approval, began_before=True)
    if approval is not None and approval.state:  # it ran until it asked somebody something
        verdict = await _evaluate(host, call, tool, agent)
        if verdict.effect == "deny":
            return finished(call, _refused(verdict), is_error=True, is_refused=True)
        return Cleared(call=call, tool=tool, approval=approval)
    # What was shown is not what would run: the decision was about something else.
    if approval is not None and not _is_about(approval, call):
        approval = None
    # The answer is the result; nothing runs that a policy could judge.
    if approval is not None and approval.inquiry is not None:
        return _answered(call, approval, approval.inquiry)
    if approval is not None and not approval.is_allowed:
        is_late = approval.resolution == "expired"
        return finished(call, _not_allowed(approval), is_error=True, is_refused=is_late)
    verdict = await _evaluate(host, call, tool, agent)
    if verdict.effect == "deny":
        return finished(call, _refused(verdict), is_error=True, is_refused=True)
    # After the policy, which may forbid to ask, and in the place of its own question.
    if tool.capabilities.asks_people:
        return _inquiry(host, call, tool)
    if verdict.effect == "allow":
        return Cleared(call=call, tool=tool, files=verdict.files)
    # The first time that it meets a policy which asks.
    if approval is None:
        return _question(host, call, verdict)
    if changed := changed_files(approval.files, verdict.files):
        again = f"{_listed(changed)} changed since this was allowed, so it is asked again"
        reason = f"{again}; {verdict.reason}" if verdict.reason else again
        return _question(host, call, replace(verdict, reason=reason))
    # What could be allowed for good when it was asked may not be any more.
    if approval.resolution == "allow_always" and approval.pattern == verdict.pattern:
        await _remember(agent, approval.pattern)
    return Cleared(call=call, tool=tool, files=verdict.files, approval=approval)


async def why_not_now(host: TurnHost, call: Cleared, agent: Agent) -> str:
    """Return why a call that was cleared must not begin; empty where it may.

    It is judged once more where files were part of it. Nothing more is done for any other call.
    """
    if not call.files and not call.began_before:
        return ""
    verdict = await _evaluate(host, call.call, call.tool, agent)
    if verdict.effect == "deny":
        return _refused(verdict)
    decided = call.approval
    is_allowed = decided is not None and decided.is_allowed and _is_about(decided, call.call)
    # What was allowed by a person, or ran before, is not held up by files that may have changed.
    if verdict.effect == "allow" and (is_allowed or call.began_before):
        return ""
    if verdict.effect == "ask" and not is_allowed:
        return f"not run: {verdict.reason or 'a person has to allow it'}; call it again"
    before = decided.files if decided is not None else call.files
    if changed := changed_files(before, verdict.files):
        return f"not run: {_listed(changed)} changed as it began; call it again"
    return ""


def finished(
    call: ToolCall, text: str, *, is_error: bool, is_refused: bool = False
) -> CallFinished:
    """Return the result of a call that did not run."""
    return CallFinished(call_id=call.call_id, text=text, is_error=is_error, is_refused=is_refused)


def changed_files(before: Iterable[FileDigest], now: Iterable[FileDigest]) -> tuple[str, ...]:
    """Return what differs between two looks at files, by path: changed, come or gone; sorted."""
    old = {each.path: each.digest for each in before}
    new = {each.path: each.digest for each in now}
    return tuple(sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path)))


def _is_about(approval: Approval, call: ToolCall) -> bool:
    return approval.arguments_hash == _hash(call, approval.files)


def _hash(call: ToolCall, files: Iterable[FileDigest]) -> str:
    pairs = [(each.path, each.digest) for each in files]
    return arguments_hash(call.name, call.arguments, pairs)


def _question(host: TurnHost, call: ToolCall, verdict: Verdict) -> ApprovalAsked:
    """Return the question whether a call may run."""
    return ApprovalAsked(
        call_id=call.call_id,
        arguments_hash=_hash(call, verdict.files),
        timeout_s=verdict.timeout_s,
        reason=verdict.reason,
        pattern=verdict.pattern,
        approvers=verdict.approvers or who_began(host),
        files=verdict.files,
    )


def _inquiry(host: TurnHost, call: ToolCall, tool: Tool) -> ApprovalAsked | CallFinished:
    """Return what a call asks a person, with what may be behind its words."""
    try:
        made = cast("AsksPeople", tool).inquiry_of(call, host.tool_context)
    except CoreError as error:
        return finished(call, str(error), is_error=True)
    outside = behind_calls(host.state.open_turn)
    reason = f"{', '.join(outside)} may be behind this question" if outside else ""
    return ApprovalAsked(
        call_id=call.call_id,
        arguments_hash=_hash(call, ()),
        timeout_s=made.timeout_s,
        reason=reason,
        approvers=made.approvers or who_began(host),
        inquiry=made.inquiry,
    )


def _answered(call: ToolCall, approval: Approval, inquiry: Inquiry) -> CallFinished:
    """Return what a question to people came to, as the result of its call."""
    match approval.resolution:
        case "answer":
            return finished(call, approval.answer, is_error=False)
        case "deny":
            return finished(call, "they do not want to answer this", is_error=True)
        case "expired" if inquiry.default:
            text = f"nobody answered in time; go on with: {inquiry.default}"
            return finished(call, text, is_error=False)
        case "expired":
            return finished(call, "nobody answered in time", is_error=True)
        case _:
            return finished(call, "a new message came first: it may be the answer", is_error=True)


def _refused(verdict: Verdict) -> str:
    return verdict.reason or "the tool policy refuses it"


def _listed(paths: Sequence[str]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _not_allowed(approval: Approval) -> str:
    """Return why a call does not run that a person was asked about."""
    if approval.resolution == "deny":
        return f"not allowed by {approval.by}" if approval.by else "not allowed"
    if approval.resolution == "expired":
        return "not run: nobody allowed it in time"
    return OVERTAKEN


def who_began(host: TurnHost) -> tuple[str, ...]:
    """Return who may answer where the policy names nobody: whoever the turn answers.

    Not those that it only heard: they did not speak to the agent. Where a program began it, who
    spoke last. A platform's message without a sender lets nobody on the platform answer, and
    whoever runs the gateway always may; elsewhere nobody has a name, and all may. A session that
    belongs to somebody is closed to others, and who of those who see it may answer is for whoever
    brings their answers to say.
    """
    state = host.state
    # Its owner is known by a token, and whoever brings an answer was looked at there.
    if state.principal:
        return ()
    turn = state.open_turn
    senders = _askers(turn.heard) if turn else ()
    # A program began this turn: whoever spoke before it began the program.
    if not senders:
        before = (_askers(each.heard) for each in reversed(state.held_turns))
        senders = next(filter(None, before), ())
    delivers = turn is not None and turn.delivers
    return ("",) if delivers and not senders else () if "" in senders and not delivers else senders


def _askers(users: Iterable[UserMessage]) -> tuple[str, ...]:
    """Return who spoke to the agent, each once.

    Somebody whose own id ends with a star is left out: among approvers it would mean others too.
    """
    asked = (user.sender for user in users if not user.ambient and not user.sender.endswith("*"))
    return tuple(dict.fromkeys(each for each in asked if each not in PROGRAM_SENDERS))


async def _evaluate(host: TurnHost, call: ToolCall, tool: Tool, agent: Agent) -> Verdict:
    """Return what the policy says of a call; one that fails allows nothing."""
    # An agent made of objects may have no policy: its author decides what its tools do.
    if agent.gate is None:
        return ALLOW
    try:
        return await agent.gate.evaluate(call, tool, host.tool_context)
    except Exception as error:  # a boundary: a policy that fails allows nothing
        logger.exception("a tool policy failed", extra={"tool": call.name})
        kind = type(error).__name__
        return Verdict(effect="deny", reason=f"the tool policy could not be asked: {kind}")


async def _remember(agent: Agent, pattern: str) -> None:
    """Keep a pattern that a person allows for good; the call runs all the same."""
    if agent.gate is None or not pattern:
        return
    try:
        await agent.gate.remember(pattern)
    except CoreError as error:
        logger.warning(
            "what is allowed for good could not be kept; it holds for this call alone",
            extra={"agent": agent.spec.name, "pattern": pattern, "error": str(error)},
        )
