"""A session's context as lines that a person reads: a bar for each region, then the facts. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from everturn_actors.context.report import ContextReport, level_of, percent_of
from everturn_actors.service import Compacted
from everturn_channels.names import clean
from everturn_channels.terminal.reply import Piece, Style

BLOCKS: Final = ("█", "·")
ASCII: Final = ("#", ".")
"What bars are made of: the full part and the rest."

_NAME, _TOKENS, _PERCENT = 10, 9, 6  # columns
_BAR_MIN, _BAR_MAX = 5, 40
_COLUMNS_MIN = 30  # narrower than that, lines are wrapped by the terminal itself
_STYLES: Final[dict[str, Style]] = {"green": "plain", "yellow": "warning", "red": "error"}
_QUIET: Final = ("margin", "free")  # full is what they should be


def show_context(
    report: ContextReport, *, columns: int, bars: tuple[str, str] = BLOCKS
) -> tuple[Piece, ...]:
    """Return the report as whole lines, none longer than `columns` where that is possible.

    Nothing depends on colour: the level stands in the first line.
    """
    columns = max(columns, _COLUMNS_MIN)
    window = report.window_tokens
    of = f" of {window:,}" if window else ", the window is not known"
    level = f", {report.level}" if report.level != "green" else ""
    shown = f"{report.used_tokens:,}{of} tokens, {report.percent} %{level}"
    pieces = [
        *_fact("context", f"{clean(report.policy)}, {clean(report.model)}", columns),
        *_fact("used", shown, columns, _STYLES[report.level]),
    ]
    for region in report.regions:
        row = _row(region.name, region.tokens, window, columns, bars)
        level = level_of(region.tokens, window)
        style = "plain" if region.name in _QUIET else _STYLES[level]
        pieces.append(_line(row, style))
    for name, text in _details(report):
        pieces += _fact(name, text, columns)
    return tuple(pieces)


def show_compacted(compacted: Compacted) -> str:
    """Return what became of the request for a summary, in a line."""
    text = clean(compacted.text)
    if not compacted.done:
        return text
    who = "a model" if compacted.source == "model" else "how each of them began"
    done = (
        f"the oldest {compacted.messages:,} messages are summarised by {who}:"
        f" {compacted.tokens_before:,} tokens before, {compacted.tokens_after:,} after"
    )
    return f"{done}; {text}" if text else done


def _details(report: ContextReport) -> Iterator[tuple[str, str]]:
    """Yield a name and a text for each further fact."""
    yield "messages", _messages(report)
    summary = report.summary
    if summary:
        by = "by a model" if summary.source == "model" else "by how each of them began"
        yield "summary", f"{summary.messages:,} messages up to turn {summary.last_turn:,}, {by}"
    yield "tokens", _tokens(report)
    observed = (
        f"learnt from {report.reports:,} reports" if report.reports else "a guess by its name"
    )
    yield "scale", f"{report.scale:g} tokens for one estimated, {observed}"
    yield (
        "prefix",
        f"{report.prefix or '-'}, changed without a reason {report.cache_misses:,} times",
    )
    yield "budget", report.budget
    for index, sentence in enumerate(report.next):
        yield "" if index else "next", sentence
    for index, sentence in enumerate(report.notes):
        yield "" if index else "note", sentence


def _messages(report: ContextReport) -> str:
    counts = dict(report.by_disposition)
    gone = [
        f"{counts.pop(disposition):,} {disposition}"
        for disposition in ("summarised", "dropped")
        if disposition in counts
    ]
    parts = [f"{count:,} {disposition}" for disposition, count in counts.items()]
    shown = f"{report.shown_messages:,} shown"
    shown += f" ({', '.join(parts)})" if parts else ""
    hidden = f"{report.hidden_messages:,} hidden"
    return f"{shown}, {hidden}" + (f" ({', '.join(gone)})" if gone else "")


def _tokens(report: ContextReport) -> str:
    predicted, usage = f"{report.predicted_tokens:,} predicted", report.reported
    if not usage.input_tokens:
        return f"{predicted}, none reported yet"
    share = percent_of(usage.cached_tokens, usage.input_tokens)
    return (
        f"{predicted}; last time {usage.input_tokens:,} were reported,"
        f" {share} % of them from a cache"
    )


def _row(name: str, tokens: int, window: int, columns: int, bars: tuple[str, str]) -> str:
    percent = f"{percent_of(tokens, window):,} %" if window else ""
    head = f"{name:<{_NAME}}{tokens:>{_TOKENS},}{percent:>{_PERCENT}}"
    room = min(columns - len(head) - 2, _BAR_MAX)
    if room < _BAR_MIN or not window:
        return head
    full = min(max(tokens * room // window, tokens > 0), room)  # what is there at all is seen
    return f"{head}  {bars[0] * full}{bars[1] * (room - full)}"


def _fact(name: str, text: str, columns: int, style: Style = "plain") -> Iterator[Piece]:
    """Yield lines with the name in front of the first, and blanks in front of the others."""
    for index, line in enumerate(wrap(clean(text), columns - _NAME) or [""]):
        yield _line(f"{'' if index else name:<{_NAME}}{line}".rstrip(), style)


def _line(text: str, style: Style) -> Piece:
    return Piece(style=style, text=text)
