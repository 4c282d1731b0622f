"""The description of a context policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everturn_actors.context.policy import AnyPolicy
from everturn_gateway.plugins.base import Plugin, Remarks, no_remarks
from everturn_gateway.yaml_files import SettingsModel


class PolicySettings(SettingsModel):
    """The numbers of a policy; they stand in `spec.session.context`, beside the policy's name.

    A policy lists its numbers in a subclass, each `... | None = None`, under the names that the
    fields of `Policy.numbers` have. One that is left out is the policy's own.
    """

    def numbers(self) -> dict[str, object]:
        """Return the numbers that are set, by their names."""
        return {name: value for name, value in self if value is not None}


class PolicyPlugin(Plugin, frozen=True, kw_only=True):
    """How a conversation is made to fit; entry points of `everturn.policies`.

    Agents name it in `spec.session.context.policy`.

    Example:
        >>> NEWEST = PolicyPlugin(
        ...     name="newest", interface=1, settings=NewestSettings, policy=make_policy()
        ... )
    """

    settings: type[PolicySettings]
    policy: AnyPolicy
    "Pure: no IO, no clock. Its name is that of the plug-in."
    faults: Callable[[Any], Remarks] = no_remarks
    "Given settings, what is wrong with them beyond single fields; the agent is refused so."
