"""The file tools as an agent calls them: real files, a real search process."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from support.callers import Caller, largest_file
from support.children import Children, until_gone
from support.patience import WAIT_S
from support.tables import table
from support.tool_environments import tool_environment

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.confined import Confined
from everturn_gateway.tools.files import finder, finding, listing, tools
from everturn_gateway.tools.files.editing import Edited, edit
from everturn_gateway.tools.files.finder import LEFT_OUT
from everturn_gateway.tools.files.finding import Finding, SearchQuery
from everturn_gateway.tools.files.listing import HITS_MAX
from everturn_gateway.tools.files.tools import READ_MAX_BYTES, WRITE_MAX_BYTES, file_tools

SLOW_REGEX = r"(a+)+$"
SLOW_TEXT = "a" * 60 + "!"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The workspace, with a few files."""
    return files_in(tmp_path)


def files_in(tmp_path: Path) -> Path:
    """Make a workspace with a few files."""
    folder = tmp_path / "files"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "notes.md").write_text("one\ntwo\nthree\n")
    (folder / "src" / "main.py").write_text("def main():\n    return 'two'\n")
    (folder / "src" / "deep" / "util.py").write_text("# Two\n")
    return folder


def caller(tmp_path: Path, *, read_only: bool = False) -> Caller:
    """Return who calls the file tools."""
    return Caller(file_tools(tool_environment(tmp_path), read_only=read_only))


def refused(why: str) -> pytest.RaisesExc[ToolFailedError]:
    """Expect an error that says this."""
    return pytest.raises(ToolFailedError, match=why)


def test_each_definition_is_short_and_says_how_it_may_be_run(tmp_path: Path) -> None:
    """They are sent with every request; and a call that is run twice has to be one that may be.

    Who may only read has no tool that writes: what is not offered cannot be called by mistake.
    """
    tools = caller(tmp_path).tools
    sizes = {
        name: len(
            json.dumps(
                {
                    "name": name,
                    "description": tool.definition.description,
                    "parameters": dict(tool.definition.parameters),
                }
            )
        )
        for name, tool in tools.items()
    }

    assert max(sizes.values()) < 600, sizes
    assert all(tool.capabilities.safe for tool in tools.values())
    readers = {"read_file", "list_files", "search_files"}
    assert {name for name, tool in tools.items() if tool.capabilities.read_only} == readers
    assert [name for name, tool in tools.items() if tool.capabilities.repeatable] == ["write_file"]
    assert set(caller(tmp_path, read_only=True).tools) == readers


async def test_a_file_is_written_read_changed_and_found(tmp_path: Path) -> None:
    """The way of a piece of work through all five tools, in a folder that is made on first use."""
    call = caller(tmp_path)
    empty = await call("list_files")
    wrote = await call("write_file", path="a/b.md", content="alpha\nbeta\n")
    edited = await call("edit_file", path="a/b.md", old_text="beta", new_text="gamma\ndelta")

    assert empty == "the workspace is empty"
    assert (tmp_path / "files").stat().st_mode & 0o777 == 0o700
    assert wrote == "wrote 11 bytes to a/b.md (a new file)"
    assert edited == "replaced 1 place in a/b.md (line 2)"
    assert await call("read_file", path="a/b.md") == (
        "a/b.md, lines 1-3 of 3:\n1\talpha\n2\tgamma\n3\tdelta"
    )
    assert await call("search_files", query="delta") == "a/b.md:3: delta"
    assert await call("list_files", pattern="*.md") == (
        "files in the workspace that fit *.md:\na/b.md  18 bytes"
    )
    assert await call("write_file", path="a/b.md", content="") == (
        "wrote 0 bytes to a/b.md (it had 18 bytes)"
    )


_OUTSIDE = ("../secret", "TMP/secret", "out/secret", "src/../../secret")


@table(
    ("tool", "path"),
    product(("read_file", "write_file", "edit_file", "list_files"), _OUTSIDE),
)
async def test_no_tool_leaves_the_workspace(tmp_path: Path, tool: str, path: str) -> None:
    """Whichever tool is used, and however the path is written."""
    (tmp_path / "secret").write_text("not for agents")
    (tmp_path / "files" / "src").mkdir(parents=True)
    (tmp_path / "files" / "out").symlink_to(tmp_path)
    more = {
        "write_file": {"content": "x"},
        "edit_file": {"old_text": "not", "new_text": "x"},
    }.get(tool, {})

    with refused("leads out of the workspace"):
        await caller(tmp_path)(tool, path=path.replace("TMP", str(tmp_path)), **more)

    assert (tmp_path / "secret").read_text() == "not for agents"


