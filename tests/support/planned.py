"""Scheduled jobs of the installed gateway: their files, and what became of them on disk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from support.talking import log_of

from everturn_gateway.clock import SystemClock
from everturn_gateway.scheduler.jobs import Job
from everturn_gateway.scheduler.rules.records import Armed
from everturn_gateway.scheduler.rules.rules import schedule_name
from everturn_gateway.scheduler.run_logs.lines import to_line

_PLANNER = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {{name: helper}}
spec:
  model: {{provider: openai, name: fake-1, base_url: "{url}"}}
  system_prompt: You help.
  access:
    dm: {{policy: open, queue: {{debounce: {{enabled: false}}}}}}
  tools:
    - {{type: builtin, name: schedule}}
"""


def write_planner(folder: Path, model_url: str, **config: object) -> None:
    """Write a workspace with one agent, `helper`, that can schedule; `config` beside its port."""
    home = folder / "agents" / "helper"
    home.mkdir(parents=True)
    (home / "agent.yaml").write_text(_PLANNER.format(url=model_url))
    file = folder / "everturn.yaml"
    file.write_text(json.dumps({"server": {"port": 0}, **config}))
    file.chmod(0o600)  # it may hold tokens


def soon(delay_s: float = 0.3) -> str:
    """Return the instant in so many seconds as a job's file has it."""
    return (SystemClock().now() + timedelta(seconds=delay_s)).isoformat()


def write_job(folder: Path, job_id: str, **fields: object) -> Path:
    """Write the file of a job of `helper`, in one piece."""
    home = folder / ".everturn" / "schedules"
    home.mkdir(parents=True, exist_ok=True)
    draft, file = home / f".{job_id}", home / f"{job_id}.yaml"
    draft.write_text(json.dumps({"agent": "helper", **fields}))
    return draft.rename(file)


def write_armed(folder: Path, job: Job, since: datetime) -> None:
    """Write the run log that a job has which was armed at `since`, and never ran."""
    home = folder / ".everturn" / "schedules" / "runs"
    home.mkdir(parents=True, exist_ok=True)
    armed = Armed(at=since, schedule=schedule_name(job), since=since)
    (home / f"{job.job_id}.jsonl").write_bytes(to_line(armed))


def run_log(folder: Path, job_id: str) -> list[dict[str, Any]]:
    """Return the whole lines of a job's run log, oldest first."""
    file = folder / ".everturn" / "schedules" / "runs" / f"{job_id}.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def outcomes(folder: Path, job_id: str) -> list[str]:
    """Return how the runs of a job came out, oldest first; of each try once begun."""
    log = run_log(folder, job_id)
    tries = Counter((r["scheduled_at"], r.get("attempt", 1)) for r in log if r["kind"] == "began")
    ends = [r for r in log if r["kind"] == "finished"]
    assert not [each for each, times in tries.items() if times > 1], log
    assert len({r["scheduled_at"] for r in ends}) == len(ends), log
    return [r["outcome"] for r in ends]


def missed(folder: Path, job_id: str) -> int:
    """Return how many runs of a job were passed over."""
    return sum(r.get("count", 1) for r in run_log(folder, job_id) if r["kind"] == "misfire")


def done(folder: Path, *job_ids: str, times: int = 1) -> Callable[[], bool]:
    """Return what tells whether so many runs of each of these jobs are over."""
    return lambda: all(len(outcomes(folder, job_id)) >= times for job_id in job_ids)


def announced(folder: Path, chat: int | str) -> list[str]:
    """Return what was said without a turn in the conversations of a chat, oldest first."""
    return [event["text"] for event in log_of(folder, chat) if event["type"] == "announced"]


def is_told(folder: Path, chat: int | str) -> bool:
    """Return whether something was pending for a chat, and all has arrived, which is on disk."""
    log = log_of(folder, chat)
    plans = [e for e in log if e["type"] == "delivery_planned"]
    marks = {(e["item"], e["chunk"]): e["mark"] for e in log if e["type"] == "chunk_marked"}
    chunks = [(e["item"], number) for e in plans for number in range(len(e["chunks"]))]
    return bool(chunks) and all(marks.get(chunk) == "sent" for chunk in chunks)
