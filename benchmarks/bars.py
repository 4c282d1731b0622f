"""All figures that have a bar, in one table.

.venv/bin/python benchmarks/bars.py [--quick]

Takes about nine minutes on two cores, with `--quick` two. Each figure comes from the benchmark that
shows it in full: turns, concurrency, streaming, startup, recovery, active,
loop, first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import active
import concurrency
import first
import loop
import recovery
import startup
import streaming
import turns
from figures import Figure, show_figures

LOOP_LIMIT_MS = 20.0


def figures(*, quick: bool) -> Iterator[tuple[str, Callable[[], list[Figure]]]]:
    """Yield what to measure, by the name of its benchmark."""
    many, rounds, sessions = (420, 1, 1_000) if quick else (5_000, 5, 10_000)

    yield "turns", lambda: turns.measured(many, rounds)[1]
    yield "concurrency", lambda: concurrency.measured(32, 10, rounds)[1]
    yield "streaming", lambda: streaming.measured(5 if quick else 20)[1]
    yield "startup", lambda: startup.measured(sessions, sessions)[1]
    yield "recovery", lambda: recovery.measured(10_000)[1]
    yield "active", lambda: active.measured(40 if quick else 200, 2_000, 3)[1]
    yield "loop", lambda: loop.measured(LOOP_LIMIT_MS)[2]
    yield "first", lambda: first.measured()[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer turns and sessions")
    found: list[Figure] = []
    for name, measure in figures(quick=parser.parse_args().quick):
        print(f"{name} ...", flush=True)
        found += measure()
    show_figures("all bars", found)


if __name__ == "__main__":
    main()
