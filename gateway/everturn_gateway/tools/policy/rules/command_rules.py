"""Whether patterns allow a command line, in the narrow sense, and why they do not. Pure."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from everturn_gateway.tools.policy.commands.analysis import CommandLine, Seen
from everturn_gateway.tools.policy.commands.programs import look_up
from everturn_gateway.tools.policy.commands.strict import SimpleCommand
from everturn_gateway.tools.policy.commands.words import FILLED
from everturn_gateway.tools.policy.rules.patterns import Pattern

NOT_LISTED: Final = "it is not on the allow list"
_SHOWN_CHARACTERS: Final = 60  # of a command in a hint


class CommandRules(Struct, frozen=True):
    """The patterns of a policy, and what is known of the place where a line would run."""

    allow: tuple[Pattern, ...]
    deny: tuple[Pattern, ...]
    is_sealed: bool = False
    "Whether it runs in the sandbox, without network."
    is_tainted: bool = False
    "Whether text from outside may be behind it."

    def refusal(self, line: CommandLine, faults: Sequence[str]) -> str:
        """Return why patterns do not allow a line; empty where they allow each of its commands.

        Args:
            line: The line.
            faults: For each of its commands, why no `bash:` pattern allows it.
        """
        denying = [pattern for pattern in self.deny if pattern.is_for_commands]
        if any(may_hit(pattern, seen) for pattern in denying for seen in line.seen):
            return "the shell could make a command of it that the policy denies"
        if denying and not line.is_clear:
            return "it cannot be told whether it runs what the policy denies"
        if self._allows_everything():
            return ""
        if not line.commands:
            return f"no pattern can allow this command: {line.refusal}"
        for command, fault in zip(line.commands, faults, strict=True):
            if why := self._why_not(command, fault):
                return why
        return ""

    def _allows_everything(self) -> bool:
        """Whether all commands are allowed, and all that they may run: then none is looked at."""
        kinds = {pattern.kind for pattern in self.allow if pattern.is_everything}
        return "code" in kinds and not self._no_code()

    def _why_not(self, command: SimpleCommand, fault: str) -> str:
        if not fault and self._is_listed(command, ("bash", "*")):
            return ""
        if self._is_listed(command, ("code",)):
            why = self._no_code()
            return why and f"{fault or NOT_LISTED}; {why}"
        if fault and self._is_listed(command, ("bash", "*")):
            shown = command.shown.replace(FILLED, "...")[:_SHOWN_CHARACTERS]
            return f"{fault}; no bash: pattern allows that, a pattern like code:{shown} would"
        return NOT_LISTED

    def _no_code(self) -> str:
        """Return why no `code:` pattern counts here; empty where it does."""
        if not self.is_sealed:
            return "code: patterns count only in the sandbox bwrap without network"
        if self.is_tainted:
            return "code: patterns do not count after text from outside"
        return ""

    def _is_listed(self, command: SimpleCommand, kinds: tuple[str, ...]) -> bool:
        return any(
            pattern.matches(command.shown) or (command.is_fixed and pattern.matches(command.source))
            for pattern in self.allow
            if pattern.kind in kinds
        )


def named_by(pattern: Pattern) -> Iterator[str]:
    """Yield the files that a pattern allows to be run, as seen from the workspace.

    These are its fixed words: who may run `sh report.sh` may not write `report.sh` as well. What a
    plain program reads is not run.
    """
    if pattern.kind not in {"bash", "code"}:
        return
    text = "\0".join(pattern.parts)
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    if not words or (pattern.kind == "bash" and look_up(words[0]).kind in {"plain", "guarded"}):
        return
    for number, word in enumerate(words):
        if "\0" in word or (number == 0 and "/" not in word):
            continue
        for name in {word, word.partition("=")[2]}:
            path = posixpath.normpath(name)
            if (
                name
                and not name.startswith("-")
                and not path.startswith(("/", ".."))
                and path != "."
            ):
                yield path


def may_hit(pattern: Pattern, seen: Seen) -> bool:
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
