"""A policy: how a system counts, what it takes for its budget, and its ladder of stages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

from everturn_actors.context.budget import Budget
from everturn_actors.context.view import Estimator, Reduction, Stage, View, size_tokens
from everturn_actors.model import ToolDefinition

N = TypeVar("N")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the model allows, as far as it is known. Tokens."""

    window_tokens: int | None = None
    "None where it is not known; every policy has its own answer to that."
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Generic[N]):
    """One way to make a conversation fit."""

    name: str
    numbers: N
    "Its settings, each with its own value; the names are those of `spec.session.context`."
    estimator: Estimator
    divide: Callable[[N, Limits, int, int], Budget]
    "Numbers, limits, tokens of the system prompt, tokens of the tools."
    ladder: Callable[[N, Limits], Sequence[Stage]]
    "The stages, in the order in which they are applied."
    notice: Callable[[int], str] = lambda _omitted: ""
    "What stands directly after the system prompt where messages were left out; empty for nothing."
    prompt: Callable[[str, str], str] = lambda system, _summary: system
    "The system prompt with a summary in it."

    def with_numbers(self, changes: Mapping[str, Any]) -> Policy[N]:
        """Return this policy with other numbers.

        Raises:
            KeyError: It has no number of that name.
        """
        known = self.number_names()
        for name in changes:
            if name not in known:
                raise KeyError(name)
        numbers: Any = self.numbers
        return replace(self, numbers=replace(numbers, **changes))

    def number_names(self) -> tuple[str, ...]:
        """Return the names of its numbers."""
        numbers: Any = self.numbers
        return tuple(each.name for each in fields(numbers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What a policy made of a view."""

    policy: Policy[Any]
    budget: Budget
    given: View
    view: View
    system: str
    "The system prompt as it is sent, with a summary where there is one."
    notice: str
    reductions: tuple[Reduction, ...]

    @property
    def messages_tokens(self) -> int:
        """Tokens of all messages that are shown, the notice not."""
        return size_tokens(self.view, self.view.messages, self.policy.estimator)

    @property
    def system_tokens(self) -> int:
        """Tokens of the system prompt, the summary and the notice."""
        notice = self.policy.estimator.text(self.notice)
        return self.policy.estimator.text(self.system) + notice

    @property
    def total_tokens(self) -> int:
        """Tokens of the request and of what is kept free for the reply."""
        fixed = self.budget.tools_tokens + self.budget.reserve_tokens
        return self.system_tokens + self.messages_tokens + fixed


def apply_policy(
    policy: Policy[Any],
    view: View,
    limits: Limits,
    *,
    system: str = "",
    tools: Sequence[ToolDefinition] = (),
) -> Applied:
    """Return what `policy` shows of `view`. The view is not changed.

    Raises:
        ContextDoesNotFitError: The policy promises that a request fits, and nothing more can leave.
    """
    estimator = policy.estimator
    budget = policy.divide(policy.numbers, limits, estimator.text(system), estimator.tools(tools))
    reduced: list[Reduction] = []
    made = view
    for stage in policy.ladder(policy.numbers, limits):
        made, reductions = stage(made, budget)
        reduced += reductions
    return Applied(
        policy=policy,
        budget=budget,
        given=view,
        view=made,
        system=policy.prompt(system, made.summary),
        notice=policy.notice(made.omitted_messages) if made.omitted_messages else "",
        reductions=tuple(reduced),
    )
