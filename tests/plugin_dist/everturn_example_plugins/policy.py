"""A policy that keeps fewer turns than Everturn's own, and reduces as that one does."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from pydantic import Field

from everturn_actors.context.policies.everturn import POLICY
from everturn_gateway.plugins import PolicyPlugin, PolicySettings


class NewestSettings(PolicySettings):
    """The numbers of `newest`."""

    window_turns: Annotated[int, Field(ge=1)] | None = None
    "So many finished turns are shown: 3."


NEWEST: Final = PolicyPlugin(
    name="newest",
    interface=1,
    summary="the newest turns alone",
    docs="https://example.org/newest",
    settings=NewestSettings,
    policy=replace(POLICY, name="newest", numbers=replace(POLICY.numbers, window_turns=3)),
)
