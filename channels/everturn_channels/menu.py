"""The commands that people can give on every platform, as its menu shows them. Pure."""

from __future__ import annotations

from typing import Final

from everturn_channels.adapter import CommandName
from everturn_channels.languages import marked

COMMANDS: Final[tuple[tuple[CommandName, str], ...]] = (
    ("start", marked("say hello, and what this bot is")),
    ("help", marked("show this list")),
    ("reset", marked("forget this conversation and begin a new one")),
    ("status", marked("show what is going on here: turns, tokens, model")),
    ("context", marked("show what the model is sent, and what is hidden from it")),
    ("compact", marked("have older messages summarised now; what follows is kept above all")),
    ("stop", marked("cancel the answer that is being worked on")),
    ("retry", marked("try again what could not be answered")),
    ("undo", marked("take back the files of the last turn that changed some")),
    (
        "search",
        marked("find what was said here, also before a reset; words or a question follow"),
    ),
    ("memory", marked("show what I know of you; TOPIC: TEXT notes it, forget TOPIC removes it")),
    ("pin", marked("keep a message in the model's sight: some words of it follow; alone, list")),
    ("unpin", marked("take a pin off; the number of the message follows")),
    ("prompt", marked("send a prompt of the agent's MCP servers; alone, list them")),
    ("model", marked("show which model answers")),
)
"""Names without the slash, and what each does, in the order in which they are shown.

A description has at most 100 characters, the least that a platform allows (Discord; Telegram takes
256). Source: https://discord.com/developers/docs/interactions/application-commands and
https://core.telegram.org/bots/api#botcommand, read 2026-11-22.
"""

OWNER_COMMANDS: Final[tuple[tuple[str, str, str], ...]] = (
    ("questions", "", marked("show the calls that wait for an answer, in any conversation")),
    ("approve", "CODE [always]", marked("let a call run, once or from now on")),
    ("deny", "CODE", marked("do not let a call run")),
    ("pair", "[CODE]", marked("show who waits to be let in, or let somebody in")),
    ("sessions", "", marked("show the conversations that go on")),
    ("reset", "SESSION", marked("end one of them")),
    ("usage", "", marked("show what the agents used today")),
)
"""What owners can do in private beside: a name, how it is used, and what it does.

No menu of a platform shows them: to all others there is nothing of the kind.
"""

OWNER_NAMES: Final[frozenset[str]] = frozenset(name for name, _, _ in OWNER_COMMANDS)

PASSING: Final[frozenset[str]] = frozenset(
    ("start", "help", "status", "context", "stop", "model", "search", "memory", "pin", "unpin")
)
"""Names of those that may be taken before what was written before them and is still being taken.

They change nothing of the conversation but what stays with the model; `stop` ends no more than the
turn that runs.
"""
