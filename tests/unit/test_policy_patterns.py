"""Patterns `type:glob`: what they match, what is none, and how an exact one is written."""

from __future__ import annotations

import pytest
from support.tables import table

from everturn_gateway.tools.policy import PatternError, exact_pattern, read_pattern


@table(
    ("pattern", "text"),
    [
        ("bash:git status", "git status"),
        ("bash:git *", "git push --force"),
        ("bash:*", ""),
        ("bash:*", "whatever there is\nin two lines"),
        ("bash:a*b*c", "aXbYc"),
        ("bash:a*b*c", "abc"),
        ("bash:*.py", "x.py"),
        (r"bash:ls \*.py", "ls *.py"),
        (r"bash:echo a\\b", r"echo a\b"),
        (r"bash:echo a\b", r"echo a\b"),
        ("mcp:github:*", "github:create_issue"),
        ("mcp:*:read*", "files:read_file"),
        ("*secret*", "top secret stuff"),
    ],
)
def test_a_pattern_matches_the_whole_text(pattern: str, text: str) -> None:
    """What owners write has to mean what they read in it."""
    assert read_pattern(pattern).matches(text)


@table(
    ("pattern", "text"),
    [
        ("bash:git status", "git status --short"),
        ("bash:git status", "sudo git status"),
        ("bash:git *", "git"),
        ("bash:git *", "gitk all"),
        ("bash:ab*b", "ab"),
        ("bash:a*b*c", "acb"),
        (r"bash:ls \*.py", "ls x.py"),
        ("bash:a?c", "abc"),
        ("bash:[ab]", "a"),
        ("bash:GIT *", "git x"),
    ],
)
def test_a_pattern_is_anchored_and_only_a_star_is_wild(pattern: str, text: str) -> None:
    """A pattern that also matched parts would allow `git status; rm -rf /`."""
    assert not read_pattern(pattern).matches(text)


@table("kind", ["bash", "builtin", "cli", "mcp"])
def test_a_pattern_without_a_type_concerns_every_tool(kind: str) -> None:
    """Duragent's files deny `*secret*` wherever it turns up."""
    assert read_pattern("*secret*").concerns(kind)
    assert read_pattern("*:*secret*").concerns(kind)
    assert read_pattern("bash:x").concerns(kind) == (kind == "bash")


@table(
    ("text", "words"),
    [
        (
            "bsh:rm *",
            "'bsh', which is no type of tool; there are: bash, code, write, builtin, cli, mcp, *",
        ),
        ("git push origin main:main", "Write *: in front"),
        ("", "says nothing"),
        ("bash:", "says nothing"),
        ("bash: ", "says nothing"),
        ("bash:" + "x" * 40_000, "longer than 40000 characters"),
        ("bash:a\0b", "null character"),
    ],
)
def test_what_is_no_pattern_is_refused_with_a_reason(text: str, words: str) -> None:
    """A typing error in a deny list must not pass for a rule that forbids nothing."""
    with pytest.raises(PatternError) as caught:
        read_pattern(text)

    assert words in str(caught.value)


def test_many_stars_do_not_make_matching_slow() -> None:
    """A pattern and a text from two hands must not stall the gateway together.

    With backtracking this would take longer than the universe has stood.
    """
    pattern = read_pattern("bash:" + "*a" * 200 + "*b")

    assert not pattern.matches("a" * 20_000)


@table("text", ["ls *.py", r"a\*b", "**", "\\", "git status", r"\\*\\"])
def test_an_exact_pattern_matches_its_text_alone(text: str) -> None:
    """To allow one command for good must not allow what its stars could stand for."""
    pattern = read_pattern(exact_pattern("bash", text))

    assert pattern.matches(text)
    assert not pattern.is_everything
    assert not pattern.matches(text.replace("*", "x y") + "z")
