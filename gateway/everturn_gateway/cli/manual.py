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
from typing import Any, Final

import typer

from everturn_gateway.cli import GROUPS, declare_groups
from everturn_gateway.cli.program import NAME, app
from everturn_gateway.plugins import installed

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
    found = dict(_walk(typer.main.get_command(app), (NAME,)))
    names = sorted(set(found) - {NAME})
    found[NAME] += _section("SEE ALSO") + ", ".join(f"\\fB{_text(each)}\\fR(1)" for each in names)
    return {name: f"{text.rstrip()}\n" for name, text in found.items()}


def _walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - typer's
    """Yield the page of a command and of those below it, without those that are hidden."""
    below = {
        name: each for name, each in getattr(command, "commands", {}).items() if not each.hidden
    }
    yield "-".join(path), _page(command, path, below)
    for name, each in below.items():
        yield from _walk(each, (*path, name))


def _page(command: Any, path: tuple[str, ...], below: dict[str, Any]) -> str:  # noqa: ANN401
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
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    options = [each for each in shown if each.opts and each.opts[0].startswith("-")]
    if arguments := [each for each in shown if each not in options]:
        lines += [_section("ARGUMENTS"), *(_entry(_metavar(each), each) for each in arguments)]
    if options:
        context = command.context_class(command)
        lines += [_section("OPTIONS"), *(_entry(_names(each, context), each) for each in options)]
    if below:
        lines.append(_section("COMMANDS"))
        for child, each in below.items():
            short = " ".join((each.help or "").split()).partition(". ")[0]
            lines.append(f".TP\n\\fB{_text(child)}\\fR\n{_text(short.rstrip('.'))}.")
    if len(path) == 1:
        lines.append(_section("FILES"))
        lines += [f".TP\n\\fI{_text(file)}\\fR\n{_text(what)}" for file, what in _FILES]
    return "\n".join(lines)


def _synopsis(command: Any, below: dict[str, Any]) -> str:  # noqa: ANN401 - typer's own types
    words = ["[\\fIOPTIONS\\fR]"]
    for each in command.params:
        if each.opts and not each.opts[0].startswith("-") and not getattr(each, "hidden", False):
            word = f"\\fI{_text(_metavar(each))}\\fR"
            words.append(word if each.required else f"[{word}]")
    return " ".join([*words, "\\fICOMMAND\\fR"] if below else words)


def _metavar(argument: Any) -> str:  # noqa: ANN401 - typer's own types
    return str(argument.metavar or argument.name or "").strip("[]").upper()


def _names(option: Any, context: object) -> str:  # noqa: ANN401 - typer's own types
    names = ", ".join((*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {option.metavar or option.display_type(context)}"


def _entry(name: str, parameter: Any) -> str:  # noqa: ANN401 - typer's own types
    text = " ".join((getattr(parameter, "help", "") or "").split())
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
