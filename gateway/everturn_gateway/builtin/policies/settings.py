"""Numbers that several policies have, and what has to hold between them."""

from __future__ import annotations

from collections.abc import Iterator

from everturn_actors.context.policy import AnyPolicy
from everturn_gateway.plugins import PolicySettings
from everturn_gateway.yaml_files import FieldPath
from everturn_gateway.yaml_files.fields import Amount, Count, Share


class ClearingSettings(PolicySettings):
    """For policies that clear old results, shorten old arguments and summarise."""

    clear_trigger: Share | None = None
    "Old tool results are cleared from this share of the budget on."
    clear_keep_results: Amount | None = None
    "So many of the newest results are not cleared."
    clear_protect_tokens: Amount | None = None
    "So many of the newest tokens are not cleared."
    clear_minimum_tokens: Amount | None = None
    "Nothing is cleared for less."
    clear_exclude_tools: tuple[str, ...] | None = None
    "Tools whose results are not cleared."
    argument_limit_characters: Count | None = None
    "Longer arguments of old calls are shortened."
    argument_head_characters: Amount | None = None
    "What stays of them."
    summarize_trigger: Share | None = None
    "Older turns are summarised from this share of the budget on."
    summarize_keep: Share | None = None
    "The newest share of the budget that is not summarised."


def out_of_order(
    policy: AnyPolicy, section: PolicySettings, less: str, more: str
) -> Iterator[tuple[FieldPath, str]]:
    """Yield a fault where the number `less` is not below `more`: every turn would be a cut."""
    given = section.numbers()
    numbers = policy.with_numbers(given).numbers
    low, high = getattr(numbers, less), getattr(numbers, more)
    if low >= high:
        name = less if less in given else more
        yield (name,), f"{less} ({low:g}) has to be below {more} ({high:g})"
