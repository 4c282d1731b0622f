"""Commands and writes, judged by the files that they meet: what a model plants must not run.

Every sequence is played in a real workspace and the real sandbox by somebody who answers no
question. What it tries to run makes a file called RAN.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.commands import BWRAP, PLAIN, needs_sandbox
from support.judged import Step, judged
from support.tables import table

from everturn_actors.model import ToolCall
from everturn_actors.ports import Verdict
from everturn_gateway.tools.policy.judged_writes import JudgedWrites

RECOMMENDED = (
    "bash:git", "bash:git *", "bash:ls", "bash:ls *", "bash:cat *", "bash:wc *", "bash:grep *",
    "bash:head *", "bash:find *", "bash:sort *", "bash:sed *", "bash:cp *", "bash:mv *",
    "bash:ln *",
    "bash:mkdir *", "bash:touch *", "bash:tee *", "bash:rm *", "bash:echo *", "bash:printf *",
    "bash:cd *", "bash:curl *", "bash:test *",
    "bash:frobnicate", "bash:frobnicate *", "bash:xxd *", "bash:dd *",
)  # fmt: skip
"A careless owner's list: programs with a star."

RUN = "#!/bin/sh\ntouch RAN\n"
FSMONITOR = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch RAN;\n"
FILTER = '[filter "x"]\n\tclean = touch RAN\n\tsmudge = touch RAN\n'


def _write(path: str, text: str, *, mode: int = 0o644) -> Step:
    """Return what somebody else does to the workspace: a person, an archive, a program."""

    def act(files: Path) -> None:
        (files / path).parent.mkdir(parents=True, exist_ok=True)
        (files / path).write_text(text)
        (files / path).chmod(mode)

    return act


def _fill(count: int) -> Step:
    """Return what makes so many files with nothing in them."""

    def act(files: Path) -> None:
        files.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (files / f"a{number:04}").touch()

    return act


def _link(path: str, target: str) -> Step:
    def act(files: Path) -> None:
        (files / path).symlink_to(target)

    return act


def _repository(path: str = ".", config: str = "") -> Step:
    """Return what makes a repository with a commit, and adds to its configuration."""

    def act(files: Path) -> None:
        folder = files / path
        folder.mkdir(exist_ok=True)
        script = (
            "git init -q . && echo 1 > file && git add file"
            " && git -c user.name=o -c user.email=o@o commit -qm first && echo 2 > file"
        )
        environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["/bin/sh", "-c", script], cwd=folder, env=environ, check=True)
        with (folder / ".git/config").open("a") as stream:
            stream.write(config)

    return act


ATTRIBUTES = _write(".gitattributes", "* filter=x diff=x merge=x\n")
SEQUENCES: dict[str, list[Step]] = {
    # a configuration that the model writes
    "the configuration of a repository": [("write", ".git/config", FSMONITOR), "git status"],
    "one in other letters": [("write", ".GIT/config", FSMONITOR), "git status"],
    "one through a link": [_repository(), _link("g", ".git"), ("write", "g/config", FSMONITOR)],
    "one through a link to the file": [
        _repository(),
        _link("notes.txt", ".git/config"),
        ("write", "notes.txt", FILTER),
        "git status",
    ],
    "one by way of ..": [("write", "src/../.git/config", FSMONITOR), "git status"],
    "one by its whole path": [("write", "{files}/.git/config", FSMONITOR), "git status"],
    "one of a folder below": [
        ("write", "sub/.git/config", FSMONITOR),
        "cd sub && git status",
        "git -C sub status",
    ],
    "a file in place of the folder": [("write", ".git", "gitdir: g\n"), "git status"],
    "a hook": [_repository(), ("write", ".git/hooks/pre-commit", RUN), "git commit -am x"],
    "attributes": [_repository(), ("write", ".gitattributes", "* filter=x\n"), "git add file"],
    "one that a command writes": [
        _repository(),
        ("write", "config.txt", FILTER),
        "cp config.txt .git/config",
        "cat config.txt | tee .git/config",
        "cat config.txt | tee -a .git/config",
        "mv config.txt .git/config",
        "dd if=config.txt of=.git/config",
        "sort -o .git/config config.txt",
        "sed -i s/a/b/ .git/config",
        "sed -n 'w .git/config' config.txt",
        "ln -f config.txt .git/config",
        "ln -sf ../config.txt .git/config",
        "xxd -r config.txt .git/config",
        "find config.txt -fprintf .git/config '%p'",
        "git diff --output=.git/config",
        "git config filter.x.clean 'touch RAN'",
        "git config --file .git/config core.fsmonitor 'touch RAN'",
        "git config filter.x.clean list",
        "git init --template=. .",
        "git status",
    ],
    "one that a command writes through a link": [
        _repository(),
        ("write", "config.txt", FILTER),
        "ln -s .git d && cp config.txt d/config",
        "ln -s .git/config notes && cat config.txt | tee notes",
        "cd .git && cat ../config.txt | tee config",
        "cd src; cat ../config.txt | tee ../.git/config",
        "mkdir -p a && cd a && cp ../config.txt ../.git/config",
        "git status",
    ],
    "one that is moved into its place": [
        _repository("sub"),
        ("write", "git/config", FSMONITOR),
        "mv git .git",
        "mv git sub/.git",
        "cp -r git .git",
        "cp -r git sub/.git",
        "mkdir x; mv git x/.git",
        "git status",
        "git -C sub status",
    ],
    # a configuration that was there
    "a filter": [_repository(config=FILTER), ATTRIBUTES, "git status", "git add file", "git diff"],
    "a driver to show differences": [
        _repository(config='[diff "x"]\n\ttextconv = touch RAN;\n\tcommand = touch RAN;\n'),
        ATTRIBUTES,
        "git diff",
        "git log -p",
        "git show",
    ],
    "a program to show differences": [
        _repository(config="[diff]\n\texternal = touch RAN;\n"),
        "git diff",
    ],
    "an alias": [_repository(config="[alias]\n\tst = !touch RAN\n"), "git st", "git status"],
    "a configuration that is included": [
        _repository(config="[include]\n\tpath = ../more.txt\n"),
        ("write", "more.txt", FILTER),
        ATTRIBUTES,
        "git status",
    ],
    "a configuration of a worktree": [
        _repository(config="[extensions]\n\tworktreeConfig = true\n"),
        _write(".git/config.worktree", FILTER),
        ATTRIBUTES,
        "git status",
    ],
    "a submodule": [
        _repository(),
        _repository("sub", FSMONITOR),
        "git add sub",
        "git status",
        "git diff",
    ],
    "a repository elsewhere": [
        _repository(config='[remote "origin"]\n\turl = ./evil.git\n'),
        "git fetch",
        "git fetch origin",
        "git push ./evil.git main",
        "git clone ./evil.git x",
        "git fetch evil",
        "git remote add e ./evil.git && git push e",
    ],
    "an address that runs a program": [
        _repository(),
        "git fetch 'ext::sh -c \"touch RAN\"'",
        "git clone 'ext::sh -c \"touch RAN\"' x",
    ],
    "options of git": [
        _repository(),
        "git -c core.fsmonitor='touch RAN;' status",
        "git -c alias.x='!touch RAN' x",
        "git grep -O'touch RAN;' 1",
        "git grep --open-files-in-pag='touch RAN;' 1",
        "git rebase -x 'touch RAN' --root",
        "git difftool -y -x 'touch RAN;'",
        "git bisect run touch RAN",
        "git submodule foreach touch RAN",
        "git --exec-path=. status",
        "git fetch --upload-pack='touch RAN;' .",
    ],
    "words that the shell fills in": [
        _repository(),
        ("write", "names.txt", "-Otouch RAN;\n"),
        "git grep $(cat names.txt) 1",
        "for x in -Otouch; do git grep $x 1; done",
        "git grep {-Otouch,1}",
        "sort $(cat names.txt)",
        "find . $(cat names.txt)",
    ],
    "a file whose name is an option": [
        ("write", "--compress-program=touch RAN", ""),
        ("write", "src/-exec", ""),
        _write("--compress-program=.%2frun", "x"),
        "touch -- -o.git",
        "sort *",
        "sort -S 1k --parallel=2 *",
    ],
    "names that only a shell completes": [
        _write("Makefile", "all:\n"),
        _write("tool", RUN, mode=0o755),
        ("write", "x.txt", "all:\n\ttouch RAN\n"),
        "cat x.txt | tee Makefil[[:lower:]]",
        "cat x.txt | tee Makefil[^x]",
        "cat x.txt | tee Make*",
        "cat x.txt | tee t?ol",
        "cat x.txt | tee {Makefile,y}",
        "for f in Make*; do cat x.txt | tee $f; done",
        "cp x.txt Makefil[[:lower:]]",
    ],
    "more names than are looked at": [
        _fill(1001),
        _write("tool", RUN, mode=0o755),
        "echo touch RAN | tee *",
    ],
    "a folder that is copied over another": [
        _write("tool", "echo ok\n", mode=0o755),
        _write("bin/tool", "echo ok\n", mode=0o755),
        ("write", "src/tool", "touch RAN\n"),
        "cp -r src/. .",
        "cp -rT src .",
        "cp -r src/* .",
        "cp -r -t . src/tool",
        "mv src/tool .",
        "mv src/tool bin",
        "cd src && cp tool ..",
        "cp -rT src bin",
        "mkdir n; cp -r src n/bin; mv n/bin .",
    ],
    "slashes between brackets": [
        ("write", "x.txt", "touch RAN;#/a\n"),
        "sed 's/[/]a/g;s/e;/x/p' x.txt",
        "sed 's/[[:x:]/]a/g;s/e;/x/p' x.txt",
        "sed -n '/[/p;e touch RAN;#]/p' x.txt",
    ],
    "what curl fills in": [
        _write("tool", "echo ok\n", mode=0o755),
        ("write", "src/tool", "touch RAN\n"),
        "curl -o '#1' 'file://{files}/src/{tool}'",
        "curl -T src/tool file://{files}/tool",
        "curl --upload-f src/tool file://{files}/tool",
        "curl -w '%output{tool}touch RAN' file://{files}/src/tool",
        "curl -sS --output tool file://{files}/src/tool",
        "cd src && curl -O file://{files}/src/tool",
    ],
    # programs of the workspace
    "a script": [
        ("write", "report.sh", RUN),
        "./report.sh",
        "sh report.sh",
        "bash report.sh",
        ". ./report.sh",
        "source report.sh",
        "frobnicate report.sh",
        "chmod +x report.sh",
        "cat report.sh | sh",
        "env sh report.sh",
        "cp report.sh run && ./run",
        "find . -name report.sh -exec sh {} +",
        "find . -name report.sh -execdir sh {} +",
        "find . -name report.sh -ok sh {} +",
    ],
    "a program that is there": [
        _write("tool", RUN, mode=0o755),
        ("write", "tool", RUN),
        "./tool",
        "cd . && ./tool",
        "{files}/tool",
        "cp tool other",
        "mv tool ls",
    ],
    "code in a text": [
        "python3 -c 'open(\"RAN\", \"w\")'",
        "perl -e 'open F, q(>RAN)'",
        "awk 'BEGIN { system(\"touch RAN\") }'",
        "sed '1e touch RAN' file",
        "sed -n '1s/.*/touch RAN/e' file",
        "find . -fprint RAN",
        "printf -v PATH . && ls",
        "printf -v 'a[$(touch RAN)]' x",
        "test -v 'a[$(touch RAN)]'",
        "[ -v 'a[$(touch RAN)]' ]",
        "xargs touch RAN",
        "tar cf x.tar . --to-command='touch RAN'",
        "tar cf /dev/null . --checkpoint=1 --checkpoint-action='exec=touch RAN'",
        "sort --compress-program='touch RAN' -S 1k file",
        "split --filter='touch RAN' file",
        "vim -c '!touch RAN' -c q",
        "make -f /dev/null --eval='x:;touch RAN'",
        "node -e 'require(\"fs\").writeFileSync(\"RAN\", \"\")'",
        "echo 'touch RAN' | sh",
        "echo 'touch RAN' | frobnicate",
        "sh <(echo touch RAN)",
        "eval 'touch RAN'; frobnicate",
        "trap 'touch RAN' EXIT",
        "alias ls='touch RAN'",
        "hash -p ./tool ls",
        "enable -f ./x.so x",
    ],
    "what build tools read": [
        ("write", "Makefile", "all:\n\ttouch RAN\n"),
        ("write", "makefile", "all:\n\ttouch RAN\n"),
        ("write", "package.json", '{"scripts": {"test": "touch RAN"}}'),
        ("write", "conftest.py", "open('RAN', 'w')"),
        ("write", "src/conftest.py", "open('RAN', 'w')"),
        ("write", "usercustomize.py", "open('RAN', 'w')"),
        ("write", "setup.py", "open('RAN', 'w')"),
        ("write", ".npmrc", "script-shell=./x"),
        ("write", ".curlrc", "output = RAN"),
        ("write", ".psqlrc", "\\! touch RAN"),
        ("write", ".bashrc", "touch RAN"),
        ("write", ".gitconfig", FSMONITOR),
        ("write", "x.txt", RUN),
        "make",
        "npm test",
        "pytest",
        "mv x.txt Makefile",
        "cp x.txt src/conftest.py",
        "mkdir -p src && cp x.txt src/package.json",
        "echo x | tee .envrc",
        "touch .npmrc",
        "mkdir .config",
        "git status",
    ],
}  # fmt: skip


@needs_sandbox
@table("name", SEQUENCES)
async def test_nothing_runs_that_a_model_or_a_stranger_planted(tmp_path: Path, name: str) -> None:
    """By none of these ways, with a list of patterns that is as wide as people write them."""
    agent = judged(tmp_path, *RECOMMENDED)
    before: dict[str, float] = {}
    for planned in SEQUENCES[name]:
        step = _placed(planned, str(agent.files))
        await agent.play(step)
        if callable(step):
            before = _protected(agent.files)
        assert not list(agent.files.rglob("RAN")), step
        assert _protected(agent.files) == before, step

    assert "ask" in {told.verdict.effect for told in agent.told}


def _placed(step: Step, files: str) -> Step:
    """Return a step with the workspace's path in it, as the model sees it."""
    if isinstance(step, str):
        return step.replace("{files}", files)
    return step if callable(step) else (step[0], step[1].replace("{files}", files), step[2])


