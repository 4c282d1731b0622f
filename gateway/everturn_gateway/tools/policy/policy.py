"""A tool policy as values: what it denies, allows and tells of. Pure, but for its subjects."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from everturn_gateway.tools.policy.commands.analysis import CommandLine, Seen
from everturn_gateway.tools.policy.commands.words import FILLED
from everturn_gateway.tools.policy.patterns import Pattern
from everturn_gateway.tools.policy.subjects import Subject

Mode: TypeAlias = Literal["dangerous", "ask", "restrict"]
AfterUntrusted: TypeAlias = Literal["ask", "allow"]

DEFAULT_TIMEOUT_S = 3600
_BLANKS: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class LogDelivery:
    """A line in the gateway's log."""


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A POST of JSON to an address."""

    url: str = field(repr=False)


Delivery: TypeAlias = LogDelivery | WebhookDelivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Which calls somebody is told of, and how."""

    patterns: tuple[Pattern, ...] = ()
    "None = every call."
    deliveries: tuple[Delivery, ...] = (LogDelivery(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
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

    def allows(self, subject: Subject) -> bool:
        """Return whether the allow list lets a call run that nothing forbids."""
        if subject.line is not None:
            return _allows_line(self.allow, self.deny, subject.line)
        return any(
            pattern.concerns(subject.own_kind) and any(map(pattern.matches, subject.allowed_by))
            for pattern in self.allow
        )

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
    line = subject.line
    if line is None or not pattern.concerns("bash"):
        return False
    texts = dict.fromkeys((line.text, line.text.strip(), _BLANKS.sub(" ", line.text).strip()))
    return any(map(pattern.matches, texts)) or any(_hits(pattern, seen) for seen in line.seen)


def _hits(pattern: Pattern, seen: Seen) -> bool:
    return any(pattern.matches(seen.flat, start) for start in seen.starts) or any(
        map(pattern.matches, seen.forms)
    )


def _allows_line(allow: Iterable[Pattern], deny: Iterable[Pattern], line: CommandLine) -> bool:
    """Return whether patterns allow a command line: each of its commands, in the narrow sense."""
    allowing = [pattern for pattern in allow if pattern.concerns("bash")]
    denying = [pattern for pattern in deny if pattern.concerns("bash")]
    if any(_may_hit(pattern, seen) for pattern in denying for seen in line.seen):
        return False
    if any(pattern.is_everything for pattern in allowing):
        return line.is_clear or not denying
    return bool(line.commands) and all(
        any(
            pattern.matches(command.shown) or (command.is_fixed and pattern.matches(command.source))
            for pattern in allowing
        )
        for command in line.commands
    )


def _may_hit(pattern: Pattern, seen: Seen) -> bool:
    """Return whether what the shell fills in could make a command one that `pattern` denies.

    Only of patterns that begin with a fixed text: one that begins with a star looks for a text
    inside a command line, and looks at the line as it is written.
    """
    beginning = pattern.beginning
    if not beginning or FILLED not in seen.hazy:
        return False
    for start in seen.starts:
        filled = seen.hazy.find(FILLED, start)
        known = seen.hazy[start:filled]
        if filled >= 0 and (beginning.startswith(known) or known.startswith(beginning)):
            return True
    return False
