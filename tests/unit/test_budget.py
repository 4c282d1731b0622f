"""The one Budget: its arithmetic, and the refusal of what cannot work."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from support.context_policies import POLICIES
from support.conversations import agent
from support.tables import table

from everturn_actors.context.catalog import make_budget
from everturn_actors.context.estimation.budget import Budget, check_feasible
from everturn_actors.context.estimation.calibration import priced_anew, prior_statistics
from everturn_actors.context.render import Renderer
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.model import Conversation, ToolDefinition
from everturn_actors.spec import AgentSpec, ContextSpec, ModelSpec, PromptSpec, SessionSpec


def test_the_defaults_are_those_of_the_seed_design() -> None:
    """Existing agents rely on them."""
    # 4,096 for the reply, a tenth as margin, 20,000 of history: existing agents rely on them.
    spec = AgentSpec(
        name="a",
        model=ModelSpec(provider="x", name="unknown"),
        session=SessionSpec(context=ContextSpec(policy=POLICIES["duragent"])),
    )
    tool = ToolDefinition(name="t", description="", parameters={})
    budget = make_budget(spec, "x" * 4000, (tool,))

    assert budget == Budget(
        window_tokens=128_000,
        system_tokens=1000,
        tools_tokens=19,
        reserve_tokens=4096,
        margin_tokens=12_800,
        history_cap_tokens=20_000,
    )
    assert budget.available_tokens == 128_000 - 1000 - 19 - 4096 - 12_800
    assert budget.history_tokens == 20_000

    # A margin is rounded down. Integer arithmetic is part of the seed's rule; a rounded margin
    # moves every cut.
    assert make_budget(agent(window_tokens=1999), "", ()).margin_tokens == 199


@table(
    ("window", "cap", "history"), [(10_000, 0, 8000), (10_000, 3000, 3000), (10_000, 9000, 8000)]
)
def test_history_takes_the_smaller_of_cap_and_window(window: int, cap: int, history: int) -> None:
    """0 means no cap but the window; a cap above the window must not overflow it."""
    budget = make_budget(agent(window_tokens=window, reserve_tokens=1000, cap_tokens=cap), "", ())

    assert budget.history_tokens == history


def test_an_agent_is_loaded_by_the_count_that_its_first_request_goes_by() -> None:
    """Else it is told that nothing is left, while a turn runs and `/context` shows another number.

    What the first report says of capitals, which is nothing of the model's scale, is no guess then.
    """
    prompt, name = "WORDS IN CAPITALS " * 400, "m"
    spec = AgentSpec(
        name="a",
        model=ModelSpec(provider="x", name=name, context_window=8192),
        prompt=PromptSpec(system_prompt=prompt),
    )
    sent = Renderer().render(Conversation(), spec)

    assert make_budget(spec, sent.request.system, ()).system_tokens == sent.budget.system_tokens
    assert sent.forecast is not None
    learnt = priced_anew(prior_statistics(name), sent.forecast.counts, 1_000)
    assert (learnt.reports, learnt.safety) == (1, 1.0)
    assert priced_anew(prior_statistics(name), sent.forecast.counts, 20).reports == 0


def test_a_budget_can_be_read_and_is_never_below_zero() -> None:
    """An operator has to see which number to change."""
    # A budget is never below zero. A negative room would let a comparison pass that must not.
    budget = make_budget(agent(window_tokens=1000), "", ())

    assert budget.free_tokens == 1000 - 4096 - 100
    assert budget.available_tokens == 0
    assert budget.history_tokens == 0

    # The arithmetic can be read. An operator has to see which number to change.
    budget = make_budget(agent(window_tokens=8192, reserve_tokens=512), "x" * 400, ())

    assert budget.explain() == snapshot(
        "window 8,192 - system 100 - tools 0 - reply 512 - margin 819 = 6,761 tokens for messages"
        " (history cap 20,000)"
    )


def test_an_infeasible_budget_is_refused_with_its_arithmetic() -> None:
    """By the last token."""
    # Found at load, not by the first person who writes to the agent.
    budget = make_budget(agent(window_tokens=4096, cap_tokens=0), "x" * 400, ())

    with pytest.raises(ContextDoesNotFitError) as caught:
        check_feasible(budget)
    assert str(caught.value) == snapshot(
        "nothing is left for messages: window 4,096 - system 100 - tools 0 - reply 4,096"
        " - margin 409 = -509 tokens for messages (history cap none); shorten the prompt, give it"
        " fewer tools, lower max_output_tokens or choose a model with a larger window"
    )

    # One token is feasible. The check is exact: it refuses only what cannot hold a message at all.
    check_feasible(make_budget(agent(window_tokens=10, reserve_tokens=8), "", ()))
    with pytest.raises(ContextDoesNotFitError):
        check_feasible(make_budget(agent(window_tokens=10, reserve_tokens=9), "", ()))