def _protected(files: Path) -> dict[str, float]:
    """Return when what configures programs was changed."""
    names = (".git/config", "sub/.git/config", ".gitattributes", "Makefile", "tool")
    return {name: (files / name).stat().st_mtime for name in names if (files / name).exists()}


@needs_sandbox
async def test_an_ordinary_repository_needs_no_question(tmp_path: Path) -> None:
    """A coding agent edits, looks, commits, and runs its tests by its owner's word."""
    agent = judged(
        tmp_path,
        "bash:git status*", "bash:git diff*", "bash:git log*", "bash:git add *",
        "bash:git commit *", "bash:git init*", "bash:ls*", "bash:cat *", "bash:mkdir *",
        "bash:grep *", "code:sh run_tests.txt", "code:python3 -m unittest*",
    )  # fmt: skip

    words = await agent.play(
        "git init",
        "git status",
        ("write", "src/app.py", "def two():\n    return 2\n"),
        ("write", "tests/test_app.py", "import unittest\n"),
        ("write", ".gitignore", "*.pyc\n"),
        ("write", "notes.md", "# Notes\n"),
        "git status --short",
        "git add -A && git commit -m 'first: two'",
        "python3 -m unittest -q",
        "git diff HEAD && git log --oneline | cat -",
        "ls -la src && grep -rn two src",
        "mkdir -p docs/deep",
        "git commit --allow-empty -m again",
    )

    assert [told.verdict.reason for told in agent.told] == [""] * len(words)
    assert "first: two" in agent.told[-4].output
    assert (agent.files / ".git/COMMIT_EDITMSG").read_text() == "again\n"


