"""How the service is put together, and taken apart."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.delivery.port import DeliveryPort
from everturn_actors.model import ConversationKey
from everturn_actors.ports import (
    Agents,
    Clock,
    LocalOwnership,
    ModelStatisticsStore,
    NullObserver,
    Observer,
    Ownership,
    SessionStore,
)
from everturn_actors.protocol.actors import Router
from everturn_actors.scopes import open_near_group
from everturn_actors.service.bindings import Bindings
from everturn_actors.service.handover import Handover
from everturn_actors.service.maintenance import SessionMaintenance
from everturn_actors.service.stateless import Stateless
from everturn_actors.service.turn_service import TurnService
from everturn_actors.session.maintenance import end_expired, resume_open_turns
from everturn_actors.session.registry import Registry
from everturn_actors.session.runtime import Runtime, every_agent, everywhere, note_nothing
from everturn_actors.supervisor import TRANSIENT, Supervisor
from everturn_actors.turn.model_call import Timing
from everturn_actors.turn.model_statistics import InMemoryModelStatistics
from everturn_actors.turn.observer_boundary import GuardedObserver


class ServiceSettings(Struct, frozen=True, kw_only=True):
    """Times of a service, in seconds."""

    passivate_after_s: float = 600
    "An idle actor is passivated after this."
    max_active: int = 2000
    "Beyond so many actors the ones that are idle longest are passivated at once; 0 = any number."
    leave_grace_s: float = 2
    "How long a client may be gone before its turn is paused."
    drain_s: float = 10
    "How long running turns may take to finish when the service stops."
    sweep_s: float = 3600
    "How often idle sessions are looked at for their expiry."
    resume: bool = True
    "Let turns that were open go on by themselves. Without it they wait for the next message."


class ServicePorts(Struct, frozen=True, kw_only=True):
    """What a service may work with beside its stores and agents; all of it can be left out."""

    model_statistics: ModelStatisticsStore | None = None
    "What is learnt about models; by default it is forgotten at the end."
    delivery_ports: Mapping[str, DeliveryPort] = {}
    "By the name of a channel: who tells its people what its sessions say."
    known_as: Callable[[ConversationKey], ConversationKey] | None = None
    "Gives a conversation its lasting name: a platform may give its chat another id."
    on_delete: Callable[[str], Awaitable[None]] | None = None
    "Lets go of what belongs to a session elsewhere, before it is removed."
    observer: Observer | None = None
    "Is told what sessions do."
    ownership: Ownership | None = None
    """Which sessions this process works on, where several share the store; None = on all.

    Then nothing goes on by itself before `TurnService.handover` is told of partitions."""
    router: Callable[[Registry, TaskGroup], Router] | None = None
    """Makes what asks other processes for sessions that are theirs, of the actors of this one and
    where tasks of it run. None = such sessions are refused."""
    supervisor: Supervisor | None = None
    "Runs what the service does by itself; by default one of its own."


@asynccontextmanager
async def open_service(
    *,
    store: SessionStore,
    scratch: SessionStore,
    agents: Agents,
    clock: Clock,
    settings: ServiceSettings | None = None,
    ports: ServicePorts | None = None,
) -> AsyncGenerator[TurnService]:
    """Open the service; turns that were open when the last process ended go on by themselves.

    When the block ends, running turns get `settings.drain_s` to finish; what is cut off then goes
    on at the next start.

    Args:
        store: Where sessions live.
        scratch: Where stateless turns run; nothing in it is worth keeping.
        agents: Who answers.
        clock: The time.
        settings: Times.
        ports: What else it works with.
    """
    settings, ports = settings or ServiceSettings(), ports or ServicePorts()
    supervisor = ports.supervisor or Supervisor(clock)
    bindings = Bindings(ports.known_as, is_alone=ports.ownership is None)
    live = Runtime(
        store=store,
        agents=agents,
        model_statistics=ports.model_statistics or InMemoryModelStatistics(clock.now),
        timing=Timing(clock=clock, jitter=random.random),
        passivate_after_s=settings.passivate_after_s,
        leave_grace_s=settings.leave_grace_s,
        delivery_ports=ports.delivery_ports,
        observer=GuardedObserver(ports.observer) if ports.observer else NullObserver(),
        is_here=everywhere if ports.ownership is None else partial(_is_own, ports.ownership),
        note_key=note_nothing if ports.ownership is None else partial(_note_key, ports.ownership),
        works_for=every_agent if ports.ownership is None else ports.ownership.works_for,
    )
    once = replace(live, store=scratch, delivery_ports={}, is_here=everywhere)
    async with open_near_group() as actors:
        registry = Registry(live, actors, on_gone=bindings.forget, max_active=settings.max_active)
        scratch_registry = Registry(once, actors, on_gone=scratch.delete)
        router = ports.router(registry, actors) if ports.router is not None else None
        service = TurnService(
            store=store,
            runtime=live,
            registry=router or registry,
            stateless=Stateless(store=scratch, runtime=live, registry=scratch_registry),
            bindings=bindings,
            maintenance=SessionMaintenance(store, registry, ports.on_delete),
            on_delete=ports.on_delete,
        )
        half, remove = service.branches.is_half, service.delete
        resume = partial(resume_open_turns, store, registry, clock, is_half=half, remove=remove)
        ownership = ports.ownership or LocalOwnership()
        service.handover = Handover(registry, router or registry, ownership, clock, resume)
        try:
            async with anyio.create_task_group() as maintenance:
                if settings.resume and ports.ownership is None:
                    supervisor.start(maintenance, "resume", resume, policy=TRANSIENT)
                if router is not None:
                    router.delete_here = service.delete
                    supervisor.start(maintenance, "routing", router.watch, is_needed=True)
                expire = partial(end_expired, store, registry, agents, clock, settings.sweep_s)
                supervisor.start(maintenance, "expiry", expire)
                yield service
                maintenance.cancel_scope.cancel()
        finally:
            await _stop((registry, scratch_registry), settings.drain_s)


def _is_own(ownership: Ownership, session_id: str, key: ConversationKey | None = None) -> bool:
    """Say whether a session is this process's to work on, by a lease that has not run out."""
    return ownership.epoch(ownership.partition(session_id, key)) is not None


def _note_key(ownership: Ownership, session_id: str, key: ConversationKey) -> None:
    """Note of a session that is not known which conversation it is of."""
    if not ownership.is_known(session_id):
        ownership.note_key(session_id, key)


async def _stop(registries: Iterable[Registry], drain_s: float) -> None:
    with anyio.move_on_after(drain_s + 1, shield=True):
        async with anyio.create_task_group() as stopping:
            for registry in registries:
                stopping.start_soon(registry.stop, drain_s)
