"""The policy `baseagent`."""

from __future__ import annotations

from typing import Final

from everturn_actors.context.policies.baseagent import POLICY
from everturn_gateway.plugins import PolicyPlugin, PolicySettings
from everturn_gateway.yaml_files.fields import Amount, Count, Share


class BaseagentSettings(PolicySettings):
    """The numbers of `baseagent`."""

    model_context_limit: Count | None = None
    "Instead of the model's window; where that is not known either, 200,000."
    output_token_max: Count | None = None
    "Instead of the model's own; where that is not known either, 32,000."
    auto_compact_threshold: Share | None = None
    "Of what the two above leave."
    prune_protect: Amount | None = None
    "Newest tokens of results that are not pruned."
    prune_minimum: Amount | None = None
    "Nothing is pruned unless more than this comes free."
    protect_last_turns: Amount | None = None
    "Results of this many newest turns are not pruned."
    max_output_tokens: Count | None = None
    "Of one tool result."
    image_tokens: Amount | None = None
    "What an image or a file counts."
    max_iterations: Count | None = None
    "Steps of one turn, instead of max_tool_iterations."


BASEAGENT: Final = PolicyPlugin(
    name="baseagent",
    interface=1,
    summary="each result cut in its middle, old ones pruned, the rest summarised",
    docs="docs/context.md",
    settings=BaseagentSettings,
    policy=POLICY,
)
