"""Patterns and command lines under random texts: no text allows more than it says."""

from __future__ import annotations

import re
import shlex

from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples
from support.policies import allows, command, denies

from everturn_gateway.tools.policy import exact_pattern, read_pattern
from everturn_gateway.tools.policy.commands.analysis import analyse
from everturn_gateway.tools.policy.commands.words import loose_word

globs = st.text(alphabet="ab *\\:", min_size=1, max_size=12).filter(str.strip)
flat = st.text(alphabet="ab *\\:", max_size=16)
words = st.text(
    alphabet=st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp", "Cn", "Co")),
    max_size=12,
)
PIECES = (
    "ok", "bad", " ", " ", "\n", ";", "&&", "||", "|", "&", "'", '"', "`", "$(", "${", "$((",
    "(", ")", "{", "}", "$x", "$@", "\\", "\\\n", "#", "!", "<", ">", "<<E\n", "\nE\n", "<<<",
    "2>&1", ">/dev/null", "=", "*", "~", "if ", "then ", "fi", "for f in ", "do ", "done",
    "while ", "case x in ", "esac", ";;", "time ", "eval ", "$'", "\\x6f", "\t", "\r", "\x0b",
    "\u00a0", "\u200b", "[[ ", " ]]", "()", "x=", "ok a", "ok $(ok)", "{ ok; }",
)  # fmt: skip
lines = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)
begun = st.lists(st.sampled_from(PIECES), max_size=5).map(lambda more: "ok a" + "".join(more))
"Of which half are allowed; of `lines` hardly any."


@given(globs, flat)
def test_a_glob_matches_as_its_plain_meaning_says(glob: str, text: str) -> None:
    """The linear matcher against the obvious one."""
    meaning = re.sub(
        r"\\([*\\])|(\*)|(.)",
        lambda m: re.escape(m[1]) if m[1] else ".*" if m[2] else re.escape(m[3]),
        glob,
        flags=re.DOTALL,
    )

    found = read_pattern(f"bash:{glob}").matches(text)

    assert found == bool(re.fullmatch(meaning, text, re.DOTALL))


@given(st.text(alphabet=st.characters(exclude_characters="\0"), max_size=30), st.text(max_size=30))
def test_an_exact_pattern_matches_only_its_text(text: str, other: str) -> None:
    """Whatever stands in a command, to allow it for good allows nothing else."""
    if not text.strip():
        return
    pattern = read_pattern(exact_pattern("bash", text))

    assert pattern.matches(text)
    assert pattern.matches(other) == (text == other)


@given(st.lists(words, min_size=1, max_size=5))
def test_quoted_words_are_read_as_what_they_stand_for(arguments: list[str]) -> None:
    """However odd an argument is: quoted, it is one word, and nothing in it is special."""
    text = " ".join(map(shlex.quote, ["ok", *arguments]))
    line = analyse(text)

    assert line.refusal == ""
    (found,) = line.commands
    assert [word.flat for word in found.words] == ["ok", *arguments]
    assert allows(text, command(text).pattern)


@given(st.lists(words, min_size=1, max_size=4), st.lists(words, min_size=1, max_size=4))
def test_two_commands_have_one_form_only_where_they_are_the_same(
    one: list[str], two: list[str]
) -> None:
    """Else the pattern of one would allow the other."""
    shown = [analyse(shlex.join(["ok", *each])).commands[0].shown for each in (one, two)]

    assert (shown[0] == shown[1]) == (one == two)


@example("ok a\nbad")
@example("ok a & bad")
@example("ok $(bad)")
@example('ok "`bad`"')
@example("ok <(bad)")
@example("ok a | bad x")
@example("ok <<E\n$(bad)\nE\n")
@examples(15)
@given(begun)
def test_what_is_allowed_holds_no_other_command(text: str) -> None:
    """The narrow reading never lets pass what the wide one sees.

    But for a word that goes on behind an expansion: the wide one sees another there, and denies.
    """
    if allows(text, "bash:ok", "bash:ok *") and not re.search(r"[)`}]\S*bad", text):
        assert not denies(text, "bash:bad", "bash:bad *")


@examples(15)
@given(begun)
def test_lines_are_allowed_together_where_each_is(text: str) -> None:
    """A line changes nothing about the lines around it.

    But for a backslash: the grammar takes one at the beginning of a line for part of the line
    before, and then the two readers do not agree.
    """
    if allows(text, "bash:ok", "bash:ok *") and "\\" not in text:
        assert allows(f"ok first\n{text}\nok last", "bash:ok", "bash:ok *")
        assert not allows(f"ok first\n{text}\nbad", "bash:ok", "bash:ok *")


@given(lines)
def test_any_denied_command_denies_the_line(text: str) -> None:
    """`bad` in front, behind and inside of whatever is there."""
    if "'" in text or '"' in text or "\\" in text or "<<" in text or "#" in text:
        return
    assert denies(f"bad x; {text}", "bash:bad *")
    assert denies(f"{text}\nbad x", "bash:bad *")
    assert denies(f"ok $(bad x) {text}", "bash:bad *")


@given(st.text(max_size=60))
def test_every_text_is_read_without_failing(text: str) -> None:
    """What a model writes may be anything."""
    line = analyse(text)

    assert bool(line.refusal) == (not line.commands)
    assert all(0 <= start <= len(seen.flat) for seen in line.seen for start in seen.starts)
    assert all(len(seen.flat) == len(seen.hazy) for seen in line.seen)


@given(st.text(max_size=40))
def test_a_quoted_word_is_read_loosely_too(text: str) -> None:
    """The two readers of words agree where there is but one meaning."""
    if "\0" not in text:
        assert loose_word(shlex.quote(text)).flat == text
