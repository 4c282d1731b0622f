"""Patterns `type:glob`: what they match, what is none, and how an exact one is written."""

from __future__ import annotations

import pytest
from support.tables import table

from everturn_gateway.tools.policy import PatternError, exact_pattern, read_pattern


@table(
    ("pattern", "text", "matches"),
    [
        ("bash:git status", "git status", True),
        ("bash:git *", "git push --force", True),
        ("bash:*", "", True),
        ("bash:*", "whatever there is\nin two lines", True),
        ("bash:a*b*c", "aXbYc", True),
        ("bash:a*b*c", "abc", True),
        ("bash:*.py", "x.py", True),
        (r"bash:ls \*.py", "ls *.py", True),
        (r"bash:echo a\\b", r"echo a\b", True),
        (r"bash:echo a\b", r"echo a\b", True),
        ("mcp:github:*", "github:create_issue", True),
        ("mcp:*:read*", "files:read_file", True),
        ("*secret*", "top secret stuff", True),
        # One that also matched parts would allow `git status; rm -rf /`.
        ("bash:git status", "git status --short", False),
        ("bash:git status", "sudo git status", False),
        ("bash:git *", "git", False),
        ("bash:git *", "gitk all", False),
        ("bash:ab*b", "ab", False),
        ("bash:a*b*c", "acb", False),
        (r"bash:ls \*.py", "ls x.py", False),
        ("bash:a?c", "abc", False),
        ("bash:[ab]", "a", False),
        ("bash:GIT *", "git x", False),
    ],
)
def test_a_pattern_matches_the_whole_text_and_only_a_star_is_wild(
    pattern: str, text: str, *, matches: bool
) -> None:
    """What owners write has to mean what they read in it."""
    assert read_pattern(pattern).matches(text) == matches


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
