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


def test_the_absolute_path_of_something_inside_is_inside(root: Path) -> None:
    """A model that ran `pwd` uses what it saw."""
    assert read(root, f"{root}/sub/b.txt") == "b"


def test_an_absolute_path_is_compared_after_links_above_the_folder(
    root: Path, tmp_path: Path
) -> None:
    """The folder may be reached by a link; both of its names are the folder's."""
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


def test_a_folder_whose_name_only_begins_alike_is_outside(root: Path, tmp_path: Path) -> None:
    """Comparing texts instead of names would let `root-of-another` pass for `root`."""
    (tmp_path / "root-two").mkdir()
    (tmp_path / "root-two" / "a.txt").write_text(HIDDEN)

    with refused("leads out"):
        read(root, f"{root}-two/a.txt")


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("out", "../secret", "out"),
        ("out", "../outside", "out/secret"),
        ("sub/out", "../../outside", "sub/out/secret"),
        ("sub/up", "..", "sub/up/../secret"),
        ("one", "two/..", "one/../secret"),
    ],
)
def test_a_link_that_leads_out_is_refused(root: Path, link: str, target: str, path: str) -> None:
    """Whoever can make a link in the workspace must not reach what the gateway can read."""
    (root / link).symlink_to(target)
    (root / "two").symlink_to("sub")

    with refused("leads out of the workspace"):
        read(root, path)


def test_an_absolute_link_that_leads_out_is_refused(root: Path, tmp_path: Path) -> None:
    """The kernel would follow it from the root of the machine."""
    (root / "out").symlink_to(tmp_path / "secret")

    with refused("leads out"):
        read(root, "out")
    with refused("leads out"):
        write(root, "out", "x")

    assert (tmp_path / "secret").read_text() == HIDDEN


def test_links_that_stay_inside_are_followed(root: Path) -> None:
    """Projects hold links of their own, also absolute ones and links to links."""
    (root / "one").symlink_to("sub")
    (root / "two").symlink_to(root / "one")
    (root / "file").symlink_to("two/b.txt")
    (root / "sub" / "deep" / "top").symlink_to(root / "a.txt")

    assert read(root, "two/b.txt") == "b"
    assert read(root, "sub/deep/top") == "a"
    assert read(root, "file") == "b"
    assert read(root, "one/deep/../b.txt") == "b"


def test_writing_through_a_link_changes_its_target_and_keeps_the_link(root: Path) -> None:
    """Replacing the link itself would quietly part two files that are one."""
    (root / "file").symlink_to("sub/b.txt")

    write(root, "file", "new")

    assert (root / "sub" / "b.txt").read_text() == "new"
    assert (root / "file").is_symlink()


def test_links_in_a_circle_are_refused(root: Path) -> None:
    """Following them would never end."""
    (root / "x").symlink_to("y")
    (root / "y").symlink_to("x")

    with refused("circle"):
        read(root, "x/a")


@pytest.mark.parametrize("path", ["pipe", "sub/../pipe"])
def test_a_pipe_is_refused_and_does_not_hang(root: Path, path: str) -> None:
    """Opening one waits until somebody writes, which nobody ever does."""
    os.mkfifo(root / "pipe")

    with refused("pipe", "only files and folders"):
        read(root, path)
    with refused("pipe"):
        write(root, path, "x")
    with refused("pipe"), confined(root).place(path) as place:
        place.append(b"x")


def test_a_socket_and_a_device_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading some devices changes them, and none is a text."""
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
    ],
)
def test_what_cannot_be_read_is_told(root: Path, path: str, why: str) -> None:
    """The model has to know what to do instead; an errno does not tell it."""
    with refused(why):
        read(root, path)


def test_a_name_that_is_nearly_right_is_offered(root: Path) -> None:
    """A model that misspelt a name gets it right the next time, without listing the folder."""
    (root / "README.md").write_text("x")

    with refused("README.md"):
        read(root, "Readme.md")


def test_names_are_what_the_disk_says_they_are(root: Path) -> None:
    """Case and blanks belong to a name; guessing at them would open another file."""
    with refused():
        read(root, "A.TXT")
    with refused():
        read(root, " a.txt")


def test_a_path_of_too_many_folders_is_refused(root: Path) -> None:
    """Each is an open descriptor; a thousand of them would starve the gateway."""
    with refused("deeper than"):
        write(root, "/".join("d" * 70), "x")


def test_a_name_that_does_not_print_is_escaped(root: Path) -> None:
    """Colours and line ends in a name could fake what stands around it."""
    with refused(r"a\x1b[31m\nb"):
        read(root, "a\x1b[31m\nb")


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


def test_a_file_swapped_for_a_link_after_the_look_is_not_followed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a check and its use there is always time for whoever waits for it."""

    def swap() -> None:
        (root / "a.txt").unlink()
        (root / "a.txt").symlink_to("../secret")

    swapping(monkeypatch, "a.txt", swap)

    with refused():
        read(root, "a.txt")


