"""Real bash against the policy: what it runs of a line that was allowed, or not denied.

Lines are made of pieces that break readers of shell. bash traces every command before it runs it;
the only programs it finds are `ok` and `bad`, which do nothing, and it stands in an empty folder.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.policies import allows, denies

BASH = shutil.which("bash")
TRACED = re.compile(r"\++ (\S+)(?: |$)")
SECONDS = 5
ELSEWHERE = re.compile(r"/dev/null(?![ \t\n;&|)]|$)")
"A line that could make another file of that path: it is not for a shell that may run as root."
PIECES = (
    "ok ", "ok", "bad", "bad ", "a", " ", " ", ";", "&&", "||", "|", "&", "\n", "'", '"', "`",
    "$(", ")", "(", "${", "}", "{", "$x", "\\", "#", "!", "if ", "then ", "fi", "else ", "<", ">",
    "for f in ", "do ", "done", "/dev/null", "2>&1", "2", "=", "*", "<<E\n", "\nE\n", "<<<",
    "case ", "esac", " in ", ";;", "time ", "coproc ", "\r", "\x0b", "\u00a0", "\u2028", "$'",
    "\\x62ad", "b\\ad", "b''ad", "{bad,a}", "-", "|&", "&>", "()", "((", "))", "\t", "\\\n", "<(",
    "[[ ", "]] ", "$((", "$[", "exec ", "eval ", "x=", "\\ ", "%", "?", ">>", ">|", "export ",
    "ok a; ", "; ok", " && ok b", "$(ok)", 'ok "$(ok a)"', "{ ok; }", "( ok )", "! ok",
    "if ok; then ok; fi", "for f in a b; do ok $f; done", " >/dev/null", " 2>&1", "ok <(ok)",
    "$(bad)", "{ bad; }", "( bad )", "bash -c ", "'bad a'", '"bad b"', "env ", "f() { bad; }; f",
)  # fmt: skip


def _lines(seed: int) -> Iterator[str]:
    chance = random.Random(seed)  # noqa: S311 - a test that is the same every time
    while True:
        pieces = chance.choices(PIECES, k=chance.randint(1, 8))
        line = chance.choice(("", "", "ok ")) + "".join(pieces)
        if not ELSEWHERE.search(line):
            yield line


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """Return a folder with `ok`, `bad` and bash in it."""
    if BASH is None:
        pytest.skip("there is no bash")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, target in {"ok": "true", "bad": "true", "bash": "bash", "env": "env"}.items():
        found = shutil.which(target)
        assert found is not None
        (programs / name).symlink_to(found)
    (tmp_path / "empty").mkdir()
    return tmp_path


def _traced(line: str, shell: Path) -> list[str]:
    """Return the names of the commands that bash runs, and what stands in the folder then."""
    log = shell / "trace"
    with log.open("wb") as trace:
        process = subprocess.Popen(
            # bash traces to the file it is told the number of, and so do shells that it starts.
            [BASH or "bash", "--norc", "-x", "-c", line],
            cwd=shell / "empty",
            env={
                "PATH": str(shell / "programs"),
                "BASH_XTRACEFD": str(trace.fileno()),
                "SHELLOPTS": "braceexpand:hashall:interactive-comments:xtrace",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(trace.fileno(),),
            start_new_session=True,
        )
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
    lines = log.read_text(errors="replace").splitlines()
    return [found[1] for each in lines if (found := TRACED.match(each))]


def test_bash_runs_nothing_else_of_a_line_that_is_allowed(shell: Path) -> None:
    """The one promise of a pattern, held against the shell itself."""
    ran = 0
    lines = _lines(1)
    while ran < 250:
        line = next(lines)
        if not allows(line, "bash:ok", "bash:ok *"):
            continue
        ran += 1

        assert set(_traced(line, shell)) <= {"ok", "for"}, line
        assert list((shell / "empty").iterdir()) == [], line


def test_a_line_that_is_not_denied_runs_no_denied_command(shell: Path) -> None:
    """Deny looks through quotes, wrappers, functions and broken lines. Not through variables."""
    ran = 0
    lines = (each for each in _lines(2) if "bad" in each and "x=" not in each)
    while ran < 250:
        line = next(lines)
        if denies(line, "bash:bad", "bash:bad *"):
            continue
        ran += 1

        assert "bad" not in _traced(line, shell), line


def test_the_trace_sees_what_it_is_there_for(shell: Path) -> None:
    """A test that saw nothing would hold whatever came."""
    line = "ok a; for f in b; do bad $f; done; env bash -c '(eval bad)' > x"

    assert _traced(line, shell) == ["ok", "for", "bad", "env", "eval", "bad"]
    assert [each.name for each in (shell / "empty").iterdir()] == ["x"]
