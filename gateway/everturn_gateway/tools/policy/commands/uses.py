"""What one simple command does with its words, as the table of programs knows it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from everturn_gateway.late_loading import late_pattern
from everturn_gateway.tools.policy.commands.git import GitUse, git_use
from everturn_gateway.tools.policy.commands.options import (
    before_end,
    is_listed,
    is_one_dash,
    matching,
    may_be_option,
    values,
)
from everturn_gateway.tools.policy.commands.programs import Kind, Program, look_up
from everturn_gateway.tools.policy.commands.targets import Target, target_of
from everturn_gateway.tools.policy.commands.words import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One command, as far as its words say what it does."""

    name: str
    "The program, as it was written."
    kind: Kind
    fault: str = ""
    "Why no `bash:` pattern allows it, whatever lies in the workspace; empty where one may."
    writes: tuple[Target, ...] = ()
    "Files that it writes, removes or moves."
    into: tuple[Target, ...] = ()
    "Those of them that may be folders, which get what `sources` names."
    sources: tuple[Target, ...] = ()
    "Files whose content or place is taken over."
    listed: tuple[Target, ...] = ()
    "Words that the shell replaces by names of files, each of which may become an option."
    folder: str | None = None
    "Where the commands behind it work; None = it does not change that."
    git: GitUse | None = None
    arguments: tuple[Target, ...] = field(default=(), repr=False)
    "All its words but the name."


def use_of(words: Sequence[Word]) -> Use:
    """Return what a command does whose words were read for certain (`strict.SimpleCommand`)."""
    name, arguments = words[0].flat, tuple(words[1:])
    program = look_up(name)
    use = Use(name=name, kind=program.kind, arguments=tuple(map(target_of, arguments)))
    if "/" in name and not name.startswith("/"):
        return replace(use, kind="code", fault=f"{name} is a file that the agent may have written")
    if program.kind == "code":
        return replace(use, fault=f"{name} {program.why}")
    if program.kind == "unknown":
        return use
    if program.kind == "guarded":
        git = git_use(arguments)
        listed = _listed(arguments)
        return replace(use, fault=git.fault, writes=git.writes, listed=listed, git=git)
    return _plain_use(use, program, arguments)


def _plain_use(use: Use, program: Program, arguments: tuple[Word, ...]) -> Use:
    if program.check:
        use = _CHECKS[program.check](use, arguments)
    if fault := use.fault or _option_fault(use.name, program, arguments):
        return replace(use, fault=fault)
    given = tuple(values(program.writes, program.takes, arguments))
    operands = _operands(arguments)
    written: tuple[Target, ...] = ()
    if program.writes_to == "all":
        written = operands
    elif program.writes_to == "last" and not given:
        written = operands[-1:]
    elif program.writes_to == "second":
        written = operands[1:]
    return replace(
        use,
        writes=(*use.writes, *given, *written),
        into=(*given, *operands[-1:]) if program.copies else (),
        sources=operands if program.copies else (),
        listed=_listed(arguments) if _has_risk(program) else (),
    )


def _has_risk(program: Program) -> bool:
    return bool(program.runs or program.writes or program.writes_to)


def _listed(arguments: Sequence[Word]) -> tuple[Target, ...]:
    return tuple(target_of(word) for word in arguments if not word.is_fixed and is_listed(word))


def _option_fault(name: str, program: Program, arguments: tuple[Word, ...]) -> str:
    """Return which option of a program cannot be allowed, or which word may become one."""
    if not _has_risk(program):
        return ""
    honours_end = not any(map(is_one_dash, program.runs))
    for word in before_end(arguments, honours_end=honours_end):
        if not word.is_fixed and may_be_option(word) and not is_listed(word):
            return f"what the shell fills in may be an option of {name}"
        if found := next(matching(program.runs, program.takes, word, whole=program.writes), None):
            return f"{name} {found[0]} can run a program, or write where the command does not say"
    return ""


def _operands(arguments: Sequence[Word]) -> tuple[Target, ...]:
    """Return the words that are no options; a value of an option may be among them."""
    found: list[Target] = []
    has_ended = False
    for word in arguments:
        if not has_ended and word.is_fixed and word.flat == "--":
            has_ended = True
        elif has_ended or not word.flat.startswith("-") or word.flat == "-":
            found.append(target_of(word))
    return tuple(found)


# --- programs with rules of their own ---


def _cd(use: Use, arguments: tuple[Word, ...]) -> Use:
    words = [word for word in arguments if word.flat not in {"--", "-P", "-L"}]
    if len(words) != 1 or not words[0].is_fixed or words[0].flat.startswith("-"):
        return replace(use, fault="cd leads to a folder that the command does not name")
    return replace(use, folder=words[0].flat)


