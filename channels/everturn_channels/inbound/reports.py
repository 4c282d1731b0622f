"""What a session is and what stands in its context, as Markdown for people in a chat. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from everturn_actors.context.report import ContextReport, percent_of
from everturn_actors.model import Usage
from everturn_actors.service import Compacted
from everturn_actors.state.session_state import SessionState
from everturn_channels.money import dollars

_NAME, _TOKENS = 8, 10  # columns


def status_text(state: SessionState, *, in_queue: bool = False) -> str:
    """Return what a session is doing, and what it has used so far.

    Args:
        state: Of the session.
        in_queue: Whether its model call waits until the model has room for it. For what exactly
            is the operator's affair: it names addresses.
    """
    lines = [f"**Session** `{state.session_id}`", _turns(state)]
    if in_queue:
        lines.append("The model is busy with others: the next call to it waits for its turn")
    outage = state.open_turn.outage if state.open_turn else None
    if outage is not None:
        lines.append(f"The model is {outage.described}")
    if state.waiting:
        lines.append(f"Waiting: {_count(len(state.waiting), 'message')}")
    asked = len(state.open_approvals)
    if asked:
        waits = "waits" if asked == 1 else "wait"
        lines.append(f"Approvals: {_count(asked, 'question')} {waits} for an answer")
    lines.append(_used(state.usage))
    if state.usage.cost_nanodollars:
        lines.append(f"Cost: {dollars(state.usage.cost_nanodollars)}")
    return "\n".join(f"- {line}" if index else line for index, line in enumerate(lines))


def context_text(report: ContextReport) -> str:
    """Return what the next request would hold, and what is hidden from it."""
    window = report.window_tokens
    of = f" of {window:,}" if window else ""
    level = f", {report.level}" if report.level != "green" else ""
    share = f", {report.percent} %{level}" if window else ", the window is not known"
    lines = [
        f"**Context**: {report.used_tokens:,}{of} tokens{share}",
        f"Policy `{report.policy}`, model `{report.model}`",
        "```",
        *(_region(region.name, region.tokens, window) for region in report.regions),
        "```",
        f"Messages: {_messages(report)}",
    ]
    summary = report.summary
    if summary:
        by = "by a model" if summary.source == "model" else "by how each of them began"
        told = f"{_count(summary.messages, 'message')} up to turn {summary.last_turn:,}, {by}"
        lines.append(f"Summary: {told}")
    lines += [f"Next: {sentence}" for sentence in report.next]
    lines += [f"Note: {sentence}" for sentence in report.notes]
    return "\n".join(lines)


def compacted_text(compacted: Compacted) -> str:
    """Return what became of the wish for a summary."""
    if not compacted.done:
        return compacted.text
    who = "a model" if compacted.source == "model" else "how each of them began"
    are = "message is" if compacted.messages == 1 else f"{compacted.messages:,} messages are"
    done = (
        f"The oldest {are} summarised by {who}:"
        f" {compacted.tokens_before:,} tokens before, {compacted.tokens_after:,} after."
    )
    return f"{done}\n{compacted.text}" if compacted.text else done


def _turns(state: SessionState) -> str:
    turn = state.open_turn
    if turn is not None:
        doing = f"turn {turn.number:,} is running, step {len(turn.steps) + 1:,}"
    else:
        doing = "nothing is running"
    paused = ", paused" if state.status == "paused" else ""
    return f"Turns: {state.turns:,}, {doing}{paused}"


def _used(usage: Usage) -> str:
    if not usage.input_tokens and not usage.output_tokens:
        return "Tokens: none reported yet"
    cached = f" ({usage.cached_tokens:,} of them from a cache)" if usage.cached_tokens else ""
    return f"Tokens: {usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out"


def _region(name: str, tokens: int, window: int) -> str:
    percent = f"{percent_of(tokens, window):>5,} %" if window else ""
    return f"{name:<{_NAME}}{tokens:>{_TOKENS},}{percent}"


def _messages(report: ContextReport) -> str:
    hidden = f"{report.hidden_messages:,} hidden"
    fates = ", ".join(_fates(report))
    return f"{report.shown_messages:,} shown, {hidden}" + (f" ({fates})" if fates else "")


def _fates(report: ContextReport) -> Iterator[str]:
    for disposition, count in report.by_disposition.items():
        if disposition != "kept":
            yield f"{count:,} {disposition}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
