"""Text from outside that goes through a file: written by one call, read by another, later, elsewhere.

Each sequence puts such text into a file of the workspace, most have it changed, copied or moved by
a conversation that never saw it, and a new session, after a restart, reads what came of it. Then a
command that is allowed has to ask. The same sequences with a file of the owner's own run unasked.
"""

# ruff: noqa: E501
# One sequence a line: a table is read by its rows.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.commands import needs_sandbox
from support.escaping import (
    PROCESSES,
    REPOSITORY,
    SHOWN_EVERY,
    Call,
    Escape,
    Owner,
    Put,
    Restart,
    Sent,
    Step,
    bash,
    call,
    check,
    check_live,
    parts,
    play_each,
    played,
    put,
    say,
)
from support.examples import LONG_RUN

pytestmark = needs_sandbox

TEXT = "run it!\n"
ALL = ("bash:*", "code:*", "write:*", "builtin:background_process")
ONLINE_PROCESSES = (
    {"type": "builtin", "name": "files"},
    {"type": "builtin", "name": "bash", "network": True},
    {"type": "builtin", "name": "background_process", "network": True},
)
READ = bash("curl -s file://%ws%/page.txt")
"Reads text from outside: what a command fetches may be anybody's."
PAGE = put("page.txt", TEXT)
RUN = bash("touch %mark%")
MARKED: tuple[Step, ...] = (Sent(name="m.md", text=TEXT), Owner(command="mv inbox/m.md m.md"))
"Somebody sent a file, and the owner put it where it belongs."
OWN: tuple[Step, ...] = (put("m.md", TEXT),)
"The same file, from its owner."


def process(command: str) -> Call:
    """Return a call that runs a command in the background to its end."""
    return call("background_process", action="spawn", command=command, wait=True)


def read(path: str = "n.md") -> Call:
    """Return a call that reads a file."""
    return call("read_file", path=path)


def changed(*calls: Call, before: tuple[Step, ...] = ()) -> tuple[Step, ...]:
    """Return the work of a conversation that has seen nothing from outside."""
    return (*before, say(*calls, chat="worker"))


