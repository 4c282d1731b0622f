"""The `picoclaw` policy: summarise after a turn, drop whole turns before a call. Pure.

Three paths. After a turn: above 20 messages or 75 % of the window, all but the newest four messages
become a summary, cut where a turn begins; system prompt, tools and reserve do not count there.
Before a call: while messages + tools + reserve exceed the window, the oldest whole turn leaves; the
running turn never does, and where it alone is too large the request is refused. After an error of
the provider: `OVERFLOW`, which halves the turns.

No model is at hand here, so a summary is always the one that the system makes when its model fails:
the beginning of each message. Where the newest message is an answer the first path looks at all
messages, else at those before the running turn.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from everturn_actors.context.budget import Budget
from everturn_actors.context.policy import Limits, Policy
from everturn_actors.context.stages.cutting import (
    block_at,
    halve,
    safe_boundary,
    trim_turns,
)
from everturn_actors.context.stages.sanitising import sanitise
from everturn_actors.context.tokens import size_bytes
from everturn_actors.context.view import Outcome, Stage, View, remove, size_tokens
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
_MEDIA_TOKENS = 256
_BATCH_MESSAGES = 10  # more are summarised in two parts
_SUMMARY_FLOOR_CHARACTERS = 4_000
_DIGEST_CHARACTERS, _DIGEST_PERCENT = 200, 10  # of each message, whichever is more


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of the policy, as the agent format names them."""

    summarize_message_threshold: int = 20
    summarize_token_percent: int = 75
    summarize_keep_messages: int = 4
    summarize_timeout_seconds: float = 120
    summarize_tries: int = 3
    overflow_retries: int = 2
    "This and the two above are for whoever has a model; rendering alone has no use for them."


class Estimates:
    """Two tokens for five characters of each message, 12 of them its envelope; 256 for media."""

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
        return _tokens(characters) + media * _MEDIA_TOKENS

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


_ESTIMATES = Estimates()


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


def _ladder(numbers: Numbers, _limits: Limits) -> tuple[Stage, ...]:
    def after_turn(view: View, budget: Budget) -> Outcome:
        return _summarise(view, budget, numbers)

    trim = trim_turns(
        cost=_request_tokens, limit=lambda budget: budget.window_tokens, estimator=_ESTIMATES
    )
    return (after_turn, sanitise(_ESTIMATES), _cut_summary, trim, _refuse)


def _request_tokens(view: View, budget: Budget) -> int:
    """Return everything that has to fit. The summary is in the system prompt."""
    extra = _SECTIONS + _HEADING + "\n\n" + view.summary
    # 1: of two floored parts, where their sum is floored once
    summary = _tokens(len(extra) + _MESSAGE_CHARACTERS) + 1 if view.summary else 0
    fixed = budget.system_tokens + budget.tools_tokens + budget.reserve_tokens
    return fixed + summary + size_tokens(view, view.messages, _ESTIMATES)


def _summarise(view: View, budget: Budget, numbers: Numbers) -> Outcome:
    if view.summary:  # once after a turn
        return view, ()
    history = view.blocks[: view.current]
    messages = _flat(view, view.current)
    limit = budget.window_tokens * numbers.summarize_token_percent // 100
    if (
        len(messages) <= numbers.summarize_message_threshold
        and size_tokens(view, messages, _ESTIMATES) <= limit
    ):
        return view, ()
    if len(messages) <= numbers.summarize_keep_messages:
        return view, ()
    cut = block_at(history, safe_boundary(history, len(messages) - numbers.summarize_keep_messages))
    summary = digest(_flat(view, cut), budget.window_tokens)
    if not summary:
        return view, ()
    view = replace(view, summary=summary)
    return remove(view, range(cut), fate="summarised", stage="summarise", estimator=_ESTIMATES)


def _flat(view: View, end: int) -> tuple[AnyMessage, ...]:
    """Return the messages of the blocks before `end`."""
    return replace(view, blocks=view.blocks[:end]).messages


def digest(messages: Iterable[AnyMessage], window_tokens: int) -> str:
    """Return the summary that needs no model: how each user and assistant message begins."""
    spoken = [message for message in messages if isinstance(message, UserMessage | Reply)]
    fitting = [m for m in spoken if size_bytes(m.text) // 2 <= window_tokens // 2]
    if not fitting:
        return ""
    if len(fitting) > _BATCH_MESSAGES:
        middle = _nearest_user(fitting, len(fitting) // 2)
        text = f"{_batch(fitting[:middle])} {_batch(fitting[middle:])}"
    else:
        text = _batch(fitting)
    return text + OMITTED if len(fitting) < len(spoken) else text


def _nearest_user(messages: Sequence[UserMessage | Reply], middle: int) -> int:
    """Return the last user message up to `middle`, else the first after it, else `middle`."""
    users = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
    before = [index for index in users if index <= middle]
    return before[-1] if before else next(iter(users), middle)


def _batch(messages: Sequence[UserMessage | Reply]) -> str:
    return "Conversation summary: " + " | ".join(map(_beginning, messages))


def _beginning(message: UserMessage | Reply) -> str:
    role = "user" if isinstance(message, UserMessage) else "assistant"
    text = message.text.strip()
    keep = max(len(text) * _DIGEST_PERCENT // 100, _DIGEST_CHARACTERS)
    return f"{role}: {text[:keep]}{'...' if len(text) > keep else ''}"


def _cut_summary(view: View, budget: Budget) -> Outcome:
    """Make a summary fit that one transcript made too long."""
    return replace(view, summary=_fitting(view, budget, _SUMMARY_FLOOR_CHARACTERS)), ()


def _fitting(view: View, budget: Budget, floor: int) -> str:
    """Return the end of the summary that fits beside the messages, and at least `floor` of it."""
    excess = _request_tokens(view, budget) - budget.window_tokens
    if excess <= 0 or len(view.summary) <= floor:
        return view.summary
    # Five characters are two tokens; 5 more for what is floored.
    keep = max(len(view.summary) - excess * 5 // 2 - 5, floor)
    return view.summary[len(view.summary) - keep :]


def _refuse(view: View, budget: Budget) -> Outcome:
    view = replace(view, summary=_fitting(view, budget, 0))
    if _request_tokens(view, budget) <= budget.window_tokens:
        return view, ()
    turn = size_tokens(view, view.messages, _ESTIMATES)
    msg = (
        f"the current turn does not fit, and messages of a running turn are never dropped: it needs"
        f" {turn:,} tokens; {budget.explain()}; send less at once, shorten the prompt, lower"
        " max_output_tokens or choose a model with a larger window"
    )
    raise ContextDoesNotFitError(msg)


def _prompt(system: str, summary: str) -> str:
    if not summary:
        return system
    return _SECTIONS.join(part for part in (system, f"{_HEADING}\n\n{summary}") if part)


OVERFLOW = halve(_ESTIMATES)
"What happens after the provider found a request too long: once for each retry."

POLICY = Policy(
    name="picoclaw",
    numbers=Numbers(),
    estimator=_ESTIMATES,
    divide=_divide,
    ladder=_ladder,
    prompt=_prompt,
)
