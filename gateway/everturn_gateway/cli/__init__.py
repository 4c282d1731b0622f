"""What a person can type: reads the command line, then loads the command that is called.

Nothing heavy is imported here, so that `--help` and completion answer at once.

- `agents`: `everturn agent`, `everturn model` and `everturn local`
- `cluster`: `everturn seat`: what one of several gateways does for all
- `declaration`: how a command is declared: options that several take, and those that every command
  takes
- `maintenance`: `everturn clean`, `export`, `erase`, `import` and `upgrade`, and the pages to read
- `manual`: man pages, made from the commands; `make release` writes them
- `people`: `everturn channel`, `everturn pair` and `everturn token`: where people are, and who may
  ask
- `program`: `everturn` itself: the commands that stand directly under it, and its own options
- `schedules`: `everturn schedule`
- `servers`: `everturn mcp`: agents for MCP clients, and the logins at MCP servers
- `sessions`: `everturn sessions` and `everturn context`
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Final

import typer
from typer.exceptions import TyperException
from typer.models import CommandInfo

from everturn_gateway.cli import maintenance
from everturn_gateway.cli.program import COMPLETE_VARIABLE, NAME, app
from everturn_gateway.commands.shared.errors import EXIT_INTERRUPTED, explain, say

DECLARED: Final = (maintenance,)
"Modules whose commands stand beside the groups: to import them declares them."
GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    "sessions": ("sessions", "sessions_app"),
    "agent": ("agents", "agent_app"),
    "context": ("sessions", "context_app"),
    "channel": ("people", "channel_app"),
    "pair": ("people", "pair_app"),
    "token": ("people", "token_app"),
    "mcp": ("servers", "mcp_app"),
    "schedule": ("schedules", "schedule_app"),
    "model": ("agents", "model_app"),
    "local": ("agents", "local_app"),
    "seat": ("cluster", "seat_app"),
}
"""Groups of commands: the module here and the name there."""
PANELS: Final[Mapping[str, str]] = {
    "Begin": "setup init import docs help version",
    "Talk": "chat run attach approve sessions",
    "Serve": "serve pid doctor usage upgrade local",
    "Agents": "agent model schedule context compact mcp",
    "People": "channel pair token",
    "Keep and let go": "clean export erase move",
    "Programs and machines": "acp completions nodes seat",
}
"""What the help shows together, in its order."""


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code. Errors are told on stderr, without a traceback."""
    try:
        arguments = _of_command(arguments)
        declare_groups(_needed(arguments))
        command = typer.main.get_command(app)
        code = command.main(
            list(arguments), prog_name=NAME, complete_var=COMPLETE_VARIABLE, standalone_mode=False
        )
        sys.stdout.flush()
    except TyperException as error:
        return _usage(error)
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has what it wanted. The interpreter flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the outermost boundary: a person gets no traceback
        return explain(error)
    return code if isinstance(code, int) else 0


def _of_command(arguments: Sequence[str]) -> Sequence[str]:
    """Return `sessions list --help` for `help sessions list`; what is no command is a topic."""
    if len(arguments) > 1 and arguments[0] == "help" and arguments[1] in {*GROUPS, *_alone()}:
        return (*arguments[1:], "--help")
    return arguments


def _alone() -> set[str]:
    """Return the names of the commands that stand in no group."""
    return set(map(_name, app.registered_commands))


def _name(each: CommandInfo) -> str:
    return each.name or str(getattr(each.callback, "__name__", ""))


def _needed(arguments: Sequence[str]) -> Iterable[str]:
    """Return the groups to declare: all of them take as long as to load a small command."""
    called = arguments[0] if arguments else ""
    if called in GROUPS:
        return (called,)
    return () if called in _alone() else GROUPS  # help, completion, or a name that nobody knows


def declare_groups(names: Iterable[str]) -> None:
    """Declare groups of commands, and no others."""
    app.registered_groups.clear()
    panels = {name: panel for panel, members in PANELS.items() for name in members.split()}
    for each in app.registered_commands:
        each.rich_help_panel = panels[_name(each)]
    app.registered_commands.sort(key=lambda each: [*panels].index(_name(each)))
    for name in names:
        module, declared = GROUPS[name]
        group: typer.Typer = getattr(import_module(f"{__name__}.{module}"), declared)
        app.add_typer(group, name=name, rich_help_panel=panels[name])


def _usage(error: TyperException) -> int:
    message = error.format_message()
    if message:
        say(f"{message[0].lower()}{message[1:]} (`{NAME} --help` lists everything)")
    return error.exit_code
