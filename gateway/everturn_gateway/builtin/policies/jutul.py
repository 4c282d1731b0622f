"""The policy `jutul`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field

from everturn_actors.context.policies.jutul import POLICY
from everturn_gateway.builtin.policies.settings import ClearingSettings, out_of_order
from everturn_gateway.plugins import PolicyPlugin
from everturn_gateway.yaml_files import FieldPath
from everturn_gateway.yaml_files.fields import Amount, Count, Share


class JutulSettings(ClearingSettings):
    """The numbers of `jutul`."""

    clear_keep_results: Amount | None = None
    "So many of the newest results are not cleared: 3 below a window of 100,000, else 6."
    argument_limit_characters: Count | None = None
    "Longer arguments of old file edits are shortened."
    evict_result_tokens: Count | None = None
    "A larger result goes to a file."
    evict_user_tokens: Count | None = None
    "A larger newest user message goes to a file."
    preview_lines: Amount | None = None
    "First and last lines of what went to a file that are shown, so many of each."
    preview_line_characters: Count | None = None
    "What is shown of each of these lines."
    unknown_clear_tokens: Count | None = None
    "Replaces clear_trigger where the window is not known."
    unknown_summarize_tokens: Count | None = None
    "Replaces summarize_trigger where the window is not known."
    unknown_keep_messages: Count | None = None
    "Replaces summarize_keep where the window is not known."
    overflow_keep_tokens: Count | None = None
    "The newest results are clipped after an overflow from here on, without a known window."
    overflow_file_characters: Count | None = None
    "What stays of the content of a file then."
    characters_per_token: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    "By default 4, and 3.3 for the models of Anthropic."
    image_tokens: Amount | None = None
    "What an image or a file counts."
    compact_keep_messages: Count | None = None
    "A manual compaction keeps this many."
    compact_trigger: Share | None = None
    "It is refused below this share of the threshold for a summary."


def _faults(section: JutulSettings) -> Iterator[tuple[FieldPath, str]]:
    yield from out_of_order(POLICY, section, "summarize_keep", "summarize_trigger")


JUTUL: Final = PolicyPlugin(
    name="jutul",
    interface=1,
    summary="large results go to files, old ones are cleared, older turns summarised",
    docs="docs/context.md",
    settings=JutulSettings,
    policy=POLICY,
    faults=_faults,
)
