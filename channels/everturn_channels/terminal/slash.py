"""What a person may type instead of a message. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from everturn_actors.model import Decision

CommandName: TypeAlias = Literal[
    "help",
    "reset",
    "status",
    "context",
    "compact",
    "attach",
    "prompt",
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

HELP: dict[CommandName, str] = {
    "help": "show this list",
    "reset": "end this session; your next message starts a new one",
    "status": "show the session: its id, turns and tokens",
    "context": "show what the model is sent, what is hidden from it, and what comes next",
    "compact": "have older turns summarised now; what follows is kept above all",
    "attach": "send a file with your next message; without a name, put those that wait back",
    "prompt": "send a prompt of an MCP server: its name, PLACE=TEXT ...; alone, list them",
    "allow": "let the call that waits run, this once; a call id may follow",
    "always": "let it run, and from now on without asking",
    "deny": "do not let it run",
    "answer": "answer what the agent asks, with a number or in words",
    "stop": "cancel the running turn",
    "retry": "ask the newest turn again, which failed",
    "undo": "take back the files of the last turn that changed some",
    "search": "find what was said, in all sessions that you may see: a question or words",
    "memory": "show what the agent knows of you; TOPIC: TEXT notes it, forget TOPIC removes it",
    "pin": "keep a message in the model's sight: its number or some words of it; alone, list them",
    "unpin": "take a pin off; the number of the message follows",
    "exit": "leave (the conversation stays)",
}

_WITH_TEXT: frozenset[CommandName] = frozenset(
    (
        "allow",
        "always",
        "answer",
        "attach",
        "compact",
        "deny",
        "memory",
        "pin",
        "prompt",
        "search",
        "unpin",
    )
)
_ALIASES: dict[str, CommandName] = {"quit": "exit", "new": "reset", "?": "help"}


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
    known = _ALIASES.get(name, name)
    for command in get_args(CommandName):
        if known == command:
            if rest.strip() and command not in _WITH_TEXT:
                return Mistake(text=f"/{command} takes nothing after it")
            return Command(name=command, text=rest.strip())
    return Mistake(
        text=f"there is no command /{name}; /help lists them, //{name} sends it as a message"
    )


def help_text() -> str:
    """Return the list of commands, one a line."""
    width = max(len(name) for name in HELP) + 1
    lines = [f"/{name:<{width}} {what}" for name, what in HELP.items()]
    return "\n".join(
        [*lines, "Enter sends, Alt-Enter starts a new line, Ctrl-C cancels, Ctrl-D leaves"]
    )
