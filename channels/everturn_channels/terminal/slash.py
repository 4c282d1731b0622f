"""What a person may type instead of a message. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from everturn_actors.model import Decision
from everturn_channels.command_registry import CommandSpec, command_named, commands_for

CommandName: TypeAlias = Literal[
    "help",
    "reset",
    "status",
    "context",
    "compact",
    "attach",
    "prompt",
    "new",
    "sessions",
    "resume",
    "model",
    "usage",
    "calls",
    "allow",
    "always",
    "deny",
    "answer",
    "stop",
    "retry",
    "undo",
    "search",
    "memory",
    "pin",
    "unpin",
    "exit",
]
DECISIONS: dict[str, Decision] = {
    "allow": "allow_once",
    "always": "allow_always",
    "deny": "deny",
}
"What the commands that answer an approval mean."

COMMANDS: tuple[CommandSpec, ...] = commands_for("terminal")


class Say(Struct, frozen=True, kw_only=True):
    """A message for the agent."""

    text: str


class Command(Struct, frozen=True, kw_only=True):
    """One of the commands."""

    name: CommandName
    text: str = ""
    "What stands after it."


class Mistake(Struct, frozen=True, kw_only=True):
    """Something that looks like a command and is none."""

    text: str
    "What to tell the person."


class Nothing(Struct, frozen=True, kw_only=True):
    """An empty line."""


Typed: TypeAlias = Say | Command | Mistake | Nothing


def parse(line: str) -> Typed:
    """Read what a person typed.

    A first line of one slash and one word is a command. Two slashes at the start send the rest with
    one slash; a path such as `/etc/hosts` and text of several lines are messages.
    """
    text = line.strip()
    if not text:
        return Nothing()
    if text.startswith("//"):
        return Say(text=text[1:])
    if not text.startswith("/") or "\n" in text:
        return Say(text=text)
    word, _, rest = text[1:].partition(" ")
    if "/" in word:
        return Say(text=text)
    name = word.lower()
    found = command_named("help" if name == "?" else name, "terminal")
    for command in get_args(CommandName):
        if found is not None and found.name == command:
            if rest.strip() and not found.arguments:
                return Mistake(text=f"/{command} takes nothing after it")
            return Command(name=command, text=rest.strip())
    return Mistake(
        text=f"there is no command /{name}; /help lists them, //{name} sends it as a message"
    )


def help_text() -> str:
    """Return the list of commands, one a line."""
    width = max(len(each.name) for each in COMMANDS) + 1
    lines = [f"/{each.name:<{width}} {each.what}" for each in COMMANDS]
    return "\n".join(
        [*lines, "Enter sends, Alt-Enter starts a new line, Ctrl-C cancels, Ctrl-D leaves"]
    )
