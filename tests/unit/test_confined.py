"""Paths from a model stay in their folder, whatever is there and whatever changes meanwhile."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.from_thread
import psutil
import pytest
from support.callers import largest_file
from support.tables import table

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.confined import TEMPORARY, Confined
from everturn_gateway.tools.confined import place as place_module

HIDDEN = "not for agents"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a few files, and a secret beside it."""
    return root_in(tmp_path)


def root_in(tmp_path: Path) -> Path:
    """Make such a folder."""
    (tmp_path / "secret").write_text(HIDDEN)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text(HIDDEN)
    folder = tmp_path / "root"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "sub" / "b.txt").write_text("b")
    return folder


def confined(root: Path, *closed: Path) -> Confined:
    """Return the folder, confined."""
    return Confined(root, what="the workspace", closed=lambda: closed)


def read(root: Path, path: str) -> str:
    """Return what a path leads to."""
    with confined(root).place(path) as place:
        return place.read(1000)[0].decode()


def write(root: Path, path: str, text: str) -> int | None:
    """Write a file."""
    with confined(root).place(path, create=True) as place:
        return place.replace(text.encode())


@contextmanager
def refused(*words: str) -> Generator[None]:
    """Expect a refusal that says all these words."""
    with pytest.raises(ToolFailedError) as error:
        yield
    for word in words:
        assert word in str(error.value)


@table("path", ["a.txt", "./a.txt", "sub/../a.txt", "sub//.././/a.txt", "sub/deep/../../a.txt"])
def test_a_path_inside_is_walked_like_a_shell_would(root: Path, path: str) -> None:
    """Models write paths in many ways; those that stay inside are no offence."""
    assert read(root, path) == "a"


def test_the_absolute_path_of_something_inside_is_inside(root: Path, tmp_path: Path) -> None:
    """By either name of the folder."""
    # A model that ran `pwd` uses what it saw.
    assert read(root, f"{root}/sub/b.txt") == "b"

    # An absolute path is compared after links above the folder. The folder may be reached by a
    # link; both of its names are the folder's.
    (tmp_path / "link").symlink_to(root)

    assert read(tmp_path / "link", f"{tmp_path}/link/a.txt") == "a"
    assert read(tmp_path / "link", f"{root}/a.txt") == "a"


@table(
    "path",
    [
        "../secret",
        "..",
        "sub/../../secret",
        "/etc/passwd",
        "/",
        "sub/deep/../../../outside/secret",
        "./../root/a.txt",
        "//etc/passwd",
    ],
)
def test_a_path_that_leads_out_is_refused(root: Path, path: str) -> None:
    """The workspace is all that an agent is given."""
    with refused("leads out of the workspace"):
        read(root, path)


def test_an_absolute_path_or_link_that_leads_out_is_refused(root: Path, tmp_path: Path) -> None:
    """Names are compared, and not the texts."""
    # A folder whose name only begins alike is outside. Comparing texts instead of names would let
    # `root-of-another` pass for `root`.
    (tmp_path / "root-two").mkdir()
    (tmp_path / "root-two" / "a.txt").write_text(HIDDEN)

    with refused("leads out"):
        read(root, f"{root}-two/a.txt")

    # An absolute link that leads out is refused. The kernel would follow it from the root of the
    # machine.
    (root / "out").symlink_to(tmp_path / "secret")

    with refused("leads out"):
        read(root, "out")
    with refused("leads out"):
        write(root, "out", "x")

    assert (tmp_path / "secret").read_text() == HIDDEN


@table(
    ("link", "target", "path"),
    [
        ("out", "../secret", "out"),
        ("out", "../outside", "out/secret"),
        ("sub/out", "../../outside", "sub/out/secret"),
        ("sub/up", "..", "sub/up/../secret"),
        ("one", "two/..", "one/../secret"),
    ],
)
def test_a_link_that_leads_out_is_refused(
    tmp_path: Path, link: str, target: str, path: str
) -> None:
    """Whoever can make a link in the workspace must not reach what the gateway can read."""
    root = root_in(tmp_path)
    (root / link).symlink_to(target)
    (root / "two").symlink_to("sub")

    with refused("leads out of the workspace"):
        read(root, path)


