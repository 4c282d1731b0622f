"""The description of a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from everturn_actors.ports import CommitStats, KeyedStore, SessionStore
from everturn_actors.ports.maintenance import Maintenance
from everturn_actors.ports.search import MessageIndex
from everturn_actors.ports.transfer import Transfer
from everturn_actors.supervisor import Supervisor
from everturn_gateway.plugins.base import Plugin
from everturn_gateway.yaml_files import SettingsModel

if TYPE_CHECKING:
    from everturn_actors.cluster.leases import Referee, Share  # who is alone does not load it


class StoreSettings(SettingsModel):
    """`store` of `everturn.yaml` beside its `type`; a store adds its settings in a subclass."""


def _none_waits() -> int:
    return 0


async def _no_fault() -> str:
    return ""


class OpenedStore(Struct, frozen=True, kw_only=True):
    """An open store, and its statistics."""

    store: SessionStore
    keyed: KeyedStore
    "Where all else is kept that is durable: pairing, tokens, cursors, usage, run logs."
    waiting: Callable[[], int] = _none_waits
    "How many appends wait to become durable."
    transfer: Callable[[], Transfer] | None = None
    "Gives what moves all that is kept to another store, or from one; None = it cannot be moved."
    maintenance: Callable[[], Maintenance] | None = None
    "Gives what removes parts of sessions and writes them anew; None = it can do neither."
    keeps_jobs: bool = False
    "Whether jobs that programs make are kept there, too: another machine may open it next."
    fault: Callable[[], Awaitable[str]] = _no_fault
    "Why nothing can be kept now; empty where it can. Asked for every few seconds."
    messages: MessageIndex | None = None
    "Finds what was said, where the store has an index of its own; None = the workspace keeps one."
    is_shared: bool = False
    "Whether other processes append to it while it is open."
    referee: Referee | None = None
    "Says which gateway works on what, where several share it; None = this one is alone."
    is_passing: bool = False
    "Whether all that it holds is gone when it is closed."


class StoreSetup(Struct, frozen=True, kw_only=True):
    """What a store is opened with."""

    settings: StoreSettings
    workspace: Path
    "The gateway's, absolute."
    results_max_bytes: int
    "Of one session's large results; beyond it the oldest go."
    on_batch: Callable[[CommitStats], None]
    "Is told of each group commit, on the event loop; never raises."
    is_serving: bool
    "Whether the gateway serves, or only looks for a moment."
    supervisor: Supervisor
    node: str = ""
    "The name of the gateway among those that share the store; empty = it is alone."
    is_change: bool = True
    "Whether something may be written; who only looks makes nothing."


class StoreNote(Struct, frozen=True, kw_only=True):
    """Something that a look at a store found."""

    text: str
    "Where, what, and what to do."
    is_problem: bool = True
    "Whether its owner has to do something."


class StorePlugin(Plugin, frozen=True, kw_only=True):
    """Where sessions and all else durable are kept; entry points of `everturn.stores`.

    `store.type` of `everturn.yaml` names it.

    Example:
        >>> SQL = StorePlugin(name="sql", interface=1, settings=SqlSettings, open=open_sql_store)
    """

    settings: type[StoreSettings] = StoreSettings
    open: Callable[[StoreSetup], AbstractAsyncContextManager[OpenedStore]]
    """Opens it, and closes it at the end: then everything that was queued is durable.

    The gateway has locked its workspace by then, except where `locks_workspace`.

    Raises:
        JournalError: It cannot be used; says why.
    """
    open_keyed: Callable[[StoreSetup], AbstractAsyncContextManager[KeyedStore]] | None = None
    """Opens what is kept beside sessions, for a command that runs beside a gateway.

    Other processes may have it open. None = no other process can reach it.

    Raises:
        JournalError: It cannot be used; says why.
    """
    examine: Callable[[StoreSetup], Awaitable[tuple[StoreNote, ...]]] | None = None
    """Looks at all that it keeps, for `doctor`: everything in order = no note that is a problem.

    Changes nothing, and may run beside a gateway. None = it cannot be looked at.

    Raises:
        JournalError: It cannot be used; says why.
    """
    nodes: Callable[[StoreSetup], Awaitable[tuple[Share, ...]]] | None = None
    """Tells which gateways share it now, by name; None = it cannot be shared.

    Raises:
        JournalError: It cannot be used; says why.
    """
    locks_workspace: bool = False
    "Whether opening it keeps other processes out of the gateway's workspace."
    is_shareable: bool = False
    "Whether several gateways may have it open at once; then it is their referee."
    is_in_files: bool = False
    "Whether it is the log files of the workspace, which `doctor` looks at and repairs."