@needs_sandbox
async def test_what_the_environment_forces_does_not_ask(tmp_path: Path) -> None:
    """Repositories with hooks and signed commits are ordinary, and run neither here."""
    agent = judged(tmp_path, *RECOMMENDED)
    config = "[core]\n\thooksPath = .husky\n[commit]\n\tgpgSign = true\n"

    words = await agent.play(
        _repository(config=config), _write(".husky/pre-commit", RUN, mode=0o755), "git commit -am x"
    )

    assert words == ["allow"]
    assert not (agent.files / "RAN").exists()


@table(
    ("step", "parts"),
    [
        (
            ("write", ".git/config", ""),
            ["writing .git/config needs a person", "'.git'", "write:.git/config"],
        ),
        (("write", "Makefile", ""), ["'Makefile' says what is run to build, test or install"]),
        (("write", "x.sh", RUN), ["writing x.sh", "begins with #!"]),
        ("pytest -q", ["pytest builds or tests", "no bash: pattern", "code:pytest -q"]),
        ("./x.sh", ["./x.sh is a file", "code:./x.sh"]),
        ("cp a .git/config", ["cp would write .git/config"]),
        ("frobnicate a.txt", ["frobnicate is no program that is known here", "a.txt"]),
        ("git status", ["git may run", ".git/config, line", "filter.x.clean", "code:git status"]),
        ("less x", ["less can open", "code:less x"]),
        ("sort --compress-program=x", ["sort --compress-program can run a program"]),
    ],
    ids=str,
)
async def test_a_question_says_what_would_run_and_what_to_write(
    tmp_path: Path, step: Step, parts: list[str]
) -> None:
    """Whoever is asked should not have to know git's manual."""
    agent = judged(tmp_path, "bash:*")
    await agent.play(_repository(config=FILTER), _write("a.txt", "x"), step)

    verdict = agent.told[-1].verdict
    assert (verdict.effect, verdict.pattern) == ("ask", "")
    assert [part for part in parts if part not in verdict.reason] == []


