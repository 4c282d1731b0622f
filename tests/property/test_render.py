"""What holds for every request, whatever the conversation and the budget."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TypeAlias

from hypothesis import event, example, given
from hypothesis import strategies as st
from support.conversations import STARTED, agent, cases, conversations, steps, texts

from everturn_actors.context.budget import make_budget
from everturn_actors.context.prompt import system_prompt
from everturn_actors.context.render import Rendered, render
from everturn_actors.context.tokens import estimate_message, estimate_text, estimate_tools
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.model import (
    Conversation,
    Notice,
    Reply,
    Step,
    ToolDefinition,
    ToolResult,
    Turn,
    UserMessage,
)
from everturn_actors.spec import AgentSpec

Case: TypeAlias = tuple[Conversation, AgentSpec]

TOOLS = (ToolDefinition(name="bash", description="Runs.", parameters={"type": "object"}),)


def rendered_or_not(conversation: Conversation, spec: AgentSpec) -> Rendered | None:
    """Render, or return None where the one error says that it cannot fit."""
    try:
        rendered = render(conversation, spec, TOOLS)
    except ContextDoesNotFitError:
        event("does not fit")
        return None
    event("cut" if rendered.left_messages > conversation.left_messages else "whole")
    if any("\n\n[truncated: kept " in message.text for message in rendered.request.messages):
        event("shortened")
    return rendered


def all_turns(conversation: Conversation) -> list[Turn]:
    """Return the turns of a conversation, the running one as a finished one."""
    running = conversation.current
    return [*conversation.turns, *([running.finished("answered", "")] if running else [])]


@given(cases())
def test_every_call_has_its_results_directly_after_it(case: Case) -> None:
    """IN-01: providers refuse a request with half a step, and the session would be stuck."""
    conversation, spec = case
    rendered = rendered_or_not(conversation, spec)
    if rendered is None:
        return
    rest = [message for message in rendered.request.messages if not isinstance(message, Notice)]
    while rest:
        head, *rest = rest
        assert not isinstance(head, ToolResult)
        if isinstance(head, Reply):
            results, rest = rest[: len(head.calls)], rest[len(head.calls) :]

            assert [r.call_id for r in results if isinstance(r, ToolResult)] == [
                call.call_id for call in head.calls
            ]


@given(cases())
def test_the_newest_user_messages_are_always_there(case: Case) -> None:
    """IN-02: a request without its question gets an answer to nothing."""
    conversation, spec = case
    rendered = rendered_or_not(conversation, spec)
    if rendered is None:
        return
    shown = {message.seq: message for message in rendered.request.messages}
    for user in all_turns(conversation)[-1].users:
        text = shown[user.seq].text
        head = text.partition("\n\n[truncated: kept first ~")[0]

        assert text == user.text or (head and user.text.startswith(head))


@given(cases())
def test_a_request_and_its_reply_fit_the_window(case: Case) -> None:
    """IN-03: an overflow is refused by the provider, and the next request would overflow too."""
    conversation, spec = case
    rendered = rendered_or_not(conversation, spec)
    if rendered is None:
        system = system_prompt(spec.prompt, instructions=conversation.instructions, at=STARTED)
        budget = make_budget(spec, system, TOOLS)
        newest = all_turns(conversation)[-1].messages

        # Tiny windows charge the notice, which is less than 30 tokens.
        assert sum(map(estimate_message, newest)) > budget.available_tokens - 30
        return
    request, budget = rendered.request, rendered.budget
    cost = estimate_text(request.system) + estimate_tools(request.tools)
    cost += sum(map(estimate_message, request.messages))

    assert cost + budget.reserve_tokens <= budget.window_tokens


@given(cases())
def test_rendering_what_was_rendered_changes_nothing(case: Case) -> None:
    """IN-04: a reduction that is applied again must not shorten further or renumber markers."""
    conversation, spec = case
    first = rendered_or_not(conversation, spec)
    if first is None:
        return
    again = render(as_shown(conversation, first), spec, TOOLS)

    assert again.request == first.request
    assert again.left_messages == first.left_messages


def as_shown(conversation: Conversation, rendered: Rendered) -> Conversation:
    """Return the conversation as the model was shown it."""
    shown = {message.seq: message for message in rendered.request.messages}

    def cut(turn: Turn) -> Turn:
        users = (shown.get(user.seq) for user in turn.users)
        return replace(
            turn,
            users=tuple(user for user in users if isinstance(user, UserMessage)),
            steps=tuple(
                Step(
                    reply=step.reply,
                    results=tuple(
                        replace(result, text=shown[result.seq].text) for result in step.results
                    ),
                )
                for step in turn.steps
                if step.reply.seq in shown
            ),
        )

    turns = [cut(turn) for turn in all_turns(conversation)]
    current = conversation.current
    if current is not None:
        last = turns.pop()
        current = replace(current, users=last.users, steps=last.steps)
    return replace(
        conversation,
        turns=tuple(turns),
        current=current,
        left_messages=rendered.left_messages,
    )


@given(cases(), st.integers(0, 30_000), st.sampled_from([0, 100, 5000]))
def test_a_smaller_budget_shows_a_part_of_what_a_larger_one_shows(
    case: Case, more_tokens: int, more_cap: int
) -> None:
    """IN-05: raising a limit must never hide a message that was there before."""
    conversation, spec = case
    context = spec.session.context
    cap = 0 if context.max_history_tokens == 0 else context.max_history_tokens + more_cap
    larger = replace(
        spec,
        model=replace(spec.model, context_window=(spec.model.context_window or 0) + more_tokens),
        session=replace(spec.session, context=replace(context, max_history_tokens=cap)),
    )
    small = rendered_or_not(conversation, spec)
    if small is None:
        return
    large = render(conversation, larger, TOOLS)

    assert {m.seq for m in small.request.messages} <= {m.seq for m in large.request.messages} | {0}
    assert large.left_messages <= small.left_messages


@given(cases())
def test_rendering_leaves_the_conversation_alone(case: Case) -> None:
    """IN-06, IN-07: the log is the truth, and a fresh replay of it renders the same."""
    conversation, spec = case
    before = deepcopy(conversation)
    first = rendered_or_not(conversation, spec)

    assert conversation == before
    assert rendered_or_not(before, spec) == first


@given(cases())
def test_the_number_told_is_the_number_missing(case: Case) -> None:
    """IN-09: the model decides by it whether to ask back; a wrong number is worse than none."""
    conversation, spec = case
    rendered = rendered_or_not(conversation, spec)
    if rendered is None:
        return
    held = sum(turn.size_messages for turn in all_turns(conversation))
    notices = [m for m in rendered.request.messages if isinstance(m, Notice)]
    left = conversation.left_messages + held - rendered.shown_messages

    assert rendered.left_messages == left
    assert len(rendered.request.messages) - len(notices) == rendered.shown_messages
    assert [n.text for n in notices] == (
        [f"[conversation truncated — {left} older messages omitted]"] if left else []
    )
    assert not notices or rendered.request.messages[0] is notices[0]


@given(conversations(), st.sampled_from([600, 5000, 50_000]), steps(), texts)
def test_between_cuts_a_request_begins_with_the_one_before(
    conversation: Conversation, cap: int, step: Step, text: str
) -> None:
    """IN-10: a provider's prefix cache reads only what has not changed."""
    spec = agent(cap_tokens=cap)
    first = rendered_or_not(conversation, spec)
    if first is None:
        return
    current = conversation.current
    if current is None:
        return
    longer = replace(current, steps=(*current.steps, numbered_step(step)))
    done = longer.finished("answered", "")
    asked = replace(
        current,
        number=current.number + 1,
        users=(UserMessage(seq=99_999, text=text),),
        steps=(),
    )
    for later in (
        replace(conversation, current=longer),
        replace(conversation, turns=(*conversation.turns, done), current=asked),
    ):
        second = rendered_or_not(later, spec)
        if second is None or second.left_messages != first.left_messages:
            continue
        if any("\n\n[truncated: kept " in m.text for m in second.request.messages):
            continue

        event("between cuts")
        assert second.request.system == first.request.system
        assert second.request.messages[: len(first.request.messages)] == first.request.messages


