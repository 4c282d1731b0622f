"""Crash the whole scenario at every durable operation, and fail its disk at every one.

    python benchmarks/crash_disk.py                 # everything; about half an hour on one core
    python benchmarks/crash_disk.py --every 20      # a spread, in a minute or two

The scenario of `tests/support/full_scenario.py` is told once while everything durable is recorded:
creation, write, truncation, sync, rename, link, removal, of files and of folders, and each moment
at which somebody outside came to rely on something. Then for every operation a new gateway goes on
from what would be left, and the end of the script is held against the run that never crashed:

    killed                    all that was written is there
    torn                      the last write is cut, once for each way in which it can be read
    cut at every byte         the same for each byte of each log, read without a gateway
    power lost                what was not synced is not there: bytes, names, renames
    power lost, some written  of that some, by seed: of a file the first writes, the last one cut
                              or full of zeros; of a folder the first names
    killed, then power lost   the second gateway loses power, whenever somebody relies on it
    full, quota, EIO          the operation is refused, once or until somebody helps
    slow disk                 the operation is held: what is said meanwhile is durable, others are
                              served, and it goes on when it is let go

"equal" tells the same conversations; "closing" the same up to the documented closing events: a call
that was interrupted, a burst that was answered in parts, a process lost with its machine.
The exit status is 1 where anything failed; each failure is printed with its operation.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from harness import show
from support.full_checks import Model, Outcome
from support.full_cuts import cut_all
from support.full_faults import TROUBLES, fail_at, hold_at
from support.full_proof import Proof

SEEDS = 3  # ways in which some was written, for each operation
MEMORY = Path("/dev/shm")  # noqa: S108 - a disk that is quick: nothing here depends on a real one
CUTS = "cut at every byte"
TWICE = "killed, then power lost"
SLOW = "slow disk"
NAMES = (*get_args(Model), TWICE, CUTS, *(trouble.name for trouble in TROUBLES), SLOW)
COLUMNS = (
    "scenario part", "crash model", "crash points", "recovered equal",
    "with documented closing events", "failures", "s",
)  # fmt: skip


@dataclass(slots=True)
class Rows:
    """Outcomes, counted by part and model."""

    counts: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    took_s: Counter[tuple[str, str]] = field(default_factory=Counter)
    closings: Counter[str] = field(default_factory=Counter)
    failures: int = 0

    def add(self, part: str, model: str, verdict: str, count: int = 1) -> None:
        """Count outcomes."""
        self.counts.setdefault((part, model), Counter())[verdict] += count

    def note(self, model: str, outcome: Outcome) -> None:
        """Count an outcome, and print a failure."""
        self.add(outcome.point.part, model, outcome.verdict)
        if outcome.verdict == "closing":
            self.closings[outcome.why] += 1
        if outcome.verdict == "failed":
            self.failed(f"{outcome.point}: {outcome.why}")

    def failed(self, what: str) -> None:
        """Print a failure."""
        self.failures += 1
        print(f"FAILED {what}", flush=True)

    def rows(self) -> Iterator[tuple[object, ...]]:
        """Yield the rows of the table, and their sums by model."""
        for model in NAMES:
            total: Counter[str] = Counter()
            for (part, name), counts in self.counts.items():
                if name == model:
                    total += counts
                    if part != "all":
                        yield part, model, *_cells(counts), ""
            if total:
                yield "all", model, *_cells(total), f"{self.took_s['all', model]:.0f}"


def _cells(counts: Counter[str]) -> tuple[int, int, int, int]:
    return counts.total(), counts["equal"], counts["closing"], counts["failed"]


def crash(proof: Proof, model: Model, every: int, rows: Rows) -> None:
    """Prove every point of a model, or a spread of them."""
    for number, point in enumerate(proof.points(model, seeds=SEEDS)):
        if number % every == 0:
            rows.note(model, proof.prove(point))


def cut(proof: Proof, every: int, place: Path, rows: Rows) -> None:
    """Cut each write of a log at every byte, or at a spread of them."""
    for each in cut_all(proof, place, step=every):
        rows.add("all", CUTS, "equal", each.count - len(each.wrong))
        rows.add("all", CUTS, "failed", len(each.wrong))
        for wrong in each.wrong[:1]:
            rows.failed(f"{each.operation}: {wrong}")


def crash_twice(proof: Proof, every: int, rows: Rows) -> None:
    """Kill one gateway and take the power from the next."""
    for each in proof.broken_after_kill(every=every):
        rows.add("all", TWICE, "failed" if each.promises else "equal")
        for promise in each.promises[:1]:
            rows.failed(f"{TWICE}, killed at operation {each.operation}: {promise}")


def fail(proof: Proof, model: str, every: int, place: Path, rows: Rows) -> None:
    """Fail the disk at every operation of a run, or hold it there."""
    number = 1
    while True:
        found: tuple[Outcome, ...] | None
        if model == SLOW:
            found = hold_at(proof, number, place)
        else:
            trouble = next(each for each in TROUBLES if each.name == model)
            outcome = fail_at(proof, trouble, number, place)
            found = None if outcome is None else (outcome,)
        if found is None:
            return
        for each in found:
            rows.note(model, each)
        number += every


def main() -> int:
    """Run what the arguments say; return 1 where something failed."""
    parser = argparse.ArgumentParser(description="Crash the whole scenario at every operation.")
    parser.add_argument("--every", type=int, default=1, help="only every so manyth point")
    parser.add_argument("--only", action="append", choices=NAMES, help="only this; may be repeated")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    rows = Rows()
    place = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place, prefix="everturn-crash-") as name:
        proof = Proof(Path(name))
        for broken in proof.broken_promises():
            rows.failed(broken)
        for model in arguments.only or NAMES:
            began = time.perf_counter()
            if model in get_args(Model):
                crash(proof, model, arguments.every, rows)
            elif model == TWICE:
                crash_twice(proof, arguments.every, rows)
            elif model == CUTS:
                cut(proof, arguments.every, Path(name), rows)
            else:
                fail(proof, model, arguments.every, Path(name), rows)
            rows.took_s["all", model] += round(time.perf_counter() - began)
            print(f"{model}: {rows.took_s['all', model]} s", file=sys.stderr, flush=True)
    operations = sum(each.kind != "mark" for each in proof.trace.operations)
    marks = len(proof.trace.operations) - operations
    show(f"{operations} durable operations, {marks} moments outside", COLUMNS, rows.rows())
    show(
        "Documented closing events",
        ("what", "crash points"),
        ((what, count) for what, count in rows.closings.most_common()),
    )
    return 1 if rows.failures else 0


if __name__ == "__main__":
    sys.exit(main())