def test_links_that_stay_inside_are_followed(root: Path) -> None:
    """To their end, where they have one."""
    # Projects hold links of their own, also absolute ones and links to links.
    (root / "one").symlink_to("sub")
    (root / "two").symlink_to(root / "one")
    (root / "file").symlink_to("two/b.txt")
    (root / "sub" / "deep" / "top").symlink_to(root / "a.txt")

    assert read(root, "two/b.txt") == "b"
    assert read(root, "sub/deep/top") == "a"
    assert read(root, "file") == "b"
    assert read(root, "one/deep/../b.txt") == "b"

    # Links in a circle are refused. Following them would never end.
    (root / "x").symlink_to("y")
    (root / "y").symlink_to("x")

    with refused("circle"):
        read(root, "x/a")


def test_writing_through_a_link_changes_its_target_and_keeps_the_link(
    root: Path, tmp_path: Path
) -> None:
    """A hard link is no such link."""
    # Replacing the link itself would quietly part two files that are one.
    (root / "name").symlink_to("sub/b.txt")

    write(root, "name", "new")

    assert (root / "sub" / "b.txt").read_text() == "new"
    assert (root / "name").is_symlink()

    # A hard link is parted not written through. The other name may be outside, and keeps what it
    # had.
    (root / "hard").hardlink_to(tmp_path / "secret")

    write(root, "hard", "new")

    assert (tmp_path / "secret").read_text() == HIDDEN


