"""Answers of people: a race, a restart or an "always" makes them no answers to something else."""

# ruff: noqa: E501
# One sequence a line: a table is read by its rows.

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.commands import needs_sandbox
from support.escaping import (
    PROCESSES,
    REPOSITORY,
    SHELL,
    Call,
    Escape,
    Owner,
    Put,
    Restart,
    Step,
    bash,
    call,
    check,
    check_live,
    live,
    parts,
    play_each,
    put,
    say,
    write,
)

pytestmark = needs_sandbox

GOOD = "true\n"
BAD = "%sh%\n"
ANEW = "changed since this was allowed, so it is asked again"


def race(
    name: str,
    command: str,
    before: dict[str, str],
    after: dict[str, str],
    *,
    first: tuple[Step, ...] = (),
    is_live: bool = True,
) -> Escape:
    """Return a sequence: a command is asked about, a file changes, a person allows it once."""
    made = dataclasses.replace(bash(command, "allow_once"), meanwhile=_puts(after))
    return Escape(
        name=f"race {name}",
        steps=(*first, *_puts(before), say(made)),
        asks=2,
        reason=ANEW,
        is_live=is_live,
    )


def always(
    name: str, command: str, before: dict[str, str], after: dict[str, str], *, is_live: bool = True
) -> Escape:
    """Return a sequence: a command is allowed for good, a file changes, it is called again."""
    again = say(bash(command), chat="b")
    steps: tuple[Step, ...] = (
        *_puts(before),
        say(bash(command, ("allow_always", "allow_always"))),
        *_puts(after),
        again,
    )
    return Escape(name=f"always {name}", steps=steps, asks=2, is_live=is_live)


def _puts(files: dict[str, str]) -> tuple[Put, ...]:
    return tuple(
        Put(path=path, link=text[3:]) if text.startswith("-> ") else put(path, text, 0o755)
        for path, text in files.items()
    )


def _asked(made: Call, *steps: Step, name: str, asks: int = 2, before: str = GOOD) -> Escape:
    return Escape(name=name, steps=(put("x.sh", before), *steps, say(made)), asks=asks)


X = {"x.sh": GOOD}
CHANGED = {"x.sh": BAD}
PY = {"x.py": "print(1)\n"}
PY_CHANGED = {"x.py": "%py%\n"}
RUN = bash("sh x.sh", "allow_once")
SPAWN = call("background_process", "allow_once", action="spawn", command="sh x.sh")
CHANGE = put("x.sh", BAD)

