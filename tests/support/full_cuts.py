"""Every write of a trace, cut at every byte, and read as the next start reads it.

Cuts inside one line leave the same: that is checked here by reading alone, for every byte. What a
gateway makes of it is proved once for each line, see `Proof.points`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.disk_model import Node, Picture
from support.disk_trace import Operation
from support.full_proof import Proof, scratch, without_syncs, words

from everturn_actors.errors import JournalError
from everturn_actors.journal.loading import load_session
from everturn_actors.journal.log.layout import SessionFiles
from everturn_gateway.scheduler.run_logs.lines import read_log

UNREAD = re.compile(
    r"(.*\.tmp|workspace\.lock|processes/[^/]+/(start\.json|input|control))"  # never read so
)
_SESSION = re.compile(r"(sessions/([^/]+))/(events(\.archive)?\.jsonl)")
_RUNS = re.compile(r"schedules/runs/[^/]+\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One write, cut at many places."""

    operation: Operation
    count: int
    "How many places."
    wrong: tuple[str, ...] = ()


def cut_all(proof: Proof, place: Path, *, step: int = 1) -> Iterator[Cut]:
    """Cut every write at every `step`-th byte, and read it. Blocking.

    Raises:
        AssertionError: A file is written in place, and nobody says that it can be read when cut.
    """
    for operation, replay in proof.trace.walk():
        if operation.kind != "write":
            continue
        assert replay.changed is not None
        sizes = range(1, len(operation.data), step)
        if found := _SESSION.fullmatch(operation.path):
            picture = replay.disk.after_kill()
            wrong = _cut_log(operation, replay.changed, picture, found, sizes, place)
        elif _RUNS.fullmatch(operation.path):
            wrong = _cut_runs(operation, replay.changed, sizes)
        else:
            assert UNREAD.fullmatch(operation.path), f"{operation}: what if it is cut?"
            continue
        yield Cut(operation=operation, count=len(sizes), wrong=tuple(wrong))


def _before(operation: Operation, node: Node) -> bytes:
    return node.data[: operation.offset]


def _cut_log(
    operation: Operation,
    node: Node,
    picture: Picture,
    found: re.Match[str],
    sizes: range,
    place: Path,
) -> Iterator[str]:
    """Cut a session's log, or its archive, and load the session."""
    folder_name, session_id, name = found[1], found[2], found[3]
    before, is_log = _before(operation, node), name == "events.jsonl"
    lines = operation.data.splitlines(keepends=True)
    with scratch(place) as folder, without_syncs():
        folder.mkdir()
        files = SessionFiles(session_id=session_id, folder=folder)
        for other, data in picture.items():
            if data is not None and other.rpartition("/")[0] == folder_name:
                (folder / other.rpartition("/")[2]).write_bytes(data)
        path = folder / name
        path.write_bytes(node.data)
        whole = load_session(files)
        assert whole is not None
        for size in sizes:
            path.write_bytes(before + operation.data[:size])
            kept, rest = _whole_lines(lines, size)
            try:
                loaded = load_session(files)
            except JournalError as error:
                yield f"cut after {size}: {words(error)}"
                continue
            if not is_log:  # the log still holds what the archive gets
                if loaded is None or loaded[0].events != whole[0].events:
                    yield f"cut after {size}: the session loads otherwise"
                continue
            last = whole[1].last_seq - len(lines) + kept
            got = loaded[1].last_seq if loaded is not None else 0
            if got != last:
                yield f"cut after {size}: it ends at event {got}, not at {last}"
            elif path.read_bytes() != (before + b"".join(lines[:kept]) if loaded or rest else b""):
                yield f"cut after {size}: the torn line is still there"
            for torn in folder.glob("*.torn-*"):
                torn.unlink()


def _whole_lines(lines: list[bytes], size: int) -> tuple[int, int]:
    """Return how many lines stand in the first bytes, and what is left; no newline is missed."""
    kept = 0
    for line in lines:
        if size < len(line) - 1:
            break
        kept, size = kept + 1, max(size - len(line), 0)
    return kept, size


def _cut_runs(operation: Operation, node: Node, sizes: range) -> Iterator[str]:
    """Cut a run log, and read it."""
    before = _before(operation, node)
    lines = operation.data.splitlines(keepends=True)
    stories = [read_log(before + b"".join(lines[:n])) for n in range(len(lines) + 1)]
    for size in sizes:
        kept, _ = _whole_lines(lines, size)
        if read_log(before + operation.data[:size]).job_state != stories[kept].job_state:
            yield f"cut after {size}: it tells something else"