async def test_searching_and_listing_follow_no_link(tmp_path: Path, files: Path) -> None:
    """They walk by themselves; nobody named the link as a path."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text("two")
    (files / "out").symlink_to(tmp_path / "outside")
    (files / "out.md").symlink_to(tmp_path / "outside" / "secret.md")
    os.mkfifo(files / "pipe.md")
    call = caller(tmp_path)

    assert "secret" not in await call("search_files", query="two")
    assert await call("list_files", pattern="*.md") == (
        "files in the workspace that fit *.md:\nnotes.md  14 bytes"
    )
    with refused("leads out"):
        await call("search_files", query="two", path="out")
    with refused("a pipe"):
        await call("search_files", query="two", path="pipe.md")


@pytest.mark.usefixtures("files")
async def test_folders_that_rule_the_agent_are_closed(tmp_path: Path) -> None:
    """A workspace around the agent's own folder must not let it write its own policy."""
    whole = replace(
        tool_environment(tmp_path),
        files=tmp_path,
        home=tmp_path / "agents" / "a",
        state=tmp_path / ".everturn",
    )
    for name in (".everturn/x.md", "agents/a/policy.yaml", "agents/b/policy.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("two")
    call = Caller(file_tools(whole, read_only=False))

    for path in ("agents/a/policy.yaml", "agents/b/policy.yaml", ".everturn/x.md", "agents/new"):
        with refused("closed to file tools"):
            await call("write_file", path=path, content="mode: dangerous")
        with refused("closed to file tools"):
            await call("read_file", path=path)
    assert await call("search_files", query="two", pattern="*.md") == "files/notes.md:2: two"
    assert "policy" not in await call("list_files", pattern="*.yaml")

    for folder in ("agents/a", "agents", ".everturn"):  # there everything rules some agent
        call = Caller(file_tools(replace(whole, files=tmp_path / folder), read_only=False))
        with refused("closed to file tools"):
            await call("list_files")
        with refused("closed to file tools"):
            await call("write_file", path="a", content="x")


# --- reading and writing ---


async def test_what_is_too_large_is_read_in_part_and_neither_edited_nor_written(
    tmp_path: Path, files: Path
) -> None:
    """What a tool holds in memory has a bound, and what is left out is told.

    A model that repeats itself must not fill the disk in one call either.
    """
    (files / "log").write_text("line\n" * (READ_MAX_BYTES // 5 + 1000))
    call = caller(tmp_path)

    assert "of which only the first" in await call("read_file", path="log")
    with refused("too large to edit"):
        await call("edit_file", path="log", old_text="line", new_text="x")
    with refused("content: 2,097,153 bytes; 2,097,152 are the most"):
        await call("write_file", path="a", content="x" * (WRITE_MAX_BYTES + 1))


async def test_what_is_no_text_is_neither_shown_changed_nor_written(
    tmp_path: Path, files: Path
) -> None:
    """A picture read as text is noise, and one that was edited is broken."""
    (files / "photo.png").write_bytes(b"\x89PNG\r\n\0\0")
    (files / "latin").write_bytes("caf\xe9\n".encode("latin-1"))
    call = caller(tmp_path)

    with refused("photo.png is binary"):
        await call("read_file", path="photo.png")
    with refused("not text in UTF-8"):
        await call("edit_file", path="photo.png", old_text="PNG", new_text="JPG")
    with refused("not text in UTF-8"):
        await call("edit_file", path="latin", old_text="caf", new_text="x")
    with refused("content: holds half of a surrogate pair"):  # which JSON can hold, and no file
        await call("write_file", path="a", content="x\ud800")
    assert r"caf\xe9" in await call("read_file", path="latin")
    assert (files / "latin").read_bytes() == b"caf\xe9\n"


async def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path, files: Path) -> None:
    """The model has to know that its work was not kept, and the old work has to be there."""
    call = caller(tmp_path)
    with largest_file(100), refused("nothing was changed"):
        await call("write_file", path="notes.md", content="x" * 1000)
    with largest_file(100), refused("nothing was changed"):
        await call("edit_file", path="notes.md", old_text="two", new_text="x" * 1000)

    assert (files / "notes.md").read_text() == "one\ntwo\nthree\n"
    listed = await call("list_files")
    assert listed == "the workspace, 2 in all:\nnotes.md  14 bytes\nsrc/"


async def test_edits_of_one_file_at_once_lose_nothing(tmp_path: Path, files: Path) -> None:
    """Two conversations of one agent share its workspace."""
    (files / "list").write_text("".join(f"item {n};\n" for n in range(12)))
    first, second = caller(tmp_path), caller(tmp_path)

    async def tick(number: int) -> None:
        call = first if number % 2 else second
        await call("edit_file", path="list", old_text=f"item {number};", new_text=f"done {number};")

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(tick, number)

    assert (files / "list").read_text() == "".join(f"done {n};\n" for n in range(12))


async def test_what_a_person_wrote_during_an_edit_is_not_lost(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Editors ask for no lock."""

    def slowly(path: str, text: str, old: str, new: str, *, every: bool) -> Edited:
        (files / "notes.md").write_text("by hand")
        return edit(path, text, old, new, every=every)

    monkeypatch.setattr(tools, "edit", slowly)

    with refused("was changed by someone else meanwhile"):
        await caller(tmp_path)("edit_file", path="notes.md", old_text="two", new_text="2")

    assert (files / "notes.md").read_text() == "by hand"


# --- listing ---


async def test_a_folder_is_listed_with_what_each_entry_is(tmp_path: Path, files: Path) -> None:
    """Sizes and kinds save a call that would fail; where it is no folder, what to do instead."""
    os.mkfifo(files / "pipe")
    (files / "link").symlink_to("notes.md")
    (files / "new\nline").write_text("")
    call = caller(tmp_path)

    assert await call("list_files") == (
        "the workspace, 5 in all:\n"
        "link -> notes.md\n"
        "new\\nline  0 bytes\n"
        "notes.md  14 bytes\n"
        "pipe  (a pipe)\n"
        "src/"
    )
    with refused("read it with read_file"):
        await call("list_files", path="notes.md")


@table(
    ("pattern", "found"),
    [
        ("*.py", ["src/deep/util.py", "src/main.py"]),
        ("src/*.py", ["src/deep/util.py", "src/main.py"]),
        ("**/*.py", ["src/deep/util.py", "src/main.py"]),
        ("./notes.md", ["notes.md"]),
        ("**/notes.md", ["notes.md"]),
        ("main*", ["src/main.py"]),
        ("[", []),
    ],
)
async def test_patterns_find_what_people_mean_by_them(
    tmp_path: Path, pattern: str, found: list[str]
) -> None:
    """Models write all of these forms."""
    files_in(tmp_path)
    listed = await caller(tmp_path)("list_files", pattern=pattern)

    assert sorted(line.split("  ")[0] for line in listed.split("\n")[1:]) == found


async def test_a_long_listing_goes_on_where_it_says(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left out without a word, and all of it can be had."""
    monkeypatch.setattr(listing, "ENTRIES_MAX", 3)
    monkeypatch.setattr(tools, "ENTRIES_MAX", 3)
    for number in range(4):
        (files / "src" / f"f{number}").write_text("")
    call = caller(tmp_path)

    assert await call("list_files", path="src") == (
        "src/, 6 in all, 1-3:\ndeep/\nf0  0 bytes\nf1  0 bytes\n(goes on: offset=4)"
    )
    assert await call("list_files", path="src", offset=4) == (
        "src/, 6 in all, 4-6:\nf2  0 bytes\nf3  0 bytes\nmain.py  29 bytes"
    )
    assert (await call("list_files", pattern="f?")).endswith("f2  0 bytes\n(goes on: offset=4)")
    assert await call("list_files", pattern="f?", offset=4) == (
        "files in the workspace that fit f?:\nsrc/f3  0 bytes"
    )
    with refused("offset: src/ has 6 entries"):
        await call("list_files", path="src", offset=7)
    with refused("offset: 4 files"):
        await call("list_files", pattern="f?", offset=9)


# --- searching ---


@pytest.mark.usefixtures("files")
async def test_a_search_finds_lines_by_text_by_case_and_by_expression(tmp_path: Path) -> None:
    """Plain text first: dots and brackets are what code is made of."""
    call = caller(tmp_path)

    assert await call("search_files", query="main()") == "src/main.py:1: def main():"
    assert await call("search_files", query="two", ignore_case=True) == (
        "notes.md:2: two\nsrc/main.py:2:     return 'two'\nsrc/deep/util.py:1: # Two"
    )
    assert await call("search_files", query=r"^t\w+$", regex=True) == (
        "notes.md:2: two\nnotes.md:3: three"
    )
    assert await call("search_files", query="two", pattern="*.py", path="src") == (
        "src/main.py:2:     return 'two'"
    )
    assert await call("search_files", query="two", path="notes.md") == "notes.md:2: two"
    assert await call("search_files", query="nowhere") == "nothing found in 3 files"


async def test_an_expression_that_never_ends_is_given_up(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold the whole gateway, were it matched there."""
    monkeypatch.setattr(finding, "_FILE_S", 1)
    (files / "a.txt").write_text(f"{SLOW_TEXT}\n")
    (files / "b.txt").write_text("aa\n")

    assert await caller(tmp_path)("search_files", query=SLOW_REGEX, regex=True) == (
        "b.txt:1: aa\n(given up, the regex takes too long there: a.txt)"
    )


async def test_a_search_that_is_cancelled_leaves_no_process(
    tmp_path: Path, files: Path, children: Children
) -> None:
    """`/stop` has to be over within a second, whatever the expression."""
    (files / "a.txt").write_text(f"{SLOW_TEXT}\n")
    call = caller(tmp_path)
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call("search_files", query=SLOW_REGEX, regex=True))
            while not children():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

    await until_gone(children)


async def test_a_finder_that_does_not_stop_is_killed(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch, children: Children
) -> None:
    """Its own alarm is the first guard, not the only one."""
    (files / "a.txt").write_text("x\n")
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text(
        'import time\nprint(\'{"hit": ["a.txt", 1, "x"]}\', flush=True)\ntime.sleep(60)\n'
    )
    monkeypatch.setattr(finder, "__file__", str(sleeper))
    monkeypatch.setattr(finding, "TOTAL_S", 3)  # in which Python has to come up
    monkeypatch.setattr(finding, "_GRACE_S", 0)

    found = await caller(tmp_path)("search_files", query="x")

    assert found.startswith("a.txt:1: x\n(stopped after ")
    assert not children()


@table(
    ("query", "why"), [("(", "regex: missing"), ("x{99999999999}", "regex: "), ("a\nb", "query: ")]
)
async def test_an_expression_that_cannot_be_read_is_told(
    tmp_path: Path, query: str, why: str
) -> None:
    """With what is wrong about it."""
    files_in(tmp_path)
    with refused(why):
        await caller(tmp_path)("search_files", query=query, regex=True)


async def test_what_a_search_leaves_out_is_told(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that believes it searched everything draws the wrong conclusion."""
    monkeypatch.setattr(finding, "FILE_MAX_BYTES", 1000)
    (files / "large.txt").write_text("two\n" * 1000)
    (files / "photo.png").write_bytes(b"two\0two")
    (files / ".git").mkdir()
    (files / ".git" / "config").write_text("two\n")
    call = caller(tmp_path)

    assert ".git" in LEFT_OUT
    assert await call("search_files", query="two", pattern="*.*") == (
        "notes.md:2: two\n"
        "src/main.py:2:     return 'two'\n"
        "(too large to search: large.txt)\n"
        "(not looked into: .git; name one as path to do so)"
    )
    assert await call("search_files", query="two", path=".git") == ".git/config:1: two"


async def test_many_and_long_lines_and_many_files_are_bounded(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search for a blank must not become the whole conversation; where it stopped is told."""
    (files / "many.txt").write_text("needle\n" * (HITS_MAX * 3))
    (files / "long.txt").write_text("x" * 50_000 + "pin" + "y" * 50_000)
    call = caller(tmp_path)
    many = await call("search_files", query="needle")
    long = await call("search_files", query="pin")
    monkeypatch.setattr(finding, "FILES_MAX", 2)

    assert many.count("needle") == HITS_MAX
    assert many.endswith(f"(there are more than these {HITS_MAX}; search for something narrower)")
    assert len(long) < 400
    assert "xpiny" in long
    assert "(stopped after" in await call("search_files", query="Two")  # the rest was not read


async def test_nothing_of_the_environment_reaches_the_finder(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys stand in the gateway's environment.

    Nor does it take time to import anything but the standard library: each search starts it anew.
    """
    command = [sys.executable, "-I", "-S", "-B", str(finder.__file__)]
    done = await anyio.run_process(command, input=b"{}", check=False)
    assert b"KeyError" in done.stderr
    assert b"ModuleNotFoundError" not in done.stderr

    teller = tmp_path / "teller.py"
    teller.write_text(
        "import json, os\n"
        "print(json.dumps({'hit': ['env', 1, ' '.join(sorted(os.environ))]}))\n"
        "print(json.dumps({'hit': ['cwd', 1, ' '.join(map(str, os.sys.path))]}))\n"
    )
    monkeypatch.setattr(finder, "__file__", str(teller))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    confined = Confined(files, what="the workspace")
    environ = {"OPENAI_API_KEY": "sk-secret", "LD_LIBRARY_PATH": "/opt/python/lib"}
    found = await Finding(confined, environ).find(SearchQuery(path=".", hits=5))

    assert found.hits[0].line.replace(" LC_CTYPE", "").replace("LC_CTYPE ", "") == "LD_LIBRARY_PATH"
    assert str(tmp_path) not in found.hits[1].line
