"""What an agent's policy is, and what it works with. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.context.policies import everturn
from everturn_actors.context.policy import AnyPolicy, Limits, Policy
from everturn_actors.model import ToolDefinition
from everturn_actors.spec import AgentSpec, ContextSpec


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


def make_budget(spec: AgentSpec, system: str, tools: Sequence[ToolDefinition]) -> Budget:
    """Divide the window of the agent's model between its fixed parts and its messages.

    As the agent's policy does, and as it counts before anything is learnt about the model.
    """
    policy, limits = policy_of(spec.session.context), limits_of(spec)
    count = policy.estimates(limits)
    return policy.divide(policy.numbers, limits, count.text(system), count.tools(tools))
