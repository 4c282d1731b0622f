"""The metrics that are read at the moment of a scrape: how things stand now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

import anyio.lowlevel
from msgspec import Struct

from everturn_actors.ports import Clock
from everturn_actors.service import RuntimeStats
from everturn_actors.supervisor import Supervisor, part_of
from everturn_channels.health import ChannelStatus
from everturn_gateway.errors import Fault
from everturn_gateway.model_statistics import KnownModel
from everturn_gateway.providers.limits import QueueLoad
from everturn_gateway.scheduler.client import SchedulerClient
from everturn_gateway.scheduler.errors import UnknownJobError
from everturn_gateway.scheduler.jobs import JobView
from everturn_gateway.telemetry.families import Family, gauge
from everturn_gateway.telemetry.instruments import SERIES_MAX
from everturn_gateway.telemetry.requests import RequestCounts

if TYPE_CHECKING:
    from everturn_actors.cluster.leases import Share  # who is alone does not load it

STATES: Final = ("scheduled", "running", "paused", "waiting", "done")
JOBS_AT_ONCE: Final = 50  # each takes some 50 microseconds; then others may go on


class _Activity(Protocol):
    async def load(self) -> RuntimeStats:
        """Return how much there is to do."""
        ...


class _Library(Protocol):
    def names(self) -> tuple[str, ...]:
        """Return the names of all agents."""
        ...

    def faults(self) -> tuple[Fault, ...]:
        """Return what is wrong in the agents folder."""
        ...


class _Channels(Protocol):
    def statuses(self) -> tuple[ChannelStatus, ...]:
        """Return the status of each channel."""
        ...


class Sources(Struct, frozen=True, kw_only=True):
    """The parts of a gateway that are asked at a scrape."""

    version: str
    activity: _Activity
    library: _Library
    channels: _Channels
    schedules: SchedulerClient
    clock: Clock
    journal_waiting: Callable[[], int]
    "How many appends and marks wait for the disk."
    model_queues: Callable[[], Sequence[QueueLoad]] = tuple
    "How full the queues of model calls are."
    known_models: Callable[[], Sequence[KnownModel]] = tuple
    "What is known of each model."
    supervisor: Supervisor
    node: str = ""
    "Its name among the gateways that share the store; empty = it is alone."
    nodes: Callable[[], Sequence[Share]] = tuple
    "What each of them holds."


async def gauges(sources: Sources, *, requests: RequestCounts) -> tuple[Family, ...]:
    """Return how things stand; keeps the event loop for a few milliseconds at most."""
    now = sources.clock.now()
    return (
        Family("info", "everturn_build", "Which version runs.", info={"version": sources.version}),
        *_work(sources, await sources.activity.load(), requests),
        *_models(sources.model_queues()),
        *_hints(sources.known_models()),
        *_channels(sources.channels.statuses(), now),
        *_tasks(sources.supervisor),
        *_nodes(sources.node, sources.nodes()),
        *await _schedules(sources.schedules, now),
    )


def _nodes(node: str, shares: Sequence[Share]) -> Iterator[Family]:
    if not shares:
        return
    own = [each for each in shares if each.member.node.name == node]
    yield gauge("everturn_nodes", "Gateways that share the store, this one included.", len(shares))
    yield gauge(
        "everturn_node_partitions",
        "Parts of the sessions that this gateway works on.",
        sum([each.partitions for each in own]),
    )
    seats = Family(
        "gauge",
        "everturn_node_seat",
        "1 = this gateway has the seat: it does that for all.",
        labels=("seat",),
    )
    for each in own:
        for seat in each.member.seats:
            seats.add((seat,), float(seat in each.seats))
    yield seats


def _work(sources: Sources, load: RuntimeStats, requests: RequestCounts) -> Iterator[Family]:
    """Yield how much waits, runs and is held in memory at a scrape."""
    yield gauge("everturn_sessions_active", "Sessions in memory.", load.active)
    yield gauge(
        "everturn_sessions_max_active",
        "Sessions in memory beyond which those without work rest early.",
        load.max_active,
    )
    yield gauge("everturn_turns_running", "Open turns that are worked on.", load.running)
    yield gauge("everturn_messages_waiting", "Messages that wait for a turn.", load.waiting)
    yield gauge(
        "everturn_commands_waiting", "Commands in the mailboxes of sessions.", load.commands
    )
    yield gauge(
        "everturn_approvals_open",
        "Calls that wait for a person, in active sessions.",
        load.approvals,
    )
    yield gauge(
        "everturn_deliveries_pending",
        "Replies, files and questions that did not reach their people yet.",
        load.outbox,
    )
    yield gauge(
        "everturn_sessions_quarantined",
        "Sessions that failed again and again, and wait to be cancelled, reset or deleted.",
        load.quarantined,
    )
    yield gauge(
        "everturn_journal_queue_jobs",
        "Appends and marks that wait for the disk.",
        sources.journal_waiting(),
    )
    yield gauge(
        "everturn_http_requests_in_flight",
        "Requests that are not answered to their end.",
        requests.in_flight,
    )
    yield gauge(
        "everturn_http_followers", "Connections that follow a session.", len(requests.followers)
    )
    yield gauge("everturn_agents", "Agents that are loaded.", len(sources.library.names()))
    yield gauge(
        "everturn_agent_faults", "What is wrong with agents.", len(sources.library.faults())
    )


def _models(queues: Sequence[QueueLoad]) -> Iterator[Family]:
    running = Family(
        "gauge",
        "everturn_model_calls_running",
        "Calls of models that are under way.",
        labels=("queue",),
    )
    waiting = Family(
        "gauge",
        "everturn_model_calls_waiting",
        "Calls that wait for a free place.",
        labels=("queue",),
    )
    limit = Family(
        "gauge", "everturn_model_calls_limit", "How many calls may be under way.", labels=("queue",)
    )
    for queue in queues:
        running.add((queue.name,), queue.running)
        waiting.add((queue.name,), queue.waiting)
        limit.add((queue.name,), queue.limit)
    yield from (running, waiting, limit)


def _tasks(supervisor: Supervisor) -> Iterator[Family]:
    up = Family(
        "gauge",
        "everturn_task_up",
        "1 = every long task of this part runs, or is done.",
        labels=("task",),
    )
    restarts = Family(
        "counter",
        "everturn_task_restarts",
        "Times that a long task failed and was started again.",
        labels=("task",),
    )
    children, counted = supervisor.children(), supervisor.restarts()
    parts = sorted({part_of(each.name) for each in children} | counted.keys())
    down = {part_of(each.name) for each in children if each.is_down}
    for part in parts:
        up.add((part,), float(part not in down))
        restarts.add((part,), counted.get(part, 0))
    yield from (up, restarts)


def _hints(models: Sequence[KnownModel]) -> Iterator[Family]:
    limit = Family(
        "gauge",
        "everturn_model_observed_limit_tokens",
        "Limits that models named when they refused a request, while they are believed.",
        labels=("model",),
    )
    no_tools = Family(
        "gauge",
        "everturn_model_tools_refused",
        "1 = the model refused tools, and is offered none for a while.",
        labels=("model",),
    )
    for model in models[:SERIES_MAX]:
        if model.statistics.limit_tokens is not None:
            limit.add((model.label,), model.statistics.limit_tokens)
        if not model.statistics.calls_tools:
            no_tools.add((model.label,), 1)
    yield from (limit, no_tools)


def _channels(statuses: Sequence[ChannelStatus], now: datetime) -> Iterator[Family]:
    """Yield what is known of each channel at a scrape."""
    of_channel = ("channel", "platform")
    up = Family(
        "gauge", "everturn_channel_up", "1 = connected, and heard from lately.", labels=of_channel
    )
    age = Family(
        "gauge",
        "everturn_channel_receive_age_seconds",
        "Since the platform was last heard from; missing until it was.",
        labels=of_channel,
    )
    received = Family(
        "counter",
        "everturn_channel_events",
        "Messages, commands and clicks that came.",
        labels=of_channel,
    )
    skipped = Family(
        "counter",
        "everturn_channel_skipped",
        "Messages that were not read: too old or too many.",
        labels=of_channel,
    )
    given_up = Family(
        "counter",
        "everturn_channel_given_up",
        "Messages that could not be delivered for too long.",
        labels=of_channel,
    )
    retries = Family(
        "gauge", "everturn_channel_retries", "Tries since it was last connected.", labels=of_channel
    )
    unreadable = Family(
        "counter",
        "everturn_channel_unreadable",
        "Events that could not be read and were passed over.",
        labels=of_channel,
    )
    blocked = Family(
        "gauge",
        "everturn_channel_blocked_chats",
        "Chats in which nothing can be taken for half a minute or longer.",
        labels=of_channel,
    )
    for status in statuses:
        labels = (status.name, status.platform)
        up.add(labels, float(status.is_healthy))
        if status.last_received_at is not None:
            age.add(labels, max((now - status.last_received_at).total_seconds(), 0.0))
        received.add(labels, status.received)
        skipped.add(labels, status.skipped)
        given_up.add(labels, status.given_up)
        retries.add(labels, status.retries)
        unreadable.add(labels, status.unreadable)
        blocked.add(labels, status.blocked_count)
    yield from (up, age, received, skipped, given_up, retries, unreadable, blocked)


async def _schedules(client: SchedulerClient, now: datetime) -> tuple[Family, ...]:
    """Yield how far each job is at a scrape."""
    states = Counter[str](dict.fromkeys(STATES, 0))
    failing, late_s = 0, 0.0
    for number, job_id in enumerate(client.ids(), 1):
        if number % JOBS_AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
        try:
            view = client.job(job_id)
        except UnknownJobError:  # it was called off in this moment
            continue
        states[view.state] += 1
        failing += _is_failing(view)
        if view.state == "scheduled" and view.next_at is not None:
            late_s = max(late_s, (now - view.next_at).total_seconds())
    jobs = Family(
        "gauge",
        "everturn_schedule_jobs",
        "Scheduled jobs, by state: scheduled, running, paused, waiting (cannot run now), done.",
        labels=("state",),
    )
    for state, count in sorted(states.items()):
        jobs.add((state,), count)
    return (
        jobs,
        gauge("everturn_schedule_jobs_failing", "Jobs whose newest run failed.", failing),
        gauge(
            "everturn_schedule_faults",
            "Definitions that are faulty, and do not run.",
            len(client.faults()),
        ),
        gauge(
            "everturn_schedule_late_seconds",
            "How late the latest run is that is due and did not begin.",
            late_s,
        ),
    )


def _is_failing(view: JobView) -> bool:
    tried = (run for run in reversed(view.job_state.recent) if run.outcome != "misfired")
    newest = next(tried, None)
    return newest is not None and newest.outcome == "failed"
