"""`GET /metrics`: every metric by its documented name, for those who may ask."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, cast

import anyio
import httpx2
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from support.command import write_agent
from support.metered import Scrape
from support.patience import WAIT_S

from everturn_actors.service import RuntimeStats
from everturn_actors.supervisor import Supervisor
from everturn_actors.testing import START, ManualClock
from everturn_channels.health import ChannelStatus
from everturn_gateway.app import Gateway, open_gateway
from everturn_gateway.config.settings import Config, ServerConfig
from everturn_gateway.errors import Fault
from everturn_gateway.http.server import serve_http
from everturn_gateway.scheduler.errors import UnknownJobError
from everturn_gateway.scheduler.jobs import At, Job, JobState, JobView, Run, SendMessage
from everturn_gateway.telemetry.exposition import metric_of
from everturn_gateway.telemetry.gauges import Sources, gauges
from everturn_gateway.telemetry.instruments import Instruments
from everturn_gateway.telemetry.requests import RequestCounts

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram) \| ([\w, ]*) ?\| \S", re.MULTILINE)


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return kind and labels of each metric on the page."""
    rows = ROW.findall(PAGE)
    return {
        name: (kind, tuple(filter(None, labels.strip().split(", ")))) for name, kind, labels in rows
    }


@asynccontextmanager
async def served(folder: Path, server: ServerConfig | None = None) -> AsyncGenerator[Gateway]:
    """Open a gateway on the agents of a folder."""
    server = replace(server or ServerConfig(), port=0)
    config = Config(workspace=folder / "w", agents_dir=folder / "agents", server=server)
    with anyio.fail_after(WAIT_S):
        async with open_gateway(config, environ={}, watch=False) as gateway:
            yield gateway


@asynccontextmanager
async def asking(gateway: Gateway, token: str = "") -> AsyncGenerator[httpx2.AsyncClient]:
    """Listen, and give a client."""
    url, listening = "", anyio.Event()

    def ready(address: str) -> None:
        nonlocal url
        url = address
        listening.set()

    async def serve() -> None:
        await serve_http(gateway, on_ready=ready)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await listening.wait()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=20) as client:
            yield client
        tasks.cancel_scope.cancel()


async def test_every_metric_is_documented_and_every_documented_one_is_there(
    tmp_path: Path,
) -> None:
    """Dashboards and alarms are written from the page; a name that is wrong there is silent."""
    write_agent(tmp_path)
    async with served(tmp_path) as gateway, asking(gateway) as client:
        session = (await client.post("/api/v1/sessions", json={"agent": "helper"})).json()["id"]
        path = f"/api/v1/sessions/{session}/messages"
        answer = await client.post(path, json={"content": "2+3"})
        await client.get("/nowhere/at/all")
        plain = await client.get("/metrics")
        other = await client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    seen = Scrape(plain.text)
    kinds = {}
    for line in plain.text.splitlines():
        if line.startswith("# TYPE everturn_"):
            _, _, name, kind = line.split()
            kinds[name] = kind
    own = {name for name in kinds if name.startswith("everturn_")}
    page = documented()
    of_nodes = {
        name for name in page if name.startswith("everturn_node")
    }  # none of one that is alone
    page = {name: told for name, told in page.items() if name not in of_nodes}

    assert len(of_nodes) == 3
    assert answer.json()["content"].startswith("You said: “2+3”.")
    assert own == set(page)
    assert {name: kind for name, (kind, _) in page.items()} == kinds
    for name, labels in seen.samples:
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        if base in page:
            assert {label for label, _ in labels} - {"le"} == set(page[base][1]), name
    for make in gateway.telemetry.instruments.snapshot():
        family = make()
        assert tuple(family.labels) == page[family.name][1], family.name
    assert all(family.documentation for family in seen.families.values())
    assert {"process_resident_memory_bytes", "process_open_fds"} <= seen.families.keys()
    assert not [name for name, _ in seen.samples if name.endswith("_created")]
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert other.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    parse = cast("Callable[[str], Iterable[Metric]]", openmetrics.text_string_to_metric_families)
    families = {each.name for each in parse(other.text)}
    assert families >= {"everturn_turns_finished", "everturn_build", "process_cpu_seconds"}
    requests = seen.series("everturn_http_requests_total")
    assert requests["POST /api/v1/sessions/{session_id}/messages 200"] == 1
    assert requests["GET (none) 404"] == 1
    assert session not in plain.text
    assert seen.value("everturn_http_requests_in_flight") == 1
    assert seen.value("everturn_agents") == 1
    assert seen.value("everturn_sessions_active") == 1
    assert seen.value("everturn_journal_written_bytes_total") > 100


async def test_metrics_are_closed_like_the_api(tmp_path: Path) -> None:
    """They tell who is there, what is used and what it costs."""
    write_agent(tmp_path)
    server = ServerConfig(api_token="sesame-open")  # noqa: S106 - one that a test may know
    async with served(tmp_path, server) as gateway:
        async with asking(gateway) as stranger:
            refused = await stranger.get("/metrics")
        async with asking(gateway, "sesame-open") as owner:
            told = await owner.get("/metrics")

    assert (refused.status_code, told.status_code) == (401, 200)
    assert "everturn_" not in refused.text
    assert Scrape(told.text).series("everturn_http_requests_total")["GET (none) 401"] == 1


