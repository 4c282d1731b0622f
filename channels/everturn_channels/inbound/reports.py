"""What a session is and what stands in its context, as Markdown for people in a chat."""

from __future__ import annotations

from collections.abc import Iterator

from everturn_actors.context.report import ContextReport, percent_of
from everturn_actors.model import Usage
from everturn_actors.service import Compacted
from everturn_actors.state.session_state import SessionState
from everturn_channels.languages import said, t
from everturn_channels.money import dollars

_NAME, _TOKENS = 8, 10  # columns


def status_text(state: SessionState, *, in_queue: bool = False) -> str:
    """Return what a session is doing, and what it has used so far.

    Args:
        state: Of the session.
        in_queue: Whether its model call waits until the model has room for it. For what exactly
            is the operator's affair: it names addresses.
    """
    lines = [f"**{t('Session')}** `{state.session_id}`", _turns(state)]
    if in_queue:
        lines.append(t("The model is busy with others: the next call to it waits for its turn"))
    outage = state.open_turn.outage if state.open_turn else None
    if outage is not None:
        lines.append(t("The model is {state}", state=outage.described))
    if state.waiting:
        lines.append(
            t.plural("Waiting: {count} message", "Waiting: {count} messages", len(state.waiting))
        )
    asked = len(state.open_approvals)
    if asked:
        lines.append(
            t.plural(
                "Approvals: {count} question waits for an answer",
                "Approvals: {count} questions wait for an answer",
                asked,
            )
        )
    lines += _used(state.usage)
    return "\n".join(f"- {line}" if index else line for index, line in enumerate(lines))


def context_text(report: ContextReport) -> str:
    """Return what the next request would hold, and what is hidden from it."""
    window = report.window_tokens
    level = f", {said(report.level)}" if report.level != "green" else ""
    used = (
        t(
            "{used} of {window} tokens, {percent} %",
            used=report.used_tokens,
            window=window,
            percent=report.percent,
        )
        if window
        else t("{used} tokens, the window is not known", used=report.used_tokens)
    )
    policy, model = f"`{report.policy}`", f"`{report.model}`"
    lines = [
        f"**{t('Context')}**: {used}{level if window else ''}",
        t("Policy {policy}, model {model}", policy=policy, model=model),
        "```",
        *(_region(region.name, region.tokens, window) for region in report.regions),
        "```",
        t("Messages: {text}", text=_messages(report)),
    ]
    summary = report.summary
    if summary:
        by = t("by a model") if summary.source == "model" else t("by how each of them began")
        lines.append(
            t.plural(
                "Summary: {count} message up to turn {turn}, {by}",
                "Summary: {count} messages up to turn {turn}, {by}",
                summary.messages,
                turn=summary.last_turn,
                by=by,
            )
        )
    lines += [t("Next: {text}", text=sentence) for sentence in report.next]
    lines += [t("Note: {text}", text=sentence) for sentence in report.notes]
    return "\n".join(lines)


def compacted_text(compacted: Compacted) -> str:
    """Return what became of the request for a summary."""
    if not compacted.done and compacted.tokens_before:
        return t(
            "Nothing was changed: with a summary of its oldest messages the next prompt would be no"
            " smaller than it is, about {count} tokens.",
            count=compacted.tokens_before,
        )
    if not compacted.done:
        return said(compacted.text)
    by = t("by a model") if compacted.source == "model" else t("by how each of them began")
    done = t.plural(
        "The oldest message is summarised {by}: {before} tokens before, {after} after.",
        "The oldest {count} messages are summarised {by}: {before} tokens before, {after} after.",
        compacted.messages,
        by=by,
        before=compacted.tokens_before,
        after=compacted.tokens_after,
    )
    if not compacted.text:
        return done
    why = compacted.text.partition(": ")[2]
    return f"{done}\n{t('No model could write the summary: {reason}', reason=why)}"


def _turns(state: SessionState) -> str:
    turn = state.open_turn
    if turn is not None:
        doing = t("turn {turn} is running, step {step}", turn=turn.number, step=len(turn.steps) + 1)
    else:
        doing = t("nothing is running")
    paused = f", {t('paused')}" if state.status == "paused" else ""
    return f"{t('Turns: {count}', count=state.turns)}, {doing}{paused}"


def used_text(usage: Usage) -> str:
    """Return the tokens of a conversation, and what they cost where that is known."""
    return "\n".join(_used(usage))


def _used(usage: Usage) -> list[str]:
    if not usage.input_tokens and not usage.output_tokens:
        return [t("Tokens: none reported yet")]
    counts = {"input": usage.input_tokens, "output": usage.output_tokens}
    tokens = t("Tokens: {input} in, {output} out", **counts)
    if usage.cached_tokens:
        tokens = t(
            "Tokens: {input} in ({cached} of them from a cache), {output} out",
            cached=usage.cached_tokens,
            **counts,
        )
    if not usage.cost_nanodollars:
        return [tokens]
    return [tokens, t("Cost: {cost}", cost=dollars(usage.cost_nanodollars))]


def _region(name: str, tokens: int, window: int) -> str:
    percent = f"{percent_of(tokens, window):>5,} %" if window else ""
    return f"{name:<{_NAME}}{tokens:>{_TOKENS},}{percent}"


def _messages(report: ContextReport) -> str:
    dispositions = ", ".join(_dispositions(report))
    counts = {"shown": report.shown_messages, "hidden": report.hidden_messages}
    return t("{shown} shown, {hidden} hidden", **counts) + (
        f" ({dispositions})" if dispositions else ""
    )


def _dispositions(report: ContextReport) -> Iterator[str]:
    for disposition, count in report.by_disposition.items():
        if disposition != "kept":
            yield f"{count:,} {said(disposition)}"
