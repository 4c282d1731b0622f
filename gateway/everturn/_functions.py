"""From a typed function to a tool: its definition, and what runs a call of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeAlias, cast, get_type_hints

from anyio import to_thread
from pydantic import Field, create_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import to_json

from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import ToolContext, ToolOutput
from everturn_gateway.tools.arguments import Arguments, parameters, read_arguments

RunTool: TypeAlias = Callable[[ToolCall, ToolContext], Awaitable[str | ToolOutput]]

_SECTION: Final = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Example|Examples):\s*$")
_ARGUMENT: Final = re.compile(r"^\s+\*{0,2}(?P<name>\w+)(?:\s*\([^)]*\))?:\s*(?P<text>.*)$")


def made_of(function: Callable[..., Any], name: str) -> tuple[ToolDefinition, RunTool]:
    """Return how a model sees a function, and what runs a call of it.

    Args:
        function: The function.
        name: How the model calls it; empty = as it is called.

    Raises:
        TypeError: It cannot be a tool; the text names the parameter.
    """
    called = name or getattr(function, "__name__", "")
    description, described = _read_docstring(inspect.getdoc(function) or "")
    hints = _hints(function, called)
    fields: dict[str, Any] = {}
    fields_of: dict[str, str] = {}
    context_of = ""
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name)
        if hint is ToolContext:
            context_of = parameter.name
            continue
        if hint is None or parameter.kind in {
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
            parameter.POSITIONAL_ONLY,
        }:
            msg = (
                f"tool {called}: parameter {parameter.name} needs a type, and a name by which a"
                " model can give it"
            )
            raise TypeError(msg)
        # A name of ours: one of the function may be one that pydantic keeps for itself.
        field = f"argument_{len(fields)}"
        fields_of[parameter.name] = field
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        info: Any = Field(default, alias=parameter.name, description=described.get(parameter.name))
        fields[field] = (hint, info)
    try:
        arguments = create_model(called, __base__=Arguments, **fields)
        definition = ToolDefinition(
            name=called, description=description, parameters=parameters(arguments)
        )
    except PydanticSchemaGenerationError as error:
        msg = f"tool {called}: {error.message.partition('. ')[0]}"
        raise TypeError(msg) from error
    run = partial(_run, function, arguments, fields_of, context_of)
    return definition, run


async def _run(
    function: Callable[..., Any],
    arguments: type[Arguments],
    fields_of: dict[str, str],
    context_of: str,
    call: ToolCall,
    context: ToolContext,
) -> str | ToolOutput:
    read = read_arguments(call, arguments)
    given: dict[str, Any] = {name: getattr(read, field) for name, field in fields_of.items()}
    if context_of:
        given[context_of] = context
    if inspect.iscoroutinefunction(function):
        result = await cast("Awaitable[object]", function(**given))
    else:
        result = await to_thread.run_sync(partial(function, **given), abandon_on_cancel=True)
    match result:
        case str() | ToolOutput():
            return result
        case None:
            return "done"
        case _:
            return to_json(result).decode()


def _hints(function: Callable[..., Any], called: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        msg = f"tool {called}: {error}; annotations have to name what stands in its module"
        raise TypeError(msg) from error


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of the function, and of each of its arguments."""
    told: list[str] = []
    described: dict[str, str] = {}
    section = argument = ""
    for line in text.splitlines():
        if found := _SECTION.match(line):
            section, argument = found[1], ""
        elif not section:
            told.append(line)
        elif section.startswith("Arg"):
            if found := _ARGUMENT.match(line):
                argument = found["name"]
                described[argument] = found["text"].strip()
            elif argument and line.strip():
                described[argument] += f" {line.strip()}"
    return "\n".join(told).strip(), described
