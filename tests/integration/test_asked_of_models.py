"""What a caller asks of the model for its own turn, as each API is told it."""

from __future__ import annotations

from typing import Any

from support.model_api import Answer, open_model_api, refused
from support.provider_kinds import (
    ANTHROPIC,
    LOOK,
    OLLAMA,
    OPENAI,
    Kind,
    ignore,
    open_kind,
    request,
)
from support.tables import table

from everturn_actors.model import CallOptions

SCHEMA = {"type": "object", "properties": {"town": {"type": "string"}}}
FORM = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
IN_WORDS = (
    "Your answer has to be JSON alone: no other words, and no marks around it."
    ' It follows this JSON Schema: {"type":"object","properties":{"town":{"type":"string"}}}'
)
ASKED = CallOptions(
    stop=("END",), seed=7, top_p=0.5, presence_penalty=1, frequency_penalty=-1, response_format=FORM
)


async def body_of(kind: Kind, options: CallOptions, **fields: Any) -> dict[str, Any]:
    """Return the body of a request with these options."""
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        await adapter.complete(request(options=options, **fields), ignore)
        return dict(api.requests[0].json())


@table(
    ("kind", "told"),
    [
        (
            OPENAI,
            {
                "stop": ["END"],
                "seed": 7,
                "top_p": 0.5,
                "presence_penalty": 1,
                "frequency_penalty": -1,
                "response_format": FORM,
            },
        ),
        (
            ANTHROPIC,
            {
                "stop_sequences": ["END"],
                "top_p": 0.5,
                "system": [
                    {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}},
                    {"type": "text", "text": IN_WORDS},
                ],
            },
        ),
        (
            OLLAMA,
            {
                "format": SCHEMA,
                "options": {
                    "stop": ["END"],
                    "seed": 7,
                    "top_p": 0.5,
                    "presence_penalty": 1,
                    "frequency_penalty": -1,
                },
            },
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else "",
)
async def test_a_reply_is_asked_for_as_each_api_has_it(kind: Kind, told: dict[str, Any]) -> None:
    """What a client asks for reaches the model, in the words that it knows."""
    plain = await body_of(kind, CallOptions())
    body = await body_of(kind, ASKED)

    assert {name: body[name] for name in told} == told
    assert {n: v for n, v in body.items() if n not in told} == {
        n: v for n, v in plain.items() if n not in told
    }


@table(
    ("kind", "choice", "told"),
    [
        (OPENAI, "none", "none"),
        (OPENAI, "required", "required"),
        (OPENAI, "look", {"type": "function", "function": {"name": "look"}}),
        (ANTHROPIC, "none", {"type": "none"}),
        (ANTHROPIC, "required", {"type": "any", "disable_parallel_tool_use": True}),
        (ANTHROPIC, "look", {"type": "tool", "name": "look", "disable_parallel_tool_use": True}),
        (ANTHROPIC, "", {"type": "auto", "disable_parallel_tool_use": True}),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else str(value)[:8],
)
async def test_which_tool_is_called_can_be_asked_for(kind: Kind, choice: str, told: object) -> None:
    """A client that wants one certain call gets it from every model that can be told so."""
    body = await body_of(kind, CallOptions(tool_choice=choice, parallel_calls=False), tools=(LOOK,))

    assert body["tool_choice"] == told
    assert body.get("parallel_tool_calls", False) is False


async def test_a_model_that_may_call_nothing_is_offered_nothing() -> None:
    """Ollama has no field for it."""
    body = await body_of(OLLAMA, CallOptions(tool_choice="none"), tools=(LOOK,))

    assert "tools" not in body


async def test_a_form_that_a_server_does_not_know_is_told_in_words() -> None:
    """Many servers speak OpenAI's format without every field of it."""
    no = refused(400, "Unsupported parameter: 'response_format'", param="response_format")
    async with open_model_api() as api, open_kind(OPENAI, api) as adapter:
        api.script(no, Answer(text="{}"))
        await adapter.complete(request(options=CallOptions(response_format=FORM)), ignore)
        body = api.requests[-1].json()

    assert "response_format" not in body
    assert body["messages"][-1] == {"role": "system", "content": IN_WORDS}
