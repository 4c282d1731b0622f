"""What MCP servers send, made bad: no message, an error for who waits, or something bounded.

See `test_fuzz_journal` for how to run it for longer.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st
from mcp_types import (
    GetPromptResult,
    JSONRPCResponse,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
)
from support.examples import examples
from support.mutations import as_json, in_pieces, mutated, torn

from everturn_actors.errors import ToolFailedError
from everturn_actors.json_values import as_object
from everturn_actors.model import ToolCall
from everturn_gateway.tools.mcp import McpServerSettings
from everturn_gateway.tools.mcp.errors import McpAnswerError
from everturn_gateway.tools.mcp.listing import (
    NAME_CHARACTERS,
    TOOLS_BYTES,
    RemoteDefinition,
    listing_of,
    shortened,
    sifted,
)
from everturn_gateway.tools.mcp.prompts import sifted_messages, sifted_prompts
from everturn_gateway.tools.mcp.resources import sifted_contents, sifted_page
from everturn_gateway.tools.mcp.results import RESULT_CHARACTERS, result_text
from everturn_gateway.tools.mcp.tool import _arguments
from everturn_gateway.tools.mcp.transports.lines import Lines
from everturn_gateway.tools.mcp.transports.stdio import message_of
from everturn_gateway.tools.mcp.transports.streamable import _is_error
from everturn_gateway.tools.searching.search import call_before, call_behind

SETTINGS: Final = McpServerSettings(name="s", command="x")
SCHEMA: Final = {
    "type": "object",
    "$defs": {"place": {"type": "string", "enum": ["here", "there"]}},
    "properties": {
        "at": {"$ref": "#/$defs/place"},
        "n": {"type": ["integer", "null"], "minimum": 0, "maximum": 10**6},
        "all": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"not": {}}]}},
    },
    "required": ["at"],
    "additionalProperties": False,
}
TOOLS: Final = [
    {"name": "look", "description": "Looks.", "inputSchema": SCHEMA},
    {"name": "touch", "title": "Touches", "inputSchema": {"type": "object"}},
    {"name": "look", "inputSchema": {}, "annotations": {"readOnlyHint": True}},
]
RESULT: Final = {
    "content": [
        {"type": "text", "text": "seven"},
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 5, "mimeType": "x/y"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGVsbG8="}},
    ],
    "structuredContent": {"n": 7},
    "isError": False,
}
MESSAGES: Final = (
    {"jsonrpc": "2.0", "id": 7, "result": RESULT},
    {"jsonrpc": "2.0", "id": "7", "result": {"tools": TOOLS, "nextCursor": "x"}},
    {"jsonrpc": "2.0", "id": 7, "error": {"code": -32602, "message": "no", "data": {"a": 1}}},
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1}},
    {"jsonrpc": "2.0", "id": 8, "method": "sampling/createMessage", "params": {"messages": []}},
)
TOKENS: Final = (b"\n", b'{"jsonrpc":"2.0",', b'"id":7,', b'"result":', b"}", b'"id":true')


def check(line: bytes) -> None:
    """Check that a line is a message that can be passed on, or none, and answers only one id."""
    number: object = getattr(message_of(line), "id", None)

    assert number is None or type(number) in {int, str}


@examples(36)
@given(
    st.sampled_from(MESSAGES).flatmap(mutated).map(as_json)
    | st.sampled_from(MESSAGES).flatmap(lambda m: torn(as_json(m), tokens=TOKENS))
)
@example(b'{"jsonrpc":"2.0","id":true,"result":5}')
@example(b'{"jsonrpc":"2.0","id":true,"result":{}}')
@example(b'{"jsonrpc":"2.0","id":true,"error":{}}')
def test_any_line_of_a_server_is_a_message_or_none(line: bytes) -> None:
    """A fault here ends the reader, and everybody who waits for the server."""
    check(line)


@examples(12)
@given(
    st.lists(st.sampled_from(MESSAGES).flatmap(lambda m: torn(as_json(m), tokens=TOKENS)))
    .map(b"\n".join)
    .flatmap(in_pieces)
)
def test_what_follows_a_bad_line_is_read(pieces: list[bytes]) -> None:
    """One line that is none must not cost those after it."""
    lines = Lines()
    good = as_json(MESSAGES[0])
    for piece in pieces:
        for line in lines.feed(piece):
            check(line if isinstance(line, bytes) else line.head)
    last = lines.feed(b"\n" + good + b"\n")[-1]

    assert isinstance(last, bytes)
    assert message_of(last) is not None


@examples(36)
@given(st.just(TOOLS).flatmap(mutated).map(as_json))
def test_any_list_of_tools_is_cut_to_what_a_model_can_be_given(data: bytes) -> None:
    """It goes into every request of the agent; one odd schema would silence it."""
    said = readable(data)
    if not isinstance(said, list):
        return
    kept, faults = sifted(said)
    tools = [
        RemoteDefinition(
            name=str(each["name"]),
            description=shortened(str(each["description"])),
            parameters=as_object(each["inputSchema"]),
        )
        for each in kept
    ]
    listing = listing_of(tools, SETTINGS, faults)

    assert len(kept) + len(faults) == len(said)
    assert len(json.dumps([tool.parameters for tool in listing.tools])) <= TOOLS_BYTES
    for tool in listing.tools:
        assert len(tool.name) <= NAME_CHARACTERS
        assert tool.parameters.get("type") == "object"
        json.dumps(tool.parameters, allow_nan=False, ensure_ascii=False).encode()


@examples(36)
@given(st.just(RESULT).flatmap(mutated).map(as_json))
def test_any_result_is_text_or_refused(data: bytes) -> None:
    """The model reads it, and the log keeps it."""
    said = readable(data)
    text = "x"
    if isinstance(said, dict):
        with suppress(McpAnswerError):
            text = result_text(said)

    assert text
    assert len(text) <= RESULT_CHARACTERS + 100
    json.dumps(text)


def readable(data: bytes) -> Any:
    """Return what a transport would pass on of JSON; None where it is none."""
    message = message_of(b'{"jsonrpc":"2.0","id":1,"result":{"is":' + data + b"}}")
    return message.result["is"] if isinstance(message, JSONRPCResponse) else None


@examples(12)
@given(st.just({"at": "here", "n": 3}).flatmap(mutated).map(as_json) | st.binary(max_size=20))
def test_any_arguments_are_an_object_or_a_failure_that_the_model_reads(data: bytes) -> None:
    """A model writes what it likes; what it wrote is checked before a server hears of it."""
    call = ToolCall(call_id="a", name="b", arguments=data.decode("utf-8", "replace"))
    found: dict[str, Any] = {}
    with suppress(ToolFailedError):
        found = _arguments(call)

    json.dumps(found, allow_nan=False)


@examples(12)
@given(st.sampled_from(MESSAGES).flatmap(lambda m: torn(as_json(m))))
def test_any_body_of_an_http_error_is_the_servers_words_or_not(body: bytes) -> None:
    """It decides whether the server is quoted, and must not fail for it."""
    assert _is_error(body) in {True, False}


RESOURCES: Final = {
    "resources": [{"uri": "notes://a", "name": "a", "mimeType": "x/y", "description": "A."}],
    "nextCursor": "1",
}
TEMPLATES: Final = {"resourceTemplates": [{"uriTemplate": "notes://{day}", "name": "a day"}]}
CONTENTS: Final = {
    "contents": [
        {"uri": "notes://a", "text": "inside"},
        {"uri": "notes://b", "mimeType": "image/png", "blob": "aGVsbG8="},
    ]
}
PROMPTS: Final = {
    "prompts": [
        {"name": "sum", "description": "Sums.", "arguments": [{"name": "of", "required": True}]}
    ]
}
PROMPT: Final = {
    "messages": [
        {"role": "user", "content": {"type": "text", "text": "Sum."}},
        {"role": "assistant", "content": {"type": "image", "data": "aGVsbG8=", "mimeType": "i"}},
    ]
}


@given(
    st.sampled_from([RESOURCES, TEMPLATES, CONTENTS, PROMPTS, PROMPT]).flatmap(mutated).map(as_json)
)
@examples(24)
def test_any_resource_or_prompt_is_one_of_the_protocol_or_refused(data: bytes) -> None:
    """What is passed on to the protocol's client is what that takes: it refuses all for one."""
    answer = readable(data)
    if not isinstance(answer, dict):
        return
    shown = {key: value for key, value in answer.items() if key != "nextCursor"}
    ListResourcesResult.model_validate(sifted_page("resources/list", shown))
    ListResourceTemplatesResult.model_validate(sifted_page("resources/templates/list", shown))
    for prompt in ListPromptsResult.model_validate(sifted_prompts(shown)).prompts:
        assert prompt.name.isprintable()
    for made, kind in (
        (sifted_contents, ReadResourceResult),
        (sifted_messages, GetPromptResult),
    ):
        with suppress(McpAnswerError):
            kind.model_validate(made(shown))


@given(
    st.just({"name": "wiki_look", "arguments": {"at": "here"}}).flatmap(mutated).map(as_json)
    | st.binary(max_size=20)
)
@examples(24)
def test_any_call_of_a_found_tool_is_one_that_there_is_or_stays_as_it_is(data: bytes) -> None:
    """The name and the arguments are the model's, which may write anything."""
    written = data.decode(errors="replace")
    call = ToolCall(call_id="c", name="use_tool", arguments=written)
    meant = call_behind(call, {"wiki_look": None, "use_tool": None})

    assert meant == call or meant.name == "wiki_look"
    call_before(meant)
