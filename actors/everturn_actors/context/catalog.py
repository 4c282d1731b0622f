"""What an agent's policy is, and what it works with. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget, check_feasible
from everturn_actors.context.estimation.calibration import (
    LEAST_SCALE,
    ModelStatistics,
    prior_statistics,
    session_scale,
)
from everturn_actors.context.estimation.classes import priced, prompt_counts
from everturn_actors.context.estimation.estimates import prompt_units, tools_units
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.context.policies import everturn
from everturn_actors.context.policy import AnyPolicy, Limits, Policy
from everturn_actors.model import ToolDefinition
from everturn_actors.spec import AgentSpec, ContextSpec

_LEAST_SHARE = 16  # of the window, for messages, however large prompt and tools seem to be
_MOST_CHARACTERS = 8  # of one token, in any text that somebody writes as a prompt


def _is_policy(policy: object) -> TypeGuard[AnyPolicy]:
    return isinstance(policy, Policy)


def policy_of(context: ContextSpec, *, recalls: bool = True) -> AnyPolicy:
    """Return the policy of an agent.

    Args:
        context: What the agent says.
        recalls: Whether its model can ask for what is hidden; otherwise nobody tells it to.
    """
    policy = context.policy or everturn.POLICY
    assert _is_policy(policy), "there is no other kind"
    return policy if recalls else policy.without_recall()


def limits_of(spec: AgentSpec, statistics: ModelStatistics | None = None) -> Limits:
    """Return what is known about an agent's model; None = nothing was learnt."""
    limits = Limits(
        provider=spec.model.provider,
        window_tokens=input_window(spec.model, statistics),
        output_tokens=spec.model.max_output_tokens,
    )
    return limits if statistics is None else replace(limits, scale=statistics.scale)


def make_budget(
    spec: AgentSpec,
    system: str,
    tools: Sequence[ToolDefinition],
    statistics: ModelStatistics | None = None,
) -> Budget:
    """Divide the window of the agent's model between its fixed parts and its messages.

    As the agent's policy does when a turn runs, and as it counts then.

    Args:
        spec: The agent.
        system: Its system prompt.
        tools: Its tools.
        statistics: What is known about its model; None = what its name tells.
    """
    known = statistics or prior_statistics(spec.model.name)
    # By the classes of its characters, as a session's first request is.
    units = prompt_units(system) + tools_units(tools)
    tokens = priced(prompt_counts(system, tools_units(tools)), known.prices.each) * known.safety
    return _divided(spec, system, tools, replace(known, scale=session_scale(tokens, units)))


def _divided(
    spec: AgentSpec, system: str, tools: Sequence[ToolDefinition], statistics: ModelStatistics
) -> Budget:
    policy, limits = policy_of(spec.session.context), limits_of(spec, statistics)
    count = policy.estimates(limits)
    return policy.divide(policy.numbers, limits, count.text(system), count.tools(tools))


def unsure_room(
    spec: AgentSpec,
    system: str,
    tools: Sequence[ToolDefinition],
    statistics: ModelStatistics | None = None,
) -> str:
    """Return why an agent's prompt and tools may leave no room; empty where they surely do.

    That is only estimated before the provider has counted them, so the agent is loaded, and its
    requests are sent.

    Args:
        spec: The agent.
        system: Its system prompt.
        tools: Its tools.
        statistics: What was learnt of its model, for policies that go by that; None = nothing.

    Raises:
        ContextDoesNotFitError: Whatever the model's tokenizer is, nothing is left for messages; or
            the policy is one that refuses by its own count.
    """
    refuses = policy_of(spec.session.context).shrink is None
    budget = make_budget(spec, system, tools, None if refuses else statistics)
    if budget.free_tokens > 0:
        return ""
    if refuses:
        check_feasible(budget)
    least = _divided(spec, system, tools, ModelStatistics(scale=LEAST_SCALE))
    # Words in capitals, and lines of one sign, may be far fewer tokens than any scale says.
    fewest = len(system) // _MOST_CHARACTERS
    check_feasible(replace(least, system_tokens=min(least.system_tokens, fewest)))
    return (
        f"by estimate nothing is left for messages: {budget.explain()}; requests are sent all the"
        " same, and what the provider counts is learnt; shorten the prompt, give it fewer tools or"
        " choose a model with a larger window if it refuses them"
    )


def request_limits(
    policy: AnyPolicy,
    spec: AgentSpec,
    statistics: ModelStatistics,
    system: str,
    tools: Sequence[ToolDefinition],
) -> tuple[Limits, tuple[int, int]]:
    """Return what is known of a model, and what prompt and tools cost it, in tokens."""
    limits = limits_of(spec, statistics)
    count = policy.estimates(limits)
    fixed = (count.text(system), count.tools(tools))
    if statistics.limit_tokens and policy.divide(policy.numbers, limits, *fixed).free_tokens <= 0:
        # Only the provider fails a turn, not what it said once: prompt and tools alone are larger
        # than the limit that it named, so the request is made as if it had not.
        return request_limits(policy, spec, replace(statistics, limit=None), system, tools)
    return limits, fixed


def with_least_room(budget: Budget) -> Budget:
    """Return the budget of a request that is sent, whatever prompt and tools are estimated at.

    An estimate refuses nothing: only the provider knows what it takes, and what it says is learnt.
    """
    least = budget.window_tokens // _LEAST_SHARE
    missing = least - budget.free_tokens
    if missing <= 0:
        return budget
    return replace(budget, correction_tokens=budget.correction_tokens - missing)


def pictures_room(
    policy: AnyPolicy, limits: Limits, fixed: tuple[int, int], summary: str
) -> int | None:
    """Return how many tokens the window has for images; None where it is not known.

    Args:
        policy: Divides the window.
        limits: Of the request.
        fixed: What its prompt and its tools take, in tokens.
        summary: The one that is shown.
    """
    budget = policy.divide(policy.numbers, limits, *fixed)
    if budget.window_tokens <= 0:
        return None
    return budget.free_tokens - policy.estimates(limits).text(summary)