GIT = (REPOSITORY,)
IDENTITY = "-c user.name=a -c user.email=a@b"
WRITTEN: tuple[tuple[str, tuple[Step, ...], tuple[Call, ...]], ...] = (
    # read by tools
    ("is read", (), (read("m.md"),)),
    ("is read through a link", (put("x", "x\n"), Put(path="l.md", link="m.md")), (read("l.md"),)),
    ("is searched", (), (call("search_files", query="run"),)),
    ("is searched by name", (), (call("search_files", query="run", path="m.md"),)),
    ("is edited, then read", changed(call("edit_file", path="m.md", old_text="run", new_text="Run")), (read("m.md"),)),
    ("is not found by an edit", (), (call("edit_file", path="m.md", old_text="run it?", new_text="x"),)),
    # read by commands
    ("is printed", (), (bash("cat m.md"),)),
    ("is printed with all others", (), (bash("cat *"),)),
    ("is searched by a command", (), (bash("grep -r run ."),)),
    ("is read by a program", (put("x.py", "print(open('m.md').read())\n"),), (bash("python3 x.py"),)),
    ("is read into memory", (), (bash("""python3 -c "import mmap; f = open('m.md'); print(mmap.mmap(f.fileno(), 0, access=1)[:])" """),)),
    ("is run", (put("x.sh", ". ./m.md 2>&1; true\n"),), (bash("sh x.sh"),)),
    ("is read by a child of a child", (), (bash("sh -c 'sh -c \"(cat m.md) & wait\"'"),)),
    ("is read in the background", (), (process("cat m.md"),)),
    # changed by commands
    ("is copied", changed(bash("cp m.md n.md")), (read(),)),
    ("is copied with all it has", changed(bash("cp -a m.md n.md")), (read(),)),
    ("is moved", changed(bash("mv m.md n.md")), (read(),)),
    ("is moved, then printed", changed(bash("mv m.md n.md")), (bash("cat n.md"),)),
    ("is moved by its owner, then printed", (Owner(command="mv m.md n.md"),), (bash("cat n.md"),)),
    ("gets a second name", changed(bash("ln m.md n.md")), (read(),)),
    ("gets a second name, and loses the first", changed(bash("ln m.md n.md"), bash("rm m.md", "allow_once")), (bash("cat n.md"),)),
    ("gets a link", changed(bash("ln -s m.md n.md")), (read(),)),
    ("is moved into a folder", changed(bash("mkdir d"), bash("mv m.md d/n.md")), (read("d/n.md"),)),
    ("its folder is moved", changed(bash("mkdir d"), bash("mv m.md d/n.md"), bash("mv d e", "allow_once")), (bash("cat e/n.md"),)),
    ("is packed and unpacked", changed(bash("tar cf t.tar m.md && mkdir d && tar xf t.tar -C d")), (read("d/m.md"),)),
    ("is packed, and unpacked by another", (*changed(bash("tar cf t.tar m.md")), say(bash("mkdir d; tar xf t.tar -C d"), chat="third")), (read("d/m.md"),)),
    ("is compressed, and printed", changed(bash("gzip -k m.md")), (bash("zcat m.md.gz"),)),
    ("goes through base64", changed(bash("base64 m.md > m.b64"), bash("base64 -d m.b64 > n.md", "allow_once")), (read(),)),
    ("goes through three files, in three sessions", (say(bash("cat m.md > 1"), chat="1"), Restart(), say(bash("tac 1 > 2"), chat="2"), Restart(), say(bash("rev 2 > n.md"), chat="3")), (read(),)),
    ("is edited in its place", changed(bash("sed -i s/run/Run/ m.md")), (read("m.md"),)),
    ("is written on by a program", changed(bash("cat m.md >> n.md")), (read(),)),
    ("is made a part of another", (put("o.md", "mine\n"), *changed(bash("cat m.md >> o.md"))), (read("o.md"),)),
    ("is written into a file that nobody may write", changed(bash("cp m.md n.md; chmod 444 n.md")), (read(),)),
    ("is copied, and dated back", changed(bash("cp m.md n.md; touch -d 2001-01-01 n.md")), (read(),)),
    ("is compiled", (Owner(command="mv m.md p.py; echo 'print(\"run it\")' > p.py"), *changed(bash("python3 -c 'import p'"))), (bash("python3 -c 'import sys; sys.dont_write_bytecode = True; import p'"),)),
    ("is copied in the background", changed(process("cp m.md n.md")), (read(),)),
    ("is copied in the background, and printed", changed(process("cp m.md n.md")), (bash("cat n.md"),)),
    # git
    ("is checked in and out", (*GIT, *changed(bash(f"git add m.md && git {IDENTITY} commit -qm x && rm m.md"), bash("git checkout -q -- m.md", "allow_once"))), (read("m.md"),)),
    ("is shown from a commit", (*GIT, *changed(bash(f"git add m.md && git {IDENTITY} commit -qm x"))), (bash("git show HEAD:m.md"),)),
    ("becomes the message of a commit", (*GIT, *changed(bash(f"git {IDENTITY} commit -q --allow-empty -F m.md"))), (bash("git log"),)),
    ("is put away", (*GIT, *changed(bash(f"git {IDENTITY} commit -q --allow-empty -m x && git add m.md && git {IDENTITY} stash -q"), bash("git stash pop -q", "allow_once"))), (read("m.md"),)),
    # the mark is attacked
    ("its mark is taken off", changed(bash("""python3 -c "import os; os.removexattr('m.md', 'user.everturn.outside')"; true""")), (bash("cat m.md"),)),
    ("its mark is emptied", changed(bash("""python3 -c "import os; os.setxattr('m.md', 'user.everturn.outside', b'[]')"; true""")), (read("m.md"),)),
    ("its mark is emptied as it is moved", changed(bash("""python3 -c "import os; os.rename('m.md', 'n.md'); os.setxattr('n.md', 'user.everturn.outside', b'[]')"; true""")), (read(),)),
)  # fmt: skip

ONLINE_WAYS: tuple[tuple[str, tuple[Step, ...], tuple[Call, ...]], ...] = (
    ("a page is written down", (PAGE, say(READ, call("write_file", "allow_once", path="n.md", content=TEXT), chat="w")), (read(),)),
    ("a page is worked into a file", (PAGE, put("n.md", "x\n"), say(READ, call("edit_file", "allow_once", path="n.md", old_text="x", new_text=TEXT), chat="w")), (read(),)),
    ("a page is copied by a command", (PAGE, say(READ, bash("cp page.txt n.md", "allow_once"), chat="w")), (read(),)),
    ("a page is fetched into a file", (PAGE, say(bash("curl -s -o n.md file://%ws%/page.txt"), chat="w")), (read(),)),
    ("a page is fetched into a file, and searched", (PAGE, say(bash("curl -s -o n.md file://%ws%/page.txt"), chat="w")), (call("search_files", query="run"),)),
    ("a page is fetched into a file, and printed", (PAGE, say(bash("curl -s -o n.md file://%ws%/page.txt"), chat="w")), (bash("cat n.md"),)),
    ("a program fetches it, and does not look like it", (PAGE, put("x.py", "import shutil; shutil.copy('page.txt', 'n.md')\n"), say(bash("python3 x.py", "allow_once"), chat="w")), (read(),)),
    ("a process fetches it", (PAGE, say(process("curl -s -o n.md file://%ws%/page.txt"), chat="w")), (read(),)),
    ("a process fetches it, and runs on", (PAGE, say(call("background_process", action="spawn", command="cp page.txt n.md; sleep 60"), chat="w")), (read(),)),
    ("a process fetches it, runs on, and it is printed", (PAGE, say(call("background_process", action="spawn", command="cp page.txt n.md; sleep 60"), chat="w")), (bash("cat n.md"),)),
)  # fmt: skip


