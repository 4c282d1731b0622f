"""The built-in responder: honest, deterministic, and able to call any tool by its name."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from support.tables import table

from everturn_actors.model import (
    AnyMessage,
    ModelRequest,
    Notice,
    Reply,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from everturn_gateway.providers.builtin import WHAT_IT_IS, BuiltinResponder, reply_to, words

TOOLS = tuple(
    ToolDefinition(name=name, description=f"Does {name}. And more.", parameters={"type": "object"})
    for name in ("read_file", "write_file")
)
WRITE = 'call write_file {"path": "a.txt", "content": "hello"}'
READ = 'call read_file {"path": "a.txt"}'


def request(
    *said: str, since: Sequence[AnyMessage] = (), tools: tuple[ToolDefinition, ...] = TOOLS
) -> ModelRequest:
    """Return a conversation in which each message but the last was answered."""
    messages: list[AnyMessage] = []
    for text in said[:-1]:
        messages += [UserMessage(text=text), Reply(text=f"re: {text}")]
    newest = UserMessage(text=said[-1])
    return ModelRequest(
        model="builtin", system="", messages=(*messages, newest, *since), tools=tools
    )


def result(reply: Reply, *texts: str, is_error: bool = False) -> list[AnyMessage]:
    """Return a reply and the results of its calls."""
    pairs = zip(reply.calls, texts, strict=True)
    return [
        reply,
        *(
            ToolResult(call_id=call.call_id, name=call.name, text=text, is_error=is_error)
            for call, text in pairs
        ),
    ]


@table("said", ["hello", "are you an AI?", "call 030-1234 please", "2 + 3", ""])
def test_the_first_answer_says_what_it_is(said: str) -> None:
    """Nobody may take it for a language model."""
    told = reply_to(request(said)).text
    assert told == f"You said: “{said}”. {WHAT_IT_IS}"
    assert "not a language model" in WHAT_IT_IS


async def test_later_answers_show_that_the_conversation_is_there() -> None:
    """And each comes as a model's would."""
    # So a restart that lost something would be seen.
    assert reply_to(request("a", "b", "c")).text == "You said: “c”. I can see 3 messages of yours."

    # It streams what it says. As a model would.
    said: list[str] = []
    reply = await BuiltinResponder().complete(request("hello", tools=()), said.append)
    assert "".join(said) == reply.text
    assert len(said) > 1


@table("said", ["help", "Help!", "/help"])
def test_help_names_the_tools(said: str) -> None:
    """The first thing that people type has to lead somewhere."""
    told = reply_to(request(said)).text
    assert told.startswith(WHAT_IT_IS)
    assert "- call write_file: Does write_file\n" in f"{told}\n"
    assert "call" not in reply_to(request(said, tools=())).text.removeprefix(WHAT_IT_IS)


@table(
    ("said", "names"),
    [
        (READ, ["read_file"]),
        (f"{READ}\n{WRITE}", ["read_file", "write_file"]),
        (f"[Ann] {READ}", ["read_file"]),
        (f"[Said here before, not to you:]\nx\n[Now to you:]\n[Ann] {READ}", ["read_file"]),
        (f"[Scheduled task daily]\n{READ}", ["read_file"]),
        ("call read_file", ["read_file"]),
        ('CALL read_file {"path":\n "a"}', ["read_file"]),
    ],
)
def test_tools_are_called_by_name(said: str, names: list[str]) -> None:
    """Lines are calls side by side, whoever says them."""
    reply = reply_to(request(said))
    assert [call.name for call in reply.calls] == names
    assert all(isinstance(json.loads(call.arguments), dict) for call in reply.calls)
    assert reply_to(request(said)) == reply


def test_then_is_a_step_of_its_own_and_the_results_are_shown() -> None:
    """Until one of them is an error."""
    # What depends on a result waits for it; notices in between do not matter.
    said = f"{WRITE}\nthen {READ}"
    first = reply_to(request(said))
    written = result(first, "wrote 5 bytes")
    second = reply_to(request(said, since=[*written, Notice(text="n")]))
    both = [*written, *result(second, "line one\nline two")]
    last = reply_to(request(said, since=both))

    assert [call.name for call in first.calls] == ["write_file"]
    assert [call.name for call in second.calls] == ["read_file"]
    assert first.calls[0].call_id != second.calls[0].call_id
    assert last.text == "write_file: wrote 5 bytes\n\nread_file:\nline one\nline two"
    assert not last.calls

    # An error ends the steps. It cannot judge whether to go on, so it shows what it was told.
    said = f"{WRITE}\nthen {READ}"
    failed = result(reply_to(request(said)), "no room", is_error=True)
    told = reply_to(request(said, since=failed))
    assert (told.text, told.calls) == ("write_file did not work: no room", ())


@table(
    ("said", "why"),
    [
        ("call rocket {}", "I have no tool rocket. My tools: read_file, write_file."),
        ("call read_file {path}", "The arguments of read_file are not a JSON object: "),
        (
            "call read_file " + '{"a":' * 200_000 + "1" + "}" * 200_000,
            "The arguments of read_file are not",
        ),
    ],
)
def test_what_cannot_be_called_is_said(said: str, why: str) -> None:
    """Whoever tries it out learns what to write."""
    told = reply_to(request(said))
    assert told.text.startswith(why)
    assert not told.calls


@given(said=st.text(max_size=80), tools=st.sampled_from([(), TOOLS]))
def test_any_message_is_answered(said: str, tools: tuple[ToolDefinition, ...]) -> None:
    """It has to answer whatever people type, and in few words."""
    told = reply_to(request(said, tools=tools))
    assert told.text or told.calls
    assert len(told.text) < 2_000


@table("text", ["a", "two words", " lead and trail \n", "a\n\n- b\n", WHAT_IT_IS])
def test_the_words_are_the_text(text: str) -> None:
    """Shown word by word, it reads as it is kept."""
    assert "".join(words(text)) == text
