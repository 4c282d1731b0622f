"""What a gateway that died leaves to the next one, against what one that never died leaves.

`Proof` tells the scenario once, with everything durable recorded. For any point of that trace it
lays the disk out as a crash would have left it, gives the world the state that its marks tell,
opens a new gateway on both, lets it come to the end of the script, and checks what is there.
"""

from __future__ import annotations

import copy
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import anyio
from support.disk_model import Picture, lay_out, picture_of
from support.disk_trace import Operation, Recorder, Replay, Trace
from support.full_checks import Left, Model, Outcome, Point, check, compare, read_left, story
from support.full_scenario import SCRIPT, live_through, prepare
from support.full_world import World

# --- the proof -----------------------------------------------------------------------------------


def _nothing(_what: str, _world: bytes) -> None:
    """Take no note."""


def _unsynced(_descriptor: int) -> None:
    """Do nothing: what a dead machine forgets is the trace's concern."""


@contextmanager
def without_syncs() -> Generator[None]:
    """Let nobody wait for the machine's disk."""
    with mock.patch.object(os, "fsync", _unsynced), mock.patch.object(os, "fdatasync", _unsynced):
        yield


@contextmanager
def scratch(place: Path) -> Generator[Path]:
    """Give a workspace that is not there yet, in a folder that is removed at the end. Blocking."""
    root = Path(tempfile.mkdtemp(dir=place))
    (root / "files").mkdir()
    try:
        yield root / "state"
    finally:
        shutil.rmtree(root)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """What was not durable in a second life."""

    operation: Operation
    "Where the first one was killed."
    promises: tuple[str, ...]


def broken_in(trace: Trace, replay: Replay, *, jobs: bool = True) -> list[str]:
    """Return what somebody relied on before it was durable.

    Args:
        trace: What was done.
        replay: The disk on which it was done.
        jobs: Whether to look at scheduled jobs. What a second gateway does once more under the same
            name may be known to have begun only to the machine's memory.
    """
    broken: dict[str, str] = {}
    for operation in trace.operations:
        replay.apply(operation)
        if operation.kind not in ("mark", "sync", "remove"):
            continue
        world = World.unpack(replay.world)
        picture = replay.disk.after_power_loss()
        for session_id in _with_open_turn(picture) - picture.keys():
            text = f"{session_id}: its turn is open, and the next start does not see it"
            broken.setdefault(session_id, f"{text}, at operation {operation}")
        logs = b"".join(data or b"" for name, data in picture.items() if "/events" in name)
        relied = [f'"idempotency_key":"{key}"' for key in world.accepted]
        relied += [f'"call_started","call_id":"{call}"' for call in world.runs]
        relied += [f'"model_replied","text":"{text}"' for text in world.answers.values()]
        for text in relied:
            if text.encode() not in logs:
                broken.setdefault(text, f"{text} is not durable at operation {operation}")
        if jobs:
            begun = {*re.findall(rb'"schedule:(\w+):', logs), *_posting(world)}
            for job in sorted(begun):
                run_log = picture.get(f"schedules/runs/{job.decode()}.jsonl") or b""
                if b'"began"' not in run_log:
                    text = f"job {job.decode()} acts and is not known to have begun"
                    broken.setdefault(text, f"{text}, at operation {operation}")
        for path in set(re.findall(rb'"path":"results/([^"]+)"', logs)):
            name = path.decode()
            if not any(each.endswith(f"/results/{name}") for each in picture):
                broken.setdefault(name, f"{name} is not durable at operation {operation}")
    return [*broken.values()]


def _posting(world: World) -> set[bytes]:
    """Return the jobs that asked the webhook."""
    return {key.split(":")[1].encode() for key, _ in world.posts}


def _with_open_turn(picture: Picture) -> set[str]:
    """Return the markers that the sessions must have whose turn is open."""
    turns: Counter[str] = Counter()
    for name, data in picture.items():
        if data is not None and (found := re.fullmatch(r"sessions/([^/]+)/events\S*jsonl", name)):
            turns[found[1]] += data.count(b'"turn_started"') - data.count(b'"turn_finished"')
    return {f"active/{session_id}" for session_id, count in turns.items() if count > 0}


