"""What is examined, and whom it is asked of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from everturn_actors.ports import KeyedStore
from everturn_channels.health import ChannelStatus
from everturn_gateway.client.readiness import Readiness
from everturn_gateway.config.settings import Config
from everturn_gateway.doctor.findings import Finding, JournalNote
from everturn_gateway.errors import Fault
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.model_statistics import StoredModelStatistics
from everturn_gateway.scheduler.schemas import JobFaultBody
from everturn_gateway.specs import AgentFile


class JobHealth(Struct, frozen=True, kw_only=True):
    """The status of the jobs of a workspace."""

    jobs: int
    faults: tuple[JobFaultBody, ...]


class RunningGateway(Protocol):
    """A gateway that serves the workspace, here or in another process.

    Each method raises CoreError or ClientError where it refuses, or cannot be reached.
    """

    async def readiness(self) -> Readiness:
        """Return which of its parts are down."""
        ...

    async def tool_faults(self, agent: str) -> tuple[str, ...]:
        """Return what is wrong with the tools of an agent."""
        ...

    async def channels(self) -> Sequence[ChannelStatus]:
        """Return the status of its channels."""
        ...

    async def jobs(self) -> JobHealth:
        """Return the status of its jobs."""
        ...


class Subject(Struct, frozen=True, kw_only=True):
    """A workspace that is examined, and what belongs to it."""

    config: Config
    secrets: SecretRegistry
    repair: bool
    "Whether to set right what can be set right without losing anything."
    running: RunningGateway | None
    gateway: Callable[[], Awaitable[Finding]]
    "Tells which gateway serves it, or that none does."
    statistics: Callable[[], Awaitable[StoredModelStatistics]]
    "Returns what is known of models; raises CoreError or GatewayError."
    agents: Callable[[], Awaitable[tuple[Sequence[AgentFile], Sequence[Fault]]]]
    "Returns those that work, and what is wrong with the others; raises GatewayError."
    keyed: Callable[[], AbstractAsyncContextManager[KeyedStore]]
    "Opens what is kept beside sessions, to be read; raises CoreError or GatewayError."
    check_journals: Callable[[], Awaitable[Sequence[JournalNote]]]
    "Looks at the journals; raises CoreError."
    repair_journals: Callable[[], Awaitable[Sequence[JournalNote]]] | None = None
    "Repairs them first; raises CoreError. None = they are left as they are."
    can_be_examined: Callable[[], bool]
    "Whether the store can be looked at. Not for the event loop."
