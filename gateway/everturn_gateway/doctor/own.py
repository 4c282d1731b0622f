"""A gateway that looks at itself, for who cannot reach its machine."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, nullcontext
from typing import Final

from anyio.lowlevel import checkpoint
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.ports import KeyedStore
from everturn_actors.supervisor import ChildStatus
from everturn_channels.health import ChannelStatus
from everturn_gateway.client.readiness import Readiness, TaskDown
from everturn_gateway.doctor.examination import examine
from everturn_gateway.doctor.findings import Finding, JournalNote
from everturn_gateway.doctor.subject import JobHealth, Subject
from everturn_gateway.errors import Fault
from everturn_gateway.http.ports import Gateway
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.model_statistics import StoredModelStatistics
from everturn_gateway.scheduler.places import Places
from everturn_gateway.scheduler.schemas import JobFaultBody
from everturn_gateway.specs import AgentFile

JOB_FAULTS_MOST: Final = 200  # where one thing is missing, thousands of jobs may say so


class Own(Struct, frozen=True, kw_only=True):
    """What a gateway is examined with, beside what everybody may ask of it."""

    keyed: KeyedStore
    secrets: SecretRegistry
    models: StoredModelStatistics
    agents: Callable[[], Sequence[AgentFile]]
    "Those that are loaded."
    check_journals: Callable[[], Awaitable[Sequence[JournalNote]]]
    "Finds what is wrong with journals, and changes nothing."
    can_be_examined: Callable[[], bool]
    "Whether the store can be looked at. Not for the event loop."


async def examine_own(gateway: Gateway, own: Own) -> AsyncGenerator[Finding]:
    """Yield what is found in a gateway that runs, without secrets. Nothing of it is repaired."""

    async def statistics() -> StoredModelStatistics:
        await checkpoint()
        return own.models

    async def agents() -> tuple[Sequence[AgentFile], Sequence[Fault]]:
        await checkpoint()
        return own.agents(), gateway.library.faults()

    subject = Subject(
        config=gateway.config,
        secrets=own.secrets,
        repair=False,
        running=_ThisGateway(gateway),
        gateway=_serves,
        statistics=statistics,
        agents=agents,
        keyed=lambda: nullcontext(own.keyed),
        check_journals=own.check_journals,
        can_be_examined=own.can_be_examined,
    )
    async with aclosing(examine(subject)) as findings:
        async for finding in findings:
            yield replace(finding, text=own.secrets.mask(finding.text))


async def _serves() -> Finding:
    await checkpoint()
    text = f"process {os.getpid()} serves this workspace, and is examined"
    return Finding(verdict="ok", subject="gateway", text=text)


class _ThisGateway(Struct, frozen=True):
    """The gateway of this process. Implements `RunningGateway`."""

    gateway: Gateway

    async def readiness(self) -> Readiness:
        return Readiness(
            fault=await self.gateway.journal_fault(),
            tasks=tuple(map(_task, self.gateway.supervisor.down())),
            restarts=dict(sorted(self.gateway.supervisor.restarts().items())),
            quarantined_sessions=self.gateway.service.activity.quarantined,
            homes_away=self.gateway.homes_away(),
            node_differences=self.gateway.node_differences(),
            refused_keys=self.gateway.refused_keys(),
        )

    async def tool_faults(self, agent: str) -> tuple[str, ...]:
        await checkpoint()
        return self.gateway.library.tool_faults(agent)

    async def channels(self) -> Sequence[ChannelStatus]:
        await checkpoint()
        return self.gateway.channels.statuses()

    async def jobs(self) -> JobHealth:
        schedules, config = self.gateway.schedules, self.gateway.config
        await schedules.load()
        places = Places(workspace=config.workspace, agents_dir=config.agents_dir)
        faults = schedules.faults()[:JOB_FAULTS_MOST]
        return JobHealth(
            jobs=len(schedules.ids()),
            faults=tuple(JobFaultBody.of(fault, places) for fault in faults),
        )


def _task(status: ChildStatus) -> TaskDown:
    error = status.error
    return TaskDown(
        name=status.name,
        is_given_up=status.state == "failed",
        since=status.since,
        failures=status.failures,
        error=f"{error.kind}: {error.text}".removesuffix(": ") if error else "",
    )
