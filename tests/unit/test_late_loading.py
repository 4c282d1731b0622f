"""What is made with its first use: patterns, names of packages, the gate of an agent."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import get_ident

import anyio
import pytest
from support.policies import Program, call, context, policy

import everturn_gateway.providers.transport.model_errors
import everturn_gateway.tools.policy.commands.analysis
import everturn_gateway.tools.policy.outside.shown
import everturn_gateway.tools.shell.commands  # noqa: F401 - as those above: they hold patterns
from everturn_actors.ports import Gate
from everturn_gateway.late_loading import _LatePattern
from everturn_gateway.tools import policy as policy_package
from everturn_gateway.tools.policy import PolicyGate
from everturn_gateway.tools.policy.late_gate import LateGate


def test_each_pattern_that_waits_for_its_first_use_can_be_compiled() -> None:
    """A mistake in one would be heard of in the middle of somebody's turn."""
    late = [
        (name, value)
        for name, module in list(sys.modules.items())
        if name.startswith("everturn_gateway")
        for value in vars(module).values()
        if isinstance(value, _LatePattern)
    ]

    assert len(late) > 40
    assert [name for name, value in late if not getattr(value, "pattern", "")] == []


def test_a_name_that_a_package_does_not_have_is_refused_as_always() -> None:
    """And each that it lists is there."""
    with pytest.raises(AttributeError, match=r"everturn_gateway\.tools\.policy.*PolicyGates"):
        _ = policy_package.PolicyGates  # type: ignore[attr-defined]
    assert all(hasattr(policy_package, name) for name in policy_package.__all__)


async def test_calls_that_come_at_once_are_judged_by_one_gate_made_in_a_thread() -> None:
    """Two gates would each know half of what people allowed for good."""
    made: list[int] = []

    def make() -> Gate:
        made.append(get_ident())
        return PolicyGate(policy("bash:ls *"), Path("/nowhere"))

    gate, effects = LateGate(make), list[str]()

    async def ask(command: str) -> None:
        verdict = await gate.evaluate(call(command=command), Program(), context())
        effects.append(verdict.effect)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "ls -la")
        tasks.start_soon(ask, "git push")

    assert sorted(effects) == ["allow", "ask"]
    assert len(made) == 1
    assert get_ident() not in made
