"""Layer 2 of the seed design by example: what is kept, what is left out, what is shortened."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from msgspec import structs
from support.conversations import agent, numbered
from support.tables import table

from everturn_actors.context.estimation.tokens import estimate_message, estimate_text
from everturn_actors.context.projection.results import shorten, truncate_head
from everturn_actors.context.render import render
from everturn_actors.context.rendered import Rendered
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.model import (
    AnyMessage,
    Conversation,
    Notice,
    OpenStep,
    Outcome,
    Reply,
    Step,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from everturn_actors.spec import PromptSpec

WORDS = "abcd" * 96  # 96 tokens; a message of it costs 100


def chat(
    turns: int, *, running: Turn | None = None, left_messages: int = 0, text: str = WORDS
) -> Conversation:
    """Return `turns` finished turns of two messages of 100 tokens each, and a running one."""
    finished = [
        Turn(number=1, users=(UserMessage(text=text),), steps=(Step(reply=Reply(text=text)),))
        for _ in range(turns)
    ]
    return numbered(finished, running or asking("now?"), left_messages=left_messages)


def asking(*texts: str, steps: tuple[Step, ...] = ()) -> Turn:
    """Return a turn that asks `texts`."""
    return Turn(number=1, users=tuple(UserMessage(text=text) for text in texts), steps=steps)


def calling(*results: str) -> Step:
    """Return a step with one call for each result."""
    calls = tuple(ToolCall(call_id=f"call_{n}", name="bash") for n in range(len(results)))
    return Step(
        reply=Reply(calls=calls),
        results=tuple(
            ToolResult(call_id=call.call_id, name="bash", text=text)
            for call, text in zip(calls, results, strict=True)
        ),
    )


def seqs(rendered: Rendered) -> list[int]:
    """Return which messages of the conversation are shown."""
    return [message.seq for message in rendered.request.messages if message.seq]


def texts(rendered: Rendered) -> list[str]:
    """Return the texts of a request."""
    return [shown(message) for message in rendered.request.messages]


def shown(message: AnyMessage) -> str:
    """Return a message in one line."""
    return f"{type(message).__name__}: {message.text[:60]!r}"


def test_the_oldest_leave_where_not_all_fits() -> None:
    """And the model is told how many."""
    # All is shown where all fits. Nothing may be hidden that does not have to be, and then no
    # notice stands there.
    rendered = render(chat(3), agent())

    assert seqs(rendered) == [1, 2, 3, 4, 5, 6, 7]
    assert (len(seqs(rendered)), rendered.omitted_messages) == (7, 0)
    assert not any(isinstance(message, Notice) for message in rendered.request.messages)

    # The oldest leave and the model is told how many. The seed's own example: 47 older messages
    # omitted, said directly after the system prompt.
    # 51 messages in all: the question (5 tokens) and three older ones fit 305.
    rendered = render(chat(25), agent(cap_tokens=305))

    assert texts(rendered) == snapshot(
        [
            "Notice: '[conversation truncated — 47 older messages omitted]'",
            "Reply: 'abcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcd'",
            "UserMessage: 'abcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcd'",
            "Reply: 'abcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcd'",
            "UserMessage: 'now?'",
        ]
    )
    assert (len(seqs(rendered)), rendered.omitted_messages) == (4, 47)

    # A budget is used up to its last token. `used > budget` stops the walk, `used == budget` does
    # not.
    assert len(seqs(render(chat(5), agent(cap_tokens=205)))) == 3
    assert len(seqs(render(chat(5), agent(cap_tokens=204)))) == 2

    # A large message ends the walk. Skipping it and going on would show an answer to a question
    # that is not there.
    big = Turn(number=1, users=(UserMessage(text="x" * 4000),))
    small = asking("small")
    rendered = render(numbered([small, big, small], asking("now?")), agent(cap_tokens=500))

    assert seqs(rendered) == [3, 4]


def test_the_notice_counts_what_the_window_let_go() -> None:
    """It is missing for the model all the same."""
    # The notice counts what the window let go. The seed's notice forgets messages that are no
    # longer held; the model was told too few.
    rendered = render(chat(5, left_messages=1000), agent(cap_tokens=205))

    assert rendered.omitted_messages == 1000 + 8
    assert texts(rendered)[0] == "Notice: '[conversation truncated — 1008 older messages omitted]'"

    # The notice stands even where all that is held is shown. What the window let go is missing for
    # the model all the same.
    rendered = render(chat(2, left_messages=1), agent())

    assert rendered.omitted_messages == 1
    assert isinstance(rendered.request.messages[0], Notice)


def test_a_step_leaves_whole() -> None:
    """A result without its call, or a call without its result, is refused by every provider."""
    turn = Turn(number=1, users=(UserMessage(text="go"),), steps=(calling("one", WORDS, "three"),))
    whole = render(numbered([turn], asking("now?")), agent(cap_tokens=0))
    cost = sum(map(estimate_text, ("one", WORDS, "three")))

    assert seqs(whole) == [1, 2, 3, 4, 5, 6]
    for cap in range(5, cost + 50):
        rendered = render(numbered([turn], asking("now?")), agent(cap_tokens=cap))
        assert seqs(rendered) in ([6], [2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])


def test_the_window_counts_prompt_reply_and_margin() -> None:
    """By the agent's own numbers."""
    # Whatever the cap: the request has to fit the model.
    # 1,000 - 100 of prompt - 400 for the reply - 100 of margin = 400: the question and 3 messages
    spec = agent(
        window_tokens=1000,
        reserve_tokens=400,
        cap_tokens=0,
        prompt=PromptSpec(system_prompt="x" * 400),
    )

    assert len(seqs(render(chat(5), spec))) == 1 + 3

    # The request carries the agents numbers. Unset limits stay unset: the reserve is ours, the
    # provider gets no invented one.
    request = render(chat(0), agent(window_tokens=20_000)).request

    assert (request.model, request.temperature) == ("test-model", 0.7)
    assert request.max_output_tokens is None
    assert render(chat(0), agent(reserve_tokens=512)).request.max_output_tokens == 512


