"""The `picoclaw` policy: summarise after a turn, drop whole turns before a call. Pure.

Three paths. After a turn: above 20 messages or 75 % of the window, all but the newest four messages
become a summary, cut where a turn begins; system prompt, tools and reserve do not count there.
Before a call: while messages + tools + reserve exceed the window, the oldest whole turn leaves; the
running turn never does, and where it alone is too large the request is refused. After an error of
the provider: half of the turns leave, for each retry.

On a transcript no model is at hand, so a summary is the one that the system makes when its model
fails: the beginning of each message. Where the newest message is an answer the first path looks at
all messages, else at those before the running turn.

Differences: a history without a user message is cut between steps, not through one; a single
finished turn that does not fit is refused, where the system would send an empty history; a history
that no provider takes was repaired before it gets here, and counts as it is then. A transcript is
summarised at once, where the system would have done so every few turns, so a summary can come out
too large for the window: then only its end stays, at least 4,000 characters as long as turns can
leave.

Source: the seed documents "Context" and "Context boundaries" of PicoClaw. Window = 4 x max_tokens
where none is given, as the first one says; the second one proposed 131,072, which is the same by
default.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.estimation.budget import Budget
from everturn_actors.context.estimation.tokens import size_bytes
from everturn_actors.context.policy import ContextUsage, Limits, Policy, due_from
from everturn_actors.context.projection.projection import (
    Outcome,
    Projection,
    Stage,
    remove,
    size_tokens,
)
from everturn_actors.context.stages.sanitising import sanitise
from everturn_actors.context.stages.truncation import (
    block_at,
    halve,
    safe_boundary,
    trim_turns,
)
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.model import AnyMessage, Reply, ToolDefinition, ToolResult, UserMessage

OMITTED = "\n[Note: Some oversized messages were omitted from this summary for efficiency.]"
_DEFAULT_MAX_TOKENS = 32_768
_ZERO_MAX_TOKENS = 8_192
_WINDOW_FACTOR = 4
_SECTIONS = "\n\n---\n\n"
_HEADING = (
    "CONTEXT_SUMMARY: an approximate summary of the earlier conversation, for reference only."
    " Where what follows says something else, that holds."
)
_MESSAGE_CHARACTERS = 12
_TOOL_CHARACTERS = 20
_CALL_TYPE = "function"
_SUMMARY_FLOOR = 4_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of the policy, as the agent format names them."""

    summarize_message_threshold: int = 20
    summarize_token_percent: int = 75
    summarize_keep_messages: int = 4
    summarize_batch_messages: int = 10
    "More are summarised in two parts."
    digest_characters: int = 200
    "Of each message in a summary that no model wrote."
    digest_percent: int = 10
    "Of it, where that is more."
    image_tokens: int = 256
    summarize_timeout_seconds: float = 120
    summarize_tries: int = 3
    overflow_retries: int = 2


class Estimates(Struct, frozen=True):
    """Two tokens for five characters of each message, 12 of them its envelope; media at a price."""

    image_tokens: int

    def text(self, text: str) -> int:
        """Return the tokens of a system message."""
        return _tokens(len(text) + _MESSAGE_CHARACTERS) if text else 0

    def message(self, message: AnyMessage, media: int) -> int:
        """Return the tokens of a message."""
        characters = len(message.text) + _MESSAGE_CHARACTERS
        match message:
            case Reply():
                characters += len(message.reasoning)
                for call in message.calls:
                    characters += len(call.call_id) + len(_CALL_TYPE)
                    characters += len(call.name) + len(call.arguments)
            case ToolResult():
                characters += len(message.call_id)
            case _:
                pass
        return _tokens(characters) + media * self.image_tokens

    def tools(self, tools: Sequence[ToolDefinition]) -> int:
        """Return the tokens of tool definitions."""
        return _tokens(sum(map(_tool_characters, tools)))


