"""What scheduled jobs cost: thousands that wait, and many that are due at the same instant.

.venv/bin/python benchmarks/schedules.py [--jobs 5000] [--due 1000] [--idle-s 60]

All jobs are files. `--due` of them say a message in a chat of their own at one instant, another
tenth of that give the agent a task (a model that answers at once); the rest wait for next year.
How late they were is read from their run logs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from harness import Running, gateway, model_api, p, p50, show, workspace

LEAD_S = 20  # from the start of the gateway to the instant: it reads all of them first
WAIT_S = 300


def fill(folder: Path, *, jobs: int, due: int, tasks: int, scheduled_at: datetime) -> None:
    """Write the job files."""
    schedules = folder / ".everturn" / "schedules"
    schedules.mkdir(parents=True)
    for number in range(jobs):
        when = (
            f'at: "{scheduled_at.isoformat()}"' if number < due + tasks else "at: 2099-01-01T08:00Z"
        )
        what = "task: Say hello." if due <= number < due + tasks else "message: Hello."
        to = f"{{channel: terminal, chat: bench-{number}}}"
        text = f"agent: bench\n{when}\n{what}\nto: {to}\n"
        (schedules / f"job-{number:05d}.yaml").write_text(text)


def lines(folder: Path, name: str) -> list[dict[str, str]]:
    """Return the run log of a job."""
    path = folder / ".everturn" / "schedules" / "runs" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(folder: Path, kind: str, numbers: Sequence[int]) -> list[datetime]:
    """Return when each of these jobs came so far, as soon as all have."""
    found: dict[int, datetime] = {}
    deadline = time.monotonic() + WAIT_S
    while len(found) < len(numbers):
        if time.monotonic() > deadline:
            msg = f"only {len(found)} of {len(numbers)} jobs are {kind}"
            raise SystemExit(msg)
        for number in numbers:
            if number not in found:
                for line in lines(folder, f"job-{number:05d}"):
                    if line["kind"] == kind:
                        found[number] = datetime.fromisoformat(line["at"])
        time.sleep(0.5)
    return list(found.values())


def late(scheduled_times: list[datetime], scheduled_at: datetime) -> tuple[float, float, float]:
    """Return the median, the 95th percentile and the most that they are late, in seconds."""
    seconds = [(each - scheduled_at).total_seconds() for each in scheduled_times]
    return p50(seconds), p(seconds, 0.95), max(seconds)


def idle_cpu(running: Running, idle_s: float) -> float:
    """Return the CPU that a gateway uses while nothing is due, in milliseconds a second."""
    before = running.cpu_s()
    time.sleep(idle_s)
    return (running.cpu_s() - before) / idle_s * 1000


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--due", type=int, default=1_000)
    parser.add_argument("--idle-s", type=float, default=60)
    options = parser.parse_args()
    jobs, due, tasks = options.jobs, options.due, options.due // 10
    rows = []
    for count in (0, jobs):
        with model_api() as model_url, workspace(model_url) as folder:
            lead_s = LEAD_S + jobs / 250
            now = datetime.now(UTC)  # noqa: TID251 - the gateway has no other clock either
            scheduled_at = now.replace(microsecond=0) + timedelta(seconds=lead_s)
            fill(folder, jobs=count, due=due, tasks=tasks, scheduled_at=scheduled_at)
            with gateway(folder) as running:
                if count:
                    armed = wait_for(folder, "armed", range(count))
                    began = datetime.fromtimestamp(running.process.create_time(), UTC)
                    read_s = (max(armed) - began).total_seconds()
                    begun = wait_for(folder, "began", range(due + tasks))
                    said = wait_for(folder, "finished", range(due))
                    done = wait_for(folder, "finished", range(due, due + tasks))
                else:
                    read_s = 0.0
                ready_s = running.ready_s
                cpu_ms = idle_cpu(running, options.idle_s)
                memory = running.memory_mb()
            with gateway(folder) as running:
                rows.append((count, ready_s, read_s, running.ready_s, cpu_ms, memory))
    show(
        "jobs that wait",
        ("jobs", "ready s", "all armed s", "ready again s", "idle CPU ms/s", "memory MB"),
        rows,
    )
    show(
        f"{due} messages and {tasks} tasks due at one instant: seconds after it",
        ("what", "p50", "p95", "most"),
        [
            ("begun, on disk", *late(begun, scheduled_at)),
            ("message accepted", *late(said, scheduled_at)),
            ("task done", *late(done, scheduled_at)),
        ],
    )
    print(f"on {psutil.cpu_count()} processors")


if __name__ == "__main__":
    main()