def test_a_folder_swapped_for_a_link_after_the_look_is_not_followed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for every name on the way."""

    def swap() -> None:
        (root / "sub").rename(root / "was")
        (root / "sub").symlink_to("../outside")

    swapping(monkeypatch, "sub", swap)

    with refused():
        read(root, "sub/secret")


def test_a_file_swapped_for_a_pipe_after_the_look_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hang, were it opened as a file is."""

    def swap() -> None:
        (root / "a.txt").unlink()
        os.mkfifo(root / "a.txt")

    swapping(monkeypatch, "a.txt", swap)

    with refused("a pipe"):
        read(root, "a.txt")


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
    """A model should not have to make folders one by one."""
    assert write(root, "new/folder/x.txt", "x") is None
    assert (root / "new" / "folder" / "x.txt").read_text() == "x"


def test_the_root_is_made_for_this_user_alone(tmp_path: Path) -> None:
    """What agents write down is nobody else's business."""
    write(tmp_path / "state" / "files", "x", "x")

    assert (tmp_path / "state" / "files").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_reading_makes_no_root(tmp_path: Path) -> None:
    """An agents folder may be read-only, and looking into it is no reason to write."""
    with refused("no such file"):
        read(tmp_path / "none", "x")

    assert confined(tmp_path / "none").entries(".") == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o664])
def test_a_replaced_file_keeps_its_permissions(root: Path, mode: int) -> None:
    """A script stays one that can be run, and a private file private."""
    (root / "a.txt").chmod(mode)

    assert write(root, "a.txt", "new") == 1
    assert (root / "a.txt").stat().st_mode & 0o7777 == mode


def test_a_read_only_file_is_left_alone(root: Path) -> None:
    """Somebody made it so on purpose; renaming over it would get round that."""
    (root / "a.txt").chmod(0o444)

    with refused("read-only"):
        write(root, "a.txt", "new")

    assert (root / "a.txt").read_text() == "a"


def test_a_hard_link_is_parted_not_written_through(root: Path, tmp_path: Path) -> None:
    """The other name may be outside, and keeps what it had."""
    (root / "hard").hardlink_to(tmp_path / "secret")

    write(root, "hard", "new")

    assert (tmp_path / "secret").read_text() == HIDDEN


def test_a_full_disk_leaves_the_old_file_and_says_so(root: Path) -> None:
    """Half a file in the place of a whole one is the worst of both."""
    with largest_file(100), refused("nothing was changed"):
        write(root, "a.txt", "x" * 1000)

    assert (root / "a.txt").read_text() == "a"
    assert sorted(each.name for each in root.iterdir()) == ["a.txt", "sub"]


def test_an_entry_that_does_not_fit_is_taken_back(root: Path) -> None:
    """Half an entry would be read as what the agent noted."""
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


def test_two_writers_of_one_folder_take_turns(root: Path) -> None:
    """What is read, changed and written back must not overtake another such change."""
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


def test_a_lock_that_is_never_given_back_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that waits for ever would take the turn with it."""
    monkeypatch.setattr(place_module, "_LOCK_S", 0)
    holder = os.open(root, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        with refused("in use"), confined(root).place("a.txt") as place, place.locked():
            pass
    finally:
        os.close(holder)


# --- closed folders ---


@pytest.mark.parametrize("path", ["own/x", "own/../own/x", "link/x", "own"])
def test_a_closed_folder_is_not_entered(root: Path, path: str) -> None:
    """What an agent may do stands in there; it must not be what the agent can write."""
    (root / "own").mkdir()
    (root / "own" / "x").write_text(HIDDEN)
    (root / "link").symlink_to("own")
    closed = confined(root, root / "own")

    with refused("closed to file tools"), closed.opened(path):
        pass
    with refused("closed to file tools"), closed.place("own/new", create=True):
        pass
    assert (root / "own" / "x").read_text() == HIDDEN


async def test_work_that_only_reads_is_not_waited_for_when_cancelled(root: Path) -> None:
    """A disk that hangs must not hold a turn that was stopped."""
    go_on, done = threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait(10)
        done.set()

    with anyio.move_on_after(0.01):
        await confined(root).run(work, reads=True)

    assert not done.is_set()
    go_on.set()


async def test_work_that_writes_is_waited_for_when_cancelled(root: Path) -> None:
    """A file that is written after its call was cancelled would be nobody's doing."""
    go_on, began = threading.Event(), anyio.Event()

    def work() -> None:
        anyio.from_thread.run_sync(began.set)
        go_on.wait(10)
        (root / "done").write_text("x")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(confined(root).run, work)
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
