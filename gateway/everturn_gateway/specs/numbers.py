"""`spec.session.context`: which policy renders a request, and the numbers that each policy reads.

A number that is left out is the policy's own.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from everturn_gateway.documents import Section

Count: TypeAlias = Annotated[int, Field(ge=1)]
Amount: TypeAlias = Annotated[int, Field(ge=0)]
Share: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Percent: TypeAlias = Annotated[int, Field(ge=1, le=100)]

PolicyName: TypeAlias = Literal["everturn", "duragent", "picoclaw", "jutul", "baseagent"]


class ContextSection(Section):
    """How the conversation is made to fit the model's window."""

    policy: PolicyName = "everturn"
    "The ladder of reductions that renders a request."

    max_history_tokens: Amount = 20_000
    "What the history may take at most; 0 = no cap but the window."
    max_tool_result_tokens: Count = 8_000
    "What one tool result may take."
    tool_result_truncation: Literal["head", "tail", "both"] = "head"
    "Which end of a long result is kept."
    tool_result_keep_first: Amount = 2
    tool_result_keep_last: Amount = 5
    "Results between the first and the last ones are masked; both 0 = none."

    # everturn and jutul
    clear_trigger: Share | None = None
    "Old tool results are cleared from this share of the budget on: 0.6."
    clear_keep_results: Amount | None = None
    "Newest results that are never cleared. jutul: 3 below a window of 100,000, else 6."
    clear_protect_tokens: Amount | None = None
    "Newest tokens of results that are never cleared: 40,000."
    clear_minimum_tokens: Amount | None = None
    "Nothing is cleared unless this many tokens come free: 20,000."
    clear_exclude_tools: tuple[str, ...] | None = None
    "Tools whose results are never cleared."
    summarize_trigger: Share | None = None
    "Older turns are summarised from this share of the budget on: 0.85."
    summarize_keep: Share | None = None
    "The newest share of the budget that is not summarised: 0.1."
    cut_to: Share | None = None
    "everturn: whole turns leave down to this share of the budget: 0.75."

    # jutul
    evict_result_tokens: Count | None = None
    "A larger result goes to a file: 20,000."
    evict_user_tokens: Count | None = None
    "A larger newest user message goes to a file: 50,000."
    argument_limit_characters: Count | None = None
    "Longer arguments of old file edits are shortened: 2,000."
    compact_keep_messages: Count | None = None
    "A manual compaction keeps this many: 8."

    # picoclaw
    summarize_message_threshold: Count | None = None
    "More messages than this are summarised after a turn: 20."
    summarize_token_percent: Percent | None = None
    "So is a history above this share of the window: 75."
    summarize_keep_messages: Count | None = None
    "Newest messages that are not summarised: 4."
    summarize_timeout_seconds: Annotated[float, Field(gt=0)] | None = None
    "120."
    summarize_tries: Count | None = None
    "3."
    overflow_retries: Amount | None = None
    "How often a request that the provider finds too long is compressed and tried again: 2."

    # baseagent
    model_context_limit: Count | None = None
    "200,000."
    output_token_max: Count | None = None
    "32,000."
    auto_compact_threshold: Share | None = None
    "0.85 of what the two above leave."
    prune_protect: Amount | None = None
    "Newest tokens of results that are not pruned: 40,000."
    prune_minimum: Amount | None = None
    "Nothing is pruned unless more than this comes free: 20,000."
    protect_last_turns: Amount | None = None
    "Results of this many newest turns are not pruned: 2."
    max_output_tokens: Count | None = None
    "Of one tool result: 2,500."
    max_iterations: Count | None = None
    "Steps of one turn: 200."
