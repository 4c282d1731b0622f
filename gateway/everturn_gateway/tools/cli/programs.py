"""The programs behind cli tools: declared in `agent.yaml`, or found in a `tools` folder.

What an agent's owner writes as `command` is the beginning of a command; what the model gives comes
after it as arguments, and never as anything else: no shell reads it.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Final

from msgspec import Struct

from everturn_gateway.errors import Fault
from everturn_gateway.tools.cli.manuals import summary
from everturn_gateway.tools.wording import shown
from everturn_gateway.yaml_files import is_there, resolved

TOOLS: Final = "tools"
"The folder, in an agent's or the gateway's, whose folders are tools."
README: Final = "README.md"

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RUN: Final = re.compile(r"run(?:\..+)?")
_SYNTAX: Final = re.compile(r"[|&;<>()$`*?\[\]{}~#!]|^\s*\w+=")
"What a shell would read as more than words, quoted or not."
_OPERATOR: Final = re.compile(r"[|&;]+")
_REDIRECTION: Final = re.compile(r"&>>?|<{1,3}|>{1,2}|[<>]&|<>|>\|")
_ASSIGNMENT: Final = re.compile(r"\w+=.*", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(?:\w+|\{[^}]*\}|[@*#?$!-])")
_MANUAL_BYTES: Final = 64 * 1024  # of a README, to find its summary in


class CliToolError(ValueError):
    """A cli tool cannot be offered as it is; whoever wrote it has to change it."""


class CliProgram(Struct, frozen=True, kw_only=True):
    """A program that can be offered as a tool."""

    name: str
    description: str
    command: tuple[str, ...]
    "The program and its first arguments; where `script` is one, there are none."
    script: str = ""
    "A command that takes a shell to run; the arguments come after it. Empty = `command`."
    folder: Path
    "Where it runs."
    readme: Path | None = None
    "Its manual, which the model reads on demand."


class Discovery(Struct, frozen=True, kw_only=True):
    """What was found in folders of tools."""

    programs: tuple[CliProgram, ...]
    "By name; of two with one name, the one of the first folder."
    faults: tuple[Fault, ...]
    "Folders that look like a tool and are none."


def declared(
    home: Path,
    *,
    name: str,
    command: str,
    description: str | None = None,
    readme: str | None = None,
) -> CliProgram:
    """Return the program of a `{type: cli}` entry; it runs in `home`, the agent's folder.

    `command` begins with a path in the agent's folder, an absolute path, or the name of a program
    on the PATH. `readme` is a path, too. Reads files: not for the event loop.

    Raises:
        CliToolError: A name that no model can call, a file that is missing, not executable, or
            outside, or a command after which nothing can stand.
    """
    _check_name(name)
    command = command.strip()
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        msg = f"command: {shown(command)} cannot be read: {str(error).lower()}"
        raise CliToolError(msg) from error
    if not words:
        msg = "command: it is empty"
        raise CliToolError(msg)
    script = ""
    if "\n" in command or _SYNTAX.search(command):
        _check_script(command)
        script, program = command, words[0]
        words = ()
    else:
        program = words[0]
    if "/" in program and not _SYNTAX.search(program):
        _check_program(_inside(home, program, "command"), "command")
    manual = None
    if readme is not None:
        manual = _inside(home, readme, "readme")
        if not manual.is_file():
            msg = f"readme: there is no file {shown(str(manual))}"
            raise CliToolError(msg)
    return CliProgram(
        name=name,
        description=description or _described(name, manual),
        command=words,
        script=script,
        folder=home,
        readme=manual,
    )


def discover(*roots: Path) -> Discovery:
    """Return the tools in `<root>/tools/<name>/run.*` of all roots; each runs in its own folder.

    Reads folders: not for the event loop.
    """
    programs: dict[str, CliProgram] = {}
    faults: list[Fault] = []
    for root in roots:
        for folder in _folders(root / TOOLS, faults):
            candidates = [each for each in _children(folder, faults) if _RUN.fullmatch(each.name)]
            if not candidates:
                continue
            try:
                program = _found(root, folder, candidates)
            except CliToolError as error:
                faults.append(Fault(file=folder, message=str(error)))
            except OSError as error:
                message = f"cannot be read: {error.strerror or error}"
                faults.append(Fault(file=folder, message=message))
            else:
                programs.setdefault(program.name, program)
    found = tuple(programs[name] for name in sorted(programs))
    return Discovery(programs=found, faults=tuple(faults))


def _found(root: Path, folder: Path, candidates: list[Path]) -> CliProgram:
    _check_name(folder.name)
    runs = [each for each in candidates if each.is_file() and os.access(each, os.X_OK)]
    names = ", ".join(shown(each.name) for each in runs or candidates)
    if not runs:
        msg = f"{names} is not an executable file; chmod +x makes it one"
        raise CliToolError(msg)
    if len(runs) > 1:
        msg = f"there are several programs ({names}); keep one of them executable"
        raise CliToolError(msg)
    for each in (folder, runs[0]):
        if not _is_inside(each, root):
            msg = f"{shown(str(each))} leads out of {shown(str(root))}; copy it there"
            raise CliToolError(msg)
    readme = folder / README
    manual = readme if is_there(readme) else None
    return CliProgram(
        name=folder.name,
        description=_described(folder.name, manual),
        command=(str(runs[0]),),
        folder=folder,
        readme=manual,
    )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        msg = f"{shown(name)!r} is no name for a tool: use up to 64 letters, digits, - and _"
        raise CliToolError(msg)


def _check_script(command: str) -> None:
    """Make sure that words after a command are arguments of its last program.

    Raises:
        CliToolError: They would be a command of their own, or it cannot be told.
    """
    lexer = shlex.shlex(command, posix=False, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        tokens = list(lexer)
    except ValueError as error:
        raise _not_a_line(command) from error
    last: list[str] = []
    redirected = False
    for token in tokens:
        if _REDIRECTION.fullmatch(token):
            redirected = True
            if last and last[-1].isdecimal():  # 2>
                last.pop()
        elif _OPERATOR.fullmatch(token):
            last, redirected = [], False
        elif token in {"{", "}", "!"} or set(token) <= set("();<>|&"):
            raise _not_a_line(command)
        elif redirected:
            redirected = False
        else:
            last.append(token)
    program = next((word for word in last if not _ASSIGNMENT.fullmatch(word)), "")
    literal = _VARIABLE.sub("", program).strip("'\"")
    if "\n" in command or "`" in command or redirected or not literal:
        raise _not_a_line(command)


def _not_a_line(command: str) -> CliToolError:
    return CliToolError(
        f"command: arguments cannot stand after {shown(command)}; put it into a script in the"
        " agent's folder"
    )


def _check_program(program: Path, field: str) -> None:
    if not program.is_file():
        msg = f"{field}: there is no file {shown(str(program))}"
        raise CliToolError(msg)
    if not os.access(program, os.X_OK):
        msg = f"{field}: {shown(str(program))} is not executable; chmod +x makes it so"
        raise CliToolError(msg)


def _inside(home: Path, path: str, field: str) -> Path:
    """Return a path in the agent's folder, or an absolute one, as its owner wrote it."""
    whole = home / path
    if not Path(path).is_absolute() and not _is_inside(whole, home):
        msg = f"{field}: {shown(path)} leads out of the agent's folder; give an absolute path"
        raise CliToolError(msg)
    return whole


