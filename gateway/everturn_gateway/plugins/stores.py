"""The description of a store of sessions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from everturn_actors.ports import CommitStats, SessionStore
from everturn_actors.supervisor import Supervisor
from everturn_gateway.plugins.base import Plugin
from everturn_gateway.yaml_files import Section


class StoreSection(Section):
    """`store` of `everturn.yaml` beside its `type`; a store adds its settings in a subclass."""


class OpenStore(SessionStore, Protocol):
    """A store that a gateway can run on: what it has to keep, and how it fares."""

    @property
    def waiting(self) -> int:
        """How many appends wait to become durable."""
        ...

    async def fault(self) -> str:
        """Return why nothing can be kept now; empty where it can. Asked for every few seconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSetup:
    """What a store is opened with."""

    settings: StoreSection
    workspace: Path
    "The gateway's, absolute."
    results_max_bytes: int
    "Of one session's large results; beyond it the oldest go."
    on_batch: Callable[[CommitStats], None]
    "Is told of each group commit, on the event loop; never raises."
    is_serving: bool
    "Whether the gateway serves, or only looks for a moment."
    supervisor: Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlugin(Plugin):
    """Where sessions are kept; entry points of `everturn.stores`.

    `store.type` of `everturn.yaml` names it.

    Example:
        >>> SQL = StorePlugin(name="sql", interface=1, settings=SqlSection, open=open_sql_store)
    """

    settings: type[StoreSection] = StoreSection
    open: Callable[[StoreSetup], AbstractAsyncContextManager[OpenStore]]
    """Opens it, and closes it at the end: then everything that was queued is durable.

    Raises:
        JournalError: It cannot be used; says why.
    """
