"""Man pages, made from the commands: `python -m everturn_gateway.cli.manual DIR`.

One page for `everturn` and one for each command, `everturn-sessions-list.1`; whatever shows a man
page finds them below `share/man` of where the wheel is installed.

Source: man-pages(7) and groff_man(7), read 2026-11.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeAlias

import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from everturn_gateway.cli import GROUPS, declare_groups
from everturn_gateway.cli.program import NAME, app
from everturn_gateway.plugins import installed

_Command: TypeAlias = TyperCommand | TyperGroup
_FILES: Final = (
    ("everturn.yaml", "The configuration, in the folder of work or in the home folder."),
    (".env", "Variables beside it, such as keys."),
    (".everturn", "The workspace: sessions, logs, models."),
)


def write_pages(folder: Path) -> list[Path]:
    """Write all pages into a folder; return them, sorted."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, text in pages().items():
        path = folder / f"{name}.1"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return sorted(written)


def pages() -> dict[str, str]:
    """Return the pages by their names: `everturn`, `everturn-sessions-list`."""
    declare_groups(GROUPS)
    program = typer.main.get_command(app)
    assert isinstance(program, TyperGroup), "it has commands"
    found = dict(_walk(program, (NAME,)))
    names = sorted(set(found) - {NAME})
    found[NAME] += _section("SEE ALSO") + ", ".join(f"\\fB{_text(each)}\\fR(1)" for each in names)
    return {name: f"{text.rstrip()}\n" for name, text in found.items()}


def _walk(command: _Command, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the page of a command and of those below it, without those that are hidden."""
    below = dict[str, _Command]()
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            if isinstance(each, _Command) and not each.hidden:
                below[name] = each
    yield "-".join(path), _page(command, path, below)
    for name, each in below.items():
        yield from _walk(each, (*path, name))


def _page(command: _Command, path: tuple[str, ...], below: dict[str, _Command]) -> str:
    name = "-".join(path)
    about = " ".join((command.help or "").split())
    first, _, rest = about.partition(". ")
    lines = [
        f'.TH "{_text(name.upper())}" "1" "" "{NAME} {version(NAME)}" "Everturn"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(first.rstrip('.'))}",
        _section("SYNOPSIS"),
        f"\\fB{_text(' '.join(path))}\\fR {_synopsis(command, below)}",
        _section("DESCRIPTION"),
        _text(f"{first}. {rest}" if rest else about),
    ]
    if arguments := _arguments(command):
        lines += [_section("ARGUMENTS"), *(_entry(_metavar(each), each) for each in arguments)]
    options = [p for p in command.params if isinstance(p, TyperOption) and not p.hidden]
    if options:
        lines += [_section("OPTIONS"), *(_entry(_names(each, command), each) for each in options)]
    if below:
        lines.append(_section("COMMANDS"))
        for child, each in below.items():
            short = " ".join((each.help or "").split()).partition(". ")[0]
            lines.append(f".TP\n\\fB{_text(child)}\\fR\n{_text(short.rstrip('.'))}.")
    if len(path) == 1:
        lines.append(_section("FILES"))
        lines += [f".TP\n\\fI{_text(file)}\\fR\n{_text(what)}" for file, what in _FILES]
    return "\n".join(lines)


def _synopsis(command: _Command, below: dict[str, _Command]) -> str:
    words = ["[\\fIOPTIONS\\fR]"]
    for each in _arguments(command):
        word = f"\\fI{_text(_metavar(each))}\\fR"
        words.append(word if each.required else f"[{word}]")
    return " ".join([*words, "\\fICOMMAND\\fR"] if below else words)


def _arguments(command: _Command) -> list[TyperArgument]:
    return [p for p in command.params if isinstance(p, TyperArgument) and not p.hidden]


def _metavar(argument: TyperArgument) -> str:
    return str(argument.metavar or argument.name or "").strip("[]").upper()


def _names(option: TyperOption, command: _Command) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    return (
        names
        if option.is_flag
        else f"{names} {option.metavar or option.display_type(command.context_class(command))}"
    )


def _entry(name: str, parameter: TyperArgument | TyperOption) -> str:
    text = " ".join((parameter.help or "").split())
    if "{" in text:
        names = installed()
        text = text.format(
            providers=", ".join(names.providers.names), policies=", ".join(names.policies.names)
        )
    return f".TP\n\\fB{_text(name)}\\fR\n{_text(text)}"


def _section(name: str) -> str:
    return f"\n.SH {name}\n" if name == "SEE ALSO" else f".SH {name}"


def _text(text: str) -> str:
    """Return a text in which groff finds nothing to obey."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return re.sub(r"(?m)^([.'])", r"\\&\1", escaped)


if __name__ == "__main__":
    for page in write_pages(Path(sys.argv[1])):
        sys.stdout.write(f"{page}\n")
