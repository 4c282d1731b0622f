"""A disk as a crash sees it: what programs read now, and what of it was synced.

A file is a node with its bytes; a folder is a node with its names. Both have what stands there
now, what stood there at the last sync, and what was done since. A process that is killed leaves
everything that stands there now; a machine that loses power leaves what was synced, and of the
rest nothing, or some.

Source: fsync(2) and "Calling fsync() does not necessarily ensure that the entry in the directory
containing the file has also reached disk" (Linux man-pages, read 2026-11-22).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["file", "folder", "pipe"]
Picture: TypeAlias = dict[str, bytes | None]
"What a folder holds, by path: the bytes of a file, None for a folder. Pipes end in `|`."


@dataclass(slots=True, eq=False)
class Write:
    """Bytes at an offset, or, without bytes, a new length."""

    offset: int
    data: bytes | None


@dataclass(slots=True, eq=False)
class Naming:
    """A name that was given or taken away; a rename in one folder is both in one."""

    given: dict[str, Node] = field(default_factory=dict)
    taken: tuple[str, ...] = ()
    after: Naming | None = None
    "It stands in another folder and comes to the disk first: no rename loses a file."


@dataclass(slots=True, eq=False)
class Node:
    """A file, a folder or a pipe."""

    kind: Kind
    data: bytes = b""
    synced: bytes = b""
    writes: list[Write] = field(default_factory=list)
    "Since the last sync."
    names: dict[str, Node] = field(default_factory=dict)
    synced_names: dict[str, Node] = field(default_factory=dict)
    namings: list[Naming] = field(default_factory=list)
    "Since the last sync."
    dated_ns: int | None = None
    "When it was written, where somebody said so."

    def change(self, write: Write) -> None:
        """Write to the file."""
        self.data = written(self.data, write)
        self.writes.append(write)

    def name(self, naming: Naming) -> None:
        """Give or take names in the folder."""
        self.names = named(self.names, naming)
        self.namings.append(naming)

    def sync(self) -> None:
        """Make bytes, or names, durable."""
        self.synced, self.writes = self.data, []
        self.synced_names, self.namings = dict(self.names), []


def written(data: bytes, write: Write) -> bytes:
    """Return what a file holds after a write."""
    if write.data is None:
        return data[: write.offset].ljust(write.offset, b"\0")
    return (
        data[: write.offset].ljust(write.offset, b"\0")
        + write.data
        + data[write.offset + len(write.data) :]
    )


def named(names: dict[str, Node], naming: Naming) -> dict[str, Node]:
    """Return what a folder holds after a naming."""
    kept = {name: node for name, node in names.items() if name not in naming.taken}
    return {**kept, **naming.given}


class Disk:
    """A tree of nodes below one folder, whose own name is durable."""

    def __init__(self) -> None:
        """Begin with an empty folder."""
        self.root = Node("folder")

    def find(self, path: str) -> Node | None:
        """Return what stands at a path below the root; "" is the root."""
        node: Node | None = self.root
        for part in path.split("/") if path else ():
            node = node.names.get(part) if node is not None else None
        return node

    def folder_of(self, path: str) -> tuple[Node, str]:
        """Return the folder of a path, and the name in it."""
        parent, _, name = path.rpartition("/")
        folder = self.find(parent)
        assert folder is not None, f"the folder of {path!r} was never made"
        return folder, name

    def put(self, path: str, node: Node) -> None:
        """Give a node a name."""
        folder, name = self.folder_of(path)
        folder.name(Naming(given={name: node}))

    def take(self, path: str) -> None:
        """Take a name away."""
        folder, name = self.folder_of(path)
        folder.name(Naming(taken=(name,)))

    def rename(self, old: str, new: str) -> None:
        """Move a name, over whatever stood there."""
        (source, old_name), (target, new_name) = self.folder_of(old), self.folder_of(new)
        node = source.names[old_name]
        if source is target:
            source.name(Naming(given={new_name: node}, taken=(old_name,)))
            return
        arrives = Naming(given={new_name: node})
        target.name(arrives)
        source.name(Naming(taken=(old_name,), after=arrives))

    # --- what a crash leaves ---

    def after_kill(self) -> Picture:
        """Return what stands there now."""
        return _picture(self.root, lambda node: node.names, lambda node: node.data)

    def after_power_loss(self) -> Picture:
        """Return what was synced, and nothing else."""
        return _picture(self.root, lambda node: node.synced_names, lambda node: node.synced)

    def after_some_writeback(self, seed: int) -> Picture:
        """Return what was synced, and of the rest what a disk may have written by itself.

        Of each folder some of the namings, the first ones; of each file some of the writes, the
        first ones, the last of them cut anywhere, or as long as it should be and filled with
        zeros. Which comes first, one file or another, says nothing.
        """
        draw = random.Random(seed)  # noqa: S311 - reproducible, and no secret
        kept: dict[int, dict[str, Node]] = {}
        came: set[int] = set()
        folders = [*_folders(self.root)]
        counts = {id(folder): draw.randint(0, len(folder.namings)) for folder in folders}
        for folder in folders:
            came |= {id(naming) for naming in folder.namings[: counts[id(folder)]]}
        for folder in folders:
            names = folder.synced_names
            for naming in folder.namings[: counts[id(folder)]]:
                waits = naming.after is not None and id(naming.after) not in came
                if waits and any(naming.after in other.namings for other in folders):
                    break  # it was not synced either: this one did not come to the disk
                names = named(names, naming)
            kept[id(folder)] = names

        def names_of(node: Node) -> dict[str, Node]:
            return kept.get(id(node), node.synced_names)

        return _picture(self.root, names_of, lambda node: _some_writes(node, draw))

    def torn(self, node: Node, size_bytes: int) -> Picture:
        """Return what stands there if of the newest write of `node` only so many bytes came."""
        *before, last = node.writes
        assert last.data is not None
        data = node.synced
        for write in (*before, Write(last.offset, last.data[:size_bytes])):
            data = written(data, write)

        def data_of(each: Node) -> bytes:
            return data if each is node else each.data

        return _picture(self.root, lambda each: each.names, data_of)


def _some_writes(node: Node, draw: random.Random) -> bytes:
    data = node.synced
    count = draw.randint(0, len(node.writes))
    for number, write in enumerate(node.writes[:count], 1):
        data = written(data, _in_part(write, draw) if number == count else write)
    return data


def _in_part(write: Write, draw: random.Random) -> Write:
    """Return what may come of the last write that came to the disk."""
    if write.data is None:
        return write
    match draw.choice(("whole", "cut", "zeros")):
        case "cut":
            return Write(write.offset, write.data[: draw.randint(0, len(write.data))])
        case "zeros":
            return Write(write.offset, bytes(len(write.data)))
        case _:
            return write


def _folders(node: Node) -> list[Node]:
    """Return all folders that can still be reached, synced or not."""
    found: dict[int, Node] = {}
    left = [node]
    while left:
        each = left.pop()
        if each.kind != "folder" or id(each) in found:
            continue
        found[id(each)] = each
        left += [*each.names.values(), *each.synced_names.values()]
        left += [given for naming in each.namings for given in naming.given.values()]
    return [*found.values()]


def _picture(
    root: Node, names_of: Callable[[Node], dict[str, Node]], data_of: Callable[[Node], bytes]
) -> Picture:
    found: Picture = {}

    def walk(node: Node, path: str) -> None:
        for name, each in sorted(names_of(node).items()):
            here = f"{path}/{name}" if path else name
            match each.kind:
                case "folder":
                    found[here] = None
                    walk(each, here)
                case "pipe":
                    found[f"{here}|"] = b""
                case "file":
                    found[here] = data_of(each)

    walk(root, "")
    return found


def picture_of(folder: Path) -> Picture:
    """Return what a real folder holds. Blocking."""
    found: Picture = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir():
            found[name] = None
        elif path.is_fifo():
            found[f"{name}|"] = b""
        else:
            found[name] = path.read_bytes()
    return found


def lay_out(folder: Path, picture: Picture) -> None:
    """Make a real folder that holds a picture. Blocking."""
    folder.mkdir(parents=True)
    for name, data in picture.items():
        path = folder / name
        if data is None:
            path.mkdir()
        elif name.endswith("|"):
            os.mkfifo(folder / name[:-1], 0o600)
        else:
            path.write_bytes(data)
