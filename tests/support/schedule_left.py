"""What is left on the disks of a gateway with a scheduler, and with the people it serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace
from support.lives import Lives

from everturn_actors.events import Announced, Received
from everturn_actors.model import OutboxItem
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState
from everturn_gateway.scheduler.jobs import JobState
from everturn_gateway.scheduler.rules.records import Finished
from everturn_gateway.scheduler.run_logs.lines import read_log

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is on the disks, and with the people, that must not depend on how often it died."""

    job_states: Mapping[str, JobState]
    "By job; sessions, times of beginning and end left out."
    finished: Counter[tuple[str, datetime]]
    "Job and instant -> how often its end was written down."
    received: Counter[str]
    "Idempotency key -> how often it stands in a session."
    announced: Counter[str]
    outbox: Counter[tuple[str, str, str]]
    "Channel, chat and text -> how often it is pending there."
    posted: Mapping[str, Mapping[str, object]]
    "Idempotency key -> what was sent."
    files: Mapping[str, str]


def left_by(lives: Lives) -> Left:
    """Read all disks."""
    outbox: Counter[tuple[str, str, str]] = Counter()
    received: Counter[str] = Counter()
    announced: Counter[str] = Counter()
    for stored in lives.world.disk.sessions.values():
        items: dict[int, OutboxItem] = {}
        state: SessionState | None = None
        for event in (*stored.archive, *stored.log):
            state = apply(state, event)
            items.update((item.seq, item) for item in state.outbox)
            if isinstance(event.body, Received):
                received[event.body.idempotency_key] += 1
            if isinstance(event.body, Announced):
                announced[event.body.idempotency_key] += 1
        if state is not None:
            key = state.key
            outbox.update((key.channel, key.chat, item.text) for item in items.values())
    posted: dict[str, Mapping[str, object]] = {}
    for post in lives.postbox.posts:
        data = {name: value for name, value in post.data.items() if name != "session_id"}
        assert posted.setdefault(post.key, data) == data, "another thing with the same key"
    folder = lives.world.folder
    return Left(
        job_states={path.stem: _resolved(path) for path in sorted(folder.glob("runs/*.jsonl"))},
        finished=Counter(
            (job_id, record.scheduled_at)
            for job_id, record in lives.past.records
            if isinstance(record, Finished)
        ),
        received=received,
        announced=announced,
        outbox=outbox,
        posted=posted,
        files={str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.yaml")},
    )


def standing_in(path: Path) -> JobState:
    """Return how far a job is by its run log; a line that is torn does not count."""
    return read_log(path.read_bytes()).job_state


def _resolved(path: Path) -> JobState:
    job_state = standing_in(path)
    recent = tuple(
        replace(run, started_at=_NEVER, finished_at=None, session_id="", seq=0)
        for run in job_state.recent
    )
    return replace(job_state, recent=recent)
