"""The policy `duragent`."""

from __future__ import annotations

from typing import Final, Literal

from everturn_actors.context.policies.duragent import POLICY
from everturn_gateway.plugins import PolicyPlugin, PolicySettings
from everturn_gateway.yaml_files.fields import Amount, Count


class DuragentSettings(PolicySettings):
    """The numbers of `duragent`."""

    max_history_tokens: Amount | None = None
    "What the history may take at most; 0 = no cap but the window."
    max_tool_result_tokens: Count | None = None
    "What one tool result may take."
    tool_result_truncation: Literal["head", "tail", "both"] | None = None
    "Which end of a long result is kept."
    tool_result_keep_first: Amount | None = None
    "So many of the first results of the turn are not masked."
    tool_result_keep_last: Amount | None = None
    "Results between the first and the last ones are masked; both 0 = none."


DURAGENT: Final = PolicyPlugin(
    name="duragent",
    interface=1,
    summary="a budget filled from the newest message to the oldest, as Duragent has it",
    docs="docs/context.md",
    settings=DuragentSettings,
    policy=POLICY,
)
