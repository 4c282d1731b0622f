"""What owners are told of patterns that cannot allow what they seem to."""

from __future__ import annotations

from support.policies import policy
from support.tables import table

from everturn_gateway.tools.policy import notes_on


def _notes(*patterns: str, runs_code: bool = True) -> list[str]:
    return list(notes_on(policy(*patterns), runs_code=runs_code))


@table(
    ("pattern", "parts"),
    [
        ("bash:python *", ["bash:python * allows nothing", "runs code", "write code:python *"]),
        ("bash:make test", ["make builds or tests", "write code:make test"]),
        ("bash:./run.sh *", ["./run.sh is a file of the workspace", "write code:./run.sh *"]),
        ("bash:find . -delete", ["find -delete can run a program", "code:find . -delete"]),
        ("bash:git -c a=b status", ["git -c can change what git runs"]),
        ("bash:git config user.name x", ["git config changes what git runs"]),
        ("bash:ls > x", ["it redirects input or output", "code:ls > x"]),
        ("bash:*", ["no command that runs code", "write code:*"]),
    ],
)
def test_an_owner_is_told_what_to_write_instead(pattern: str, parts: list[str]) -> None:
    """A pattern that silently allows nothing looks like a fault of the program."""
    (note,) = _notes(pattern)

    assert [part for part in parts if part not in note] == []


@table(
    "pattern",
    [
        "bash:git status*",
        "bash:git diff *",
        "bash:git *",
        "bash:ls",
        "bash:ls*",
        "bash:pyth*",
        "bash:*.txt",
        "bash:frobnicate *",
        "bash:find . -name \\*.py",
        "builtin:web_fetch",
        "code:pytest *",
        "write:pyproject.toml",
        "cli:python",
        "*",
    ],
)
def test_a_pattern_that_does_what_it_says_needs_no_note(pattern: str) -> None:
    """Notes that cry wolf are not read."""
    assert _notes(pattern) == []


def test_an_owner_is_told_where_code_patterns_count() -> None:
    """Outside of the sandbox, or with a network, they allow nothing."""
    (code, python) = _notes("code:pytest *", "bash:python *", runs_code=False)

    assert "only where commands run in the sandbox bwrap without network" in code
    assert "no pattern can allow that here" in python
