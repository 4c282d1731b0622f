"""The estimator of the seed design, by hand-made values."""

from __future__ import annotations

from types import MappingProxyType

from msgspec import structs
from support.tables import table

from everturn_actors.context.estimation.tokens import (
    estimate_message,
    estimate_text,
    estimate_tools,
)
from everturn_actors.model import (
    AnyMessage,
    Notice,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
)


@table(
    ("text", "tokens"),
    [
        ("", 0),
        ("abc", 0),
        ("abcd", 1),
        ("abcdefgh", 2),
        ("日本語", 2),  # 9 bytes
        ("é" * 4, 2),  # 8 bytes
        ("🔥", 1),  # 4 bytes
        ("👩‍👩‍👧", 4),  # three people and two joiners: 18 bytes
        ("x" * 4_000_000, 1_000_000),
        ("\ud800a", 1),  # no UTF-8 exists for it; counted as three bytes
    ],
)
def test_a_text_costs_its_utf8_bytes_by_four(text: str, tokens: int) -> None:
    """Budgets and markers of the duragent policy are numbers of this estimator."""
    assert estimate_text(text) == tokens


CALL = ToolCall(call_id="call_1", name="bash", arguments='{"command":"ls"}')
CALL_JSON = (
    '[{"id":"call_1","type":"function",'
    '"function":{"name":"bash","arguments":"{\\"command\\":\\"ls\\"}"}}]'
)
CALL_TOKENS = len(CALL_JSON) // 4


@table(
    ("message", "tokens"),
    [
        (UserMessage(text="Hello world"), 2 + 4),
        (UserMessage(text=""), 4),
        (Notice(text="Hello world"), 2 + 4),
        (Reply(text="Thinking...", reasoning="x" * 400), 2 + 4),
        (Reply(text="Thinking...", calls=(CALL,)), 2 + CALL_TOKENS + 4),
        (ToolResult(call_id="call_1", name="bash", text="file1.txt\nfile2.txt"), 4 + 1 + 4),
        (ToolResult(call_id="abc", name="bash", text="abc"), 0 + 0 + 4),
    ],
)
def test_each_part_of_a_message_is_floored_on_its_own(message: AnyMessage, tokens: int) -> None:
    """A floor of the sum would count three bytes here and three there as one token."""
    assert estimate_message(message) == tokens


def test_a_message_is_counted_once() -> None:
    """The cost of a turn is the cost of what is new: old messages must not be counted again."""
    message = UserMessage(text="Hello world")
    estimate_message(message)
    structs.force_setattr(message, "text", "changed behind its back, which nobody may do")

    assert estimate_message(message) == 6


def test_tools_cost_their_json() -> None:
    """Tool definitions can be larger than the prompt; a budget without them overflows."""
    parameters = MappingProxyType({"type": "object", "properties": {"q": {"type": "string"}}})
    tool = ToolDefinition(name="web", description="Searches.", parameters=parameters)
    wire = (
        '[{"type":"function","function":{"name":"web","description":"Searches.","parameters":'
        '{"type":"object","properties":{"q":{"type":"string"}}}}}]'
    )

    assert estimate_tools([tool]) == len(wire) // 4

    # An agent without tools must not pay for an empty list.
    assert estimate_tools(()) == 0