class Proof:
    """The run that never crashed, and what others are held against."""

    def __init__(self, place: Path) -> None:
        """Tell the scenario, in a folder below `place`. Blocking."""
        self._place = place
        self._seen: dict[bytes, Outcome] = {}
        with scratch(place) as folder:
            prepare(folder)
            recorder = Recorder(folder)
            recorder.trace.base = picture_of(folder)
            world = World()
            with recorder.installed():
                anyio.run(live_through, folder, world, recorder.mark)
            self.trace: Trace = recorder.trace
            self.folder_after = picture_of(folder)
            left = anyio.run(read_left, folder)
        check(left, world)
        self.stories = {name: story(log) for name, log in left.logs.items()}
        self.world = world
        self.left = left

    # --- points ---

    def points(self, model: Model, *, seeds: int = 1) -> Iterator[Point]:
        """Yield every point of a model, in order; of a torn write one for each byte that came.

        Args:
            model: What a crash leaves.
            seeds: power lost, some written: how many ways of that for each operation.
        """
        for operation, replay in self.trace.walk():
            make = partial(self._point, model, operation, replay)
            match model:
                case "killed":
                    yield make("", replay.disk.after_kill())
                case "power lost":
                    yield make("", replay.disk.after_power_loss())
                case "power lost, some written":
                    for number in range(seeds):
                        seed = operation.number * 1000 + number
                        picture = replay.disk.after_some_writeback(seed)
                        yield make(f", seed {seed}", picture)
                case "torn":
                    for size, what in cuts(operation) if replay.changed is not None else ():
                        assert replay.changed is not None
                        yield make(f", cut {what}", replay.disk.torn(replay.changed, size))

    def broken_promises(self) -> list[str]:
        """Return what somebody relied on before it was durable, at any operation of the trace.

        Nothing is started for this: it is looked for in the files that a power loss would leave.
        """
        return broken_in(self.trace, Replay(self.trace.base))

    def broken_after_kill(self, *, every: int = 1, offset: int = 0) -> Iterator[Broken]:
        """Kill a gateway, let another go on, and take the power from that at each of its moments.

        What the first one wrote and did not sync is not synced by the second one's start: a killed
        process leaves its names and bytes to the memory of the machine.

        Yields:
            One for each operation after which something stands there that was not synced.
        """
        number = 0
        for operation, replay in self.trace.walk():
            if replay.disk.after_kill() == replay.disk.after_power_loss():
                continue
            number += 1
            if (number - 1) % every != offset:
                continue
            with scratch(self._place) as folder:
                lay_out(folder, replay.disk.after_kill())
                recorder = Recorder(folder)
                with recorder.installed():
                    world = World.unpack(replay.world)
                    anyio.run(live_through, folder, world, recorder.mark)
            again = Replay({})
            again.disk = copy.deepcopy(replay.disk)
            broken = broken_in(recorder.trace, again, jobs=False)
            yield Broken(operation=operation, promises=tuple(broken))

    @staticmethod
    def _point(
        model: Model, operation: Operation, replay: Replay, what: str, picture: Picture
    ) -> Point:
        return Point(
            model=model, operation=operation, what=what, picture=picture, world=replay.world
        )

    # --- outcomes ---

    def prove(self, point: Point) -> Outcome:
        """Let a new gateway go on after a point; the same point is tried once. Blocking."""
        known = self._seen.get(point.key)
        if known is None:
            known = self._seen[point.key] = self._try(point)
        return Outcome(point=point, verdict=known.verdict, why=known.why)

    def _try(self, point: Point) -> Outcome:
        world = World.unpack(point.world)
        if point.model.startswith("power"):  # supervisors die with the machine
            world.supervisors = {h: s for h, s in world.supervisors.items() if s == "ended"}
        try:
            with scratch(self._place) as folder:
                lay_out(folder, point.picture)
                with without_syncs():
                    anyio.run(live_through, folder, world, _nothing)
                    left = anyio.run(read_left, folder)
            why = self.compare(left, world, point)
        except AssertionError as error:
            return Outcome(point=point, verdict="failed", why=str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            return Outcome(point=point, verdict="failed", why=words(error))
        return Outcome(point=point, verdict="closing" if why else "equal", why=why)

    def compare(self, left: Left, world: World, point: Point) -> str:
        """Check what is left, and return the closing events in words; empty = none."""
        assert world.step == len(SCRIPT), "the script did not come to its end"
        check(left, world)
        assert left.logs.keys() == self.stories.keys(), f"conversations: {[*left.logs]}"
        ends = {
            compare(name, story(log), self.stories[name], point) for name, log in left.logs.items()
        }
        for name, text in self.world.answers.items():
            assert world.answers[name] == text, f"{name} is answered {world.answers[name]!r}"
        return ", ".join(sorted(ends - {""}))


def cuts(operation: Operation) -> list[tuple[int, str]]:
    """Return one cut of a write for each way in which it can be read afterwards.

    Of lines: in the middle of each, and right before its newline. Of anything else: half of it.
    """
    data = operation.data
    if not operation.path.endswith(".jsonl"):
        return [(len(data) // 2, "in half")] if len(data) > 1 else []
    found: list[tuple[int, str]] = []
    start = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        found.append((start + len(line) // 2, f"in line {number}"))
        found.append((start + len(line) - 1, f"before the end of line {number}"))
        start += len(line)
    return found


def words(error: BaseException) -> str:
    """Return what failed, in a group the first thing, in words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
