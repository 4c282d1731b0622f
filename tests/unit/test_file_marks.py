"""The mark of text from outside on files: where it stays, where it ends, and what it costs."""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path

import pytest
from support.tables import table

from everturn_gateway.tools.marks import (
    ATTRIBUTE,
    MarkedFiles,
    MarkedWorkspaces,
    file_source,
    keeps_marks,
    marked_below,
    now_ns,
    read_mark,
    trust_files,
)
from everturn_gateway.tools.marks.open_watch import OpenWatch
from everturn_gateway.tools.marks.walk import is_tree, may_be_marked

PAGE = ("the page https://example.org",)


def _file(folder: Path, path: str, text: str = "x") -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def _old_file(folder: Path, path: str) -> Path:
    """Return a file that is older than whatever begins now, by the clock that stamps files.

    That clock goes in steps of some milliseconds: a file of the step in which a command begins
    counts as changed by it.
    """
    file = _file(folder, path)
    while now_ns() <= file.stat().st_ctime_ns:
        pass
    return file


def _mark(marks: MarkedFiles, file: Path, sources: tuple[str, ...] = PAGE) -> None:
    fd = os.open(file, os.O_RDONLY)
    try:
        marks.mark(fd, sources)
    finally:
        os.close(fd)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a workspace on a disk that keeps marks."""
    folder = tmp_path / "files"
    folder.mkdir()
    if not keeps_marks(folder):
        pytest.skip("files here keep no extended attributes")
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return the gateway's own workspace."""
    return tmp_path / "state"


@pytest.fixture
def marks(root: Path, state: Path) -> MarkedFiles:
    """Return the marks of the workspace."""
    return MarkedWorkspaces(state).of(root)


def _sources_of(marks: MarkedFiles, command: str) -> tuple[str, ...]:
    """Run a command and return what text from outside it opened."""
    run = marks.begin()
    line = ["bash", "-ec", command]
    subprocess.run(line, cwd=marks.root, check=True, stdout=subprocess.DEVNULL)
    marks.end(run)
    return run.opened


def _descriptors() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir()}


# --- the mark ---


def test_a_mark_belongs_to_the_file_and_stays_short(root: Path, marks: MarkedFiles) -> None:
    """Nobody gets rid of it, and a person can read it."""
    # A mark belongs to the file and not to its name. A list of names would be wrong after the first
    # `mv`.
    file = _file(root, "a")
    _mark(marks, file)
    os.link(file, root / "b")
    file.rename(root / "c")
    _file(root, "a")

    assert [read_mark(str(root / name)) for name in "abc"] == [(), PAGE, PAGE]

    # A mark adds up and stays short. A question has to be read by a person.
    file = _file(root, "many")
    for each in ("one", "two", "one", "three", "four"):
        _mark(marks, file, (each,))

    assert len(read_mark(str(file))) == 4
    assert read_mark(str(file))[-1] == "and more"

    # A file of a file is told by its first source. Names of files that were copied from one another
    # say nothing about the text.
    file = _file(root, "copy")
    _mark(marks, file, (file_source("a", PAGE),))

    assert read_mark(str(file)) == PAGE

    # A mark that cannot be read is one. Whoever damages a mark must not be rid of it.
    file = _file(root, "damaged")
    for data in (b"", b"{}", b"\xff", b"3"):
        os.setxattr(file, ATTRIBUTE, data)

        assert read_mark(str(file)) == ("text whose mark cannot be read",), data


def test_what_stands_in_the_inbox_was_sent_unless_the_owner_trusts_it(root: Path) -> None:
    """A disk without attributes knows that much; and the owner has the last word."""
    _file(root, "inbox/a")
    _file(root, "inbox/b")
    trust_files(root, ["inbox/b"])

    assert [each.path for each in marked_below(root)] == ["inbox/a"]


