"""The texts that people get: each says what to do next, and none says what others put into it."""

from __future__ import annotations

from typing import get_args

from markdown_it import MarkdownIt
from support.tables import table

from everturn_actors.model import Decision, Outcome, Resolution
from everturn_channels import texts
from everturn_channels.keeping import KnownNote, memory_text, note_hidden, note_source
from everturn_channels.languages import ready, speaking
from everturn_channels.texts import BUTTONS


def _shown(markdown: str) -> str:
    """Return the HTML of a text, as a careful reader of Markdown makes it."""
    return str(MarkdownIt("commonmark", {"html": True}).render(markdown))


def test_a_stranger_learns_what_lets_them_in() -> None:
    """Nobody should have to look up ids."""
    # A stranger learns the one command that lets them in. Nobody should have to look up ids.
    assert "<code>everturn pair approve AB2CD3EF\n</code>" in _shown(texts.no_access("AB2CD3EF"))

    # Without a code a stranger learns their id and where it belongs. R22: the reply tells the
    # operator what to set.
    text = texts.no_access(sender_id="42")

    assert "`42`" in text
    assert "spec.access.dm.allowlist" in text
    assert "pair approve" not in text
    assert "`" not in texts.no_access()


def test_an_owners_own_words_are_used_for_a_full_queue() -> None:
    """`reject_message` is a setting."""
    assert texts.queue_full("Later!") == "Later!"
    assert "send it again" in texts.queue_full("")


@table(
    ("count", "why", "part"),
    [
        (1, "", "1 message that was written here meanwhile I did not read."),
        (3, "older than 24 hours", "3 messages that were written here meanwhile I did not read"),
    ],
)
def test_a_chat_learns_what_was_not_read(count: int, why: str, part: str) -> None:
    """A message that vanished without a word is asked about for days."""
    text = texts.not_read(count, why)

    assert part in text
    assert why in text


@table("outcome", get_args(Outcome))
def test_every_turn_without_an_answer_says_so(outcome: Outcome) -> None:
    """Silence is the one answer that nobody understands."""
    text = texts.turn_ended(outcome, "the model is down")

    assert bool(text) == (outcome != "answered")
    assert ("the model is down" in text) == (outcome == "failed")


@table("resolved", get_args(Resolution))
def test_a_button_that_is_pressed_too_late_says_so(resolved: Resolution) -> None:
    """Whoever clicked it waits for something to happen."""
    assert texts.click_late(resolved).startswith("Too late")


def test_every_decision_has_a_button() -> None:
    """What cannot be clicked cannot be decided."""
    assert set(BUTTONS) == set(get_args(Decision))


@table(
    "evil",
    [
        "**x** [a](http://e.vil) `b`",
        "<b>x</b>",
        "# x\n\n- y",
        "``` ",
        "a\\*b",
        "<@1> @all",
        "- y",
        "1. y",
        "1) y",
        "+ y",
    ],
)
def test_what_others_say_formats_nothing(evil: str) -> None:
    """An error text or a name must not be able to put a link into our mouth."""
    said = [
        texts.turn_ended("failed", evil),
        texts.nothing_to_read(evil),
        texts.unknown_command(evil),
        texts.start_text(evil, evil),
        texts.no_access(sender_id=evil),
        texts.not_read(2, evil),
    ]

    for text in said:
        shown = _shown(text)
        assert "<a " not in shown
        assert "<b>" not in shown
        assert "<h1>" not in shown
        assert "<ul>" not in shown
        assert "<ol>" not in shown
        assert shown.count("<strong>") == text.count("Hello, I am **")


@table(
    ("limit", "words"),
    [(20 * 1024 * 1024, "larger than 20 MB"), (1536, "larger than 1.5 KB"), (9, "than 9 bytes")],
)
def test_a_limit_is_told_in_words(limit: int, words: str) -> None:
    """20971520 helps nobody."""
    assert words in texts.too_large(limit)


@table(
    "text",
    [
        texts.no_private_chats(),
        texts.busy(),
        texts.not_kept(),
        texts.reset_done(),
        texts.reset_done(had_session=False),
        texts.stop_done(was_running=True),
        texts.stop_done(was_running=False),
        texts.no_session(),
        texts.click_refused(),
        *(texts.click_taken(decision) for decision in get_args(Decision)),
    ],
)
def test_every_text_is_a_sentence(text: str) -> None:
    """They are read by people who know nothing of the gateway."""
    assert text[0].isupper()
    assert text.endswith(".")
    assert len(text) < 200


async def test_what_tools_did_is_told_in_the_language_that_is_spoken() -> None:
    """Also the reasons, which tools give in English; names stay as they are."""
    left = {"b.py": "it was changed since, and is left as it is", "c`d": "no space left"}
    await ready("de")
    with speaking("de"):
        source = note_source(who="ada", day="2026-11-27", message="4", session="s1", quote="grün")
        note = KnownNote(topic="tee", text="grün", source=f"{source}; {note_hidden()}")
        undone = texts.undone_text(["a.py"], left, not_kept=1)
        known = memory_text([note]).splitlines()[0]
        nothing = texts.sentence("the agent keeps no notes: spec.memory in its file gives it some")

    assert undone.splitlines() == [
        "Zurückgenommen: 1 von 3 Dateien.",
        "- wie vorher: `a.py`",
        "- `b.py`: sie wurde seither geändert und bleibt, wie sie ist",
        "- `` c`d ``: no space left",
        "Eine weitere wurde geändert und ist nicht aufbewahrt.",
    ]
    assert known == (
        "- tee: grün (ada, 2026-11-27, Nachricht 4 in s1: „grün“;"
        " nicht im Prompt, da Text von außen zu sehen war)"
    )
    assert nothing.startswith("Der Agent führt keine Notizen: ")
