"""A cli tool: what the model is told of it, and what becomes of a call."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Final

from anyio import to_thread
from pydantic import Field, WithJsonSchema

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.errors import ConfigError
from everturn_gateway.tools.arguments import Arguments, parameters, read_arguments
from everturn_gateway.tools.cli.programs import CliProgram
from everturn_gateway.tools.conversations import sources_behind
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell.bash import MARGIN_S
from everturn_gateway.tools.shell.commands import Command, run_command
from everturn_gateway.tools.shell.confinement.sandbox import Confinement
from everturn_gateway.yaml_files import read_text

TIMEOUT_S: Final = 120.0  # of one call; Duragent's

_LINE: Final = {"type": "string", "description": "command line arguments, quoted as in a shell"}


class _Arguments(Arguments):
    # A list does as well; the schema leaves it out, since some providers take no alternatives.
    args: Annotated[str | tuple[str, ...], WithJsonSchema(_LINE)] = ""


class _WithManual(_Arguments):
    help: Annotated[bool, Field(description="true: only read its manual")] = False


class CliTool:
    """Runs a program of the agent's owner; implements `Tool`.

    The model's arguments reach the program one by one, as they are: no shell reads them.
    """

    def __init__(
        self,
        environment: ToolEnvironment,
        program: CliProgram,
        confinement: Confinement,
        *,
        timeout_s: float = TIMEOUT_S,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Offer `program`; `environ` is what its owner gives it beside what commands get."""
        self._environment, self._program, self._confinement = environment, program, confinement
        self._timeout_s = timeout_s
        self._environ = {
            "EVERTURN_AGENT": environment.agent,
            "EVERTURN_AGENT_HOME": str(environment.home),
            "EVERTURN_FILES": str(environment.files),
            **(environ or {}),
        }
        # Nobody knows what it does.
        self.capabilities = ToolCapabilities(kind="cli", timeout_s=timeout_s + MARGIN_S)
        self._arguments = _Arguments if program.readme is None else _WithManual
        self.definition = ToolDefinition(
            name=program.name,
            description=program.description,
            parameters=parameters(self._arguments),
        )

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Run the program, or return its manual.

        Raises:
            ToolFailedError: The arguments do not fit, or it could not be started or read.
        """
        arguments = read_arguments(call, self._arguments)
        if isinstance(arguments, _WithManual) and arguments.help:
            return await to_thread.run_sync(self._manual)
        words = _words(arguments.args)
        program = self._program
        # Bash in both cases, so that a script without a first line of its own (#!) runs as well.
        script = f'{program.script} "$@"' if program.script else '"$@"'
        argv = ("bash", "-c", "--", script, program.name, *program.command, *words)
        inside = program.folder.is_relative_to(self._environment.home)
        return await run_command(
            self._environment,
            self._confinement,
            Command(
                words=argv,
                cwd=program.folder,
                readable=() if inside else (program.folder,),
                environ=self._environ,
                outside=sources_behind(context),
            ),
            timeout_s=self._timeout_s,
        )

    def _manual(self) -> str:
        assert self._program.readme is not None, (
            "the schema offers a manual only where there is one"
        )
        try:
            return read_text(self._program.readme)
        except ConfigError as error:
            msg = f"its manual cannot be read: {error}"
            raise ToolFailedError(msg) from error


def _words(args: str | tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(args, str):
        return args
    try:
        return tuple(shlex.split(args))
    except ValueError as error:
        msg = f"args: {str(error).lower()}; quote what holds blanks or quotes, as in a shell"
        raise ToolFailedError(msg) from error
