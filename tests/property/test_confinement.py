"""Whatever a path says and whatever links there are, nothing outside is opened or changed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TypeAlias

from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.confined import Confined

NAMES = ("a", "b", "c", "d")
DEEP = "/".join("123456789")
"Where all this stands in a temporary folder: `..` of a path that got out would end in there too."
steps = st.sampled_from([*NAMES, "..", ".", "", "root", "outside", "\0", "~", "x" * 300])
paths = st.one_of(st.lists(steps, max_size=8).map("/".join), st.text(max_size=12))
targets = st.one_of(
    paths,
    st.lists(st.sampled_from([*NAMES, ".."]), min_size=1, max_size=4).map("/".join),
    st.sampled_from(["ROOT", "ROOT/a", "OUTSIDE", "OUTSIDE/a"]),
)
Tree: TypeAlias = list[tuple[list[str], str | tuple[str, str]]]
trees = st.lists(
    st.tuples(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
        st.one_of(st.sampled_from(["file", "folder", "pipe"]), targets.map(lambda to: ("to", to))),
    ),
    max_size=8,
)


def usable(target: str) -> bool:
    """Return whether a link can point there."""
    try:
        return bool(target) and b"\0" not in os.fsencode(target)
    except UnicodeEncodeError:
        return False


def grow(base: Path, tree: Tree) -> tuple[Path, Path]:
    """Make a folder with this tree, beside one that nothing may touch."""
    root, outside = base / "root", base / "outside"
    root.mkdir()
    (outside / "b").mkdir(parents=True)
    for name in ("a", "b/a"):
        (outside / name).write_text("outside")
    for names, what in tree:
        place = root.joinpath(*names)
        above = [root.joinpath(*names[:n]) for n in range(1, len(names))]
        # Never through a link: this builder follows them, and would build outside.
        if os.path.lexists(place) or any(
            os.path.lexists(each) and (each.is_symlink() or not each.is_dir()) for each in above
        ):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(what, tuple):
            to = what[1].replace("ROOT", str(root)).replace("OUTSIDE", str(outside))
            if usable(to):
                place.symlink_to(to)
        elif what == "file":
            place.write_text("inside")
        elif what == "folder":
            place.mkdir()
        else:
            os.mkfifo(place)
    return root, outside


def state(folder: Path) -> dict[str, str]:
    """Return every file of a folder with its text."""
    return {
        str(each.relative_to(folder)): each.read_text()
        for each in folder.rglob("*")
        if each.is_file()
    }


@example([(["a"], ("to", "OUTSIDE"))], "a/a")
@example([(["a"], ("to", "../outside/a"))], "a")
@example([(["a", "b"], ("to", "../../outside"))], "a/b/b/a")
@example([(["a", "b"], ("to", ".."))], "a/b/../outside/a")
@examples(15)
@given(trees, paths)
def test_no_path_opens_anything_outside(tree: Tree, path: str) -> None:
    """The one promise of the file tools that nothing else makes up for."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name).resolve() / DEEP
        base.mkdir(parents=True)
        root, outside = grow(base, tree)
        before = state(outside)
        confined = Confined(root, what="the workspace")
        try:
            with confined.opened(path) as fd:
                opened = Path(f"/proc/self/fd/{fd}").readlink()
        except ToolFailedError:
            opened = root
        try:
            with confined.place(path, create=True) as place:
                place.replace(b"new")
        except ToolFailedError:
            pass

        assert opened == root or root in opened.parents
        assert state(outside) == before
        assert sorted(each.name for each in base.iterdir()) == ["outside", "root"]


@example([(["a"], "file"), (["b"], ("to", "a"))], "b")
@example([(["c", "a"], "file"), (["b"], ("to", "c"))], "b/a")
@example([(["a"], "file"), (["c", "d"], ("to", "../a"))], "c/d")
@example([(["a"], "file"), (["c", "d"], ("to", "ROOT/a"))], "c/d")
@examples(15)
@given(trees, st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join))
def test_what_the_kernel_finds_inside_is_found(tree: Tree, path: str) -> None:
    """Refusing everything would be safe, and of no use."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name).resolve() / DEEP
        base.mkdir(parents=True)
        root, _ = grow(base, tree)
        real = Path(os.path.realpath(root / path))
        if root not in real.parents or not os.path.isfile(real):
            return
        try:
            with Confined(root, what="the workspace").place(path) as place:
                text, inside = place.read(100)[0].decode(), place.inside
        except ToolFailedError as error:
            # A link may leave the folder and come back; that is not walked.
            assert "leads out" in str(error) or "circle" in str(error)  # noqa: PT017 - one of two
        else:
            assert (text, inside) == ("inside", str(real.relative_to(root)))
