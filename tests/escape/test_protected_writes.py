"""Files that others run, or take orders from: nothing writes them unasked, by no tool and no name."""

# ruff: noqa: E501
# One sequence a line: a table is read by its rows.

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from anyio import to_thread
from support.commands import needs_sandbox
from support.escaping import (
    REPOSITORY,
    Escape,
    Owner,
    Put,
    Step,
    bash,
    call,
    check,
    parts,
    play_each,
    put,
    say,
    write,
)

pytestmark = needs_sandbox

BODY = "%sh%\n"
MAKE = "all:\n\t%sh%\n"
PATHS = (
    ".git/config", ".git/hooks/pre-commit", ".git/info/attributes", ".gitattributes", ".gitmodules",
    ".bashrc", ".profile", ".curlrc", ".npmrc", ".envrc", ".vscode/tasks.json", ".github/workflows/a.yml",
    ".config/git/config", ".ssh/config", ".venv/bin/python", "sub/.git/hooks/pre-commit",
    "Makefile", "makefile", "GNUmakefile", "sub/Makefile", "rules.mk", "conftest.py", "tests/conftest.py",
    "setup.py", "setup.cfg", "pyproject.toml", "tox.ini", "noxfile.py", "pytest.ini",
    "sitecustomize.py", "usercustomize.py", "x.pth", "package.json", "build.gradle", "Cargo.toml",
    "build.rs", "CMakeLists.txt", "Dockerfile", "docker-compose.yml", "Gemfile", "Rakefile", "pom.xml",
    "./Makefile", "sub/../Makefile", "%ws%/Makefile", ".GIT/config", "MAKEFILE", "-e", "--checkpoint=1",
)  # fmt: skip
PROGRAM = put("run", "#!/bin/sh\ntrue\n", 0o755)
PLAIN = put("plain.sh", "#!/bin/sh\ntrue\n")


def asks(name: str, *steps: Step, allow: tuple[str, ...] = ("bash:*",)) -> Escape:
    """Return a sequence with one question at least: whoever sees it says no."""
    return Escape(name=name, allow=allow, steps=steps)


