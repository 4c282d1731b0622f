"""Each field of OpenAI's API as the official client knows it: what becomes of it, as docs say."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_type_hints

from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from support.gateway import HttpGateway
from support.one_gateway import on_one_gateway
from support.tables import table

DOCS: Final = Path(__file__).parents[2] / "docs" / "clients.md"
Outcome: TypeAlias = Literal["taken", "named", "refused"]
"Used; of no effect, which the answer says; or refused, since the answer would mean something else."
Rows: TypeAlias = dict[str, tuple[Any, Outcome]]

TOOL: Final = {"name": "weather", "parameters": {"type": "object"}}
NO_IMAGE: Final = {"type": "input_image"}
PART: Final = "input.0.content.0"
MESSAGE_PART: Final = "messages.0.content.0"
IMAGE: Final = f"{PART}.image_url"
DEEP: Final[dict[str, Any]] = reduce(lambda inner, _: {"a": inner}, range(120), {})
DEEP_FORM: Final = {"name": "n", "schema": DEEP}
CACHE: Final[Rows] = {
    "prompt_cache_key": ("k", "named"),
    "prompt_cache_options": ({"mode": "auto"}, "named"),
    "prompt_cache_retention": ("24h", "named"),
}
CHAT: Final[Rows] = {
    **CACHE,
    "audio": ({"voice": "alloy", "format": "wav"}, "refused"),
    "frequency_penalty": (1, "named"),
    "function_call": ({"name": "weather"}, "refused"),
    "functions": ([TOOL], "refused"),
    "logit_bias": ({"50256": -100}, "named"),
    "logprobs": (True, "refused"),
    "max_completion_tokens": (50, "named"),
    "max_tokens": (50, "named"),
    "messages": ([{"role": "user", "content": "hi"}], "taken"),
    "metadata": ({"conversation_id": "c"}, "taken"),
    "modalities": (["text", "audio"], "refused"),
    "model": ("test", "taken"),
    "moderation": ({"model": "m"}, "named"),
    "n": (2, "refused"),
    "parallel_tool_calls": (False, "taken"),
    "prediction": ({"type": "content", "content": "x"}, "named"),
    "presence_penalty": (1, "named"),
    "reasoning_effort": ("low", "named"),
    "response_format": ({"type": "text"}, "taken"),
    "safety_identifier": ("s", "named"),
    "seed": (3, "taken"),
    "service_tier": ("flex", "named"),
    "stop": (["END"], "taken"),
    "store": (True, "named"),
    "stream_options": ({"include_usage": True}, "taken"),
    "temperature": (0.5, "named"),
    "tool_choice": ("auto", "taken"),
    "tools": ([{"type": "function", "function": TOOL}], "taken"),
    "top_logprobs": (2, "refused"),
    "top_p": (0.5, "named"),
    "user": ("u", "taken"),
    "verbosity": ("low", "named"),
    "web_search_options": ({}, "refused"),
}
RESPONSES: Final[Rows] = {
    **CACHE,
    "access_programs": ({"a": True}, "named"),
    "background": (False, "taken"),
    "background_options": ({"x": 1}, "named"),
    "context_management": ([{"type": "compaction"}], "named"),
    "conversation": ("mine", "taken"),
    "image": ({"x": 1}, "named"),
    "include": (["reasoning.encrypted_content"], "named"),
    "input": ("hi", "taken"),
    "instructions": ("Be brief.", "taken"),
    "max_output_tokens": (50, "named"),
    "max_tool_calls": (1, "named"),
    "metadata": ({"ticket": "1"}, "taken"),
    "model": ("test", "taken"),
    "moderation": ({"model": "m"}, "named"),
    "parallel_tool_calls": (False, "taken"),
    "previous_response_id": (None, "taken"),
    "prompt": ({"id": "pmpt_1"}, "refused"),
    "reasoning": ({"effort": "low"}, "named"),
    "safety_identifier": ("s", "named"),
    "service_tier": ("flex", "named"),
    "store": (True, "taken"),
    "stream_options": ({"include_obfuscation": False}, "taken"),
    "temperature": (0.5, "named"),
    "text": ({"format": {"type": "text"}}, "taken"),
    "tool_choice": ("auto", "taken"),
    "tools": ([{"type": "function", **TOOL}], "taken"),
    "top_logprobs": (2, "refused"),
    "top_p": (0.5, "named"),
    "truncation": ("auto", "taken"),
    "user": ("u", "named"),
}
TOLD_AS: Final = {"reasoning": "reasoning.effort"}
"What the answer calls the part of a field that has no effect."
PARTS: Final[dict[str, tuple[str, Any]]] = {
    "reasoning.summary": ("reasoning", {"summary": "auto"}),
    "text.verbosity": ("text", {"verbosity": "low"}),
}


@on_one_gateway(
    "route, field, value, outcome",
    [
        *(("chat/completions", field, *row) for field, row in CHAT.items()),
        *(("responses", field, *row) for field, row in RESPONSES.items()),
    ],
)
async def test_a_field_is_taken_named_or_refused(
    gateway: HttpGateway, route: str, field: str, value: Any, outcome: Outcome
) -> None:
    """Nothing is left out in silence, and what cannot be had is an error that names it."""
    response = await post(gateway, route, **{field: value})
    named = response.headers.get("x-everturn-ignored", "").split(", ")
    if outcome == "refused":
        assert response.status_code == 400, response.text
        assert response.json()["error"]["param"] == field
    else:
        assert response.status_code == 200, response.text
        assert (TOLD_AS.get(field, field) in named) == (outcome == "named"), named


@on_one_gateway("name, field, value", [(name, *row) for name, row in PARTS.items()])
async def test_a_part_of_a_field_is_named(
    gateway: HttpGateway, name: str, field: str, value: Any
) -> None:
    """The rest of it may have an effect."""
    response = await post(gateway, "responses", **{field: value})
    assert response.status_code == 200
    assert name in response.headers["x-everturn-ignored"].split(", ")


@on_one_gateway(
    "body, param",
    [
        ({"input": [{"role": "robot", "content": "x"}]}, "input.0.role"),
        ({"instructions": "x", "input": [{"role": "robot", "content": "x"}]}, "input.0.role"),
        ({"input": [{"role": "user", "content": [{"type": "x"}]}]}, "input.0.content.0"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "x"}]}]},
            "input.0.content.0.file_data",
        ),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0.type"),
        (
            {
                "input": [
                    {"role": "user", "content": "x"},
                    {"type": "function_call", "call_id": "a", "name": "n", "arguments": "{}"},
                    {"type": "function_call", "call_id": "b", "name": "n", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "other", "output": "x"},
                ]
            },
            "input.3.call_id",
        ),
        ({"input": "x", "background": True, "store": False}, "background"),
        ({"input": "x", "text": {"format": {"type": "x"}}}, "text.format"),
        ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": [{"type": "function_call", "call_id": "a"}]}, "input.0.name"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, IMAGE),
        ({"input": [{"role": "user", "content": [{**NO_IMAGE, "image_url": "x"}]}]}, IMAGE),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, f"{PART}.text"),
        ({"input": "x", "tools": [{"type": "function"}]}, "tools.0.name"),
        ({"input": "x", "text": {"format": "json_object"}}, "text.format"),
        ({"input": "x", "conversation": "a\nb"}, "conversation"),
        ({"input": "x", "conversation": 5}, "conversation"),
        ({"input": 5}, "input"),
    ],
)
async def test_a_refusal_names_what_was_sent(
    gateway: HttpGateway, body: dict[str, Any], param: str
) -> None:
    """A response is read as a chat completion, of which its client knows nothing."""
    response = await post(gateway, "responses", **body)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


@on_one_gateway(
    "field, value, param",
    [
        ("tool_choice", {"type": "function", "function": "x"}, "tool_choice"),
        ("tool_choice", {"type": "function", "function": {"name": [1]}}, "tool_choice"),
        ("tool_choice", 5, "tool_choice"),
        ("stop", [1], "stop"),
        ("messages", [{"role": "user", "content": 5}], "messages.0.content"),
        ("messages", [{"role": "user", "content": [{"type": "text"}]}], f"{MESSAGE_PART}.text"),
        ("messages", [{"role": "user"}, {"content": "x"}], "messages.1.role"),
        ("tools", [{"type": "function", "function": {**TOOL, "parameters": DEEP}}], None),
        ("response_format", {"type": "json_schema", "json_schema": DEEP_FORM}, None),
    ],
)
async def test_a_completion_that_no_client_of_openai_sends(
    gateway: HttpGateway, field: str, value: Any, param: str | None
) -> None:
    """It is refused with the place as it was sent, however malformed it is."""
    response = await post(gateway, "chat/completions", **{field: value})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param


async def post(gateway: HttpGateway, route: str, **fields: Any) -> Any:
    """Send a request that is complete but for these fields."""
    said: dict[str, Any] = (
        {"input": "hi"}
        if route == "responses"
        else {"messages": [{"role": "user", "content": "hi"}]}
    )
    async with gateway.client() as client:
        return await client.post(f"/v1/{route}", json={"model": "test", **said, **fields})


@table(
    ("rows", "parameters"),
    [(CHAT, CompletionCreateParamsBase), (RESPONSES, ResponseCreateParamsBase)],
    ids=["chat", "responses"],
)
def test_each_field_of_the_official_client_is_tried_and_told(rows: Rows, parameters: type) -> None:
    """A field that the next version brings along has to be decided on."""
    section = DOCS.read_text().partition("### Field by field")[2].partition("\n### ")[0]
    told = set(re.findall(r"`([a-z_]+)", section))

    assert rows.keys() == get_type_hints(parameters).keys()
    assert rows.keys() <= told