async def test_code_is_allowed_in_the_sandbox_alone(tmp_path: Path) -> None:
    """The owner's word holds for what cannot leave the workspace."""
    call = ToolCall(call_id="c", name="bash", arguments='{"command": "pytest -q"}')
    verdicts: list[Verdict] = []
    networked = replace(BWRAP, network=True)
    for number, confinement in enumerate((BWRAP, PLAIN, networked)):
        agent = judged(tmp_path / str(number), "code:pytest *", confinement=confinement)
        verdicts.append(await agent.gate.evaluate(call, agent.tools["bash"], agent.context))

    assert [verdict.effect for verdict in verdicts] == ["allow", "ask", "ask"]
    why = "code: patterns count only in the sandbox bwrap without network"
    assert all(why in verdict.reason for verdict in verdicts[1:])


async def test_a_file_that_a_pattern_runs_cannot_be_written(tmp_path: Path) -> None:
    """Who may run it without a question may not say what it does as well."""
    agent = judged(tmp_path, "code:sh tools/report.sh *", "bash:cat notes.txt", "bash:tee *")

    words = await agent.play(
        ("write", "tools/report.sh", "touch RAN\n"),
        ("write", "Tools/../tools/REPORT.sh", "x"),
        ("write", "tools/other.sh", "x"),
        ("write", "notes.txt", "x"),
        "cat notes.txt | tee tools/report.sh",
    )

    assert words == ["ask", "ask", "allow", "allow", "ask"]