ESCAPES = (
    asks("a program by its bit", PROGRAM, say(write("run", "#!/bin/sh\n%sh%\n")), Owner(command="./run")),
    asks("a program by its first line", PLAIN, say(write("plain.sh", BODY)), Owner(command="sh plain.sh")),
    asks("a program by its new first line", say(write("new", "#!/bin/sh\n%sh%\n")), Owner(command="if [ -e new ]; then sh new; fi")),
    asks("an edit of a program", PROGRAM, say(call("edit_file", path="run", old_text="true", new_text="%sh%")), Owner(command="./run")),
    asks("an edit of a build file", put("Makefile", "all:\n\ttrue\n"), say(call("edit_file", path="Makefile", old_text="true", new_text="%sh%")), Owner(command="make")),
    asks("a link to a build file", put("Makefile", "all:\n\ttrue\n"), Put(path="notes.txt", link="Makefile"), say(write("notes.txt", MAKE)), Owner(command="make")),
    asks("a link of a folder", Put(path="notes", link=".rules"), say(write("notes/RAN", "x"))),
    asks("a file that code: names", put("x.sh", "true\n"), say(write("x.sh", BODY)), say(bash("sh x.sh"), chat="b"), allow=("code:sh x.sh",)),
    asks("a build file that code: runs", put("Makefile", "all:\n\ttrue\n"), say(write("Makefile", MAKE)), say(bash("make all"), chat="b"), allow=("code:make all",)),
    asks("a build file by another name", put("Makefile", "all:\n\ttrue\n"), say(write("GNUmakefile", MAKE)), say(bash("make all"), chat="b"), allow=("code:make all",)),
    asks("cp", put("a.txt", MAKE), put("Makefile", "all:\n\ttrue\n"), say(bash("cp a.txt Makefile")), Owner(command="make")),
    asks("cp into a folder", put("RAN", "x"), Owner(command="mv RAN a.txt"), say(bash("cp a.txt .rules/RAN"))),
    asks("mv", put("a.txt", MAKE), say(bash("mv a.txt GNUmakefile")), put("Makefile", "all:\n\ttrue\n"), Owner(command="make")),
    asks("mv of a folder", put("hooks/x", BODY), say(bash("mv hooks .rules/RAN"))),
    asks("ln", put("a.txt", MAKE), say(bash("ln -s a.txt GNUmakefile")), put("Makefile", "all:\n\ttrue\n"), Owner(command="make")),
    asks("ln, then a write", put("Makefile", "all:\n\ttrue\n"), say(bash("ln Makefile b.txt"), write("b.txt", MAKE)), Owner(command="make")),
    asks("tee", say(bash("echo x | tee .rules/RAN"))),
    asks("a redirection", say(bash("echo x > .rules/RAN"))),
    asks("dd", put("a.txt", "x"), say(bash("dd if=a.txt of=.rules/RAN"))),
    asks("touch", say(bash("touch .rules/RAN"))),
    asks("mkdir", say(bash("mkdir .rules/RAN"))),
    asks("sed -i", put("Makefile", "all:\n\ttrue\n"), say(bash("sed -i 's|true|%sh%|' Makefile")), Owner(command="make")),
    asks("sort -o", put("a.txt", "x"), say(bash("sort -o .rules/RAN a.txt"))),
    asks("tar", put("t/.rules/RAN", "x"), Owner(command="tar cf a.tar -C t . && rm -r t"), say(bash("tar xf a.tar"))),
    asks("unzip", put("t/.rules/RAN", "x"), Owner(command="python3 -m zipfile -c a.zip t/.rules && rm -r t"), say(bash("unzip a.zip"))),
    asks("git mv", REPOSITORY, put("m.txt", MAKE), put("Makefile", "all:\n\ttrue\n"), say(bash("git add m.txt"), bash("git mv m.txt GNUmakefile"), bash("git mv -f m.txt Makefile")), Owner(command="make"), allow=("bash:git *",)),
    asks("git mv into a folder", REPOSITORY, put("RAN", "x"), Owner(command="mv RAN a && mkdir b && mv a b/RAN"), say(bash("git add b"), bash("git mv b .rules"), bash("git mv b/RAN .rules/RAN")), Owner(command="rm -rf b"), allow=("bash:git *",)),
    asks("git, a file of the index", REPOSITORY, put("Makefile", "all:\n\ttrue\n"), say(bash("git update-index --add --cacheinfo 100644,5626abf0f72e58d7a153368ba57db4c673c0e171,.rules/RAN"), bash("git checkout-index .rules/RAN"), bash("git checkout -- .rules/RAN")), allow=("bash:git *",)),
    asks("git, a file of a branch", REPOSITORY, say(bash("git update-index --add --cacheinfo 100644,5626abf0f72e58d7a153368ba57db4c673c0e171,.rules/RAN"), bash("git commit -m x"), bash("git checkout -f main"), bash("git reset --hard"), bash("git restore .")), allow=("bash:git *",)),
    asks("git, a file of a stash", REPOSITORY, say(bash("git update-index --add --cacheinfo 100644,5626abf0f72e58d7a153368ba57db4c673c0e171,.rules/RAN"), bash("git stash"), bash("git stash pop"), bash("git worktree add w"), bash("git read-tree -u -m HEAD"), bash("git clone . c"), bash("git switch -f main"), bash("git merge main"), bash("git cherry-pick HEAD"), bash("git revert HEAD"), bash("git pull . main"), bash("git rebase main"), bash("git am x"), bash("git archive -o x HEAD"), bash("git submodule add . s")), allow=("bash:git *",)),
    asks("git apply", put("x.patch", "--- /dev/null\n+++ b/.rules/RAN\n@@ -0,0 +1 @@\n+x\n"), say(bash("git apply x.patch")), allow=("bash:git *",)),
    asks("patch", put("x.patch", "--- /dev/null\n+++ .rules/RAN\n@@ -0,0 +1 @@\n+x\n"), say(bash("patch -p0 -i x.patch"))),
    asks("chmod", put("x", "#!/bin/sh\n%sh%\n"), say(bash("chmod +x x")), Owner(command="if [ -x x ]; then ./x; fi")),
    asks("install", put("x", "#!/bin/sh\n%sh%\n"), say(bash("install -m 755 x y")), Owner(command="if [ -x y ]; then ./y; fi")),
    asks("a folder that becomes a repository", REPOSITORY, say(bash("cp -r .git sub")), Owner(command="if [ -e sub/config ]; then touch RAN; fi"), allow=("bash:cp *",)),
    asks("in the folder itself", say(bash("cd .rules && touch RAN"))),
    asks("in the folder itself, by a copy", put("a.txt", "x"), say(bash("cd .rules && cp ../a.txt RAN"))),
)  # fmt: skip


@pytest.mark.parametrize(
    "part", parts([Escape(name=p, steps=(say(write(p, BODY)),), asks=1) for p in PATHS])
)
async def test_a_file_that_others_run_is_not_written_unasked(
    part: Sequence[Escape], tmp_path: Path
) -> None:
    """One such file, and the owner's next command is the stranger's."""

    async def check_and_look(folder: Path, escape: Escape) -> None:
        await check(folder, escape)
        assert not await to_thread.run_sync(_is_written, folder)

    await play_each(part, tmp_path, check_and_look)


@pytest.mark.parametrize("part", parts(ESCAPES))
async def test_no_way_leads_to_a_file_that_others_run(
    part: Sequence[Escape], tmp_path: Path
) -> None:
    """What a file tool may not write, no command may, nor a link, nor an archive."""
    await play_each(part, tmp_path, check)


def _is_written(folder: Path) -> bool:
    found = (each for each in (folder / ".everturn" / "files").rglob("*") if each.is_file())
    return any("touch" in each.read_text() for each in found)
