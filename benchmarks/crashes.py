"""Kill the gateway at every durable operation of a whole scenario, and compare with no kill.

    python benchmarks/crashes.py [--every 1] [--jobs 4] [--only discord] [--installed]

Each part of the scenario is run once without a kill and its durable operations are counted: each
file or folder that is made, written, synced, renamed, linked, cut or removed in its folder. Then
it is run anew for every one of them, with real aiogram and discord.py against loopback servers,
and the gateway ends itself by SIGKILL before the operation, with half of the bytes of a write, or
after it. It is started again; people, who know of nothing, go on; and what they saw, every log,
every side effect and every scheduled run is held against the run that was not killed.

The gateways are forked from a process that has loaded what the command loads, so that a life costs
a quarter of a second and not six; `--installed` starts the installed command for each.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path

import anyio
from harness import show

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.killing.parts import PARTS  # noqa: E402 - its place is named above
from support.killing.starting import open_launcher  # noqa: E402
from support.killing.table import Outcome, Row, kill_all, make_ready, points  # noqa: E402


def tell(outcome: Outcome) -> None:
    """Say what is wrong as soon as it is known."""
    if outcome.failure:
        at = outcome.at
        print(f"FAILED {outcome.folder}: {at.moment} operation {at.number}, {outcome.operation}")
        print(outcome.failure, flush=True)


async def measure(arguments: argparse.Namespace, folder: Path) -> list[Row]:
    """Run the chosen parts; return the rows of the table."""
    rows: list[Row] = []
    async with open_launcher(is_forked=not arguments.installed) as launcher:
        for number, part in enumerate(PARTS):
            if arguments.only.lower() not in part.name.lower():
                continue
            began = time.perf_counter()
            home = folder / str(number)
            ready = await make_ready(part, home, launcher)
            every = [*points(ready.expected.trace)][:: arguments.every]
            chosen = [p for p in every if not arguments.at or p.number == arguments.at]
            rows.append(
                await kill_all(ready, chosen, home, launcher, jobs=arguments.jobs, on_outcome=tell)
            )
            took = f"{len(chosen)} kills in {time.perf_counter() - began:.0f} s"
            print(f"{part.name}: {took}; {columns(rows[-1])}", flush=True)
    return rows


def columns(row: Row) -> list[object]:
    """Return a line of the table."""
    documented = ", ".join(f"{times} {rules}" for rules, times in row.documented.most_common())
    kills = "/".join(str(row.points[moment]) for moment in ("before", "half", "after"))
    return [
        row.name,
        row.operations,
        kills,
        row.unreached,
        row.equal,
        documented or "-",
        len(row.failures),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take each so manieth kill point")
    parser.add_argument("--jobs", type=int, default=4, help="so many runs at a time; most wait")
    parser.add_argument("--only", default="", help="parts whose name holds this")
    parser.add_argument("--at", type=int, default=0, help="this operation alone")
    parser.add_argument("--installed", action="store_true", help="start the installed command")
    arguments = parser.parse_args()
    logging.getLogger("aiohttp.server").disabled = True  # it tells of connections that a kill cut
    began = time.perf_counter()
    folder = Path(tempfile.mkdtemp(dir=ROOT.parent, prefix=".everturn-crashes-"))
    rows = anyio.run(measure, arguments, folder)
    if not any(row.failures for row in rows):
        shutil.rmtree(folder)
    show(
        f"{sum(row.points.total() for row in rows)} kills in {time.perf_counter() - began:.0f} s",
        (
            "scenario part",
            "operations",
            "before/half/after",
            "not reached",
            "equal",
            "documented",
            "failures",
        ),
        [columns(row) for row in rows],
    )
    sys.exit(any(row.failures for row in rows))


if __name__ == "__main__":
    main()