RACES = (
    # the file that a line names, in all ways to name it
    race("a script", "sh x.sh", X, CHANGED),
    race("a script behind an option", "sh -eu x.sh", X, CHANGED),
    race("a script behind the end of options", "sh -- x.sh", X, CHANGED),
    race("a script in quotes", 'sh "x.sh"', X, CHANGED),
    race("a script in pieces", "sh x''.s\\h", X, CHANGED),
    race("a script in escapes", "sh $'x\\x2esh'", X, CHANGED),
    race("a script by a longer way", "sh ./sub/../x.sh", {**X, "sub/a": ""}, CHANGED),
    race("a script by its whole path", "sh %ws%/x.sh", X, CHANGED),
    race("a script by the folder above", "sh ../helper/x.sh", X, CHANGED),
    race("a program", "./x.sh", {"x.sh": "#!/bin/sh\ntrue\n"}, {"x.sh": "#!/bin/sh\n%sh%\n"}),
    race("a script that is sourced", ". ./x.sh", X, CHANGED),
    race("a script as input", "sh < x.sh", X, CHANGED),
    race("a script in a pipe", "cat x.sh | sh", X, CHANGED),
    race("a script in a substitution", 'sh -c "$(cat x.sh)"', X, CHANGED),
    race("a script behind eval", 'eval "$(cat x.sh)"', X, CHANGED),
    race("a script in a text", "bash -c 'sh x.sh'", X, CHANGED),
    race("a script behind another program", "timeout 9 sh x.sh", X, CHANGED),
    race("a script behind two programs", "env nice sh x.sh", X, CHANGED),
    race("a script that a variable names", "F=x.sh; sh $F", X, CHANGED),
    race("a script that a loop names", "for f in x.sh; do sh $f; done", X, CHANGED),
    race("scripts that fit", "for f in *.sh; do sh $f; done", X, {"y.sh": BAD}),
    race("a script that fits", "sh s*/*.sh", {"sub/x.sh": GOOD}, {"sub/a.sh": BAD}),
    race("a script that is found", "find . -name '*.sh' -exec sh {} \\;", X, {"deep/er/y.sh": BAD}),
    race("a script in a list", "ls; sh x.sh", X, CHANGED),
    race("a script in another folder", "cd sub && sh x.sh", {"sub/x.sh": GOOD}, {"sub/x.sh": BAD}),
    race("a script that was none", "sh x.sh", {}, CHANGED),
    race("a script whose name is put together", "sh $(printf %s x .sh)", X, CHANGED),
    race("a script whose name is encoded", "sh $(echo eC5zaAo= | base64 -d)", X, CHANGED),
    race("a script behind a link", "sh link", {**X, "link": "-> x.sh"}, CHANGED),
    race("a link", "sh link", {**X, "y.sh": BAD, "link": "-> x.sh"}, {"link": "-> y.sh"}),
    race("a link of a folder", "sh link/x.sh", {"a/x.sh": GOOD, "b/x.sh": BAD, "link": "-> a"}, {"link": "-> b"}),
    race("a file that becomes a link", "sh x.sh", {**X, "y.sh": BAD}, {"x.sh": "-> y.sh"}),
    # files that a program reads without being told
    race("make", "make", {"Makefile": "all:\n\ttrue\n"}, {"Makefile": "all:\n\t%sh%\n"}),
    race("make, a file before the one", "make", {"Makefile": "all:\n\ttrue\n"}, {"GNUmakefile": "all:\n\t%sh%\n"}),
    race("make, an included file", "make", {"Makefile": "include a.txt\n", "a.txt": "all:\n\ttrue\n"}, {"a.txt": "all:\n\t%sh%\n"}),
    race("make in a folder", "make -C sub", {"sub/Makefile": "all:\n\ttrue\n"}, {"sub/Makefile": "all:\n\t%sh%\n"}),
    race("make by an option", "make --file=a.mk", {"a.mk": "all:\n\ttrue\n"}, {"a.mk": "all:\n\t%sh%\n"}),
    race("python", "python3 x.py", PY, PY_CHANGED),
    race("python, an imported module", "python3 x.py", {"x.py": "import y\n", "y.py": ""}, {"y.py": "%py%\n"}),
    race("python, a shadowed module", "python3 -c 'import colorsys'", {}, {"colorsys.py": "%py%\n"}),
    race("python, a module", "python3 -m x", PY, PY_CHANGED),
    race("python, a module of a package", "python3 -m p.x", {"p/x.py": ""}, {"p/__init__.py": "%py%\n"}),
    race("python, tests", "python3 -m unittest", {"test_a.py": ""}, {"test_b.py": "%py%\n"}),
    race("node", "node x.js", {"x.js": "1\n"}, {"x.js": "%js%\n"}),
    race("node, a module", "node x.js", {"x.js": "require('./y')\n", "y.js": ""}, {"y.js": "%js%\n"}),
    race("awk", "awk -fx.awk", {"x.awk": "BEGIN {}\n"}, {"x.awk": 'BEGIN { system("%sh%") }\n'}),
    race("sed", "sed -f x.sed x.sed", {"x.sed": "p\n"}, {"x.sed": "1e %sh%\n"}),
    race("perl", "perl x.pl", {"x.pl": "1;\n"}, {"x.pl": "system('%sh%');\n"}),
    race("arguments of a file", "xargs -a x.txt touch", {"x.txt": "a\n"}, {"x.txt": "%mark%\n"}),
    race("a path of the workspace", "PATH=.:$PATH x", {"x": "#!/bin/sh\n"}, {"x": "#!/bin/sh\n%sh%\n"}),
    race("a patch", "patch -p0 -i x.patch", {"x.patch": ""}, {"x.patch": "--- /dev/null\n+++ RAN\n@@ -0,0 +1 @@\n+x\n"}),
    race("a tree of git", "git checkout -q other -- .", {}, {"y.txt": "x"}, first=(REPOSITORY,), is_live=False),
    race("a copy", "cp x.txt RAN", {"x.txt": ""}, {"x.txt": "x"}),
)  # fmt: skip
ALWAYS = (
    always("sh", "sh x.sh", X, CHANGED),
    always("bash -c", "bash -c 'sh x.sh'", X, CHANGED),
    always("a program", "./x.sh", {"x.sh": "#!/bin/sh\n"}, {"x.sh": "#!/bin/sh\n%sh%\n"}),
    always("a program by its whole path", "%ws%/x.sh", {"x.sh": "#!/bin/sh\n"}, {"x.sh": "#!/bin/sh\n%sh%\n"}),
    always("python", "python3 x.py", PY, PY_CHANGED),
    always("python, a module", "python3 -m x", PY, PY_CHANGED),
    always("python, code", "python3 -c 'import colorsys'", {}, {"colorsys.py": "%py%\n"}),
    always("python, a version", "python3.11 x.py", PY, PY_CHANGED),
    always("make", "make", {"Makefile": "all:\n\ttrue\n"}, {"Makefile": "all:\n\t%sh%\n"}),
    always("make, a target", "make all", {"Makefile": "all:\n\ttrue\n"}, {"Makefile": "all:\n\t%sh%\n"}),
    always("node", "node x.js", {"x.js": "1\n"}, {"x.js": "%js%\n"}),
    always("awk", "awk -f x.awk", {"x.awk": "BEGIN {}\n"}, {"x.awk": 'BEGIN { system("%sh%") }\n'}),
    always("sed", "sed -f x.sed x.sed", {"x.sed": "p\n"}, {"x.sed": "1e %sh%\n"}),
    always("perl", "perl x.pl", {"x.pl": "1;\n"}, {"x.pl": "system('%sh%');\n"}),
    always("xargs", "xargs -a x.txt touch", {"x.txt": "a\n"}, {"x.txt": "%mark%\n"}),
    always("env", "env sh x.sh", X, CHANGED),
    always("find", "find . -name x.sh -exec sh {} +", X, CHANGED),
    always("an unknown program with a file", "everrun x.sh", X, CHANGED, is_live=False),
)  # fmt: skip
MOMENTS = (
    _asked(dataclasses.replace(RUN, judged=((1, CHANGE),)), name="it changes before the question is written"),
    _asked(dataclasses.replace(RUN, judged=((2, CHANGE),)), name="it changes after the answer", asks=1),
    _asked(dataclasses.replace(RUN, meanwhile=(CHANGE, put("x.sh", GOOD))), name="it changes, and back", asks=1),
    _asked(dataclasses.replace(RUN, meanwhile=(Restart(), CHANGE)), name="it changes after a restart"),
    _asked(dataclasses.replace(RUN, meanwhile=(CHANGE, Restart())), name="it changes before a restart"),
    _asked(dataclasses.replace(RUN, crash=(CHANGE,)), name="it changes while nothing runs, after the answer"),
    _asked(dataclasses.replace(RUN, crash=()), name="nothing changes while nothing runs", asks=1),
    _asked(dataclasses.replace(bash("make", "allow_once"), crash=(put("Makefile", "all:\n\t%sh%\n"),)), name="make after a kill"),
    _asked(dataclasses.replace(bash("sh x.sh", "allow_always"), crash=(CHANGE,)), name="always, and a kill"),
    _asked(dataclasses.replace(bash("sh x.sh", ("allow_once", "deny")), meanwhile=(CHANGE,)), name="the second question is answered with no"),
    _asked(dataclasses.replace(RUN, meanwhile=(say(write("x.sh", BAD), chat="b"),)), name="another conversation writes it", asks=2),
    _asked(dataclasses.replace(RUN, meanwhile=(say(call("edit_file", path="x.sh", old_text="true", new_text="%sh%"), chat="b"),)), name="another conversation edits it"),
    _asked(bash("true", "allow_once"), say(bash("%sh%"), chat="b"), name="an answer here is none there"),
    _asked(dataclasses.replace(bash("true", "allow_once"), meanwhile=(say(bash("%sh%"), chat="b"),)), name="an answer here is none there, at once"),
    _asked(bash("sh x.sh"), say(bash("sh x.sh", "allow_once")), name="an answer holds for one call", before=GOOD),
    Escape(name="a yes to one of two", steps=(say(bash("true", "allow_once"), bash("%sh%")),), asks=2),
    Escape(name="an always of another command", steps=(say(bash("ls", "allow_always"), bash("ls; %sh%")),), asks=2),
    Escape(name="an always of other arguments", steps=(say(bash("rm -f a", "allow_always"), bash("rm -f b"), bash("%sh%")),), asks=3),
    # while it runs: the last look is over, and the file is not opened yet
    _asked(dataclasses.replace(RUN, judged=((3, say(write("x.sh", BAD), chat="b")),)), name="another conversation writes it as it begins"),
    _asked(dataclasses.replace(bash("sleep 0.3; sh x.sh", "allow_once"), judged=((3, say(write("x.sh", BAD), chat="b")),)), name="another conversation writes it while it runs"),
    _asked(dataclasses.replace(bash("sleep 0.3; sh x.sh", "allow_once"), judged=((3, say(call("edit_file", path="x.sh", old_text="true", new_text="%sh%"), chat="b")),)), name="another conversation edits it while it runs"),
    _asked(dataclasses.replace(bash("sleep 0.3; sh ./link", "allow_once"), judged=((3, say(write("x.sh", BAD), chat="b")),)), Put(path="link", link="x.sh"), name="another conversation writes what a link leads to"),
    _asked(dataclasses.replace(bash("cd s && sleep 0.3 && sh y.sh", "allow_once"), judged=((3, say(write("s/y.sh", BAD), chat="b")),)), put("s/y.sh", GOOD), name="another conversation writes into the folder while it runs"),
    _asked(dataclasses.replace(bash("sleep 0.3; sh new.sh", "allow_once"), judged=((3, say(write("new.sh", BAD), chat="b")),)), name="another conversation makes it while it runs"),
    Escape(name="a copy takes its place while it runs", allow=("bash:cp *",), steps=(put("x.sh", GOOD), put("y.sh", BAD), say(dataclasses.replace(bash("sleep 0.3; sh x.sh", "allow_once"), judged=((3, say(bash("cp y.sh x.sh"), chat="b")),)))), asks=2),
    Escape(name="a move takes its place while it runs", allow=("bash:mv *",), steps=(put("x.sh", GOOD), put("y.sh", BAD), say(dataclasses.replace(bash("sleep 0.3; sh x.sh", "allow_once"), judged=((3, say(bash("mv y.sh x.sh"), chat="b")),)))), asks=2),
    # background processes
    Escape(name="a process: a script", tools=PROCESSES, steps=(put("x.sh", GOOD), say(dataclasses.replace(SPAWN, meanwhile=(CHANGE,)))), asks=2, reason=ANEW),
    Escape(name="a process: after the answer", tools=PROCESSES, steps=(put("x.sh", GOOD), say(dataclasses.replace(SPAWN, judged=((2, CHANGE),)))), asks=1),
    Escape(name="a process: after a kill", tools=PROCESSES, steps=(put("x.sh", GOOD), say(dataclasses.replace(SPAWN, crash=(CHANGE,)))), asks=2, reason=ANEW),
    Escape(name="a process: always", tools=PROCESSES, steps=(put("x.sh", GOOD), say(dataclasses.replace(SPAWN, answer=("allow_always",))), CHANGE, say(dataclasses.replace(SPAWN, answer=()))), asks=2),
    Escape(name="a process: make", tools=PROCESSES, steps=(say(dataclasses.replace(SPAWN, arguments={"action": "spawn", "command": "make"}, meanwhile=(put("Makefile", "all:\n\t%sh%\n"),))),), asks=2, reason=ANEW),
    Escape(name="a process: always, as another tool", tools=PROCESSES, steps=(say(bash("ls", "allow_always"), dataclasses.replace(SPAWN, answer=(), arguments={"action": "spawn", "command": "%sh%"})),), asks=2),
)  # fmt: skip
ASKS = (*SHELL, {"type": "builtin", "name": "ask_user"})
QUESTION = call("ask_user", question="May I run `touch RAN`?", choices=["Yes, always", "No"])
INQUIRIES = (
    # The answer to a question of the model's own is no leave to run anything: that is asked apart.
    Escape(name="a yes to a question", tools=ASKS, steps=(say(QUESTION, bash("touch %mark%")),), asks=2),
    Escape(name="a yes to a question, and a restart", tools=ASKS, steps=(say(dataclasses.replace(QUESTION, meanwhile=(Restart(),)), bash("touch %mark%")),), asks=2),
    Escape(name="a yes to a question, in another turn", tools=ASKS, steps=(say(QUESTION), say(bash("touch %mark%"))), asks=2),
)  # fmt: skip
ESCAPES = (*RACES, *ALWAYS, *MOMENTS, *INQUIRIES)
LIVE = live((*RACES, *ALWAYS, *INQUIRIES))
HARMLESS = (
    Escape(name="a file that nobody changed", steps=(put("x.sh", GOOD), say(RUN)), asks=1),
    Escape(name="a file that is not named", steps=(put("x.txt", ""), say(dataclasses.replace(bash("touch x.txt", "allow_once"), meanwhile=(put("y.txt", "y"),)))), asks=1),
    Escape(name="an always for what reads", steps=(put("x.txt", ""), say(bash("cat x.txt", "allow_always")), put("x.txt", "new"), say(bash("cat x.txt"))), asks=1),
    Escape(name="an always for git", steps=(REPOSITORY, say(bash("git log --oneline", "allow_always")), Owner(command="echo 3 > a.txt"), say(bash("git log --oneline"), chat="b")), asks=1),
    Escape(name="a script that is edited after it ran", steps=(put("x.sh", GOOD), say(RUN, call("edit_file", path="x.sh", old_text="true", new_text="echo 1"))), asks=1),
    Escape(name="a script that is edited after a no", steps=(put("x.sh", GOOD), say(bash("sh x.sh"), call("edit_file", path="x.sh", old_text="true", new_text="echo 1"))), asks=1),
    Escape(name="a restart before the answer", steps=(put("x.sh", GOOD), say(dataclasses.replace(RUN, meanwhile=(Restart(),)))), asks=1),
)  # fmt: skip
"What nobody has to be asked about twice."


@pytest.mark.parametrize("part", parts(ESCAPES))
async def test_an_answer_holds_for_what_was_asked(part: Sequence[Escape], tmp_path: Path) -> None:
    """Somebody who read a script and allowed it has not allowed what it becomes."""
    await play_each(part, tmp_path, check)


@pytest.mark.parametrize("part", parts(HARMLESS))
async def test_nobody_is_asked_twice_for_the_same(part: Sequence[Escape], tmp_path: Path) -> None:
    """A question too many teaches people to say yes to all of them."""
    await play_each(part, tmp_path, check)


@pytest.mark.parametrize("part", parts(LIVE))
async def test_these_changes_are_attacks(part: Sequence[Escape], tmp_path: Path) -> None:
    """A change that does nothing would show nothing by leaving no mark."""
    await play_each(part, tmp_path, check_live)