def _tokens(characters: int) -> int:
    return characters * 2 // 5


def _tool_characters(tool: ToolDefinition) -> int:
    schema = json.dumps(
        tool.parameters, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=dict
    )
    return len(tool.name) + len(tool.description) + len(schema) + _TOOL_CHARACTERS


def _estimates(numbers: Numbers, _limits: Limits) -> Estimates:
    return Estimates(numbers.image_tokens)


def _divide(_numbers: Numbers, limits: Limits, system_tokens: int, tools_tokens: int) -> Budget:
    reserve = _DEFAULT_MAX_TOKENS if limits.output_tokens is None else limits.output_tokens
    reserve = reserve or _ZERO_MAX_TOKENS
    return Budget(
        window_tokens=limits.window_tokens or reserve * _WINDOW_FACTOR,
        system_tokens=system_tokens,
        tools_tokens=tools_tokens,
        reserve_tokens=reserve,
        margin_tokens=0,
        history_cap_tokens=0,
    )


def _ladder(numbers: Numbers, limits: Limits) -> tuple[Stage, ...]:
    count = _estimates(numbers, limits)

    def tokens(projection: Projection, budget: Budget) -> int:
        return _request_tokens(projection, budget, count)

    def cut_summary(projection: Projection, budget: Budget) -> Outcome:
        """Make a summary fit that one transcript made too long."""
        return _fitting(
            projection, tokens(projection, budget) - budget.window_tokens, floor=_SUMMARY_FLOOR
        ), ()

    def refuse(projection: Projection, budget: Budget) -> Outcome:
        projection = _fitting(
            projection, tokens(projection, budget) - budget.window_tokens, floor=0
        )
        if tokens(projection, budget) > budget.window_tokens:
            raise _does_not_fit(size_tokens(projection, projection.messages, count), budget)
        return projection, ()

    trim = trim_turns(cost=tokens, limit=lambda budget: budget.window_tokens, estimator=count)
    return (sanitise(count), cut_summary, trim, refuse)


def _request_tokens(projection: Projection, budget: Budget, count: Estimates) -> int:
    """Return everything that has to fit. The summary is in the system prompt."""
    extra = _SECTIONS + _HEADING + "\n\n" + projection.whole_summary
    # 1: of two floored parts, where their sum is floored once
    summary = _tokens(len(extra) + _MESSAGE_CHARACTERS) + 1 if projection.whole_summary else 0
    fixed = budget.system_tokens + budget.tools_tokens + budget.reserve_tokens
    return fixed + summary + size_tokens(projection, projection.messages, count)


def _older(numbers: Numbers, limits: Limits, projection: Projection, budget: Budget) -> int:
    history, messages = (
        projection.blocks[: projection.current],
        _flat(projection, projection.current),
    )
    used = size_tokens(projection, messages, _estimates(numbers, limits))
    if len(messages) <= numbers.summarize_message_threshold and (
        used <= budget.window_tokens * numbers.summarize_token_percent // 100
    ):
        return 0
    keep = numbers.summarize_keep_messages
    if len(messages) <= keep:
        return 0
    return block_at(history, safe_boundary(history, len(messages) - keep))


def _between(numbers: Numbers, limits: Limits) -> tuple[Stage, ...]:
    def summarise(projection: Projection, budget: Budget) -> Outcome:
        if projection.summary:  # once after a turn
            return projection, ()
        cut = _older(numbers, limits, projection, budget)
        summary = digest(_flat(projection, cut), budget.window_tokens, numbers)
        if not summary:
            return projection, ()
        count = _estimates(numbers, limits)
        projection = replace(projection, summary=summary)
        return remove(
            projection, range(cut), disposition="summarised", stage="summarise", estimator=count
        )

    return (summarise,)


def _flat(projection: Projection, end: int) -> tuple[AnyMessage, ...]:
    """Return the messages of the blocks before `end`."""
    return replace(projection, blocks=projection.blocks[:end]).messages