def test_only_files_and_folders_are_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others hang, or change by it."""
    # A pipe is refused and does not hang. Opening one waits until somebody writes, which nobody
    # ever does.
    os.mkfifo(root / "pipe")

    for path in ("pipe", "sub/../pipe"):
        with refused("pipe", "only files and folders"):
            read(root, path)
        with refused("pipe"):
            write(root, path, "x")
        with refused("pipe"), confined(root).place(path) as place:
            place.append(b"x")

    # A socket and a device are refused. Reading some devices changes them, and none is a text.
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(root)  # the name of a socket is short
        server.bind("socket")

        with refused("a socket"):
            read(root, "socket")
    with refused("a device"):
        read(Path("/dev"), "null")


@table(
    ("path", "why"),
    [
        ("a\0b", "no path"),
        ("\ud800", "no path"),
        ("x" * 300, "too long"),
        ("x/" * 3000, "too long"),
        ("a.txt/b", "not a folder"),
        ("sub", "is a folder"),
        ("", "is a folder"),
        (".", "is a folder"),
        ("missing", "there is no missing"),
        ("missing/a", "no such file"),
        # Colours and line ends in a name could fake what stands around it.
        ("a\x1b[31m\nb", r"a\x1b[31m\nb"),
        # Case and blanks belong to a name; guessing at them would open another file.
        (" a.txt", ""),
        # A model that misspelt a name gets it right the next time, without listing the folder.
        ("A.TXT", "a.txt"),
    ],
)
def test_what_cannot_be_read_is_told(root: Path, path: str, why: str) -> None:
    """The model has to know what to do instead; an errno does not tell it."""
    with refused(why):
        read(root, path)


# --- what changes meanwhile ---


def swapping(monkeypatch: pytest.MonkeyPatch, name: str, swap: Callable[[], None]) -> None:
    """Run `swap` between the look at a name and its opening."""
    really = os.open
    done: list[str] = []

    def opening(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == name and not done:
            done.append(name)
            swap()
        return really(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", opening)


def file_for_link(root: Path) -> None:
    """Let the file be a link to the secret."""
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to("../secret")


def folder_for_link(root: Path) -> None:
    """Let the folder be a link to the folder of the secret."""
    (root / "sub").rename(root / "was")
    (root / "sub").symlink_to("../outside")


def file_for_pipe(root: Path) -> None:
    """Let the file be a pipe, which would hang, were it opened as a file is."""
    (root / "a.txt").unlink()
    os.mkfifo(root / "a.txt")


@table(
    ("name", "path", "swap", "why"),
    [
        ("a.txt", "a.txt", file_for_link, ""),
        ("sub", "sub/secret", folder_for_link, ""),
        ("a.txt", "a.txt", file_for_pipe, "a pipe"),
    ],
)
def test_what_is_swapped_after_the_look_is_not_followed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    path: str,
    swap: Callable[[Path], None],
    why: str,
) -> None:
    """Between a check and its use there is always time for whoever waits for it."""
    root = root_in(tmp_path)
    swapping(monkeypatch, name, lambda: swap(root))

    with refused(why):
        read(root, path)


def test_nothing_outside_is_read_while_a_folder_flips(root: Path) -> None:
    """Not one of thousands of tries may slip through."""
    (root / "flip").mkdir()
    (root / "flip" / "secret").write_text("inside")
    (root / "link").symlink_to("../outside")
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            (root / "flip").rename(root / "kept")
            (root / "link").rename(root / "flip")
            (root / "flip").rename(root / "link")
            (root / "kept").rename(root / "flip")

    flipper = threading.Thread(target=flip)
    flipper.start()
    seen: set[str] = set()
    try:
        for _ in range(2000):
            try:
                seen.add(read(root, "flip/secret"))
            except ToolFailedError:
                continue
    finally:
        stop.set()
        flipper.join()

    assert seen == {"inside"}


def test_a_file_that_changed_since_it_was_read_is_not_overwritten(root: Path) -> None:
    """What a person wrote in between would be lost."""
    with confined(root).place("a.txt") as place:
        _, version = place.read(100)
        (root / "a.txt").write_text("by hand")

        with refused("changed by someone else"):
            place.replace(b"x", expected=version)

    assert (root / "a.txt").read_text() == "by hand"
    assert sorted(each.name for each in root.iterdir()) == ["a.txt", "sub"]


# --- writing ---


def test_a_new_file_and_its_folders_are_made(root: Path) -> None:
    """As many as a gateway can hold open."""
    # A model should not have to make folders one by one.
    assert write(root, "new/folder/x.txt", "x") is None
    assert (root / "new" / "folder" / "x.txt").read_text() == "x"

    # A path of too many folders is refused. Each is an open descriptor; a thousand of them would
    # starve the gateway.
    with refused("deeper than"):
        write(root, "/".join("d" * 70), "x")


def test_the_root_is_made_for_this_user_alone(tmp_path: Path) -> None:
    """And not by reading."""
    # What agents write down is nobody else's business.
    write(tmp_path / "state" / "files", "x", "x")

    assert (tmp_path / "state" / "files").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700

    # Reading makes no root. An agents folder may be read-only, and looking into it is no reason to
    # write.
    with refused("no such file"):
        read(tmp_path / "none", "x")

    assert confined(tmp_path / "none").entries(".") == []
    assert not (tmp_path / "none").exists()


def test_a_replaced_file_keeps_its_permissions(root: Path) -> None:
    """Also that nobody may write it."""
    # A script stays one that can be run, and a private file private.
    for number, mode in enumerate((0o600, 0o755, 0o664), 1):
        (root / "a.txt").chmod(mode)

        assert write(root, "a.txt", "x" * (number + 1)) == number
        assert (root / "a.txt").stat().st_mode & 0o7777 == mode

    # A read only file is left alone. Somebody made it so on purpose; renaming over it would get
    # round that.
    (root / "a.txt").chmod(0o444)

    with refused("read-only"):
        write(root, "a.txt", "new")

    assert (root / "a.txt").read_text() == "xxxx"


def test_what_does_not_fit_leaves_the_file_as_it_was(root: Path) -> None:
    """And says so."""
    # A full disk leaves the old file and says so. Half a file in the place of a whole one is the
    # worst of both.
    with largest_file(100), refused("nothing was changed"):
        write(root, "a.txt", "x" * 1000)

    assert (root / "a.txt").read_text() == "a"
    assert sorted(each.name for each in root.iterdir()) == ["a.txt", "sub"]

    # An entry that does not fit is taken back. Half an entry would be read as what the agent noted.
    with confined(root).place("a.txt") as place:
        with largest_file(100), pytest.raises(OSError, match="too large") as error:
            place.append(b"x" * 1000)
        assert error.value.errno == errno.EFBIG
        place.append(b"b")

    assert (root / "a.txt").read_text() == "ab"


def test_what_a_crash_left_half_written_goes_with_a_later_write(root: Path) -> None:
    """It is in nobody's way, but it takes room for ever."""
    first, last = TEMPORARY
    old, young = root / f"{first}old{last}", root / f"{first}young{last}"
    for each in (old, young):
        each.write_text("half")
    os.utime(old, (0, 0))

    write(root, "a.txt", "new")

    assert not old.exists()
    assert young.exists()  # it may be written right now
    assert [name for name, _ in confined(root).entries(".")] == ["a.txt", "sub"]


