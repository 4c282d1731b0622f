"""Grouping of a client's messages into turns, for all sequences there are."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from everturn_actors.model import Reply, ToolResult, UserMessage
from everturn_gateway.http.openai.request import ChatRequest, stateless
from everturn_gateway.http.problems import Problem, ProblemError

texts = st.text(max_size=5)
roles = st.sampled_from(["system", "developer", "user", "assistant", "tool"])


@st.composite
def replies(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw one assistant message and a result for each of its calls, in any order."""
    ids = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3))
    calls = [{"id": i, "function": {"name": f"tool_{i}", "arguments": "{}"}} for i in ids]
    reply: dict[str, Any] = {"role": "assistant", "content": draw(texts)}
    if calls:
        reply["tool_calls"] = calls
    results = [{"role": "tool", "tool_call_id": i, "content": draw(texts)} for i in ids]
    return [reply, *draw(st.permutations(results))]


@st.composite
def dialogues(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw a conversation that ends with a user message."""
    messages: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(0, 3))):
        messages += [
            {"role": "user", "content": draw(texts)} for _ in range(draw(st.integers(1, 2)))
        ]
        for _ in range(draw(st.integers(1, 2))):
            messages += draw(replies())
    return [*messages, {"role": "user", "content": draw(texts)}]


@given(dialogues())
def test_every_message_is_in_the_history_once_and_in_order(messages: list[dict[str, Any]]) -> None:
    """The model sees the conversation that the client sent: no more, no less, nothing moved."""
    asked = stateless(ChatRequest.model_validate({"model": "m", "messages": messages}), None)

    seen: list[tuple[str, str]] = []
    for turn in asked.history.turns:
        for message in turn.messages:
            match message:
                case UserMessage(text=text):
                    seen.append(("user", text))
                case Reply(text=text):
                    seen.append(("assistant", text))
                case ToolResult(text=text):
                    seen.append(("tool", text))
                case _:
                    raise AssertionError(message)
    sent = [(m["role"], m["content"]) for m in messages[:-1]]

    assert asked.text == messages[-1]["content"]
    assert sorted(seen) == sorted(sent)
    assert [m for m in seen if m[0] != "tool"] == [m for m in sent if m[0] != "tool"]
    assert all(turn.users and turn.steps for turn in asked.history.turns)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"role": roles, "content": st.none() | texts},
            optional={
                "tool_call_id": st.sampled_from("abc"),
                "tool_calls": st.lists(
                    st.fixed_dictionaries(
                        {
                            "id": st.sampled_from("abc"),
                            "function": st.just({"name": "f", "arguments": "{}"}),
                        }
                    ),
                    max_size=2,
                ),
            },
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_sequence_is_understood_or_refused_by_place(messages: list[dict[str, Any]]) -> None:
    """No sequence of messages is a crash, and a refusal names a message that is there."""
    request = ChatRequest.model_validate({"model": "m", "messages": messages})
    problem: Problem | None = None
    asked = None
    try:
        asked = stateless(request, None)
    except ProblemError as error:
        problem = error.problem

    if asked is not None:
        said = [m["role"] for m in messages if m["role"] not in {"system", "developer"}]

        assert asked.goes_on == (said[-1] == "tool")
    if problem is not None:
        place = problem.extra["param"].split(".")

        assert problem.status == 400
        assert place[0] == "messages"
        assert len(place) == 1 or int(place[1]) < len(messages)
