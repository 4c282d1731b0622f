"""Kill points of a part, each run once, and what came of them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
from support.killing.accounts import compare
from support.killing.hook.kill_points import KillPoint, Moment
from support.killing.lives import Part, Past, Ran, make_past, run_part
from support.killing.starting import Launcher

WRITES: Final = ("write", "pwrite")
SYNCS: Final = ("fsync", "fdatasync")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A part with what it is compared with."""

    part: Part
    past: Past | None
    expected: Ran


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one kill."""

    at: KillPoint
    operation: str
    "As the killed life noted it."
    is_reached: bool
    rules: tuple[str, ...]
    "The documented differences."
    failure: str
    "What is wrong; empty = nothing."
    folder: Path
    "Kept where something is wrong."


@dataclass(slots=True, kw_only=True)
class Row:
    """A line of the table."""

    name: str
    operations: int
    points: Counter[Moment] = field(default_factory=Counter[Moment])
    unreached: int = 0
    "The life ended before the point."
    equal: int = 0
    documented: Counter[str] = field(default_factory=Counter[str])
    "By the names of the documented differences."
    failures: list[Outcome] = field(default_factory=list[Outcome])

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.points[outcome.at.moment] += 1
        self.unreached += not outcome.is_reached
        if outcome.failure:
            self.failures.append(outcome)
        elif outcome.rules:
            self.documented[" + ".join(outcome.rules)] += 1
        else:
            self.equal += 1


def points(trace: Sequence[str]) -> Iterator[KillPoint]:
    """Yield every kill point of a life: before and after each operation, and amid each write.

    A sync is not killed before it begins: to a process that dies, that is after its write.
    """
    for number, operation in enumerate(trace, 1):
        if operation.split()[0] not in SYNCS:
            yield KillPoint(number=number, moment="before")
        if operation.split()[0] in WRITES:
            yield KillPoint(number=number, moment="half")
        yield KillPoint(number=number, moment="after")


async def make_ready(part: Part, folder: Path, launcher: Launcher) -> Ready:
    """Let happen what was before a part, and run it without a kill.

    Raises:
        AssertionError: Something is wrong with it although nothing was killed.
    """
    for name in ("past", "expected"):
        await anyio.Path(folder / name).mkdir(parents=True)
    past = await make_past(part, folder / "past", launcher)
    expected = await run_part(part, folder / "expected", launcher, past)
    assert not expected.faults, f"{part.name}: {expected.faults}"
    return Ready(part=part, past=past, expected=expected)


async def kill(ready: Ready, at: KillPoint, folder: Path, launcher: Launcher) -> Outcome:
    """Run a part with a kill point; return what came of it. A good run leaves no folder."""
    await anyio.Path(folder).mkdir(parents=True)
    ran = await run_part(ready.part, folder, launcher, ready.past, at)
    compared = compare(ready.expected.account, ran.account, ready.part.allowed)
    failure = "\n".join([*ran.faults, *([compared.difference] if compared.difference else [])])
    if not failure:
        await anyio.to_thread.run_sync(shutil.rmtree, folder)
    trace = ran.trace
    return Outcome(
        at=at,
        operation=trace[at.number - 1] if at.number <= len(trace) else "",
        is_reached=ran.was_killed,
        rules=compared.rules,
        failure=failure,
        folder=folder,
    )


async def kill_all(
    ready: Ready,
    chosen: Sequence[KillPoint],
    folder: Path,
    launcher: Launcher,
    *,
    jobs: int,
    on_outcome: Callable[[Outcome], None] = lambda _outcome: None,
) -> Row:
    """Run a part with each of these kill points, `jobs` at a time."""
    row = Row(name=ready.part.name, operations=len(ready.expected.trace))
    limiter = anyio.Semaphore(jobs)

    async def one(at: KillPoint) -> None:
        async with limiter:
            place = folder / f"{at.number}-{at.moment}"
            outcome = await kill(ready, at, place, launcher)
        row.add(outcome)
        on_outcome(outcome)

    async with anyio.create_task_group() as tasks:
        for at in chosen:
            tasks.start_soon(one, at)
    return row