@table("window", range(30, 260, 7))
def test_the_notice_fits_even_a_tiny_window(window: int) -> None:
    """The margin pays for the notice; of a tiny window a tenth is less than the notice."""
    spec = agent(window_tokens=window, reserve_tokens=0, cap_tokens=0)
    request = render(chat(20, running=asking("?"), text="a"), spec).request

    assert sum(map(estimate_message, request.messages)) <= window


def test_history_gives_way_to_the_current_turn_where_the_window_is_full() -> None:
    """And not before."""
    # Steps of the current turn do not push history out. The cap leaves room for tool work; work
    # that fits it must not change what stands before.
    before = render(chat(25), agent(cap_tokens=305))
    working = asking("now?", steps=(calling("x" * 40_000), calling("y" * 40_000)))
    after = render(chat(25, running=working), agent(cap_tokens=305))

    assert after.omitted_messages == before.omitted_messages == 47
    assert after.request.messages[: len(before.request.messages)] == before.request.messages

    # History gives way to the current turn where the window is full. The newest work is worth more
    # than the oldest talk.
    spec = agent(window_tokens=2000, reserve_tokens=400, cap_tokens=0)  # 1,600 with the margin
    rendered = render(chat(25, running=asking("now?", steps=(calling("x" * 4000),))), spec)

    assert seqs(rendered) == [46, 47, 48, 49, 50, 51, 52, 53]
    assert rendered.omitted_messages == 45


def test_a_question_gives_way_last_and_is_shortened_with_true_numbers() -> None:
    """A person's words are worth more than any output, and yet less than no answer at all."""
    # A question larger than the cap is sent whole. The seed sent no user message at all where the
    # newest one was over the history budget.
    asked_for = "why? " * 20_000
    rendered = render(chat(3, running=asking(asked_for)), agent())

    assert [message.text for message in rendered.request.messages] == [
        "[conversation truncated — 6 older messages omitted]",
        asked_for,
    ]

    # A question larger than the window is shortened with true numbers. Shortened, never dropped: a
    # request without its question gets an answer to nothing.
    spec = agent(window_tokens=2000, reserve_tokens=400, cap_tokens=0)  # 1,600 with the margin
    rendered = render(numbered([], asking("why? " * 20_000)), spec)
    (question,) = rendered.request.messages

    assert question.text[:10] == "why? why? "
    assert question.text[-70:] == snapshot("""\
? why? why? why

[truncated: kept first ~1562 of ~25000 tokens (head)]\
""")
    assert 1570 <= estimate_text(question.text) + 4 <= 1600

    # The question gives way only after every result. A person's words are worth more than any
    # output, and yet less than no answer at all.
    spec = agent(window_tokens=2000, reserve_tokens=400, cap_tokens=0)  # 1,600 with the margin
    asked = asking("q" * 8000, steps=(calling("a" * 3000),))
    q, _, a = render(numbered([], asked), spec).request.messages

    assert (q.text.lstrip("q"), a.text.lstrip("a")) == snapshot(
        (
            """\


[truncated: kept first ~1491 of ~2000 tokens (head)]\
""",
            """\


[truncated: kept first ~32 of ~750 tokens (head)]\
""",
        )
    )

    # What is in the log is not touched by shortening. A shortened view may be lost; the log may
    # not.
    spec = agent(window_tokens=2000, reserve_tokens=400, cap_tokens=0)
    conversation = numbered([], asking("why? " * 20_000, steps=(calling("x" * 9000),)))
    render(conversation, spec)

    assert conversation.current is not None
    assert conversation.current.users[0].text == "why? " * 20_000
    assert conversation.current.steps[0].results[0].text == "x" * 9000


