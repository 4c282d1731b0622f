"""The policies there are, by name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from everturn_actors.context.policies import baseagent, duragent, jutul, picoclaw
from everturn_actors.context.policy import Policy

POLICIES: Mapping[str, Policy[Any]] = MappingProxyType(
    {
        policy.name: policy
        for policy in (duragent.POLICY, picoclaw.POLICY, jutul.POLICY, baseagent.POLICY)
    }
)
"In the order in which they are shown."
