"""What MCP clients and editors send, made bad: an error of their protocol, or something bounded.

See `test_fuzz_journal` for how to run it for longer.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Final, get_args

from acp.schema import PromptRequest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp import MCPError
from mcp_types import CallToolRequestParams
from pydantic import ValidationError
from support.examples import examples
from support.mutations import as_json, mutated

from everturn_actors.errors import InvalidInputError
from everturn_actors.model import Decision, ToolCall
from everturn_gateway.acp.calls import TITLE_CHARACTERS, shown_call
from everturn_gateway.acp.prompts import message_of
from everturn_gateway.acp.stdio import Lines
from everturn_gateway.mcp_server.elicitation import answer_in, decision_of, round_of

PROMPT: Final = {
    "sessionId": "s",
    "prompt": [
        {"type": "text", "text": "Hello"},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png", "uri": "file:///a.png"},
        {"type": "resource_link", "name": "n", "uri": "file:///n.txt"},
        {"type": "resource", "resource": {"uri": "file:///n.txt", "text": "x"}},
        {"type": "resource", "resource": {"uri": "http://[", "blob": "AA=="}},
    ],
}
CALL: Final = {
    "name": "ask_a",
    "arguments": {"text": "x"},
    "requestState": '{"session":"s","seq":1,"told":1,"call_id":"c","arguments_hash":"h"}',
    "inputResponses": {"approval": {"action": "accept", "content": {"decision": "deny"}}},
}


@examples()
@given(mutated(PROMPT))
@example(PROMPT)
def test_a_prompt_is_a_message_or_is_refused(prompt: object) -> None:
    """An editor is a program of others; nothing that it sends may end the command."""
    with suppress(ValidationError, InvalidInputError):
        blocks = PromptRequest.model_validate(prompt).prompt
        text, uploads = message_of(blocks)
        assert len(uploads) <= len(blocks)
        assert isinstance(text, str)


@examples()
@given(
    st.text(max_size=20),
    st.text(max_size=200) | mutated({"path": "a", "content": "b"}).map(as_json),
)
@example("write_file", '{"path": "../../etc/passwd", "content": "x"}')
@example("edit_file", '{"path": "\\u0000", "old_text": "a", "new_text": "b"}')
def test_whatever_a_model_calls_can_be_shown(name: str, arguments: str | bytes) -> None:
    """What a model writes is data; an editor gets it in a line that hides nothing."""
    given_ = arguments if isinstance(arguments, str) else arguments.decode("utf-8", "replace")
    shown = shown_call(ToolCall(call_id="c", name=name, arguments=given_), 7, "/root")

    assert shown.id == "m7-c"
    assert len(shown.title) <= TITLE_CHARACTERS
    assert shown.title.isprintable()


@examples()
@given(mutated(CALL))
@example(CALL)
def test_a_question_is_answered_or_the_request_is_refused(call: object) -> None:
    """Both come back from a client, which could have changed them."""
    with suppress(ValidationError, MCPError):
        params = CallToolRequestParams.model_validate(call)
        state = round_of(params.request_state or "")
        answer = answer_in(params.input_responses)
        assert isinstance(state.seq, int)
        assert answer is None or decision_of(answer)[0] in {None, *get_args(Decision)}


@examples()
@given(st.lists(st.binary(max_size=60) | mutated(PROMPT).map(as_json), max_size=5))
@example([b"[]", b"{", b"\xff", b'{"id": 1}', b"", b"null"])
def test_a_line_is_a_message_or_gets_an_error(lines: list[bytes]) -> None:
    """The line after a bad one is read, and each bad one is answered."""
    asyncio.run(_read([each.replace(b"\n", b"") for each in lines]))


async def _read(lines: list[bytes]) -> None:
    reader, sink = asyncio.StreamReader(limit=32), _Sink()
    for each in lines:
        reader.feed_data(each + b"\n")
    reader.feed_eof()
    found: list[dict[str, Any]] = []
    writer: Any = sink  # it writes and drains, no more
    wire = Lines(reader, writer, sink.drain)
    while (message := await wire.receive()) is not None:
        found.append(message)

    assert len(found) + len(sink.errors) == sum(bool(each.strip()) for each in lines)


class _Sink:
    """Where errors go."""

    def __init__(self) -> None:
        self.errors: list[int] = []

    def write(self, data: bytes) -> None:
        self.errors.append(json.loads(data)["error"]["code"])

    async def drain(self) -> None:
        """Need no time."""