REPLACED: dict[str, list[Step]] = {
    "by the tools": [
        ("write", "tools/report.sh", "touch RAN\n"),
        ("write", "TOOLS/report.sh", "touch RAN\n"),
    ],
    "by commands": [
        "cp x/report.sh tools",
        "cp x/report.sh tools/report.sh",
        "cp -r x/. tools",
        "cp -rT x tools",
        "mv x/report.sh tools/",
        "cat x/report.sh | tee tools/report.sh",
        "cat x/report.sh | tee tools/*",
        "rm tools/report.sh",
        "sed -i 's/echo ok/touch RAN/' tools/report.sh",
    ],
    "by another folder": [
        "mv tools old && mv x tools",
        "mv tools old",
        "rm -r tools",
        "mv x tools",
        "ln -s x tools",
        "ln -sfn x tools",
        "cd tools && cp ../x/report.sh .",
        "git mv tools old",
    ],
    "by git": [
        "git add -A",
        "git commit -m x",
        "git checkout HEAD:x -- report.sh",
        "cd tools && git checkout HEAD:x -- report.sh",
        "git restore --source=HEAD:x report.sh",
        "git restore -s HEAD:x tools/report.sh",
        "git read-tree --prefix=tools/ HEAD:x",
        "git merge -Xsubtree=tools HEAD",
        "git mv -f x/report.sh tools/report.sh",
        "git show HEAD:x/report.sh | tee tools/report.sh",
        "git show --output=tools/report.sh HEAD:x/report.sh",
        "git config filter.x.clean get",
        "git config filter.x.clean --get",
        "git apply x.patch",
    ],
}