def test_the_gateways_own_folder_is_never_marked(root: Path) -> None:
    """A workspace may be the folder in which the gateway keeps its sessions."""
    state = root / ".everturn"
    marks = MarkedWorkspaces(state).of(root)
    run = marks.begin(PAGE)
    _file(root, ".everturn/sessions/s/events.jsonl")
    _file(root, "a")
    marks.end(run)

    assert [each.path for each in marked_below(root)] == ["a"]


# --- commands ---


def test_without_marks_nothing_is_kept_walked_or_watched(state: Path, marks: MarkedFiles) -> None:
    """Whoever reads nothing from outside pays nothing."""
    before = len(_descriptors())

    assert _sources_of(marks, "echo x > a; cat a") == ()
    assert not state.exists()
    assert len(_descriptors()) == before


def test_a_command_is_behind_what_it_opens_and_nothing_else(
    root: Path, marks: MarkedFiles, state: Path
) -> None:
    """Whoever asks, and until the owner trusts it."""
    # A mark that is seen everywhere makes every command ask.
    _mark(marks, _file(root, "a"))
    _old_file(root, "b")

    assert _sources_of(marks, "cat b; ls -l; rm -f none") == ()
    assert _sources_of(marks, "cat a") == PAGE
    assert _sources_of(marks, "cat b") == ()

    # Another process of the gateway finds the same. What is in memory must not be what protects.
    _mark(MarkedWorkspaces(state).of(root), _file(root, "c"))
    again = MarkedWorkspaces(state).of(root)

    assert _sources_of(again, "cat c > copy") == PAGE
    assert read_mark(str(root / "copy")) == PAGE

    # What the owner trusts is free at once. The command line is another process; no restart is
    # needed.
    _mark(marks, _file(root, "d"))
    assert _sources_of(marks, "cat d") == PAGE

    trust_files(root, ["d"])

    assert _sources_of(marks, "cat d") == ()

    # A command does not get rid of a mark. Without a sandbox a command may change attributes.
    _mark(marks, _file(root, "a"))
    strip = f"""python3 -c "import os; os.removexattr('a', '{ATTRIBUTE}')" """

    assert _sources_of(marks, strip) == PAGE
    assert read_mark(str(root / "a")) == PAGE


def test_what_counts_while_commands_run(root: Path, marks: MarkedFiles) -> None:
    """What they write may be read before it is marked."""
    # What a running command wrote counts before it is marked. A download may be read while it goes
    # on.
    old = _file(root, "old")
    os.utime(old, (0, 0))
    run = marks.begin(PAGE)
    new = _file(root, "new")
    with new.open() as stream:
        assert marks.sources(stream.fileno(), "new") == PAGE
    marks.end(run)
    with new.open() as stream:
        assert marks.sources(stream.fileno(), "new") == PAGE

    # What one command writes another may read before it is marked. A mark is put on when a command
    # ends; one that runs beside it may be faster.
    fetching, reading = marks.begin(PAGE), marks.begin()
    (root / "copy").write_text(_file(root, "fetched").read_text())
    marks.end(fetching)
    marks.end(reading)

    assert reading.opened == PAGE
    assert read_mark(str(root / "copy")) == PAGE

    # What the gateway reads itself is read by no command. Else a server in the background would be
    # behind each page that the agent reads.
    file = _file(root, "a")
    _mark(marks, file)
    run = marks.begin()
    with marks.reading():
        file.read_text()
    marks.end(run)

    assert run.opened == ()

    # What a process wrote before it opened such a file stays clean. A server in the background runs
    # for days, and much changes beside it.
    page = _file(root, "page")
    _mark(marks, page)
    run = marks.begin()
    own = _old_file(root, "own")
    marks.look(run)
    page.read_text()
    later = _file(root, "later")
    marks.end(run)

    assert (read_mark(str(own)), read_mark(str(later))) == ((), PAGE)