def test_results_are_shortened_before_the_question_and_oldest_first() -> None:
    """The fixed order: what the model read long ago goes before what it reads now."""
    spec = agent(window_tokens=2000, reserve_tokens=400, cap_tokens=0)  # 1,600 with the margin
    steps = (calling("a" * 3000, "b" * 3000, "c" * 3000),)
    rendered = render(numbered([], asking("q" * 800, steps=steps)), spec)
    q, first, a, b, c = rendered.request.messages

    assert (q.text, c.text) == ("q" * 800, "c" * 3000)
    assert first == Reply(seq=2, calls=steps[0].reply.calls)
    assert (a.text.lstrip("a"), b.text.lstrip("b")) == snapshot(
        (
            """\


[truncated: kept first ~32 of ~750 tokens (head)]\
""",
            """\


[truncated: kept first ~492 of ~750 tokens (head)]\
""",
        )
    )
    assert sum(map(estimate_message, rendered.request.messages)) == 1580


def test_what_cannot_be_shortened_is_named() -> None:
    """One clear error, not a loop: it says which parts are too large and what to change."""
    spec = agent(window_tokens=2000, reserve_tokens=1700, prompt=PromptSpec(soul="x" * 40))

    with pytest.raises(ContextDoesNotFitError) as caught:
        render(numbered([], asking("a" * 4000, "b" * 400, steps=(calling("r" * 4000),))), spec)
    assert str(caught.value) == snapshot(
        "the current turn does not fit even when it is shortened: its user messages still need"
        " 249 tokens and its steps 73; window 2,000 - system 10 - tools 0 - reply 1,700"
        " - margin 200 = 90 tokens for messages (history cap 20,000); send less at once, shorten"
        " the prompt, lower max_output_tokens or choose a model with a larger window"
    )


def test_a_conversation_at_rest_and_one_at_work_can_be_looked_at() -> None:
    """What is shown is what a provider would take."""
    # Without a running turn the newest finished one is kept. A report between two turns must show
    # what the last request looked like.
    conversation = numbered([asking("old"), asking("x" * 400)], None)

    assert seqs(render(conversation, agent(cap_tokens=10))) == [2]

    # An open step is never shown. Its calls have no results yet; no provider accepts that.
    conversation = numbered([], asking("go", steps=(calling("one"),)))
    assert conversation.current is not None
    waiting = structs.replace(
        conversation.current,
        step=OpenStep(reply=Reply(seq=4, calls=(ToolCall(call_id="x", name="bash"),))),
    )

    assert seqs(render(structs.replace(conversation, current=waiting), agent())) == [1, 2, 3]

    # An empty conversation renders to its prompt. A new session can be looked at before anybody
    # wrote.
    rendered = render(Conversation(), agent(prompt=PromptSpec(soul="Hi")))

    assert (rendered.request.system, rendered.request.messages) == ("Hi", ())


@table("outcome", ["failed", "cancelled", "interrupted"])
def test_a_turn_without_a_reply_keeps_its_question_and_its_steps(outcome: Outcome) -> None:
    """The person said it, and what the tools did has happened."""
    failed = structs.replace(asking("go", steps=(calling("one"),)), outcome=outcome, error="gone")

    assert seqs(render(numbered([failed], asking("and now?")), agent())) == [1, 2, 3, 4]


def test_truncation_cuts_between_characters_and_where_it_gains() -> None:
    """The marker is the seed's, byte for byte."""
    # Truncation cuts between characters. Half a character is no UTF-8; the marker is the seed's,
    # byte for byte.
    assert truncate_head("日本語日本語", 2) == snapshot("""\
日本

[truncated: kept first ~2 of ~4 tokens (head)]\
""")
    assert truncate_head("🔥🔥", 1) == snapshot("""\
🔥

[truncated: kept first ~1 of ~2 tokens (head)]\
""")
    assert truncate_head("日本語", 2) == "日本語"

    # Truncation that gains nothing is not made. A marker longer than what it stands for would make
    # the request larger.
    assert shorten("abcd" * 20, excess_tokens=20, floor_tokens=8) == "abcd" * 20
    assert shorten("abcd" * 20, excess_tokens=0, floor_tokens=0) == "abcd" * 20
