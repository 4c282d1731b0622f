"""What to tell an agent's owner of patterns that cannot allow what they seem to. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from everturn_gateway.tools.policy.commands.programs import look_up
from everturn_gateway.tools.policy.commands.strict import RefusedError, read_strictly
from everturn_gateway.tools.policy.commands.uses import use_of
from everturn_gateway.tools.policy.policy import Policy
from everturn_gateway.tools.policy.rules.patterns import Pattern

_BLANKS: Final = " \t"


def notes_on(policy: Policy, *, runs_code: bool) -> Iterator[str]:
    """Yield what an owner should know of the allow list, one sentence each, in its order.

    Args:
        policy: The rules of the agent.
        runs_code: Whether a tool of the agent runs commands where `code:` patterns count.
    """
    for pattern in policy.allow:
        if pattern.kind == "bash":
            yield from _on_command(pattern, runs_code=runs_code)
        elif pattern.kind == "code" and not runs_code:
            yield (
                f"{pattern.text} allows nothing here: code: patterns count only where commands run"
                " in the sandbox bwrap without network"
            )


def _on_command(pattern: Pattern, *, runs_code: bool) -> Iterator[str]:
    glob = pattern.text.partition(":")[2]
    way_out = f"write code:{glob}" if runs_code else "no pattern can allow that here"
    if pattern.is_everything:
        yield (
            f"{pattern.text} allows no command that runs code, such as python, make or sh"
            f" ({way_out}), and none that cannot be taken apart"
        )
        return
    name = _name_of(pattern)
    if not name:
        return
    program = look_up(name)
    if "/" in name and not name.startswith("/"):
        yield f"{pattern.text} allows nothing: {name} is a file of the workspace; {way_out}"
    elif program.kind == "code":
        yield f"{pattern.text} allows nothing: {name} {program.why}; {way_out}"
    elif len(pattern.parts) == 1 and (fault := _fault_of(glob)):
        yield f"{pattern.text} allows nothing: {fault}; {way_out}"


def _name_of(pattern: Pattern) -> str:
    """Return the program that every command begins with which a pattern matches; empty if none."""
    beginning = pattern.beginning.lstrip(_BLANKS)
    words = beginning.split(maxsplit=1)
    is_whole = len(pattern.parts) == 1 or (words and len(words[0]) < len(beginning))
    return words[0] if words and is_whole else ""


def _fault_of(command: str) -> str:
    """Return why a command without stars is allowed by no `bash:` pattern, by its words alone."""
    try:
        commands = read_strictly(command).commands
    except RefusedError as error:
        return f"{error}"
    return next(filter(None, (use_of(each.words).fault for each in commands)), "")