def _described(name: str, readme: Path | None) -> str:
    if readme is not None:
        try:
            if not readme.is_file():  # a pipe would be waited for
                msg = f"{README} is no file"
                raise CliToolError(msg)
            with readme.open("rb") as stream:
                text = stream.read(_MANUAL_BYTES).decode("utf-8-sig", errors="replace")
        except OSError as error:
            msg = f"{README} cannot be read: {error.strerror or error}"
            raise CliToolError(msg) from error
        if found := summary(text):
            return found
    return f"CLI tool: {name}"


def _is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path leads to something in `folder`.

    Raises:
        CliToolError: It leads nowhere.
    """
    try:
        return resolved(path).is_relative_to(resolved(folder))
    except OSError as error:
        msg = f"{shown(str(path))} cannot be used: {error.strerror or error}"
        raise CliToolError(msg) from error


def _folders(folder: Path, faults: list[Fault]) -> list[Path]:
    found = [each for each in _children(folder, faults) if not each.name.startswith(".")]
    return [each for each in found if os.path.isdir(each)]  # it raises nothing


def _children(folder: Path, faults: list[Fault]) -> list[Path]:
    """Return what stands in a folder, sorted; add to `faults` why it cannot be listed."""
    if not is_there(folder):
        return []
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        faults.append(Fault(file=folder, message=message))
        return []
