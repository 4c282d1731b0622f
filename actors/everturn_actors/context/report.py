"""What stands in a session's context now, for people: `/context`, HTTP, the command line. Pure.

The numbers are those of the request that would be sent now, as its policy counts them. All regions
together are the window, as long as the request fits it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.outlook import outlook
from everturn_actors.context.projection.projection import Change
from everturn_actors.context.rendered import Rendered
from everturn_actors.model import (
    AnyMessage,
    Conversation,
    Disposition,
    SummarySource,
    ToolResult,
    Usage,
)

Level: TypeAlias = Literal["green", "yellow", "red"]
RegionName: TypeAlias = Literal[
    "system", "summary", "history", "turn", "tools", "reserve", "margin", "free"
]

YELLOW_PERCENT: Final = 70
RED_PERCENT: Final = 90
RESULT_STAGE: Final = "result"
"The stage that shortens a result before it is kept."
_PROMPT: Final[tuple[RegionName, ...]] = ("system", "summary", "history", "turn", "tools")
_KEPT = Change(disposition="kept", stage="")


class Region(Struct, frozen=True, kw_only=True):
    """One part of the window."""

    name: RegionName
    tokens: int


class SummaryReport(Struct, frozen=True, kw_only=True):
    """The summary that stands for the oldest messages."""

    messages: int
    "How many messages it stands for."
    last_turn: int
    "The newest turn it tells of."
    source: SummarySource
    "Who wrote it: a model, or a digest of the messages' beginnings."


class ContextReport(Struct, frozen=True, kw_only=True):
    """What a session's next request would hold, and what is hidden from it."""

    policy: str
    model: str
    window_tokens: int
    "0 = not known."
    used_tokens: int
    "The predicted prompt, and what is kept free for the reply."
    percent: int
    "Of the window; over 100 where the next request has to be made smaller first."
    level: Level
    regions: tuple[Region, ...]
    "`system` to `tools` are the predicted prompt; `free` is what nothing needs yet."
    shown_messages: int
    hidden_messages: int
    "Messages since the session began that are not in the request."
    by_disposition: Mapping[Disposition, int]
    "How many messages are not as they were said; those that are all kept are not in it."
    summary: SummaryReport | None
    predicted_tokens: int
    "What the prompt would cost."
    reported: Usage
    "What the provider reported for the last request; zero where it told nothing."
    scale: float
    "Tokens of the model for one estimated token."
    reports: int
    "How many reports the scale was learnt from; 0 = it is a guess by the model's name."
    prefix: str
    "Hash of the request."
    cache_misses: int
    "Requests that did not begin with the one before, though nothing had been reduced."
    failures: int
    "Summaries in a row that no model could write."
    retry_at: datetime | None
    "No model is asked for a summary before this instant, UTC; None = it may be now."
    budget: str
    "The arithmetic of the window in one line."
    next: tuple[str, ...] = field(default=())
    "What will happen next, and when; sentences."
    notes: tuple[str, ...] = field(default=())
    "What was learnt of the model from a refusal, what follows, and who counts; sentences."


def context_report(
    rendered: Rendered,
    conversation: Conversation,
    *,
    statistics: ModelStatistics,
    cache_misses: int,
    now: datetime,
    has_summariser: bool,
) -> ContextReport:
    """Return what stands in a conversation's context.

    Args:
        rendered: The request that would be sent now.
        conversation: What it was made of.
        statistics: What is known about the model.
        cache_misses: How often the session's prefix changed without a reason.
        now: The present instant, UTC.
        has_summariser: Whether a model writes the agent's summaries.
    """
    reductions, budget = conversation.reductions, rendered.budget
    used = rendered.tokens + budget.reserve_tokens
    window = budget.window_tokens
    summary = reductions.summary
    shown = sum(1 for message in rendered.request.messages if message.seq)
    hidden = conversation.left_messages + conversation.held_messages - shown
    waits = reductions.retry_at if reductions.retry_at and reductions.retry_at > now else None
    return ContextReport(
        policy=rendered.policy.name,
        model=rendered.request.model,
        window_tokens=window,
        used_tokens=used,
        percent=percent_of(used, window),
        level=level_of(used, window),
        regions=tuple(_regions(rendered, conversation)),
        shown_messages=shown,
        hidden_messages=hidden,
        by_disposition=_by_disposition(rendered, hidden, summary.messages if summary else 0),
        summary=SummaryReport(
            messages=summary.messages, last_turn=summary.last_turn, source=summary.source
        )
        if summary
        else None,
        predicted_tokens=rendered.tokens,
        reported=conversation.reported,
        scale=round(statistics.scale, 3),
        reports=statistics.reports,
        prefix=rendered.fingerprint.prefix,
        cache_misses=cache_misses,
        failures=reductions.failures,
        retry_at=waits,
        budget=budget.explain(),
        next=outlook(rendered, conversation, retry_at=waits, has_summariser=has_summariser),
    )


