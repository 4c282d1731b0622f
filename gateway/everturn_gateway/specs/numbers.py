"""`spec.session.context`: which policy renders a request, and the numbers that each policy reads.

A number that is left out is the policy's own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field

from everturn_actors.context.catalog import POLICIES
from everturn_gateway.plugins import installed
from everturn_gateway.yaml_files import Section

Count: TypeAlias = Annotated[int, Field(ge=1)]
Amount: TypeAlias = Annotated[int, Field(ge=0)]
Share: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Percent: TypeAlias = Annotated[int, Field(ge=1, le=100)]


def _policy(value: str) -> str:
    policies = installed().policies
    known = (*POLICIES, *policies.names)
    if value not in known:
        fault = policies.fault(value)
        choices = f"{', '.join(known[:-1])} or {known[-1]}"
        msg = str(fault) if fault else f"must be {choices}, not {value!r}"
        raise ValueError(msg)
    return value


_CHOICES = frozenset(("policy", "plugin_numbers", "recall"))  # what is no number of a policy


class ContextSection(Section):
    """How the conversation is made to fit the model's window."""

    policy: Annotated[str, AfterValidator(_policy)] = "everturn"
    "The ladder of reductions that renders a request."
    plugin_numbers: dict[str, Any] = Field(default_factory=dict)
    "The numbers of a policy that comes with a plug-in, as it describes them."
    recall: bool | None = None
    "Whether the model gets the tool recall_context; by default, where it can call tools."

    # everturn and duragent
    max_history_tokens: Amount | None = None
    "What the history may take at most; 0 = no cap but the window. everturn: 0, duragent: 20,000."
    max_tool_result_tokens: Count | None = None
    "What one tool result may take: 8,000."
    max_result_share: Share | None = None
    "everturn: and never more than this share of the window: 0.125."
    tool_result_truncation: Literal["head", "tail", "both"] | None = None
    "Which end of a long result is kept. everturn: both, duragent: head."

    # duragent
    tool_result_keep_first: Amount | None = None
    "2."
    tool_result_keep_last: Amount | None = None
    "Results between the first and the last ones are masked; both 0 = none: 5."

    # everturn and jutul
    clear_trigger: Share | None = None
    "Old tool results are cleared from this share of the budget on: 0.6."
    clear_keep_results: Amount | None = None
    "Newest results that are not cleared. everturn: 5, jutul: 3 below a window of 100,000, else 6."
    clear_protect_tokens: Amount | None = None
    "Newest tokens that are not cleared. everturn: 40,000, at most a fifth of the window."
    clear_minimum_tokens: Amount | None = None
    "Nothing is cleared for less. everturn: 20,000, at most a tenth of the window."
    clear_exclude_tools: tuple[str, ...] | None = None
    "Tools whose results are not cleared. jutul: record_attempt."
    summarize_trigger: Share | None = None
    "Older turns are summarised from this share of the budget on: 0.85."
    summarize_keep: Share | None = None
    "The newest share of the budget that is not summarised: 0.1."

    # everturn
    clear_keep_first: Amount | None = None
    "First results of the newest turn that are not cleared: 2."
    cut_to: Share | None = None
    "Whole turns leave down to this share of the budget, where it is full: 0.75."
    margin_share: Annotated[float, Field(ge=0, lt=1)] | None = None
    "What is kept free of the window because tokens are estimated: 0.05."
    window_trigger: Share | None = None
    "Turns leave above this share of the messages that a session holds: 0.875."
    window_cut_to: Share | None = None
    "They leave down to this share: 0.625."
    window_turns: Amount | None = None
    "They leave above this many finished turns too; 0 = any number: 0."

    # everturn and jutul

    argument_limit_characters: Count | None = None
    "Longer arguments of old calls are shortened (jutul: those of file edits): 2,000."
    argument_head_characters: Amount | None = None
    "What stays of them. everturn: 100, jutul: 20."

    # jutul
    evict_result_tokens: Count | None = None
    "A larger result goes to a file: 20,000."
    evict_user_tokens: Count | None = None
    "A larger newest user message goes to a file: 50,000."
    preview_lines: Amount | None = None
    "First and last lines of what went to a file that are shown: 5 each."
    preview_line_characters: Count | None = None
    "What is shown of each of these lines: 1,000."
    unknown_clear_tokens: Count | None = None
    "Replaces clear_trigger where the window is not known: 60,000."
    unknown_summarize_tokens: Count | None = None
    "Replaces summarize_trigger where the window is not known: 170,000."
    unknown_keep_messages: Count | None = None
    "Replaces summarize_keep where the window is not known: 6."
    overflow_keep_tokens: Count | None = None
    "The newest results are clipped after an overflow from here on, without a known window: 5,000."
    overflow_file_characters: Count | None = None
    "What stays of the content of a file then: 4,000."
    characters_per_token: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    "4, and 3.3 for the models of Anthropic."
    compact_keep_messages: Count | None = None
    "A manual compaction keeps this many: 8."
    compact_trigger: Share | None = None
    "It is refused below this share of the threshold for a summary: 0.5."

    # jutul, picoclaw and baseagent
    image_tokens: Amount | None = None
    "What an image or a file counts. jutul: 85, picoclaw: 256, baseagent: 1,000."

    # picoclaw
    summarize_message_threshold: Count | None = None
    "More messages than this are summarised after a turn: 20."
    summarize_token_percent: Percent | None = None
    "So is a history above this share of the window: 75."
    summarize_keep_messages: Count | None = None
    "Newest messages that are not summarised: 4."
    summarize_batch_messages: Count | None = None
    "More than this are summarised in two parts: 10."
    digest_characters: Count | None = None
    "What a summary that no model wrote has of each message: 200."
    digest_percent: Percent | None = None
    "Or so much of it, where that is more: 10."
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

    def numbers(self) -> dict[str, Any]:
        """Return the numbers that are set, by their names."""
        return {name: value for name, value in self if name not in _CHOICES and value is not None}
