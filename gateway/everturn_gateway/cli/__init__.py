"""What a person can type: reads the command line, then loads the command that is called.

Nothing heavy is imported here, so that `--help` and completion answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer
from typer.exceptions import TyperException

from everturn_gateway.cli.agents import agent_app, local_app, model_app
from everturn_gateway.cli.people import channel_app, pair_app, token_app
from everturn_gateway.cli.program import COMPLETE_VARIABLE, NAME, app
from everturn_gateway.cli.schedules import schedule_app
from everturn_gateway.cli.sessions import context_app, sessions_app
from everturn_gateway.commands.shared.errors import EXIT_INTERRUPTED, explain, say

app.add_typer(sessions_app, name="sessions")
app.add_typer(agent_app, name="agent")
app.add_typer(context_app, name="context")
app.add_typer(channel_app, name="channel")
app.add_typer(pair_app, name="pair")
app.add_typer(token_app, name="token")
app.add_typer(schedule_app, name="schedule")
app.add_typer(model_app, name="model")
app.add_typer(local_app, name="local")


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code. Errors are told on stderr, without a traceback."""
    try:
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


def _usage(error: TyperException) -> int:
    message = error.format_message()
    if message:
        say(f"{message[0].lower()}{message[1:]} (`{NAME} --help` lists everything)")
    return error.exit_code
