"""The questions of a setup: an option answers each, and where nobody sits none is asked."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import typer

from everturn_gateway.commands.shared.questions import can_ask
from everturn_gateway.errors import GatewayError
from everturn_gateway.late_loading import late

if TYPE_CHECKING:  # 100 ms, for who is asked
    import prompt_toolkit
    from prompt_toolkit import completion
else:
    prompt_toolkit = late("prompt_toolkit")
    completion = late("prompt_toolkit.completion")

_NARROWEST = 20  # columns
_MARK = re.compile(r" +\d+  |[a-z]+ {2,}| +")
_SHOWN = 12  # of a long list; all of them are completed as they are typed


def say(text: str) -> None:
    """Tell a person something, at once; at a terminal its lines break between words."""
    lines = text.split("\n")
    sys.stdout.write("".join(f"{_broken(line)}\n" for line in lines))
    sys.stdout.flush()


def _broken(line: str) -> str:
    """Return a line as a terminal takes it: further parts stand below the text of the first."""
    if not sys.stdout.isatty() or not line.strip():
        return line
    mark = _MARK.match(line)
    return textwrap.fill(
        line,
        max(get_terminal_size().columns, _NARROWEST),
        subsequent_indent=" " * len(mark[0] if mark else ""),
        break_long_words=False,
        break_on_hyphens=False,
    )


def choose(title: str, choices: Sequence[tuple[str, str]], *, option: str) -> str:
    """Return the value of one of several choices, the first by default.

    Args:
        title: What is asked.
        choices: Values, and what is shown of each.
        option: What answers on the command line.

    Raises:
        GatewayError: Nobody can be asked.
    """
    _need_person(option)
    say(f"\n{title}")
    for number, (_, shown) in enumerate(choices, start=1):
        say(f"  {number:>2}  {shown}")
    while True:
        given: str = typer.prompt("Number", default="1")
        if given.strip().isdecimal() and 1 <= int(given) <= len(choices):
            return choices[int(given) - 1][0]
        sys.stdout.write(f"A number from 1 to {len(choices)}, please.\n")


def choose_name(title: str, names: Sequence[str], *, option: str) -> str:
    """Return one of many names, or another one that is typed; by its number, too.

    Raises:
        GatewayError: Nobody can be asked.
    """
    _need_person(option)
    say(f"\n{title}")
    for number, name in enumerate(names[:_SHOWN], start=1):
        say(f"  {number:>2}  {name}")
    if more := len(names) - _SHOWN:
        sys.stdout.write(f"      and {more} more: type a part of the name\n" if more > 0 else "")
    default = names[0] if names else ""
    while True:
        given = prompt_toolkit.prompt(
            "Number or name: ",
            default="" if names else default,
            completer=completion.FuzzyWordCompleter(list(names)),
            complete_while_typing=len(names) > _SHOWN,
            placeholder=default,
        ).strip()
        given = given or default
        if given.isdecimal() and 1 <= int(given) <= min(len(names), _SHOWN):
            return names[int(given) - 1]
        if given and not given.isdecimal():
            return given


def ask(title: str, *, option: str, default: str = "") -> str:
    """Return a text.

    Raises:
        GatewayError: Nobody can be asked.
    """
    _need_person(option)
    answer: str = typer.prompt(title, default=default or None)
    return answer.strip()


def ask_secret(title: str, *, option: str, can_keep: bool = False) -> str:
    """Return a text that is not shown while it is typed; empty = the one that is there is kept.

    Raises:
        GatewayError: Nobody can be asked.
    """
    _need_person(option)
    how = "is not shown; Enter keeps the one that is there" if can_keep else "is not shown"
    answer: str = typer.prompt(
        f"{title} ({how})", hide_input=True, default="" if can_keep else None, show_default=False
    )
    return answer.strip()


def agrees(question: str, *, default: bool) -> bool:
    """Ask a question of yes or no; where nobody sits, the answer is no."""
    return can_ask() and typer.confirm(question, default=default)


def _need_person(option: str) -> None:
    if not can_ask():
        msg = f"nobody can be asked here: give {option}"
        raise GatewayError(msg)
