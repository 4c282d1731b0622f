"""What a question is bound to: every change of a file that a call names is seen, and no other."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.tables import table

from everturn_gateway.tools.policy.files.file_digests import MAX_DIGESTS, digests


def paths(workspace: Path, *names: str, all_files: bool = False) -> list[str]:
    """Return the paths that names are bound to."""
    return [each.path for each in digests(workspace, names, all_files=all_files)]


def write(file: Path, text: str) -> None:
    """Write a file, with its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a workspace with some files."""
    return workspace_in(tmp_path)


def workspace_in(tmp_path: Path) -> Path:
    """Make a workspace with some files."""
    folder = tmp_path / "files"
    write(folder / "report.sh", "echo one\n")
    write(folder / "sub" / "inner.py", "print(1)\n")
    write(folder / "sub" / "deep" / "x.txt", "x\n")
    (folder / "link.sh").symlink_to("report.sh")
    (folder / "away").symlink_to(tmp_path / "elsewhere")
    write(tmp_path / "elsewhere" / "theirs.txt", "theirs\n")
    return folder


def test_only_what_is_there_or_is_meant_as_a_file_is_named(workspace: Path, tmp_path: Path) -> None:
    """People are shown these names."""
    # People are shown these names: words that are none would hide those that are.
    found = digests(workspace, ["sh", "-x", "report.sh", "later.sh", "sub", "origin"])

    assert [(each.path, each.is_there) for each in found] == [
        ("later.sh", False),
        ("report.sh", True),
        ("sub/", True),
    ]

    # Nothing that would hang is opened. A pipe waits for its other end, and a folder of links may
    # hold itself.
    os.mkfifo(workspace / "pipe.sh")
    (workspace / "sub" / "up").symlink_to("..")

    assert paths(workspace, "pipe.sh", "sub") == ["pipe.sh", "sub/"]

    # A workspace that is not there yet is no fault. The first call of a new agent may ask.
    assert paths(tmp_path / "none", "report.sh", all_files=True) == ["report.sh"]


@table(
    ("name", "change"),
    [
        pytest.param("report.sh", lambda w: write(w / "report.sh", "echo two\n"), id="content"),
        pytest.param(
            "./sub/../report.sh",
            lambda w: write(w / "report.sh", "echo two\n"),
            id="content-by-a-longer-way",
        ),
        pytest.param("report.sh", lambda w: (w / "report.sh").unlink(), id="gone"),
        pytest.param(
            "link.sh", lambda w: write(w / "report.sh", "echo two\n"), id="what-a-link-leads-to"
        ),
        pytest.param(
            "link.sh",
            lambda w: ((w / "link.sh").unlink(), (w / "link.sh").symlink_to("sub")),
            id="a-link-itself",
        ),
        pytest.param("later.sh", lambda w: write(w / "later.sh", "echo new\n"), id="come"),
        pytest.param(
            "later.sh", lambda w: (w / "later.sh").symlink_to("report.sh"), id="come-as-a-link"
        ),
        pytest.param(
            "sub", lambda w: write(w / "sub" / "deep" / "x.txt", "y\n"), id="deep-in-a-folder"
        ),
        pytest.param(
            "sub", lambda w: write(w / "sub" / "deep" / "new.txt", ""), id="new-in-a-folder"
        ),
        pytest.param(
            "sub",
            lambda w: (w / "sub" / "new").symlink_to("../report.sh"),
            id="new-link-in-a-folder",
        ),
        pytest.param(
            "sub/*.py", lambda w: write(w / "sub" / "inner.py", "print(2)\n"), id="match-of-a-glob"
        ),
        pytest.param(
            "sub/*.py",
            lambda w: write(w / "sub" / "new.py", "print(1)\n"),
            id="new-match-of-a-glob",
        ),
        pytest.param(
            "away/theirs.txt",
            lambda w: write(w.parent / "elsewhere" / "theirs.txt", "ours!\n"),
            id="behind-a-link-that-leads-out",
        ),
        pytest.param(
            "..", lambda w: write(w / "report.sh", "echo two\n"), id="below-the-folder-above"
        ),
        pytest.param(".", lambda w: write(w / "report.sh", "echo two\n"), id="all"),
        pytest.param(
            "../*/report.sh", lambda w: write(w / "report.sh", "echo two\n"), id="glob-from-above"
        ),
    ],
)
def test_a_change_of_what_is_named_is_seen(
    tmp_path: Path, name: str, change: Callable[[Path], object]
) -> None:
    """Whoever allowed a script allowed what was in it."""
    workspace = workspace_in(tmp_path)
    before = digests(workspace, [name])
    assert digests(workspace, [name]) == before

    change(workspace)

    assert digests(workspace, [name]) != before


def test_links_inside_a_folder_count_by_what_they_lead_to(workspace: Path) -> None:
    """A folder of links would else be a way to change what runs without touching the folder."""
    (workspace / "bin").mkdir()
    (workspace / "bin" / "run").symlink_to("../report.sh")
    (workspace / "bin" / "all").symlink_to("../sub")
    before = digests(workspace, ["bin"])
    write(workspace / "report.sh", "echo two\n")
    script = digests(workspace, ["bin"])
    write(workspace / "sub" / "inner.py", "print(2)\n")

    assert len({before, script, digests(workspace, ["bin"])}) == 3


def test_what_is_no_change_of_what_is_named_is_not_asked_about_again(workspace: Path) -> None:
    """Another conversation may work in the same folder."""
    # The same content written again is no change. A file that a tool wrote once more as it was
    # needs no second question.
    before = digests(workspace, ["report.sh", "sub"])
    write(workspace / "report.sh", "echo one\n")
    write(workspace / "sub" / "inner.py", "print(1)\n")

    assert digests(workspace, ["report.sh", "sub"]) == before

    # What is not named may change. Nobody is asked again because another conversation works in the
    # same folder.
    before = digests(workspace, ["report.sh"])
    write(workspace / "sub" / "inner.py", "print(2)\n")

    assert digests(workspace, ["report.sh"]) == before


def test_a_large_file_is_seen_to_change_without_being_read(workspace: Path) -> None:
    """A question must not take as long as reading a disk."""
    large = workspace / "large.bin"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    before = digests(workspace, ["large.bin"])
    info = large.stat()
    with large.open("r+b") as file:
        file.write(b"x")
    os.utime(large, ns=(info.st_atime_ns, info.st_mtime_ns))

    assert digests(workspace, ["large.bin"]) != before


def test_all_files_are_named_by_their_first_part(workspace: Path) -> None:
    """What can run anything is bound to everything, and people still see what changed."""
    before = {each.path: each.digest for each in digests(workspace, [], all_files=True)}
    write(workspace / "sub" / "deep" / "x.txt", "y\n")
    after = {each.path: each.digest for each in digests(workspace, [], all_files=True)}

    assert [*before] == ["away/", "link.sh", "report.sh", "sub/"]
    assert [path for path in after if after[path] != before[path]] == ["sub/"]


def test_a_call_that_names_very_much_is_bound_to_all_of_it(workspace: Path) -> None:
    """The log holds what a question is bound to: its size has a limit, what is seen has none."""
    for number in range(3 * MAX_DIGESTS):
        write(workspace / f"file{number:03}.txt", "x")
    before = digests(workspace, ["*.txt"])
    write(workspace / f"file{3 * MAX_DIGESTS - 1:03}.txt", "y")

    assert len(before) <= MAX_DIGESTS
    assert digests(workspace, ["*.txt"]) != before