# --- what is read at a scrape ---


def view(
    name: str,
    state: Literal["scheduled", "paused", "waiting", "done"],
    *past: Run,
    next_at: datetime | None = None,
) -> JobView:
    """Return a job with its status."""
    job = Job(job_id=name, agent="a", when=At(scheduled_at=START), payload=SendMessage(text="x"))
    return JobView(job=job, state=state, next_at=next_at, job_state=JobState(recent=past))


class Parts:
    """A gateway as a scrape asks it."""

    def __init__(self, *jobs: JobView, channels: tuple[ChannelStatus, ...] = ()) -> None:
        self._jobs = {view.job.job_id: view for view in jobs}
        self._channels = channels

    async def load(self) -> RuntimeStats:
        return RuntimeStats(active=7, running=2, waiting=5, commands=1, approvals=3, outbox=4)

    def names(self) -> tuple[str, ...]:
        return ("a", "b")

    def faults(self) -> tuple[Fault, ...]:
        return (Fault(file=Path("x.yaml"), message="is wrong"),)

    def statuses(self) -> tuple[ChannelStatus, ...]:
        return self._channels

    def ids(self) -> tuple[str, ...]:
        return (*self._jobs, "just-called-off")

    def job(self, job_id: str) -> JobView:
        if job_id not in self._jobs:
            raise UnknownJobError(job_id)
        return self._jobs[job_id]


async def now(parts: Parts) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return what a scrape reads, by name."""
    sources = Sources(
        version="1",
        activity=parts,
        library=parts,
        channels=parts,
        schedules=parts,  # type: ignore[arg-type]  # of the desk, a scrape asks no more than this
        clock=ManualClock(),
        journal_waiting=lambda: 9,
        supervisor=Supervisor(ManualClock()),
    )
    requests = RequestCounts(Instruments())
    requests.in_flight, requests.followers = 6, range(8)
    found = await gauges(sources, requests=requests)
    return {
        metric_of(each).name: [(s.labels, s.value) for s in metric_of(each).samples]
        for each in found
    }


async def test_the_load_is_read_at_the_scrape() -> None:
    """A queue is as long as it is now; an old number is no help."""
    told = await now(Parts())
    values = {name: samples[0][1] for name, samples in told.items() if len(samples) == 1}

    assert values["everturn_sessions_active"] == 7
    assert values["everturn_turns_running"] == 2
    assert values["everturn_messages_waiting"] == 5
    assert values["everturn_commands_waiting"] == 1
    assert values["everturn_approvals_open"] == 3
    assert values["everturn_deliveries_pending"] == 4
    assert values["everturn_journal_queue_jobs"] == 9
    assert values["everturn_http_requests_in_flight"] == 6
    assert values["everturn_http_followers"] == 8
    assert (values["everturn_agents"], values["everturn_agent_faults"]) == (2, 1)


async def test_a_channel_s_age_is_since_it_was_heard_from() -> None:
    """A bot that is logged in and deaf looks well in every other number."""
    deaf = ChannelStatus(
        name="telegram",
        platform="telegram",
        state="connected",
        since=START,
        last_received_at=START - timedelta(seconds=300),
        retries=2,
        received=11,
        skipped=4,
        unreadable=5,
        blocked_count=6,
        given_up=7,
    )
    new = ChannelStatus(name="club", platform="discord", state="starting", since=START)
    told = await now(Parts(channels=(deaf, new)))
    where = {"channel": "telegram", "platform": "telegram"}

    of_channel = {
        name.removeprefix("everturn_channel_"): [value for labels, value in samples]
        for name, samples in told.items()
        if name.startswith("everturn_channel_")
    }
    assert told["everturn_channel_up"][0][0] == where
    assert of_channel == {
        "up": [0, 0],
        "receive_age_seconds": [300],
        "events": [11, 0],
        "skipped": [4, 0],
        "retries": [2, 0],
        "unreadable": [5, 0],
        "blocked_chats": [6, 0],
        "given_up": [7, 0],
    }


async def test_jobs_that_fail_or_are_late_show() -> None:
    """Nobody watches a job that runs at night."""
    failed = Run(scheduled_at=START, started_at=START, outcome="failed")
    missed = Run(scheduled_at=START, started_at=START, outcome="misfired")
    sent = Run(scheduled_at=START, started_at=START, outcome="sent")
    late = START - timedelta(seconds=90)
    told = await now(
        Parts(
            view("fails", "waiting", sent, failed, missed),
            view("mends", "done", failed, sent),
            view("late", "scheduled", next_at=late),
            view("soon", "scheduled", next_at=START + timedelta(seconds=9)),
            view("paused", "paused", next_at=late - timedelta(days=1)),
        )
    )
    states = {labels["state"]: value for labels, value in told["everturn_schedule_jobs"]}

    assert states == {"scheduled": 2, "running": 0, "paused": 1, "waiting": 1, "done": 1}
    assert told["everturn_schedule_jobs_failing"] == [({}, 1)]
    assert told["everturn_schedule_late_seconds"] == [({}, 90)]
    assert told["everturn_schedule_faults"] == [({}, 1)]
