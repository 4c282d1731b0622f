"""What a person at a terminal sees while an answer streams, and what their keys decide."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.tables import table

from everturn_actors.events import (
    ApprovalAsked,
    ApprovalDecided,
    Body,
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    Received,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import Inquiry, ToolCall
from everturn_actors.service import TextDelta, Update
from everturn_channels.terminal.live.calls import Calls
from everturn_channels.terminal.live.display import Painter
from everturn_channels.terminal.live.images import picture, protocol_of
from everturn_channels.terminal.live.markdown import Look, Part, StreamedMarkdown, render
from everturn_channels.terminal.live.questions import OpenQuestions
from everturn_channels.terminal.live.status_line import Facts, status_line
from everturn_channels.terminal.live.turns import OpenTurns
from everturn_channels.terminal.live.view import View

AT = datetime(2026, 1, 2, tzinfo=UTC)
PLAIN = Look(colour=False, styles=False)
BASH = ToolCall(call_id="c1", name="bash", arguments='{"command": "ls -la"}')
BLOCKS = st.sampled_from(
    (
        "A paragraph\nof two lines.\n\n",
        "# Heading\n",
        "- one\n- two\n  - nested\n",
        "3. three\n4. four\n\n",
        "```python\nx = 1\n\ny = 2\n```\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
        "> quote\n\n",
        "    indented\n\n    code\n\n",
        "text\n---\n",
        "<div>html</div>\n\n",
        "[ref]: https://example.org\n\n",
        "~~~\nnever closed\n",
        "no line end",
    )
)


def event(body: Body, seq: int = 1, *, after_s: int = 0) -> Event:
    """Return an event."""
    return Event(seq=seq, at=AT + timedelta(seconds=after_s), body=body)


def shown(updates: Iterable[Update], *, columns: int = 60) -> str:
    """Return what stands in the scrollback after `updates`."""
    view, painter = View(), Painter(PLAIN)
    text = ""
    for update in updates:
        view.read(update)
        text += painter.paint(view.take(), columns=columns)
    view.end()
    return text + painter.paint(view.take(), columns=columns)


@given(st.lists(BLOCKS, max_size=6).map("".join), st.lists(st.integers(1, 9), max_size=40))
def test_markdown_that_streams_is_cut_into_parts_that_hold_all_of_it(
    text: str, pieces: list[int]
) -> None:
    """However a reply is cut on its way, nothing of it is lost, said twice or moved."""
    streamed, taken, at = StreamedMarkdown(), "", 0
    for length in (*pieces, len(text)):
        streamed.add(text[at : at + length])
        at += length
        taken += "".join(part.source for part in streamed.take())
        assert text.startswith(taken)
    taken += "".join(part.source for part in streamed.end())

    assert taken.strip() == text.strip()


@table(
    "text, parts, rest",
    [
        ("Some wor", [], "Some wor"),
        ("May go on\n", [], "May go on\n"),
        ("A blank line\n\n", ["A blank line\n"], "\n"),
        ("Another block\n# Head\n", ["Another block\n"], "# Head\n"),
        ("- a\n- b\n- c", ["- a\n"], "- b\n- c"),
        ("```\nopen\n\ny\n", [], "```\nopen\n\ny\n"),
        ("```\nclosed\n```\n\n", ["```\nclosed\n```\n"], "\n"),
        ("|open|\n|-|\n|1|\n", [], "|open|\n|-|\n|1|\n"),
        ("    code\n\n", [], "    code\n\n"),
    ],
)
def test_blocks_are_shown_as_soon_as_they_are_over(text: str, parts: list[str], rest: str) -> None:
    """Who reads along sees items and paragraphs stand still; a table comes whole."""
    streamed = StreamedMarkdown()
    streamed.add(text)

    assert [part.source for part in streamed.take()] == parts
    assert streamed.rest == rest


def test_what_comes_in_pieces_has_one_gap_between_blocks() -> None:
    """Not one for the end of a paragraph, and one for the blank line that comes later."""
    streamed = StreamedMarkdown()
    parts: list[Part] = []
    for piece in "Plans:\n\n|a|\n|-|\n|1|\n\n- x\n\n- y\n\nEnd\n":
        streamed.add(piece)
        parts += streamed.take()

    shown = [part.source.strip() for part in (*parts, *streamed.end())]

    assert shown == ["Plans:", "|a|\n|-|\n|1|", "- x", "- y", "End"]


def test_nothing_of_a_reply_is_hidden_and_lines_are_as_wide_as_the_terminal() -> None:
    """HTML, addresses and definitions are shown; escape sequences do nothing; words stay whole."""
    source = (
        "<div>html</div>\n\n[a link](https://example.org/x) ![cat](https://c.at/1.png)\n\n"
        "[ref]: https://example.org/ref\n\n\x1b]0;title\x07evil\n\n"
        "| name | what |\n|---|---|\n| tea | " + "a long drink " * 9 + "|\n\n"
        "```python\nprint('" + "x" * 90 + "')\n```\n\n" + "some words that wrap " * 9
    )
    plain = ""
    for columns in (20, 40, 79):
        plain = render(source, columns=columns, look=PLAIN)
        assert max(map(len, plain.split("\n"))) <= columns
        for kept in ("<div>html</div>", "a link", "cat", "[ref]:", "]0;titleevil", "drink"):
            assert kept in plain
    coloured = render(source, columns=60, look=Look())

    assert "\x1b" not in plain
    assert set(re.findall(r"\x1b(.)", coloured)) == {"["}  # colours, and nothing else
    assert "┌" not in render(source, columns=60, look=Look(styles=False, encoding="ascii"))


def test_calls_are_one_line_each_and_unfold() -> None:
    """A call is seen at a glance, and whole where somebody wants it."""
    result = "\n".join(map(str, range(40)))
    updates: list[Update] = [
        TextDelta(turn=1, step=1, offset=0, text="Let me look."),
        event(ModelReplied(text="Let me look.", calls=(BASH,))),
        event(CallStarted(call_id="c1")),
        event(CallFinished(call_id="c1", text=result), after_s=3),
        event(ModelReplied(text="Done.")),
    ]
    calls = Calls()
    for update in updates[:3]:
        calls.read(update)
    running = calls.running(AT + timedelta(seconds=2))
    for update in updates[3:]:
        calls.read(update)
    (whole,) = calls.show(1)

    assert shown(updates) == "Let me look.\n  ▸ 1 bash ls -la · 40 lines · 3 s\nDone.\n"
    assert running == ("  … bash ls -la · 2 s",)
    assert "command: ls -la" in whole.text
    assert whole.text.endswith("│ 39")


def test_what_failed_and_who_else_writes_is_shown() -> None:
    """A turn that ended without an answer says so, below what was said until then."""
    updates: list[Update] = [
        event(Received(text="Hello", sender="ann")),
        event(ModelReplied(text="", calls=(BASH,))),
        event(CallFinished(call_id="c1", text="no such\x1b file\nat all", is_error=True)),
        TextDelta(turn=1, step=2, offset=0, text="So far"),
        event(TurnFinished(turn=1, outcome="cancelled")),
    ]

    assert shown(updates) == (
        "ann: Hello\n  ▸ 1 bash ls -la · failed: no such file\nSo far\n(cancelled)\n"
    )


def test_a_key_answers_the_oldest_question_and_no_other_one() -> None:
    """What is allowed is what was shown; `always` only where it is offered."""
    questions = OpenQuestions()
    for call, pattern in (("c1", ""), ("c2", "bash:ls *")):
        asked = ApprovalAsked(call_id=call, arguments_hash=call, timeout_s=60, pattern=pattern)
        questions.read(event(asked), 1.0)
    first = [questions.pressed(key) for key in "any"]
    questions.read(event(ApprovalDecided(call_id="c1", decision="deny")), 9.0)
    second, now = questions.pressed("a"), questions.asked

    assert [(each.call_id, each.decision) if each else None for each in first] == [
        None,
        ("c1", "deny"),
        ("c1", "allow_once"),
    ]
    assert second is not None
    assert (second.call_id, second.arguments_hash, second.decision) == ("c2", "c2", "allow_always")
    assert now is not None
    assert now.since_s == 9.0  # a key meant for the first question is none for the second
    assert "[a]lways bash:ls *" in now.text


def test_what_an_agent_asks_is_answered_by_a_number_or_a_text() -> None:
    """A choice takes one key; words are an answer only where words are wanted."""
    for takes_text, typed in ((True, "green"), (False, None)):
        questions = OpenQuestions()
        inquiry = Inquiry(text="Which?", choices=("Red", "Blue"), takes_text=takes_text)
        asked = ApprovalAsked(call_id="c", arguments_hash="", timeout_s=60, inquiry=inquiry)
        questions.read(event(asked), 1.0)
        by_key, by_text = questions.pressed("2"), questions.typed("green")

        assert by_key is not None
        assert by_key.answer == "2"
        assert questions.pressed("3") is None
        assert (by_text.answer if by_text else None) == typed


def test_something_is_under_way_from_the_message_to_the_end_of_its_turn() -> None:
    """Ctrl-C stops what runs, and leaves where nothing does."""
    turns = OpenTurns()
    busy = []
    for each in (
        event(Received(text="a"), 5),
        event(TurnStarted(turn=1, window_messages=100, received=(5,)), 6),
        event(Received(text="b"), 7),
        event(TurnFinished(turn=1, outcome="answered"), 8),
        event(TurnStarted(turn=2, window_messages=100, received=(7,)), 9),
        event(TurnFinished(turn=2, outcome="answered"), 10),
    ):
        turns.read(each)
        busy.append(turns.is_busy)

    assert busy == [True] * 5 + [False]


def test_the_line_below_the_prompt_fits() -> None:
    """In a narrow terminal the line says what goes on, and leaves out the rest."""
    facts = Facts(agent="helper", model="gpt", percent=50, cost_nanodollars=2_000_000)
    wide = status_line(facts, "answering 3 s", columns=90, bars=("#", "."))

    assert wide == "answering 3 s - helper - ####.... 50 % - $0.0020 - gpt"
    assert status_line(facts, "answering 3 s", columns=24) == "answering 3 s · helper"


def test_pictures_are_sent_to_terminals_that_show_them() -> None:
    """Elsewhere a line of the file says enough; nothing of a picture can be a command."""
    png = b"\x89PNG\r\n\x1a\n" + b"\x1b]0;x\x07" * 2000
    assert protocol_of({"KITTY_WINDOW_ID": "1"}) == "kitty"
    assert protocol_of({"TERM_PROGRAM": "iTerm.app"}) == "iterm"
    assert protocol_of({"TERM_PROGRAM": "iTerm.app", "TMUX": "x"}) == ""
    assert protocol_of({"TERM": "xterm-256color"}) == ""
    assert picture(png, "") == picture(b"GIF89a", "kitty") == picture(b"", "iterm") == ""
    assert picture(png, "iterm").count("\x1b") == 1
    assert re.fullmatch(r"(\x1b_G[^\x1b]*\x1b\\)+\n", picture(png, "kitty"))