_SED_BRACKETS: Final = r"\[\^?(?:\[:[a-z]+:\]|[\w .,+*-])+\]"
"Others are not read: a slash in them ends a text for one sed, and does not for another."
_SED_ADDRESS: Final = rf"(?:\d+|\$|/(?:[^/\\\n\[]|\\[^\n]|{_SED_BRACKETS})*/I?)"
_SED_TEXT: Final = rf"(?:(?!\2)[^\\\n\[]|\\[^\n]|{_SED_BRACKETS})*"
_SED_SUBSTITUTE: Final = rf"s([/|#,:@!%]){_SED_TEXT}\2{_SED_TEXT}\2[gpiI0-9]*"
_SED_COMMAND: Final = late_pattern(
    rf"\s*({_SED_ADDRESS}(?:\s*,\s*[+~]?{_SED_ADDRESS})?)?\s*!?\s*"
    rf"(?:[pdqlDNPhHgGx=]|{_SED_SUBSTITUTE})\s*"
)
_SED_FLAGS: Final = late_pattern(
    r"-(?:n|E|r|s|u|z|nE|En|nr|rn|ne|Ee|nEe|e|i|ni|Ei|i\.(?:bak|orig|old))"
)
_SED_LONG: Final = frozenset(
    (
        "--quiet", "--silent", "--regexp-extended", "--in-place", "--separate", "--null-data",
        "--posix",
    )
)  # fmt: skip


def _sed(use: Use, arguments: tuple[Word, ...]) -> Use:
    """Let scripts pass that print, delete and substitute; others can run programs and write."""
    scripts: list[Word] = []
    operands: list[Word] = []
    in_place = has_option = False
    expects_script = False
    for word in arguments:
        if expects_script:
            scripts.append(word)
            expects_script = False
        elif word.is_fixed and word.flat.startswith("-") and word.flat not in {"-", "--"}:
            if not (_SED_FLAGS.fullmatch(word.flat) or word.flat in _SED_LONG):
                return replace(use, fault=f"sed {word.flat} is an option that is not known here")
            in_place = in_place or "i" in word.flat.partition("--")[0] or word.flat == "--in-place"
            expects_script = word.flat.endswith("e") and not word.flat.startswith("--")
            has_option = has_option or expects_script
        elif not word.is_fixed and may_be_option(word) and not is_listed(word):
            return replace(use, fault="what the shell fills in may be an option of sed")
        elif word.flat != "--":
            operands.append(word)
    if not has_option:
        scripts, operands = operands[:1], operands[1:]
    for script in scripts:
        if not script.is_fixed or not _is_tame(script.flat):
            return replace(use, fault="this script of sed may run programs or write files")
    written = tuple(map(target_of, operands)) if in_place else ()
    return replace(use, writes=written)


def _is_tame(script: str) -> bool:
    """Return whether each command of a script of sed is one of those that only print."""
    at = 0
    while at < len(script):
        found = _SED_COMMAND.match(script, at)
        if found is None:
            return False
        at = found.end()
        if at < len(script) and script[at] not in ";\n":
            return False
        at += 1
    return True


_TAR_LISTING: Final = late_pattern(r"-?(?:t[vzjJaf]*|[vzjJa]*t[vzjJaf]*)")


def _tar(use: Use, arguments: tuple[Word, ...]) -> Use:
    """Let archives be listed; all else writes files that the command does not name."""
    first = arguments[0] if arguments else None
    others = arguments[1:]
    is_listing = first is not None and first.is_fixed and bool(_TAR_LISTING.fullmatch(first.flat))
    if not is_listing or any(may_be_option(word) or ":" in word.flat for word in others):
        return replace(use, fault="tar writes files whose names the command does not say")
    return use


def _dd(use: Use, arguments: tuple[Word, ...]) -> Use:
    if not all(word.is_fixed for word in arguments):
        return replace(use, fault="what the shell fills in may be an option of dd")
    written = [word.flat[3:] for word in arguments if word.flat.startswith("of=")]
    return replace(use, writes=tuple(Target(text=each) for each in written))


def _curl(use: Use, arguments: tuple[Word, ...]) -> Use:
    """Let names of files pass that are whole: curl fills in `#1` and what `--expand-` names."""
    program = look_up(use.name)
    for word in arguments:
        if word.flat.startswith("--expand"):
            return replace(use, fault=f"curl {word.flat} fills in what the command does not say")
    if any("#" in target.text for target in values(program.writes, program.takes, arguments)):
        return replace(use, fault="curl fills in the name of a file that it writes")
    return use


def _ln(use: Use, arguments: tuple[Word, ...]) -> Use:
    """A link means its target from its own folder: only links beside their target are judged."""
    operands = _operands(arguments)
    has_folder = any("/" in each.text for each in operands[1:])
    if has_folder or any(".." in each.text.split("/") for each in operands):
        return replace(use, fault="ln makes a link in another folder than its target's")
    return use


_CHECKS: Final[Mapping[str, Callable[[Use, tuple[Word, ...]], Use]]] = MappingProxyType(
    {"cd": _cd, "sed": _sed, "tar": _tar, "dd": _dd, "ln": _ln, "curl": _curl}
)
"By `Program.check`."
