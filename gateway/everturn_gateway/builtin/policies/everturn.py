"""The policy `everturn`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Field

from everturn_actors.context.policies.everturn import POLICY
from everturn_gateway.builtin.policies.settings import ClearingSettings, out_of_order
from everturn_gateway.plugins import PolicyPlugin
from everturn_gateway.yaml_files import FieldPath
from everturn_gateway.yaml_files.fields import Amount, Count, Share


class EverturnSettings(ClearingSettings):
    """The numbers of `everturn`."""

    max_history_tokens: Amount | None = None
    "What the history may take at most; 0 = no cap but the window."
    max_tool_result_tokens: Count | None = None
    "What one tool result may take."
    max_result_share: Share | None = None
    "And never more than this share of the window."
    max_message_share: Share | None = None
    "What the newest turn's questions may take of the messages' room, where there is none for all."
    tool_result_truncation: Literal["head", "tail", "both"] | None = None
    "Which end of a long result is kept."
    margin_share: Annotated[float, Field(ge=0, lt=1)] | None = None
    "What is kept free of the window because tokens are estimated."
    clear_keep_first: Amount | None = None
    "So many of the first results of the newest turn are not cleared."
    clear_protect_tokens: Amount | None = None
    "So many of the newest tokens are not cleared, at most a fifth of the window."
    clear_minimum_tokens: Amount | None = None
    "Nothing is cleared for less, at most a quarter of the window."
    summarize_cold_trigger: Share | None = None
    "The same where a conversation is idle until the provider's cache is about to go."
    cut_to: Share | None = None
    "Whole turns leave down to this share of the budget, where it is full."
    shrink_to: Share | None = None
    "The running turn is shrunk down to this share, where it is all that is left."
    window_trigger: Share | None = None
    "Turns leave above this share of the messages that a session holds."
    window_cut_to: Share | None = None
    "They leave down to this share."
    window_turns: Amount | None = None
    "They leave above this many finished turns too; 0 = any number."


def section_faults(section: EverturnSettings) -> Iterator[tuple[FieldPath, str]]:
    """Yield what is wrong with numbers together."""
    yield from out_of_order(POLICY, section, "summarize_keep", "summarize_trigger")
    yield from out_of_order(POLICY, section, "window_cut_to", "window_trigger")


EVERTURN: Final = PolicyPlugin(
    name="everturn",
    interface=1,
    summary="a ladder of reductions, the mildest first, that keeps the head of requests as it was",
    docs="docs/context.md",
    settings=EverturnSettings,
    policy=POLICY,
    faults=section_faults,
)
