"""A tool that throws a die; which side comes up follows from what is asked."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from pydantic import Field

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import Tool, ToolCapabilities, ToolContext
from everturn_gateway.plugins import PluginToolSettings, ToolPlugin, ToolSetup


class DiceSettings(PluginToolSettings):
    """The settings of `dice`."""

    sides: Annotated[int, Field(ge=2)] = 6
    "Of the die."
    seal: Annotated[str, Field(repr=False)] = ""
    "A secret word."


class Dice:
    """Implements `Tool`."""

    def __init__(self, sides: int) -> None:
        """Throw a die with so many sides."""
        self._sides = sides

    @property
    def definition(self) -> ToolDefinition:
        """How the model sees it."""
        return ToolDefinition(
            name="throw_die",
            description=f"Throws a die with {self._sides} sides.",
            parameters={
                "type": "object",
                "properties": {"wish": {"type": "string", "description": "What is hoped for."}},
                "additionalProperties": False,
            },
        )

    @property
    def capabilities(self) -> ToolCapabilities:
        """It changes nothing."""
        return ToolCapabilities(read_only=True)

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        """Throw it."""
        del context
        try:
            arguments: Any = json.loads(call.arguments or "{}")
        except json.JSONDecodeError as error:
            msg = f"the arguments are no JSON: {error}"
            raise ToolFailedError(msg) from error
        if not isinstance(arguments, dict) or set(arguments) - {"wish"}:
            msg = "the arguments have to be an object with wish alone"
            raise ToolFailedError(msg)
        return f"the die shows {len(str(arguments.get('wish', ''))) % self._sides + 1}"


def _make(setup: ToolSetup[DiceSettings]) -> tuple[Tool, ...]:
    return (Dice(setup.settings.sides),)


DICE: Final = ToolPlugin(
    name="dice",
    interface=1,
    summary="a die",
    docs="https://example.org/dice",
    settings=DiceSettings,
    make=_make,
)