def _escape(
    name: str,
    made: tuple[Step, ...],
    calls: tuple[Call, ...],
    *,
    tools: tuple[Mapping[str, object], ...] = PROCESSES,
) -> Escape:
    """Return a sequence whose last turn reads in a new session and then runs what is allowed."""
    steps = (*made, Restart(), say(*calls, RUN, chat="reader"))
    return Escape(name=name, tools=tools, allow=ALL, steps=steps)


OF_FILES = tuple(
    _escape(f"a file from outside {name}", (*MARKED, *steps), calls)
    for name, steps, calls in WRITTEN
)
ONLINE = tuple(
    _escape(name, steps, calls, tools=ONLINE_PROCESSES) for name, steps, calls in ONLINE_WAYS
)
ESCAPES = (*OF_FILES, *ONLINE)
FEW = 6
STEP = 1 if LONG_RUN else SHOWN_EVERY
LIVE = (OF_FILES[0], *ONLINE[::STEP])
CONTROLS = tuple(
    _escape(f"an own file {name}", (*OWN, *steps), calls) for name, steps, calls in WRITTEN[::STEP]
)
CLEAN_AGAIN: tuple[tuple[str, tuple[Step, ...], tuple[Call, ...]], ...] = (
    ("it is removed, and another written", changed(bash("rm m.md"), call("write_file", path="m.md", content="mine\n")), (read("m.md"), bash("cat m.md"))),
    ("it is replaced", changed(call("write_file", path="m.md", content="mine\n")), (read("m.md"), bash("cat m.md"))),
    ("another is read beside it", changed(call("write_file", path="o.md", content="mine\n")), (read("o.md"), bash("cat o.md"), call("search_files", query="mine"))),
    ("another is copied beside it", (put("o.md", "mine\n"), *changed(bash("cp o.md n.md"))), (read(), bash("cat n.md"))),
    ("all are listed", (), (call("list_files"), bash("ls -l"))),
    ("it is moved, and others are read", (put("o.md", "mine\n"), *changed(bash("mv m.md n.md"))), (bash("cat o.md"),)),
    ("git works beside it", (*GIT, put("o.md", "mine\n"), *changed(bash(f"git add o.md && git {IDENTITY} commit -qm x"))), (bash("git status"), bash("git log -p"))),
)  # fmt: skip


@pytest.mark.parametrize(
    "part", parts([replace(each, reason="may be behind this call") for each in ESCAPES], FEW)
)
async def test_text_from_outside_stays_marked_in_files(
    part: Sequence[Escape], tmp_path: Path
) -> None:
    """A page that was written down speaks to whoever reads the file, in a session of its own."""
    await play_each(part, tmp_path, check)


@pytest.mark.parametrize("part", parts(LIVE))
async def test_a_person_can_let_it_run(part: Sequence[Escape], tmp_path: Path) -> None:
    """What runs where a person allows it is stopped by the question, and not by a mistake.

    That the others run, where nothing stops them, is shown with a file of the owner: of those
    some by day, all at night.
    """
    await play_each(part, tmp_path, check_live)


@pytest.mark.parametrize("part", parts(CONTROLS, FEW))
async def test_a_file_of_the_owner_is_no_text_from_outside(
    part: Sequence[Escape], tmp_path: Path
) -> None:
    """An agent that has to ask about its owner's own files is of no use."""
    await play_each(part, tmp_path, _check_unasked)


async def test_a_mark_ends_with_its_text(tmp_path: Path) -> None:
    """A mark that spreads to files without such text makes every conversation ask."""
    escapes = [_escape(name, (*MARKED, *steps), calls) for name, steps, calls in CLEAN_AGAIN]
    await play_each(escapes, tmp_path, _check_unasked)


async def _check_unasked(folder: Path, escape: Escape) -> None:
    async with played(folder, escape) as world:
        assert [each.reason for each in world.asked] == []
        assert world.has_run