@needs_sandbox
@table("way", REPLACED)
async def test_what_may_run_stays_what_it_was(tmp_path: Path, way: str) -> None:
    """A script that a pattern runs, and a model that tries to put another in its place."""
    agent = judged(tmp_path, *RECOMMENDED, "code:sh tools/report.sh")
    await agent.play(
        _repository(),
        _write("tools/report.sh", "echo ok\n"),
        ("write", "x/report.sh", "touch RAN\n"),
    )
    for step in REPLACED[way]:
        await agent.play(step)
        ran = await agent.bash("sh tools/report.sh")
        assert (ran.verdict.effect, ran.output) == ("allow", "ok"), step
        assert not list(agent.files.rglob("RAN")), step


async def test_an_owner_can_let_a_protected_file_be_written_or_forbid_any(tmp_path: Path) -> None:
    """By its path, and in mode restrict there is no other way; or whatever else is allowed."""
    allowing = judged(
        tmp_path / "1", "write:pyproject.toml", "write:.github/*", "builtin:*", mode="restrict"
    )
    forbidding = judged(tmp_path / "2", "builtin:write_file", deny=["write:*.md"])

    words = await allowing.play(
        ("write", "pyproject.toml", ""),
        ("write", ".github/workflows/x.yml", ""),
        ("write", "sub/pyproject.toml", ""),
        ("write", ".git/config", ""),
        ("write", "notes.txt", ""),
    )

    assert words == ["allow", "allow", "deny", "deny", "allow"]
    words = await forbidding.play(("write", "docs/x.md", ""), ("write", "x.txt", ""))
    assert words == ["deny", "allow"]


async def test_a_path_that_leads_elsewhere_than_when_it_was_judged_is_not_written(
    tmp_path: Path,
) -> None:
    """Another session may put a link in the place of a folder between the two."""
    agent = judged(tmp_path)
    (agent.files / "src").mkdir()
    await agent.play(_repository())
    call = ToolCall(
        call_id="c", name="write_file", arguments='{"path": "src/config", "content": "x"}'
    )
    verdict = await agent.gate.evaluate(call, agent.tools["write_file"], agent.context)
    before = (agent.files / ".git/config").read_text()
    (agent.files / "src").rmdir()
    (agent.files / "src").symlink_to(".git")

    with pytest.raises(Exception, match=r"\.git/config.*needs a person's word"):
        await agent.tools["write_file"].run(call, agent.context)

    assert verdict.effect == "allow"
    assert (agent.files / ".git/config").read_text() == before


async def test_a_file_that_became_a_program_is_not_written(tmp_path: Path) -> None:
    """It was judged as a text."""
    agent = judged(tmp_path)
    await agent.play(_write("notes.txt", "x"))
    call = ToolCall(
        call_id="c", name="write_file", arguments='{"path": "notes.txt", "content": "y"}'
    )
    await agent.gate.evaluate(call, agent.tools["write_file"], agent.context)
    (agent.files / "notes.txt").chmod(0o755)

    with pytest.raises(Exception, match="run bit"):
        await agent.tools["write_file"].run(call, agent.context)

    assert (agent.files / "notes.txt").read_text() == "x"


async def test_an_edit_is_judged_by_what_it_makes_of_the_file(tmp_path: Path) -> None:
    """Two characters at its beginning make a script of a text."""
    agent = judged(tmp_path)
    await agent.play(_write("a.txt", "/bin/sh\nx\n"), _write("b.txt", "#!/bin/sh\n"))

    words = [
        (await agent.call("edit_file", path=path, old_text=old, new_text=new)).verdict.effect
        for path, old, new in (
            ("a.txt", "x", "y"),
            ("a.txt", "/bin/sh", "#!/bin/sh"),
            ("b.txt", "#!/bin/sh", "text"),
        )
    ]

    assert words == ["allow", "ask", "ask"]


def test_what_was_judged_is_kept_for_a_while() -> None:
    """Not for ever, and for no other call."""
    writes = JudgedWrites()
    for number in range(5000):
        writes.note("s", str(number), "x")

    assert writes.is_judged("s", "4999", "x")
    assert not writes.is_judged("s", "4999", "y")
    assert not writes.is_judged("t", "4999", "x")
    assert not writes.is_judged("s", "0", "x")
