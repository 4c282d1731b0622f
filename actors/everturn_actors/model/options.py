"""What a caller asks of the model for its own turn, beside what the agent is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from everturn_actors.codec import Value
from everturn_actors.model.remembering import Remembering

Effort: TypeAlias = Literal["low", "medium", "high"]


class ToolDefinition(Remembering, frozen=True, kw_only=True):
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    "JSON Schema of the arguments object."


class CallOptions(Value, frozen=True, kw_only=True):
    """What holds for the model calls of the turn that answers a message."""

    tools: tuple[ToolDefinition, ...] = ()
    "Tools that the caller runs itself, beside the agent's own: the turn waits for their results."
    tool_choice: str = ""
    "`none`, `required`, or the name of the one tool to call; empty = as the model likes."
    parallel_calls: bool | None = None
    "Whether one reply may make several calls; None = as the model's provider does."
    response_format: Mapping[str, Any] = {}
    """The form of the answer as OpenAI has it: `{"type": "json_object"}`, or `json_schema` with the
    schema; empty = text."""
    instructions: str = ""
    "Beside those of the agent and of the session."
    stop: tuple[str, ...] = ()
    "Texts before which the reply ends."
    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_output_tokens: int | None = None
    "Of one reply; never more than the agent allows."
    reasoning_effort: Effort | None = None
    is_quiet: bool = False
    "Whether what is said in the turn is not delivered; what its calls ask people is."
    is_bare: bool = False
    "Whether the model is asked without the agent's prompt, tools and skills."


DEFAULT_OPTIONS = CallOptions()
