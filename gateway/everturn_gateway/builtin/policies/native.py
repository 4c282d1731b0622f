"""The policy `native`."""

from __future__ import annotations

from typing import Final

from everturn_actors.context.policies.native import POLICY
from everturn_gateway.builtin.policies.everturn import EverturnSettings, section_faults
from everturn_gateway.plugins import PolicyPlugin


class NativeSettings(EverturnSettings):
    """The numbers of `native`: those of `everturn`."""


NATIVE: Final = PolicyPlugin(
    name="native",
    interface=1,
    summary="as everturn, with summaries that the provider makes itself (Anthropic, OpenAI)",
    docs="docs/context.md",
    settings=NativeSettings,
    policy=POLICY,
    faults=section_faults,
)
