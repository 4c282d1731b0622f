"""What the finder does in its process, done here: what it looks at, and what ends it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import cast

import pytest
from support.tables import table

from everturn_gateway.tools.files.finder import End, Finder, Job, Slow


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with texts, and what no search may open or enter."""
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "closed").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("z.md", "b/y.md", "b/c/x.py", "closed/s.md", ".git/config", ".everturn-1.tmp"):
        (tmp_path / name).write_text(f"one\nin {name}\n")
    (tmp_path / "binary").write_bytes(b"in\0")
    (tmp_path / "link.md").symlink_to("z.md")
    os.mkfifo(tmp_path / "pipe.md")
    return tmp_path


def find(tree: Path, **changes: object) -> tuple[list[list[object]], End]:
    """Return the hits of a job and how it went, with a clock that moves on with each look."""
    times = iter(range(1000))
    within = changes.pop("within", lambda _seconds: nullcontext())
    info = (tree / "closed").stat()
    fd = os.open(tree / cast("str", changes.pop("file", ".")), os.O_RDONLY)
    job = {
        "fd": fd,
        "path": ".",
        "query": "in",
        "regex": False,
        "ignore_case": False,
        "pattern": "",
        "hits": 100,
        "files": 100,
        "file_bytes": 1000,
        "total_s": 500.0,
        "file_s": 1.0,
        "memory_bytes": 0,
        "hidden": [".everturn-", ".tmp"],
        "closed": [[info.st_dev, info.st_ino]],
        **changes,
    }
    found: list[object] = []
    try:
        finder = Finder(
            cast("Job", job),
            found.append,
            within=within,  # type: ignore[arg-type]
            clock=lambda: float(next(times)),
        )
        finder.run()
    finally:
        os.close(fd)
    return [cast("dict[str, list[object]]", each)["hit"] for each in found], finder.end


def test_files_are_searched_in_order_and_others_left_out(tree: Path) -> None:
    """One, or all, by what is in them or how they are called."""
    # Links, pipes, closed folders and half-written files are none of its business.
    hits, end = find(tree)

    assert hits == [
        ["z.md", 2, "in z.md"],
        ["b/y.md", 2, "in b/y.md"],
        ["b/c/x.py", 2, "in b/c/x.py"],
    ]
    assert end == End(files=4, why="", large=[], slow=[], left_out=[".git"], unread=0, binary=1)

    # One file is searched alone. A path may name a file as well as a folder.
    assert find(tree, file="z.md", path="z.md")[0] == [["z.md", 2, "in z.md"]]

    # Files are found by pattern with their sizes. A listing needs no search.
    assert find(tree, query="", pattern="*.md")[0] == [["z.md", 12, ""], ["b/y.md", 14, ""]]
    assert find(tree, query="", pattern="b/**/*.py")[0] == [["b/c/x.py", 16, ""]]


@table(
    ("changes", "why", "hits"),
    [
        ({"hits": 1}, "hits", 1),
        ({"files": 2}, "files", 1),
        ({"total_s": 3.0}, "time", 1),
        ({"file_bytes": 13}, "", 1),
    ],
)
def test_every_limit_ends_it_and_is_named(
    tree: Path, changes: dict[str, object], why: str, hits: int
) -> None:
    """What was found until then is kept, and what ended it is told."""
    found, end = find(tree, **changes)

    assert end["why"] == why
    assert len(found) == hits
    assert end["large"] == (["b/y.md", "b/c/x.py"] if "file_bytes" in changes else [])


def test_a_file_that_takes_too_long_is_given_up_and_the_next_one_searched(tree: Path) -> None:
    """One bad line must not cost all other files."""
    rounds = iter(range(100))

    @contextmanager
    def alarm(_seconds: float) -> Generator[None]:
        yield
        if next(rounds) == 2:  # after the expression itself, and the file `binary`
            raise Slow

    hits, end = find(tree, within=alarm)

    assert end["slow"] == ["z.md"]
    assert [hit[0] for hit in hits] == ["z.md", "b/y.md", "b/c/x.py"]  # found before it ended
