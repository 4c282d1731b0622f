"""What a person types: a message, a command, or a slip."""

from __future__ import annotations

from typing import get_args

from support.tables import table

from everturn_channels.terminal.slash import (
    Command,
    CommandName,
    Mistake,
    Nothing,
    Say,
    Typed,
    help_text,
    parse,
)


@table("name", get_args(CommandName))
def test_every_command_is_understood_and_listed(name: CommandName) -> None:
    """A command that /help does not list is never found."""
    typed = parse(f"  /{name.upper()} ")

    assert typed == Command(name=name)
    assert f"/{name}" in help_text()


@table(
    ("line", "expected"),
    [
        ("hello", Say(text="hello")),
        ("  two\nlines  ", Say(text="two\nlines")),
        ("//reset", Say(text="/reset")),
        ("/etc/hosts is gone", Say(text="/etc/hosts is gone")),
        ("/reset\nand more", Say(text="/reset\nand more")),
        ("", Nothing()),
        (" \n ", Nothing()),
        ("/quit", Command(name="exit")),
        ("/new", Command(name="new")),
        ("/clear", Command(name="reset")),
        ("/?", Command(name="help")),
        ("/compact", Command(name="compact")),
        ("/compact the prices, above all ", Command(name="compact", text="the prices, above all")),
    ],
)
def test_messages_and_commands_are_told_apart(line: str, expected: Typed) -> None:
    """A message that is taken for a command is lost; a command that is sent costs a turn."""
    assert parse(line) == expected


@table("line", ["/rest", "/reset now", "/context all", "/"])
def test_a_slip_is_explained_and_not_sent(line: str) -> None:
    """A mistyped command must neither reach the model nor do something else."""
    typed = parse(line)

    assert isinstance(typed, Mistake)
    assert typed.text