def digest(messages: Iterable[AnyMessage], window_tokens: int, numbers: Numbers) -> str:
    """Return the summary that needs no model: how each user and assistant message begins."""
    spoken = [message for message in messages if isinstance(message, UserMessage | Reply)]
    fitting = [m for m in spoken if size_bytes(m.text) // 2 <= window_tokens // 2]
    if not fitting:
        return ""
    is_long = len(fitting) > numbers.summarize_batch_messages
    middle = _nearest_user(fitting, len(fitting) // 2) if is_long else 0
    if middle > 0:
        text = f"{_batch(fitting[:middle], numbers)} {_batch(fitting[middle:], numbers)}"
    else:
        text = _batch(fitting, numbers)
    return text + OMITTED if len(fitting) < len(spoken) else text


def _nearest_user(messages: Sequence[UserMessage | Reply], middle: int) -> int:
    """Return the last user message up to `middle`, else the first after it, else `middle`."""
    users = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
    before = [index for index in users if index <= middle]
    return before[-1] if before else next(iter(users), middle)


def _batch(messages: Sequence[UserMessage | Reply], numbers: Numbers) -> str:
    begun = " | ".join(_beginning(message, numbers) for message in messages)
    return f"Conversation summary: {begun}"


def _beginning(message: UserMessage | Reply, numbers: Numbers) -> str:
    role = "user" if isinstance(message, UserMessage) else "assistant"
    text = message.text.strip()
    keep = max(len(text) * numbers.digest_percent // 100, numbers.digest_characters)
    return f"{role}: {text[:keep]}{'...' if len(text) > keep else ''}"


def _fitting(projection: Projection, excess_tokens: int, *, floor: int) -> Projection:
    """Return it with the end of its summary, cheaper by so much; `floor` characters stay."""
    if excess_tokens <= 0 or len(projection.summary) <= floor:
        return projection
    # Five characters are two tokens; 5 more for what is floored.
    keep = max(len(projection.summary) - excess_tokens * 5 // 2 - 5, floor)
    return replace(projection, summary=projection.summary[len(projection.summary) - keep :])


def _does_not_fit(turn_tokens: int, budget: Budget) -> ContextDoesNotFitError:
    msg = (
        "the current turn does not fit, and messages of a running turn are never dropped: it needs"
        f" {turn_tokens:,} tokens; {budget.explain()}; send less at once, shorten the prompt, lower"
        " max_output_tokens or choose a model with a larger window"
    )
    return ContextDoesNotFitError(msg)


def _prompt(system: str, summary: str) -> str:
    if not summary:
        return system
    return _SECTIONS.join(part for part in (system, f"{_HEADING}\n\n{summary}") if part)


def _outlook(numbers: Numbers, now: ContextUsage) -> Iterator[str]:
    budget, count = now.budget, numbers.summarize_message_threshold
    share = budget.window_tokens * numbers.summarize_token_percent // 100
    if now.summarises:
        yield (
            f"after a turn, all but the newest {numbers.summarize_keep_messages:,} messages are"
            f" summarised above {count:,} messages ({now.history_messages:,} now) or {share:,}"
            f" tokens of history ({now.history:,} now)"
        )
    used = now.fixed + budget.reserve_tokens + now.messages
    yield due_from("whole oldest turns leave a request", budget.window_tokens, used)


POLICY = Policy(
    name="picoclaw",
    numbers=Numbers(),
    estimator=_estimates,
    divide=_divide,
    overflow=lambda numbers, limits: halve(_estimates(numbers, limits)),
    overflow_tries=lambda numbers: numbers.overflow_retries,
    summary_timeout_s=lambda numbers: numbers.summarize_timeout_seconds,
    summary_tries=lambda numbers: numbers.summarize_tries,
    between=_between,
    ladder=_ladder,
    older=_older,
    prompt=_prompt,
    outlook=_outlook,
)
