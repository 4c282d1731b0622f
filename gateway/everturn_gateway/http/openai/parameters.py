"""What a chat completion request asks of the model beside its messages. Pure.

Source: https://platform.openai.com/docs/api-reference/chat/create (read 2026-11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from everturn_actors.errors import InvalidInputError
from everturn_actors.model import CallOptions, ToolDefinition
from everturn_actors.turn.reply_flaws import check_form
from everturn_gateway.http.openai.refusals import refuse

# Parameter -> the values of it that ask for nothing special.
_REFUSED: Final[Mapping[str, tuple[object, ...]]] = {
    "audio": (),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logprobs": (False,),
    "modalities": (["text"], []),
    "n": (1,),
    "top_logprobs": (0,),
    "web_search_options": (),
}
_OVERRIDES: Final = (
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
)
"What the agent decides, unless its `session.client_overrides` says else."

_Share = Annotated[float, Field(ge=0, le=1)]
_Penalty = Annotated[float, Field(ge=-2, le=2)]


class Lenient(BaseModel):
    """A body whose further fields are looked at by name."""

    model_config = ConfigDict(extra="allow", frozen=True)


class FunctionDefinition(Lenient):
    """A function that the client runs."""

    name: str = Field(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+$")
    description: str | None = None
    parameters: dict[str, Any] | None = Field(
        default=None, description="JSON Schema of its arguments; by default it has none."
    )


class ToolBody(Lenient):
    """A tool that the client brings along, and runs itself."""

    function: FunctionDefinition
    type: Literal["function"] = "function"


class Parameters(Lenient):
    """The fields of a request that are no messages."""

    tools: list[ToolBody] | None = Field(default=None, max_length=128)
    tool_choice: str | dict[str, object] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = Field(
        default=None, description='"text", "json_object", or "json_schema" with its schema.'
    )
    stop: str | list[str] | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: _Share | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    reasoning_effort: str | None = None


def ignored(parameters: Parameters, *, overrides: bool) -> tuple[str, ...]:
    """Return the names of what has no effect.

    Args:
        parameters: What the client sent.
        overrides: Whether the client decides what is the agent's by default.

    Raises:
        ProblemError: One of them may not be ignored (400).
    """
    extra = parameters.model_extra or {}
    names: list[str] = []
    for name, value in extra.items():
        if value is None:
            continue
        if name not in _REFUSED:
            names.append(name)
        elif value not in _REFUSED[name]:
            refuse(name, f"{name!r} is not supported here")
    if not overrides:
        names += [name for name in _OVERRIDES if getattr(parameters, name) is not None]
    elif parameters.reasoning_effort not in {None, "low", "medium", "high"}:
        names.append("reasoning_effort")
    return tuple(names)


def options_of(
    parameters: Parameters, *, own_tools: Collection[str], overrides: bool
) -> CallOptions | None:
    """Return what is asked of the model; None = nothing.

    Args:
        parameters: What the client sent.
        own_tools: The names of the agent's tools, which a client cannot take.
        overrides: Whether the client decides what is the agent's by default.

    Raises:
        ProblemError: What it asks for cannot be had (400).
    """
    tools = tuple(_tool(tool.function, own_tools) for tool in parameters.tools or ())
    counts = Counter(tool.name for tool in tools)
    for name, count in counts.most_common(1):
        if count > 1:
            refuse("tools", f"{count} tools have the name {name!r}")
    stop = parameters.stop or ()
    options = CallOptions(
        tools=tools,
        tool_choice=_choice(parameters.tool_choice, {*counts, *own_tools}),
        parallel_calls=parameters.parallel_tool_calls if tools else None,
        response_format=_form(parameters.response_format),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        seed=parameters.seed,
        **(_overrides(parameters) if overrides else {}),
    )
    try:
        check_form(options)
    except InvalidInputError as error:
        refuse("response_format.json_schema.schema", str(error))
    return None if options == CallOptions() else options


def _overrides(parameters: Parameters) -> dict[str, Any]:
    effort = parameters.reasoning_effort
    return {
        "temperature": parameters.temperature,
        "top_p": parameters.top_p,
        "presence_penalty": parameters.presence_penalty,
        "frequency_penalty": parameters.frequency_penalty,
        "max_output_tokens": parameters.max_completion_tokens or parameters.max_tokens,
        "reasoning_effort": effort if effort in {"low", "medium", "high"} else None,
    }


def _tool(function: FunctionDefinition, own_tools: Collection[str]) -> ToolDefinition:
    if function.name in own_tools:
        refuse("tools", f"the agent has a tool {function.name!r} of its own; name yours otherwise")
    return ToolDefinition(
        name=function.name,
        description=function.description or "",
        parameters=function.parameters or {"type": "object", "properties": {}},
    )


def _choice(choice: str | dict[str, object] | None, names: Collection[str]) -> str:
    if choice in {None, "auto", ""} if not isinstance(choice, dict) else not choice:
        return ""
    if isinstance(choice, str):
        if choice not in {"none", "required"}:
            refuse("tool_choice", "it is 'none', 'auto', 'required' or names a function")
        if choice == "required" and not names:
            refuse("tool_choice", "there is no tool to call")
        return choice
    match choice:
        case {"type": "function", "function": {"name": str(name)}} if name in names:
            return name
        case _:
            return refuse("tool_choice", "it names no function that there is")


def _form(form: dict[str, object] | None) -> dict[str, object]:
    why = "its type is 'text', 'json_object' or 'json_schema'"
    match form:
        case None | {"type": "text"}:
            return {}
        case {"type": "json_object"}:
            return {"type": "json_object"}
        case {"type": "json_schema", "json_schema": {"schema": dict(), "name": str()}}:
            return form
        case {"type": "json_schema"}:
            why = "its json_schema is an object with 'name' and 'schema'"
        case _:
            pass
    return refuse("response_format", why)