def test_two_writers_of_one_folder_take_turns(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And wait for no lock for ever."""
    # What is read, changed and written back must not overtake another such change.
    (root / "n").write_text("0")

    def count() -> None:
        for _ in range(10):
            with confined(root).place("n") as place, place.locked():
                data, version = place.read(10)
                place.replace(str(int(data) + 1).encode(), expected=version)

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert read(root, "n") == "30"

    # A lock that is never given back is told. A tool that waits for ever would take the turn with
    # it.
    monkeypatch.setattr(place_module, "_LOCK_S", 0)
    holder = os.open(root, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        with refused("in use"), confined(root).place("a.txt") as place, place.locked():
            pass
    finally:
        os.close(holder)


# --- closed folders ---


def test_a_closed_folder_is_not_entered(root: Path) -> None:
    """What an agent may do stands in there; it must not be what the agent can write."""
    (root / "own").mkdir()
    (root / "own" / "x").write_text(HIDDEN)
    (root / "link").symlink_to("own")
    closed = confined(root, root / "own")

    for path in ("own/x", "own/../own/x", "link/x", "own"):
        with refused("closed to file tools"), closed.opened(path):
            pass
    with refused("closed to file tools"), closed.place("own/new", create=True):
        pass
    assert (root / "own" / "x").read_text() == HIDDEN


async def test_work_is_waited_for_when_cancelled_where_it_writes(root: Path) -> None:
    """And nowhere else."""
    # Work that only reads is not waited for when cancelled. A disk that hangs must not hold a turn
    # that was stopped.
    go_on, done = threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait(10)
        done.set()

    with anyio.move_on_after(0.01):
        await confined(root).run(work, reads=True)

    assert not done.is_set()
    go_on.set()

    # Work that writes is waited for when cancelled. A file that is written after its call was
    # cancelled would be nobody's doing.
    go_on, began = threading.Event(), anyio.Event()

    def write_late() -> None:
        anyio.from_thread.run_sync(began.set)
        go_on.wait(10)
        (root / "done").write_text("x")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(confined(root).run, write_late)
        await began.wait()
        tasks.cancel_scope.cancel()
        go_on.set()

    assert (root / "done").exists()


def test_descriptors_are_given_back(root: Path) -> None:
    """A gateway that runs for months has only so many."""
    os.mkfifo(root / "pipe")
    before = psutil.Process().num_fds()
    for path in ("a.txt", "sub/deep/../b.txt", "pipe", "../x", "missing/x", "sub", "a\0"):
        try:
            read(root, path)
        except ToolFailedError:
            continue

    assert psutil.Process().num_fds() == before
