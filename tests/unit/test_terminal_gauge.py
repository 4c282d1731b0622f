"""A session's context as a person sees it in a terminal."""

from __future__ import annotations

from inline_snapshot import snapshot
from msgspec.structs import replace
from support.tables import table

from everturn_actors.context.report import ContextReport, Region, RegionName, SummaryReport
from everturn_actors.model import Usage
from everturn_actors.service import Compacted
from everturn_channels.money import dollars
from everturn_channels.terminal.gauge import ASCII, show_compacted, show_context
from everturn_channels.terminal.screen import Screen

TOKENS: dict[RegionName, int] = {
    "system": 1_200,
    "summary": 800,
    "history": 95_000,
    "turn": 3_100,
    "tools": 2_000,
    "reserve": 4_096,
    "margin": 6_400,
    "free": 15_404,
}
REPORT = ContextReport(
    policy="everturn",
    model="test-model",
    window_tokens=128_000,
    used_tokens=106_196,
    percent=82,
    level="yellow",
    regions=tuple(Region(name=name, tokens=tokens) for name, tokens in TOKENS.items()),
    shown_messages=412,
    hidden_messages=1_204,
    by_disposition={"cleared": 12, "summarised": 1_100, "dropped": 104},
    summary=SummaryReport(messages=1_100, last_turn=214, source="model"),
    predicted_tokens=102_100,
    reported=Usage(input_tokens=100_000, cached_tokens=87_500),
    scale=1.12,
    reports=6,
    prefix="3f9a2c1b3f9a2c1b",
    cache_misses=0,
    failures=0,
    retry_at=None,
    budget="window 128,000 - system 1,200 = 126,800 tokens for messages",
    next=("old tool results are cleared from 110,000 tokens on: 8,000 to go", "and then more"),
)


def shown(report: ContextReport, columns: int = 80, *, colour: bool = False) -> str:
    """Return what stands on a screen of so many columns."""
    written: list[str] = []
    screen = Screen(written.append, colour=colour)
    screen.show(show_context(report, columns=columns))
    return "".join(written)


def bars(report: ContextReport, columns: int = 80) -> list[str]:
    """Return the lines of the regions."""
    lines = shown(report, columns).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("system"))
    return lines[start : start + len(report.regions)]


def test_a_terminal_shows_regions_facts_and_what_comes_next() -> None:
    """One look answers how full it is, what is hidden, and what will happen."""
    assert shown(REPORT, 72).splitlines() == snapshot(
        [
            "context   everturn, test-model",
            "used      106,196 of 128,000 tokens, 82 %, yellow",
            "system        1,200   0 %  █·······································",
            "summary         800   0 %  █·······································",
            "history      95,000  74 %  █████████████████████████████···········",
            "turn          3,100   2 %  █·······································",
            "tools         2,000   1 %  █·······································",
            "reserve       4,096   3 %  █·······································",
            "margin        6,400   5 %  ██······································",
            "free         15,404  12 %  ████····································",
            "messages  412 shown (12 cleared), 1,204 hidden (1,100 summarised, 104",
            "          dropped)",
            "summary   1,100 messages up to turn 214, by a model",
            "tokens    102,100 predicted; last time 100,000 were reported, 87 % of",
            "          them from a cache",
            "scale     1.12 tokens for one estimated, learnt from 6 reports",
            "prefix    3f9a2c1b3f9a2c1b, changed without a reason 0 times",
            "budget    window 128,000 - system 1,200 = 126,800 tokens for messages",
            "next      old tool results are cleared from 110,000 tokens on: 8,000 to",
            "          go",
            "          and then more",
        ]
    )


@table("columns", [40, 41, 60, 80, 200])
def test_lines_fit_the_terminal(columns: int) -> None:
    """A line that wraps by itself breaks the bars; phones have 40 columns."""
    large = replace(REPORT, window_tokens=2_000_000, used_tokens=1_234_567, prefix="")
    for report in (REPORT, large):
        lines = shown(report, columns).splitlines()

        assert max(map(len, lines)) <= columns


def test_numbers_and_bars_end_in_the_same_column() -> None:
    """Numbers are compared by eye."""
    rows = bars(REPORT, 40)

    assert {row.index("%") for row in rows} == {24}
    assert all(row[:19].rstrip() == row[:19] for row in rows)

    # A region of few tokens is there, and one beyond the window ends at its end.
    regions = (
        Region(name="system", tokens=1),
        Region(name="summary", tokens=0),
        Region(name="history", tokens=500_000),
    )
    rows = bars(replace(REPORT, regions=regions), 46)

    assert [row[27:].count("█") for row in rows] == [1, 0, 19]
    assert {len(row[27:]) for row in rows} == {19}


def test_colours_say_nothing_that_words_do_not() -> None:
    """Not everybody sees colours, and a pipe has none."""
    red = replace(REPORT, used_tokens=120_000, percent=93, level="red")
    coloured, plain = shown(REPORT, colour=True), shown(REPORT)

    assert "\x1b" not in plain
    assert "82 %, yellow" in plain
    assert "93 %, red" in shown(red)
    assert "\x1b[33mused" in coloured
    assert "\x1b[31mused" in shown(red, colour=True)
    assert "\x1b[33mhistory" in coloured  # 74 % of the window by itself
    assert "\x1b[33mfree" not in shown(
        replace(REPORT, regions=(Region(name="free", tokens=100_000),)), colour=True
    )


def test_a_terminal_without_block_characters_gets_bars_all_the_same() -> None:
    """Question marks are no bar."""
    written: list[str] = []
    Screen(written.append, colour=False, encoding="ascii").show_context(REPORT)

    assert "".join(written).isascii()
    assert ASCII[0] * 3 in "".join(written)


def test_an_unknown_window_has_no_percentages() -> None:
    """A share of something unknown would be made up."""
    report = replace(REPORT, window_tokens=0, percent=0, level="green")

    assert "the window is not known" in shown(report)
    assert not any("%" in row for row in bars(report))


def test_names_cannot_move_the_cursor() -> None:
    """A model's name comes from a file that somebody else may have written."""
    report = replace(REPORT, model="\x1b[2Jmodel", next=("\x1b]0;title\x07",))

    assert "\x1b" not in shown(report)


def test_a_summary_is_told_in_a_line() -> None:
    """Whoever asked for it learns what it brought, or why nothing was done."""
    nothing = Compacted(done=False, text="nothing to do")
    done = Compacted(done=True, messages=1_200, tokens_before=9_000, tokens_after=900)
    digest = replace(done, source="digest", text="No model could.")

    assert show_compacted(nothing) == "nothing to do"
    assert show_compacted(done) == (
        "the oldest 1,200 messages are summarised by a model: 9,000 tokens before, 900 after"
    )
    assert show_compacted(digest) == (
        "the oldest 1,200 messages are summarised by how each of them began: 9,000 tokens before,"
        " 900 after; No model could."
    )


@table(
    ("nanodollars", "shown"),
    [
        (0, "$0.00"),
        (1, "under $0.0001"),
        (100_000, "$0.0001"),
        (123_456_789, "$0.1235"),
        (1_000_000_000, "$1.00"),
        (1_234_567_891_234, "$1,234.57"),
    ],
)
def test_a_cost_is_short_and_never_nothing_where_there_was_some(
    nanodollars: int, shown: str
) -> None:
    """A cent after a cent adds up."""
    assert dollars(nanodollars) == shown