def numbered_step(step: Step) -> Step:
    """Return the step with seqs above those of any drawn conversation."""
    return Step(
        reply=replace(step.reply, seq=90_000),
        results=tuple(replace(r, seq=90_001 + n) for n, r in enumerate(step.results)),
    )


@given(texts, texts)
@example("", "")
@example("ab", "cd")
def test_an_estimate_grows_with_its_text(text: str, more: str) -> None:
    """IN-11: a longer text that costs less would let a cut go back and forth."""
    assert 0 <= estimate_text(text) <= estimate_text(text + more)


@given(st.text(alphabet="漢字かな한글", min_size=5))
def test_cjk_costs_at_least_six_tenths_of_a_token_for_each_character(text: str) -> None:
    """IN-11: counted by characters // 4, a Chinese chat overflows the window at a third of it."""
    assert estimate_text(text) >= 0.6 * len(text)


def test_two_thousand_short_messages_are_walked_only_as_far_as_they_fit() -> None:
    """The cost of a turn is the cost of what is shown: the rest is not even looked at."""
    turns = tuple(
        Turn(number=n, users=(UserMessage(seq=n, text="x" * 384),)) for n in range(1, 2001)
    )
    rendered = render(Conversation(turns=turns), agent(cap_tokens=1000))
    looked_at = [turn.number for turn in turns if turn.users[0].memo]

    assert rendered.left_messages == 1990
    assert looked_at == list(range(1990, 2001))
