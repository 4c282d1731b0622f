"""What a turn's caller asks of a reply, in the words of the APIs. Pure.

Sources: https://platform.openai.com/docs/api-reference/chat/create and /responses/create,
https://platform.claude.com/docs/en/api/messages and
https://docs.ollama.com/api/chat (read 2026-11).
"""

from __future__ import annotations

from collections.abc import Collection

from everturn_actors.model import CallOptions
from everturn_gateway.providers.transport.encoding import dumps


def openai_options(asked: CallOptions) -> dict[str, object]:
    """Return the fields of a chat completion, those about tools left out; None = not asked."""
    return {
        "stop": list(asked.stop) or None,
        "seed": asked.seed,
        "top_p": asked.top_p,
        "presence_penalty": asked.presence_penalty,
        "frequency_penalty": asked.frequency_penalty,
        "response_format": dict(asked.response_format) or None,
    }


def openai_tool_choice(asked: CallOptions) -> dict[str, object]:
    """Return the fields about tools of a chat completion that has some."""
    choice: dict[str, object] = {}
    if asked.parallel_calls is not None:
        choice["parallel_tool_calls"] = asked.parallel_calls
    if asked.tool_choice in {"none", "required"}:
        choice["tool_choice"] = asked.tool_choice
    elif asked.tool_choice:
        choice["tool_choice"] = {"type": "function", "function": {"name": asked.tool_choice}}
    return choice


def responses_options(asked: CallOptions, leave_out: Collection[str] = ()) -> dict[str, object]:
    """Return the fields of a response, those about tools left out.

    It has none for words to stop at, a seed and penalties.
    """
    options: dict[str, object] = {} if asked.top_p is None else {"top_p": asked.top_p}
    form = dict(asked.response_format)
    if form and "response_format" not in leave_out:
        # What chat completions have one level further down.
        options["text"] = {"format": {**form.pop("json_schema", {}), **form}}
    return options


def responses_tool_choice(asked: CallOptions) -> dict[str, object]:
    """Return the fields about tools of a response that has some."""
    choice = openai_tool_choice(asked)
    if isinstance(choice.get("tool_choice"), dict):
        choice["tool_choice"] = {"type": "function", "name": asked.tool_choice}
    return choice


def anthropic_options(asked: CallOptions) -> dict[str, object]:
    """Return the fields of a message, those about tools left out."""
    given = {"stop_sequences": list(asked.stop) or None, "top_p": asked.top_p}
    return {name: value for name, value in given.items() if value is not None}


def anthropic_tool_choice(asked: CallOptions) -> dict[str, object]:
    """Return the fields about tools of a message that has some."""
    if not asked.tool_choice and asked.parallel_calls is None:
        return {}
    match asked.tool_choice:
        case "none":
            return {"tool_choice": {"type": "none"}}
        case "":
            choice: dict[str, object] = {"type": "auto"}
        case "required":
            choice = {"type": "any"}
        case name:
            choice = {"type": "tool", "name": name}
    if asked.parallel_calls is not None:
        choice["disable_parallel_tool_use"] = not asked.parallel_calls
    return {"tool_choice": choice}


def ollama_options(asked: CallOptions) -> dict[str, object]:
    """Return the options of Ollama's model."""
    given = {
        "stop": list(asked.stop) or None,
        "seed": asked.seed,
        "top_p": asked.top_p,
        "presence_penalty": asked.presence_penalty,
        "frequency_penalty": asked.frequency_penalty,
    }
    return {name: value for name, value in given.items() if value is not None}


def ollama_format(asked: CallOptions) -> dict[str, object]:
    """Return the form of the answer, as Ollama is told it."""
    schema = _schema(asked)
    if schema is not None:
        return {"format": schema}
    return {"format": "json"} if asked.response_format.get("type") == "json_object" else {}


def form_in_words(asked: CallOptions) -> str:
    """Return the form of the answer for a model whose API has no field for it; empty = none."""
    if asked.response_format.get("type", "text") == "text":
        return ""
    told = "Your answer has to be JSON alone: no other words, and no marks around it."
    schema = _schema(asked)
    return (
        told if schema is None else f"{told} It follows this JSON Schema: {dumps(schema).decode()}"
    )


def _schema(asked: CallOptions) -> object:
    return asked.response_format.get("json_schema", {}).get("schema")
