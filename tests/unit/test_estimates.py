"""The script-aware estimate, by hand-made values."""

from __future__ import annotations

from types import MappingProxyType

from msgspec import structs
from support.tables import table

from everturn_actors.context.estimation.estimates import (
    MEDIA_UNITS,
    Estimates,
    message_units,
    text_units,
    tools_units,
    turn_units,
)
from everturn_actors.model import (
    AnyMessage,
    Attachment,
    Notice,
    Reply,
    Step,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Turn,
    UserMessage,
)

CALL = ToolCall(call_id="call_1", name="look", arguments='{"a":1}')


@table(
    ("text", "units"),
    [
        ("", 0),
        ("a", 23),
        ("word", 4 * 23),
        ("A", 110),
        ("7", 80),
        ("{", 60),
        (" ", 18),
        ("\n", 18),
        ("é", 36),
        ("я", 36),
        ("日", 78),
        ("한", 78),
        ("…", 78),
        ("🔥", 250),
        ("👩‍👩‍👧", 3 * 250 + 2 * 78),  # three people and two joiners
        ("\ud800", 78),  # no UTF-8 exists for it; counted as three bytes
        ("Ab 1,日", 110 + 23 + 18 + 80 + 60 + 78),
    ],
)
def test_a_character_costs_what_its_kind_does(text: str, units: int) -> None:
    """Budgets and summaries are sized with these numbers; a slip shifts every threshold."""
    assert text_units(text) == units


@table("character", ["A", "🔥", "日", "a"])
@table("size", [127, 128, 170, 171, 511, 512, 513, 1024, 100_001])
def test_a_long_text_is_counted_in_pieces_without_loss(character: str, size: int) -> None:
    """The sum is taken 512 bytes at a time: an overflow there would make long texts cheap."""
    assert text_units(character * size) == size * text_units(character)


@table(
    ("message", "units"),
    [
        (UserMessage(text="word"), 400 + 92),
        (UserMessage(text="word", sender="somebody with a long name"), 400 + 92),
        (UserMessage(text=""), 400),
        (Notice(text="word"), 400 + 92),
        (Reply(text="word", reasoning="thought " * 99), 400 + 92),
        (Reply(calls=(CALL,)), 400 + 800 + 92 + 6 * 60 - 60 + 23 + 80),
        (ToolResult(call_id="call_1", name="look", text="word"), 400 + 92 + 92),
    ],
)
def test_a_message_costs_what_is_sent_of_it(message: AnyMessage, units: int) -> None:
    """Reasoning, senders and ids are not part of the prompt: counting them wastes the window."""
    assert message_units(message) == units


def test_a_message_is_counted_once_and_its_media_apart() -> None:
    """The cost of a turn is the cost of what is new."""
    # Media are priced apart from the kept count. The same message value can stand in views with and
    # without its pictures.
    message = UserMessage(text="word")

    assert message_units(message, 2) == message_units(message) + 2 * MEDIA_UNITS
    assert message_units(message) == 400 + 92

    # A long message is counted once. The cost of a turn is the cost of what is new: long results
    # must not be counted again.
    message = UserMessage(text="word" * 1_000)
    message_units(message)
    structs.force_setattr(message, "text", "changed behind its back, which nobody may do" * 1_000)

    assert message_units(message) == 400 + 92 * 1_000


def test_a_turn_costs_what_its_messages_do() -> None:
    """Sums of turns and sums of messages stand in the same comparisons."""
    step = Step(
        reply=Reply(text="I look", calls=(CALL,)),
        results=(ToolResult(call_id="call_1", name="look", text="日本 " * 300),),
    )
    turn = Turn(number=1, users=(UserMessage(text="Look!"),), steps=(step, Step(reply=Reply())))

    assert turn_units(turn) == sum(map(message_units, turn.messages))

    # What tells of files is counted with the words alike in turn and message. A finished turn and
    # its messages are two ways to the same sum.
    file = Attachment(name="a.pdf", media_type="application/pdf", file_name="Bill.pdf")
    told = UserMessage(text="pay", attachments=(file, file))
    turn = Turn(number=1, users=(told, UserMessage(text="now")))

    assert message_units(told) > message_units(UserMessage(text="pay")) + 2 * 2_000
    assert turn_units(turn) == sum(map(message_units, turn.messages))


def test_tools_cost_their_texts_and_schemas() -> None:
    """As they are defined now."""
    # Tool definitions can be larger than the prompt; a budget without them overflows.
    parameters = MappingProxyType({"type": "object", "properties": {"q": {"type": "string"}}})
    tool = ToolDefinition(name="web", description="Searches.", parameters=parameters)
    schema = '{"type":"object","properties":{"q":{"type":"string"}}}'

    assert tools_units(()) == 0
    assert tools_units([tool]) == 800 + text_units("web" + "Searches." + schema)
    assert tools_units((tool, tool)) == 2 * tools_units([tool])

    # A new definition is counted anew. An agent that is reloaded with other tools must not keep the
    # old ones' price.
    old = ToolDefinition(name="web", description="Searches.", parameters={})
    tools_units([old])
    new = ToolDefinition(name="web", description="Searches. " * 50, parameters={})

    assert tools_units([new]) > tools_units([old])


def test_units_become_tokens_of_a_model_rounded_up() -> None:
    """Rounded down, a request of many small messages would come out too small."""
    count = Estimates(1.5)

    assert count.text("") == 0
    assert count.text("word") == 2  # 1.38
    assert count.message(UserMessage(text="word"), 0) == 8  # 7.38
    assert count.message(UserMessage(text="word"), 1) == 8 + 1600 * 1.5
    assert count.tools(()) == 0
