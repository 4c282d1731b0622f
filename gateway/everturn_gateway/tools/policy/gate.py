"""Decides which calls of an agent run, which need a person, and which are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from everturn_actors.model import ToolCall
from everturn_actors.ports import ALLOW, Tool, ToolContext, Verdict
from everturn_gateway.tools.conversations import sources_behind
from everturn_gateway.tools.environment import capabilities_of
from everturn_gateway.tools.places import NOBODY_ANSWERS
from everturn_gateway.tools.policy import command_state as _command_state
from everturn_gateway.tools.policy.binding import bound, bound_to_state, run_by
from everturn_gateway.tools.policy.hooks import Guard, refusal
from everturn_gateway.tools.policy.judged_writes import JudgedWrites
from everturn_gateway.tools.policy.outside.given import GivenAddresses
from everturn_gateway.tools.policy.outside.shown import (
    only_reads,
    shown,
    why_not_read,
)
from everturn_gateway.tools.policy.policy import Policy
from everturn_gateway.tools.policy.policy_files.loading import LOCAL_FILE
from everturn_gateway.tools.policy.policy_files.writing import PolicyWriteError, add_allowed
from everturn_gateway.tools.policy.rules import command_rules as _command_rules
from everturn_gateway.tools.policy.rules.patterns import Pattern, PatternError, read_pattern
from everturn_gateway.tools.policy.subjects import Subject, looked_at, subject_of

# What judges by a policy looks these up late: they are loaded here, in the thread of the gate.
_LOADED = (_command_state, _command_rules)


class _Weighed(Struct, frozen=True):
    """What the policy itself says of a call."""

    denied: Pattern | None
    refusal: str
    "Why its allow list does not let the call run; empty where it does."


class PolicyGate:
    """The gate of one agent.

    First what is denied, in every mode; then the guards; then the mode. Safe to ask from several
    conversations at once.
    """

    def __init__(
        self,
        policy: Policy,
        home: Path,
        *,
        guards: Sequence[Guard] = (),
        granted: Callable[[ToolContext], Sequence[str]] | None = None,
        owner_texts: Sequence[str] = (),
        workspace: Path | None = None,
        writes: JudgedWrites | None = None,
    ) -> None:
        """Build it.

        Args:
            policy: What holds now.
            home: The agent's folder; what is allowed for good is written there.
            guards: The agent's hooks before a call.
            granted: Patterns that are allowed besides, in the conversation as it stands: those of
                the skills that were read. A text that is no pattern allows nothing.
            owner_texts: What the agent's owner wrote for it. Addresses in them may be read.
            workspace: The folder whose files a call names; None = no verdict is bound to files.
            writes: Is told which file a call was judged for; the file tools look there.
        """
        self._policy = policy
        self._home = home
        self._guards = tuple(guards)
        self._granted = granted
        self._given = GivenAddresses(owner_texts)
        self._workspace = workspace
        self._writes = writes or JudgedWrites()

    @property
    def policy(self) -> Policy:
        """What holds now, what was allowed for good since it was loaded included."""
        return self._policy

    async def evaluate(self, call: ToolCall, tool: Tool, context: ToolContext) -> Verdict:
        """Say whether a call may run.

        It is judged by the state that it would meet: what the files of the workspace make of it. A
        question is bound to the files that the call names, and can be allowed for good only where
        its words mean the same tomorrow; a command that may run is bound to what configures it.
        """
        # In each call anew: a skill may have been read since.
        allowing = self._policy.allowing(*self._granted_now(context))
        self._writes.by_policy = allowing.named_files
        self._writes.held.begin(context.session_id, call.call_id)
        subject = await subject_of(call, tool)
        subject = await looked_at(subject, call, tool, named=self._writes.named)
        if subject.write is not None and subject.protected:
            self._writes.note(context.session_id, call.call_id, subject.write.path)
        verdict = await self._evaluate(allowing, subject, call, tool, context)
        if self._workspace is None or verdict.effect == "deny":
            return verdict
        if verdict.effect == "ask":
            # First: what changes between here and the digests is seen, what comes later asks.
            await self._hold(verdict, subject, call, tool, context)
        bind = bound if verdict.effect == "ask" else bound_to_state
        return await anyio.to_thread.run_sync(bind, verdict, subject, call, self._workspace)

    async def _hold(
        self, verdict: Verdict, subject: Subject, call: ToolCall, tool: Tool, context: ToolContext
    ) -> None:
        """Keep others from writing what a call may run, until it is answered and over."""
        assert self._workspace is not None, "the caller has looked"
        if subject.line is None:
            return
        paths = await anyio.to_thread.run_sync(run_by, subject, call, self._workspace)
        for_s = verdict.timeout_s + tool.capabilities.timeout_s
        self._writes.held.hold(context.session_id, call.call_id, paths, for_s=for_s)

    async def _evaluate(
        self, policy: Policy, subject: Subject, call: ToolCall, tool: Tool, context: ToolContext
    ) -> Verdict:
        sources = sources_behind(context)
        weighed = await _weigh(policy, subject, is_tainted=bool(sources))
        # Before all else: no mode and no hook allows what an owner denies.
        if weighed.denied is not None:
            reason = f"the policy denies it (deny: {weighed.denied.text})"
            return Verdict(effect="deny", reason=reason)
        if reason := refusal(self._guards, call, context.conversation):
            return Verdict(effect="deny", reason=reason)
        if policy.mode == "dangerous":
            return ALLOW
        capabilities = capabilities_of(tool, call)
        # What a tool says of itself never covers a command.
        is_safe = capabilities.safe and subject.line is None and not subject.protected
        may_run = is_safe or not weighed.refusal
        if policy.mode == "restrict" and not may_run:
            hint = "what is not allowed is refused here (mode restrict); do without, or say so"
            return Verdict(effect="deny", reason=f"{weighed.refusal}; {hint}")
        if policy.after_untrusted == "ask" and sources:
            if is_safe and capabilities.read_only:
                return ALLOW
            why = "" if may_run else weighed.refusal
            if may_run and only_reads(capabilities, subject, is_told=policy.tells_to_read(subject)):
                # In a thread: after a start, a long conversation is read as a whole.
                given = await anyio.to_thread.run_sync(
                    self._given.of, context.session_id, context.conversation
                )
                why = why_not_read(call, subject, context, given)
                if not why:
                    return ALLOW
            reason = "; ".join(each for each in (why, shown(sources, context)) if each)
            # No "always": it would hold for what strangers write next.
            return _asking(policy, context, reason=reason, pattern="")
        if may_run:
            return ALLOW
        return _asking(policy, context, reason=weighed.refusal, pattern=subject.pattern)

    async def remember(self, pattern: str) -> None:
        """Allow `pattern` for good; return when that is durable, and in force.

        Raises:
            PolicyWriteError: It is no pattern, or the file could not be written.
        """
        file = self._home / LOCAL_FILE
        try:
            read = read_pattern(pattern)
        except PatternError as error:
            raise PolicyWriteError(file, f"cannot hold {pattern[:80]!r}: it {error}") from error
        await anyio.to_thread.run_sync(add_allowed, file, pattern)
        self._policy = self._policy.allowing(read)  # after the file: a failed write allows nothing

    def _granted_now(self, context: ToolContext) -> list[Pattern]:
        granted: list[Pattern] = []
        for text in self._granted(context) if self._granted is not None else ():
            try:
                granted.append(read_pattern(text))
            except PatternError:
                continue  # whoever reads the skill has said so
        return granted


async def _weigh(policy: Policy, subject: Subject, *, is_tainted: bool) -> _Weighed:
    def weigh() -> _Weighed:
        denied = policy.denied_by(subject)
        refusal = "" if denied else policy.refusal(subject, is_tainted=is_tainted)
        return _Weighed(denied, refusal)

    # Many patterns over a long command line take their time.
    return weigh() if subject.line is None else await anyio.to_thread.run_sync(weigh)


def _asking(policy: Policy, context: ToolContext, *, reason: str, pattern: str) -> Verdict:
    if context.key.channel in NOBODY_ANSWERS:
        hint = "nobody can be asked in this conversation; do it another way, or report it"
        # A question would wait for its deadline, and the turn with it.
        return Verdict(effect="deny", reason=f"{reason}; {hint}")
    return Verdict(
        effect="ask",
        reason=reason,
        pattern=pattern,
        approvers=policy.approvers,
        timeout_s=policy.approval_timeout_s,
    )
