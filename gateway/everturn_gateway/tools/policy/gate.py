"""Decides which calls of an agent run, which need a person, and which are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio.to_thread

from everturn_actors.model import ToolCall
from everturn_actors.ports import ALLOW, Tool, ToolContext, Verdict
from everturn_gateway.scheduler.jobs import ISOLATED
from everturn_gateway.tools.conversations import DELEGATE, sources_behind
from everturn_gateway.tools.policy.binding import bound
from everturn_gateway.tools.policy.given import GivenAddresses
from everturn_gateway.tools.policy.hooks import Guard, refusal
from everturn_gateway.tools.policy.loading import LOCAL_FILE
from everturn_gateway.tools.policy.outside import (
    only_reads,
    shown,
    why_not_read,
)
from everturn_gateway.tools.policy.patterns import Pattern, PatternError, read_pattern
from everturn_gateway.tools.policy.policy import Policy
from everturn_gateway.tools.policy.subjects import Subject, subject_of
from everturn_gateway.tools.policy.writing import PolicyWriteError, add_allowed
from everturn_gateway.tools.site import traits_of

NOBODY_ANSWERS: Final = frozenset((DELEGATE, ISOLATED, "once"))
"Channels of conversations in which there is no person."


@dataclass(frozen=True, slots=True)
class _Weighed:
    """What the policy itself says of a call."""

    denied: Pattern | None
    is_allowed: bool


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
        """
        self._policy = policy
        self._home = home
        self._guards = tuple(guards)
        self._granted = granted
        self._given = GivenAddresses(owner_texts)
        self._workspace = workspace

    @property
    def policy(self) -> Policy:
        """What holds now, what was allowed for good since it was loaded included."""
        return self._policy

    async def judge(self, call: ToolCall, tool: Tool, context: ToolContext) -> Verdict:
        """Say whether a call may run.

        What a person is asked for is bound to the files of the workspace that the call names, and
        can be allowed for good only where its words mean the same tomorrow.
        """
        subject = await subject_of(call, tool)
        verdict = await self._judge(subject, call, tool, context)
        if verdict.word != "ask" or self._workspace is None:
            return verdict
        return await anyio.to_thread.run_sync(bound, verdict, subject, call, self._workspace)

    async def _judge(
        self, subject: Subject, call: ToolCall, tool: Tool, context: ToolContext
    ) -> Verdict:
        policy = self._policy
        weighed = await self._weigh(policy, subject, context)
        if weighed.denied is not None:
            reason = f"the policy denies it (deny: {weighed.denied.text})"
            return Verdict(word="deny", reason=reason)
        if reason := refusal(self._guards, call, context.conversation):
            return Verdict(word="deny", reason=reason)
        if policy.mode == "dangerous":
            return ALLOW
        traits = traits_of(tool, call)
        is_safe = traits.safe and subject.line is None
        may_run = weighed.is_allowed or is_safe
        if policy.mode == "restrict" and not may_run:
            hint = "what is not allowed is refused here (mode restrict); do without, or say so"
            return Verdict(word="deny", reason=f"{_why_not(subject)}; {hint}")
        if policy.after_untrusted == "ask" and (sources := sources_behind(context)):
            if is_safe and traits.read_only:
                return ALLOW
            why = "" if may_run else _why_not(subject)
            if may_run and only_reads(traits, subject, is_told=policy.tells_to_read(subject)):
                given = self._given.of(context.session_id, context.conversation)
                why = why_not_read(call, subject, context, given)
                if not why:
                    return ALLOW
            reason = "; ".join(each for each in (why, shown(sources, context)) if each)
            return _asking(policy, context, reason=reason, pattern="")
        if may_run:
            return ALLOW
        return _asking(policy, context, reason=_why_not(subject), pattern=subject.pattern)

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
        self._policy = self._policy.allowing(read)

    async def _weigh(self, policy: Policy, subject: Subject, context: ToolContext) -> _Weighed:
        allowing = policy.allowing(*self._granted_now(context))

        def weigh() -> _Weighed:
            denied = allowing.denied_by(subject)
            return _Weighed(denied, is_allowed=denied is None and allowing.allows(subject))

        # Many patterns over a long command line take their time.
        return weigh() if subject.line is None else await anyio.to_thread.run_sync(weigh)

    def _granted_now(self, context: ToolContext) -> list[Pattern]:
        granted: list[Pattern] = []
        for text in self._granted(context) if self._granted is not None else ():
            try:
                granted.append(read_pattern(text))
            except PatternError:
                continue  # whoever reads the skill has said so
        return granted


def _asking(policy: Policy, context: ToolContext, *, reason: str, pattern: str) -> Verdict:
    if context.key.channel in NOBODY_ANSWERS:
        hint = "nobody can be asked in this conversation; do it another way, or report it"
        return Verdict(word="deny", reason=f"{reason}; {hint}")
    return Verdict(
        word="ask",
        reason=reason,
        pattern=pattern,
        approvers=policy.approvers,
        timeout_s=policy.approval_timeout_s,
    )


def _why_not(subject: Subject) -> str:
    line = subject.line
    if line is not None and line.refusal:
        return f"no pattern can allow this command: {line.refusal}"
    return "it is not on the allow list"