def percent_of(tokens: int, window_tokens: int) -> int:
    """Return a share of the window in whole percent, rounded down; 0 where it is not known."""
    return tokens * 100 // window_tokens if window_tokens > 0 else 0


def level_of(tokens: int, window_tokens: int) -> Level:
    """Return how close to the window so many tokens come."""
    if window_tokens <= 0 or tokens * 100 < YELLOW_PERCENT * window_tokens:
        return "green"
    return "yellow" if tokens * 100 < RED_PERCENT * window_tokens else "red"


def changes(rendered: Rendered, message: AnyMessage) -> Change:
    """Return what became of a message that the request shows."""
    found = rendered.projection.changes.get(message.seq)
    if found is None and isinstance(message, ToolResult) and message.path:
        return Change(disposition=rendered.policy.result_disposition, stage=RESULT_STAGE)
    return found or _KEPT


def _regions(rendered: Rendered, conversation: Conversation) -> Iterator[Region]:
    budget = rendered.budget
    for name, tokens in zip(_PROMPT, _prompt(rendered, conversation), strict=True):
        yield Region(name=name, tokens=tokens)
    used = rendered.tokens + budget.reserve_tokens
    left = max(budget.window_tokens - used, 0)
    margin = min(budget.margin_tokens, left)
    yield Region(name="reserve", tokens=budget.reserve_tokens)
    yield Region(name="margin", tokens=margin)
    yield Region(name="free", tokens=left - margin)


def _prompt(rendered: Rendered, conversation: Conversation) -> list[int]:
    """Return the tokens of the prompt's regions; together they are what it is predicted to cost.

    The prediction starts from what the provider reported, so what it has beyond the estimate is
    spread over the regions by their size.
    """
    counts = rendered.policy.estimates(rendered.limits)
    current = conversation.current
    turn_begins = current.users[0].seq if current else None
    system = rendered.budget.system_tokens
    summary = max(counts.text(rendered.request.system) - system, 0)
    history = turn = 0
    for message in rendered.request.messages:
        tokens = counts.message(message, rendered.projection.media.get(message.seq, 0))
        if message.seq == 0:
            summary += tokens
        elif turn_begins is not None and message.seq >= turn_begins:
            turn += tokens
        else:
            history += tokens
    estimated = [system, summary, history, turn, rendered.budget.tools_tokens]
    return _spread(rendered.tokens, estimated)


def _spread(total: int, parts: list[int]) -> list[int]:
    """Return `parts` scaled so that they add up to `total`."""
    whole = sum(parts)
    if whole <= 0:
        return [total, *(0 for _ in parts[1:])]
    scaled = [part * total // whole for part in parts]
    # Rounding down loses less than one token a part; the largest ones get them back.
    largest = sorted(range(len(parts)), key=lambda index: -parts[index])
    for index in largest[: total - sum(scaled)]:
        scaled[index] += 1
    return scaled


def _by_disposition(rendered: Rendered, hidden: int, summarised: int) -> dict[Disposition, int]:
    shown = (message for message in rendered.request.messages if message.seq)
    counts: Counter[Disposition] = Counter(
        changes(rendered, message).disposition for message in shown
    )
    del counts["kept"]
    counts["summarised"] = min(summarised, hidden)
    counts["dropped"] = hidden - counts["summarised"]
    return {disposition: count for disposition, count in counts.items() if count}