def test_more_than_can_be_kept_counts_as_everything(root: Path, marks: MarkedFiles) -> None:
    """A command that opens files without end must not hide one among them."""
    _mark(marks, _file(root, "a"))
    _mark(marks, _file(root, "b"), ("b",))
    events = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    run = marks.begin()
    for _ in range(events // 2 + 10):
        for name in ("b", "a"):
            os.close(os.open(root / name, os.O_RDONLY))
    marks.end(run)

    assert run.seen.is_incomplete
    assert "files with text from outside" in run.opened


def test_two_workspaces_know_nothing_of_each_other(root: Path, state: Path) -> None:
    """One watch serves all of them."""
    both = MarkedWorkspaces(state)
    other = root.parent / "other"
    _mark(both.of(root), _file(root, "a"))
    _mark(both.of(other), _file(other, "a"), ("other",))
    run = both.of(root).begin()
    (other / "a").read_text()

    assert _sources_of(both.of(other), "cat a") == ("other",)
    both.of(root).end(run)
    assert run.opened == ()


def test_a_watch_that_nobody_needs_is_closed() -> None:
    """The system has few of them."""
    before = _descriptors()
    watch = OpenWatch()
    fd = os.open("/tmp", os.O_RDONLY)  # noqa: S108 - nothing is written there
    watch.add(fd)
    os.close(fd)
    assert _descriptors() != before
    del watch

    assert _descriptors() == before


def test_a_file_that_nobody_may_read_or_write_is_marked(
    root: Path, state: Path, marks: MarkedFiles
) -> None:
    """Git keeps its objects so; and taking rights away must not keep a mark off."""
    modes = (0o444, 0o200, 0o000)
    run = marks.begin(PAGE)
    for mode in modes:
        _file(root, f"{mode}").chmod(mode)
    marks.end(run)
    again = MarkedWorkspaces(state).of(root)

    for mode in modes:
        assert _sources_of(again, f"chmod 644 {mode}; cat {mode}") == PAGE
        assert _sources_of(marks, f"cat {mode}") == PAGE


def test_folders_beside_the_workspace_are_looked_at_too(root: Path, marks: MarkedFiles) -> None:
    """The owner may let commands write elsewhere."""
    beside = root.parent / "beside"
    _mark(marks, _file(root, "a"))
    _file(beside, "inbox/own")
    marks.look_at([beside])

    assert _sources_of(marks, f"cat {beside}/inbox/own") == ()
    assert _sources_of(marks, f"cat a > {beside}/b") == PAGE
    assert _sources_of(marks, f"cat {beside}/b") == PAGE


# --- git ---


@table(
    ("path", "expected"),
    [
        ("a.md", True),
        ("git/index", True),
        (".git/index", False),
        (".git/HEAD", False),
        (".git/logs/HEAD", False),
        (".git/COMMIT_EDITMSG", False),
        (".git/MERGE_MSG", True),
        (".git/objects/ab/cdef", True),
        (".git/objects/pack/pack-1.pack", True),
        (".git/objects/pack/pack-1.idx", False),
        (".git/objects/info/packs", False),
        (".git/modules/sub/objects/ab/cdef", True),
        ("sub/.git/index", False),
        (".gitignore", True),
    ],
)
def test_of_git_only_what_people_wrote_is_marked(path: str, *, expected: bool) -> None:
    """Every command of git opens its index."""
    assert may_be_marked(path) is expected


@table(("kind", "expected"), [("tree", True), ("blob", False), ("commit", False)])
def test_objects_of_git_that_list_names_hold_no_text(
    tmp_path: Path, kind: str, *, expected: bool
) -> None:
    """A list of names is opened by commands that print nothing of the files."""
    file = tmp_path / "x"
    file.write_bytes(zlib.compress(f"{kind} 4\0text".encode()))
    with file.open("rb") as stream:
        assert is_tree(".git/objects/ab/cdef", stream.fileno()) is expected
        assert not is_tree("a.md", stream.fileno())
