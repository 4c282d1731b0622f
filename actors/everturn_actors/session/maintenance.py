"""What a service does by itself: let open turns go on, end sessions that nobody uses."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from functools import partial

import anyio

from everturn_actors.errors import CoreError, JournalError
from everturn_actors.ports import Agents, Clock, SessionStore
from everturn_actors.protocol.commands import GetState
from everturn_actors.session.registry import Registry
from everturn_actors.state.session_state import SessionState
from everturn_actors.supervisor import contain

logger = logging.getLogger(__name__)

RESUMES_AT_ONCE = 8  # sessions loaded side by side at start-up
RETRY_S = 10.0  # until open turns are looked for again where that failed


async def resume_open_turns(
    store: SessionStore,
    registry: Registry,
    clock: Clock,
    *,
    is_half: Callable[[SessionState], bool],
    remove: Callable[[str], Awaitable[None]],
    is_concerned: Callable[[str], Awaitable[bool]] | None = None,
) -> dict[str, int]:
    """Wake every session that may have an open turn; those that have none rest again at once.

    Args:
        store: Knows them.
        registry: Has their actors.
        clock: The time.
        is_half: Tells sessions whose beginning a crash cut short, of which nobody knows.
        remove: Deletes such a one.
        is_concerned: Which sessions to look at, by their ids; None = all.

    Returns:
        Those that were looked at, each with its last event; 0 where it could not be read.
    """
    limiter = anyio.CapacityLimiter(RESUMES_AT_ONCE)
    ends: dict[str, int] = {}

    async def wake(session_id: str) -> None:
        async with limiter:
            if is_concerned is not None and not await is_concerned(session_id):
                return
            state = await _activate(registry, session_id)
            ends[session_id] = state.last_seq if state is not None else 0
            if state is not None and is_half(state):
                await remove(session_id)

    async with anyio.create_task_group() as tasks:
        for session_id in await _active(store, clock):
            tasks.start_soon(contain, f"resume of {session_id}", partial(wake, session_id))
    return ends


async def _active(store: SessionStore, clock: Clock) -> tuple[str, ...]:
    while True:
        try:
            return await store.active()
        except JournalError as error:
            logger.warning(
                "open turns cannot be looked for; trying again", extra={"error": str(error)}
            )
        await clock.sleep(RETRY_S)


async def end_expired(
    store: SessionStore, registry: Registry, agents: Agents, clock: Clock, sweep_s: float
) -> None:
    """Every `sweep_s`, activate the sessions that are idle for longer than their agent allows.

    An actor that starts ends an expired session by itself.
    """
    while True:
        await clock.sleep(sweep_s)
        try:
            await _sweep(store, registry, agents, clock)
        except JournalError as error:
            logger.warning(
                "expired sessions cannot be looked for; the next round will",
                extra={"error": str(error)},
            )


async def _sweep(store: SessionStore, registry: Registry, agents: Agents, clock: Clock) -> None:
    for name in await store.agents():
        try:
            hours = agents.get(name).spec.session.ttl_hours
        except CoreError:
            continue
        if hours <= 0:
            continue
        before = clock.now() - timedelta(hours=hours)
        async with aclosing(store.idle(name, before=before)) as rows:
            async for row in rows:
                if registry.is_here(row.session_id, row.key):
                    await _activate(registry, row.session_id)


async def _activate(registry: Registry, session_id: str) -> SessionState | None:
    try:
        return await registry.ask(session_id, GetState(), passivate_at_once=True)
    except CoreError as error:
        logger.warning(
            "a session could not be activated",
            extra={"session_id": session_id, "error": str(error)},
        )
        return None
