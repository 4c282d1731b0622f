"""A tool policy as values: what it denies, allows and tells of. Pure, but for its subjects."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from everturn_gateway.late_loading import late
from everturn_gateway.tools.policy.rules.patterns import Pattern

if TYPE_CHECKING:
    from everturn_gateway.tools.policy.commands.analysis import Seen
    from everturn_gateway.tools.policy.rules import command_rules
    from everturn_gateway.tools.policy.subjects import Subject
else:
    command_rules = late("everturn_gateway.tools.policy.rules.command_rules")

Mode: TypeAlias = Literal["dangerous", "ask", "restrict"]
AfterUntrusted: TypeAlias = Literal["ask", "allow"]

DEFAULT_TIMEOUT_S = 3600
_BLANKS: Final = re.compile(r"\s+")


class LogDelivery(Struct, frozen=True):
    """A line in the gateway's log."""


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A POST of JSON to an address."""

    url: str = field(repr=False)


Delivery: TypeAlias = LogDelivery | WebhookDelivery


class Notify(Struct, frozen=True, kw_only=True):
    """Which calls somebody is told of, and how."""

    patterns: tuple[Pattern, ...] = ()
    "None = every call."
    deliveries: tuple[Delivery, ...] = (LogDelivery(),)


class Policy(Struct, frozen=True, kw_only=True):
    """All tiers of an agent's policy together."""

    mode: Mode = "ask"
    deny: tuple[Pattern, ...] = ()
    allow: tuple[Pattern, ...] = ()
    notify: Notify | None = None
    "None: nobody is told of anything."
    approvers: tuple[str, ...] = ()
    "Who may answer, see `Approval.approvers`; empty = all who may talk in the conversation."
    approval_timeout_s: int = DEFAULT_TIMEOUT_S
    after_untrusted: AfterUntrusted = "ask"
    "What becomes of effects while text that nobody vouches for is shown to the model."
    reads: tuple[Pattern, ...] = ()
    "Calls that only read, on the owner's word: what is allowed of them goes on then."

    def allowing(self, *patterns: Pattern) -> Policy:
        """Return the same policy with further patterns that are allowed."""
        new = tuple(each for each in dict.fromkeys(patterns) if each not in self.allow)
        return replace(self, allow=(*self.allow, *new)) if new else self

    def denied_by(self, subject: Subject) -> Pattern | None:
        """Return the first pattern that forbids a call."""
        return next((each for each in self.deny if hits(each, subject)), None)

    def allows(self, subject: Subject, *, is_tainted: bool = False) -> bool:
        """Return whether the allow list lets a call run that nothing forbids; see `refusal`."""
        return not self.refusal(subject, is_tainted=is_tainted)

    def refusal(self, subject: Subject, *, is_tainted: bool = False) -> str:
        """Return why the allow list does not let a call run, in words; empty where it does.

        Args:
            subject: The call.
            is_tainted: Whether text from outside may be behind it: then no `code:` counts.
        """
        if subject.line is not None:
            is_sealed = subject.state is not None and subject.state.is_sealed
            line = command_rules.CommandRules(
                self.allow, self.deny, is_sealed=is_sealed, is_tainted=is_tainted
            )
            return line.refusal(subject.line, subject.faults)
        if subject.protected and subject.write is not None:
            path = subject.write.path
            allowing = (each for each in self.allow if each.kind == "write")
            if any(pattern.matches(path) for pattern in allowing):
                return ""
            return (
                f"writing {path} needs a person: {subject.protected}"
                f" (a pattern write:{path} would allow it)"
            )
        is_listed = any(
            pattern.concerns(subject.own_kind) and any(map(pattern.matches, subject.allowed_by))
            for pattern in self.allow
        )
        return "" if is_listed else command_rules.NOT_LISTED

    @property
    def named_files(self) -> frozenset[str]:
        """Files of the workspace that patterns allow to be run, as seen from there."""
        return frozenset(name for pattern in self.allow for name in command_rules.named_by(pattern))

    def tells_to_read(self, subject: Subject) -> bool:
        """Return whether the owner says that a call only reads; of a command nobody can."""
        return subject.line is None and any(
            pattern.concerns(subject.own_kind) and any(map(pattern.matches, subject.allowed_by))
            for pattern in self.reads
        )

    def tells_of(self, subject: Subject) -> bool:
        """Return whether somebody is to be told of a call."""
        if self.notify is None:
            return False
        patterns = self.notify.patterns
        return not patterns or any(hits(each, subject) for each in patterns)


def hits(pattern: Pattern, subject: Subject) -> bool:
    """Return whether a pattern speaks of a call, or of any command that it would run.

    This is the wide sense, in which patterns deny and notify: the text as it stands, every command
    in it however it is nested or wrapped, each in every way to write it.
    """
    if pattern.concerns(subject.own_kind) and any(map(pattern.matches, subject.names)):
        return True
    if pattern.kind == "write" and subject.write is not None:
        return pattern.matches(subject.write.path)
    line = subject.line
    if line is None or not pattern.is_for_commands:
        return False
    texts = dict.fromkeys((line.text, line.text.strip(), _BLANKS.sub(" ", line.text).strip()))
    return any(map(pattern.matches, texts)) or any(_hits(pattern, seen) for seen in line.seen)


def _hits(pattern: Pattern, seen: Seen) -> bool:
    return any(pattern.matches(seen.flat, start) for start in seen.starts) or any(
        map(pattern.matches, seen.forms)
    )
