"""The policy `picoclaw`."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from everturn_actors.context.policies.picoclaw import POLICY
from everturn_gateway.plugins import PolicyPlugin, PolicySettings
from everturn_gateway.yaml_files.fields import Amount, Count, Percent


class PicoclawSettings(PolicySettings):
    """The numbers of `picoclaw`."""

    summarize_message_threshold: Count | None = None
    "More messages than this are summarised after a turn."
    summarize_token_percent: Percent | None = None
    "So is a history above this share of the window."
    summarize_keep_messages: Count | None = None
    "Newest messages that are not summarised."
    summarize_batch_messages: Count | None = None
    "More than this are summarised in two parts."
    digest_characters: Count | None = None
    "What a summary that no model wrote has of each message."
    digest_percent: Percent | None = None
    "Or so much of it, where that is more."
    image_tokens: Amount | None = None
    "What an image or a file counts."
    summarize_timeout_seconds: Annotated[float, Field(gt=0)] | None = None
    "Deadline of one summary, all tries together."
    summarize_tries: Count | None = None
    "How often a model is asked for one summary."
    overflow_retries: Amount | None = None
    "How often a request that the provider finds too long is compressed and tried again."


PICOCLAW: Final = PolicyPlugin(
    name="picoclaw",
    interface=1,
    summary="summaries by the number of messages, and a compression after an overflow",
    docs="docs/context.md",
    settings=PicoclawSettings,
    policy=POLICY,
)
