"""Opens the store of a gateway, for the gateway itself and for commands beside it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from anyio import to_thread
from msgspec import Struct, structs

from everturn_actors.documents import Document, Form, form_of
from everturn_actors.journal.disk import make_directory
from everturn_actors.journal.health import WriteHealth
from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.journal.lock import WorkspaceLock, take_lock
from everturn_actors.journal.log.layout import Layout
from everturn_actors.ports import CommitStats, KeyedStore
from everturn_actors.supervisor import Supervisor
from everturn_gateway.app.additions import Additions
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.plugins import OpenedStore, StorePlugin, StoreSetup, installed

if TYPE_CHECKING:
    from everturn_actors.cluster.leases import Share

MOVE_KEY: Final = "move.json"
_State: TypeAlias = Literal["", "begun", "left"]


class MoveNote(Struct, frozen=True, kw_only=True):
    """What a move left in a store."""

    state: _State = ""
    "begun: a move to here is not done; left: all of it was moved elsewhere; empty = neither."
    other: str = ""
    "The store on the other side."
    at: datetime | None = None


MOVE_FORM: Final[Form[MoveNote]] = form_of("move", MoveNote, MoveNote())


async def check_not_moved(keyed: KeyedStore) -> None:
    """Refuse a store that a move left, or has not filled yet.

    Raises:
        GatewayError: It is one.
    """
    document = Document(keyed, MOVE_KEY, MOVE_FORM)
    note = await document.read()
    if note.state == "left":
        msg = (
            f"all that was kept here was moved to {note.other} on {note.at:%Y-%m-%d}: name that"
            " store in everturn.yaml. To go on with what still stands here, remove"
            f" {document.place}"
        )
        raise GatewayError(msg)
    if note.state == "begun":
        msg = f"a move from {note.other} to here is not done: run `everturn move` again"
        raise GatewayError(msg)


@asynccontextmanager
async def open_storage(
    config: Config,
    additions: Additions,
    *,
    on_batch: Callable[[CommitStats], None],
    is_serving: bool,
    supervisor: Supervisor,
) -> AsyncGenerator[OpenedStore]:
    """Open the store that the program brought, or the one that the configuration names.

    Args:
        config: Names it.
        additions: What the program brought.
        on_batch: Is told of each group commit.
        is_serving: Whether the gateway serves, or only looks for a moment.
        supervisor: Runs what the store does beside appends.

    Raises:
        WorkspaceLockedError: Another process uses the workspace.
        JournalError: The store cannot be used.
        GatewayError: It is not installed, or cannot be loaded.
    """
    if additions.open_store is not None:
        async with held_workspace(config.workspace), additions.open_store() as store:
            fault = WriteHealth(config.workspace).check
            yield OpenedStore(store=store, keyed=store.keyed, fault=fault, is_passing=True)
        return
    plugin = await plugin_of(config)
    setup = _setup(config, supervisor, on_batch=on_batch, is_serving=is_serving)
    hold = nullcontext() if plugin.locks_workspace else held_workspace(config.workspace)
    async with hold, plugin.open(setup) as opened:
        await check_not_moved(opened.keyed)  # before anything is written: two stores would go apart
        yield opened


@asynccontextmanager
async def open_keyed(config: Config, *, is_change: bool) -> AsyncGenerator[KeyedStore]:
    """Open what is kept beside sessions, for a command; a gateway may have it open as well.

    Args:
        config: Names the store.
        is_change: Whether something will be written.

    Raises:
        JournalError: The store cannot be used.
        GatewayError: It is not installed, cannot be loaded, or is out of reach for a change.
    """
    plugin = await plugin_of(config)
    if plugin.open_keyed is None:
        if is_change:
            msg = (
                f"the store {config.store.type!r} belongs to the process of the gateway, and no"
                " command can change what is kept there; name another one under `store`"
            )
            raise GatewayError(msg)
        yield MemoryKeyedStore()  # what is only in a gateway's memory reads as empty from outside
        return
    async with plugin.open_keyed(setup_of(config, is_change=is_change)) as keyed:
        if is_change:
            await check_not_moved(keyed)
        yield keyed


async def look_at_nodes(config: Config) -> tuple[Share, ...]:
    """Return which gateways share the store now.

    Raises:
        JournalError: The store cannot be used.
        GatewayError: It cannot be shared, or is not installed.
    """
    plugin = await plugin_of(config)
    if plugin.nodes is None:
        msg = f"the store {config.store.type!r} is one gateway's alone; there are no nodes"
        raise GatewayError(msg)
    return await plugin.nodes(setup_of(config, is_change=False))


def setup_of(config: Config, *, is_change: bool) -> StoreSetup:
    """Return what a store is opened with by a command, for a moment."""
    supervisor = Supervisor(SystemClock())
    setup = _setup(config, supervisor, on_batch=lambda _stats: None, is_serving=False)
    return structs.replace(setup, is_change=is_change)


async def plugin_of(config: Config) -> StorePlugin:
    """Return the store that the configuration names.

    Raises:
        GatewayError: It is not installed, or cannot be loaded.
    """
    stores = installed().stores
    # Loading it imports its module.
    plugin = await to_thread.run_sync(stores.get, config.store.type)
    if plugin is None:
        why = stores.fault(config.store.type) or "it is not installed"
        msg = f"the store {config.store.type!r} cannot be used: {why}"
        raise GatewayError(msg)
    if plugin.libraries and (library := await to_thread.run_sync(plugin.missing)):
        msg = (
            f"the store {plugin.name!r} needs the library {library}, which is not installed:"
            f" pip install '{plugin.extra or library}'"
        )
        raise GatewayError(msg)
    return plugin


def _setup(
    config: Config,
    supervisor: Supervisor,
    *,
    on_batch: Callable[[CommitStats], None],
    is_serving: bool,
) -> StoreSetup:
    return StoreSetup(
        settings=config.store.section,
        workspace=config.workspace,
        results_max_bytes=config.sessions.results_max_bytes,
        on_batch=on_batch,
        is_serving=is_serving,
        supervisor=supervisor,
        # A command that looks for a moment is alone, or refused.
        node=config.cluster.node if config.cluster and is_serving else "",
    )


@asynccontextmanager
async def held_workspace(workspace: Path) -> AsyncGenerator[None]:
    """Keep other gateways out of a workspace whose sessions live elsewhere."""
    lock = await to_thread.run_sync(_lock, workspace)
    try:
        yield
    finally:
        lock.release()


def _lock(workspace: Path) -> WorkspaceLock:
    layout = Layout(workspace=workspace)
    make_directory(workspace)
    return take_lock(workspace, layout.lock)
