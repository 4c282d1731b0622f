"""The built-in responder: honest, deterministic, and of some use."""

from __future__ import annotations

import pytest

from everturn_actors.model import AnyMessage, ModelRequest, Notice, Reply, UserMessage
from everturn_gateway.providers.builtin import HELP, WHAT_IT_IS, answer, words


def request(*said: str, system: str = "", first: AnyMessage | None = None) -> ModelRequest:
    """Return a conversation in which each message but the last was answered."""
    messages: list[AnyMessage] = [] if first is None else [first]
    for text in said[:-1]:
        messages += [UserMessage(text=text), Reply(text=f"re: {text}")]
    return ModelRequest(
        model="builtin", system=system, messages=(*messages, UserMessage(text=said[-1]))
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("12 * (3 + 4)", "12 * (3 + 4) = 84"),
        ("What is 7/2?", "7/2 = 3.5"),
        ("how much is 1/3", "1/3 is about 0.333333333333333"),
        ("calculate 2^10 =", "2^10 = 1024"),
        ("1/0", "I cannot work out “1/0”: that divides by zero."),
        ("what is 5", "5 = 5"),
    ],
)
def test_sums_are_worked_out(asked: str, said: str) -> None:
    """It is of use without a model, and right."""
    assert answer(request(asked)) == said


@pytest.mark.parametrize(
    "asked",
    ["What is the capital of France?", "call 030-1234 please", "42", "", "tell me a joke", "a+b"],
)
def test_what_it_cannot_do_it_says(asked: str) -> None:
    """Nobody may take it for a language model, or a number for a question."""
    assert answer(request(asked)) == WHAT_IT_IS


@pytest.mark.parametrize("asked", ["help", "Help!", "/help", "what can you do?"])
def test_help_lists_what_it_can(asked: str) -> None:
    """The first thing that people type has to lead somewhere."""
    assert answer(request(asked)) == HELP
    assert "not a language model" in HELP


@pytest.mark.parametrize("asked", ["are you an AI?", "Who are you?", "hello"])
def test_it_never_passes_for_a_model(asked: str) -> None:
    """It is asked directly, so it answers directly."""
    assert "not a language model" in answer(request(asked))


def test_the_conversation_can_be_looked_up() -> None:
    """What it finds shows that the conversation survived."""
    said = ("my cat is called Mia", "the weather is fine", "my dog is called Rex")

    assert answer(request(*said, "What did I say last?")) == (
        "Before this you said: “my dog is called Rex”"
    )
    assert answer(request(*said, "what did I say first")) == (
        "You began with: “my cat is called Mia”"
    )
    assert answer(request(*said, "search CALLED")) == (
        "You said 'called' in 2 messages:\n- “my cat is called Mia”\n- “my dog is called Rex”"
    )
    assert answer(request(*said, "search bird")) == (
        "None of your 3 messages before this one has 'bird' in it."
    )
    assert answer(request(*said, "how many messages are there?")) == (
        "I can see 4 messages of yours, this one included, and 3 replies."
    )
    assert answer(request(*said, "repeat that")) == "re: my dog is called Rex"


def test_it_does_not_call_the_oldest_it_sees_the_first() -> None:
    """Where the window left messages out, what it sees first is not what was said first."""
    cut = request("b", "what did I say first?", first=Notice(text="3 messages are left out"))

    assert answer(cut) == "The oldest message of yours that I can see is: “b”"


def test_what_it_was_asked_to_remember_is_recalled() -> None:
    """The conversation is its memory; nothing else is claimed."""
    said = ("remember that the key is under the mat", "remember: milk", "3+4")

    assert answer(request(*said, "recall")) == (
        "You asked me to remember:\n- “the key is under the mat”\n- “milk”"
    )
    assert answer(request(*said, "recall key")) == (
        "You asked me to remember:\n- “the key is under the mat”"
    )
    assert (
        answer(request("recall")) == "I can see nothing like that which you asked me to remember."
    )


def test_date_and_time_come_from_the_prompt_alone() -> None:
    """A request has one answer, today and after a restart tomorrow."""
    told = "It is 2026-11-21, 10:30 UTC."

    assert answer(request("what day is it?", system=told)) == (
        "My prompt says that it is 2026-11-21."
    )
    assert answer(request("What time is it?", system=told)) == (
        "My prompt says that it is 10:30 UTC."
    )
    assert "{{date}}" in answer(request("what day is it?"))
    assert "{{time}}" in answer(request("what time is it"))


def test_a_long_message_is_quoted_in_part() -> None:
    """A reply is for a person to read, not a copy of a file."""
    assert len(answer(request("x" * 100_000, "what did I say last"))) < 400


@pytest.mark.parametrize("text", ["a", "two words", " lead and trail \n", "a\n\n- b\n", HELP])
def test_words_join_to_the_text(text: str) -> None:
    """What is streamed must be what is stored."""
    assert "".join(words(text)) == text
