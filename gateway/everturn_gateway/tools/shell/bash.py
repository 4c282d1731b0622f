"""The tool `bash`: what the model is told of it, and what becomes of a call."""

from __future__ import annotations

import math
from typing import Annotated, Final

from pydantic import AfterValidator

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import ToolCapabilities, ToolContext, ToolOutput
from everturn_gateway.tools.arguments import Arguments, parameters, read_arguments
from everturn_gateway.tools.conversations import sources_behind
from everturn_gateway.tools.environment import CommandPlace, ToolEnvironment
from everturn_gateway.tools.shell.commands import Command, run_command
from everturn_gateway.tools.shell.confinement.sandbox import Confinement
from everturn_gateway.tools.shell.placing import place_of

NAME: Final = "bash"
MARGIN_S: Final = 10.0  # beyond a command's own deadline, so that its own words are read, not ours


def _not_blank(command: str) -> str:
    if not command.strip():
        msg = "it is empty"
        raise ValueError(msg)
    return command


def _a_while(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < math.inf:
        msg = "it has to be more than 0"
        raise ValueError(msg)
    return seconds


class _Arguments(Arguments):
    # Checked here, not in the schema: not every provider knows all of JSON Schema's words.
    command: Annotated[str, AfterValidator(_not_blank)]
    timeout_seconds: Annotated[float | None, AfterValidator(_a_while)] = None


class BashTool:
    """Runs commands in the agent's workspace.

    Implements `Tool`, `RunsCommands` and `PlacesCommands`. Each call is a shell of its own, as
    confined as `confinement` says, with no input; what it leaves running is ended with it.
    """

    def __init__(
        self, environment: ToolEnvironment, confinement: Confinement, *, timeout_s: float = 120
    ) -> None:
        """Give each command `timeout_s`, or less where the call asks for less."""
        self._environment, self._confinement, self._timeout_s = environment, confinement, timeout_s
        # It may do anything that its confinement lets it.
        self.capabilities = ToolCapabilities(kind="bash", timeout_s=timeout_s + MARGIN_S)
        self.definition = ToolDefinition(
            name=NAME,
            description=_description(confinement, timeout_s),
            parameters=parameters(_Arguments),
        )

    def command_of(self, call: ToolCall) -> str | None:
        """Return the command that the call would run; None where its arguments do not fit."""
        try:
            return read_arguments(call, _Arguments).command
        except ToolFailedError:
            return None

    def place_of(self, call: ToolCall) -> CommandPlace:
        """Return where the command would run: in the workspace."""
        return place_of(self._environment, self._confinement, self._environment.files)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run the command and return what it printed, and its exit code where it is not 0.

        Raises:
            ToolFailedError: The arguments do not fit, or it could not be started.
        """
        arguments = read_arguments(call, _Arguments)
        timeout_s = min(arguments.timeout_seconds or self._timeout_s, self._timeout_s)
        return await run_command(
            self._environment,
            self._confinement,
            Command(words=arguments.command, outside=sources_behind(context)),
            timeout_s=timeout_s,
        )


def _description(confinement: Confinement, timeout_s: float) -> str:
    reach = ""
    if confinement.sandbox == "bwrap":
        network = "" if confinement.network else "; no network"
        reach = f" Only the workspace and /tmp are writable, /tmp is new each time{network}."
    return (
        "Run a bash command in your workspace; returns what it prints. Each call is a new shell"
        f" without input; what it leaves running is ended. Limit {timeout_s:g} s.{reach}"
    )
