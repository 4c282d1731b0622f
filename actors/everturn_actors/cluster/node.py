"""A node's two ends of links: the one that others call, and the one by which it calls others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from everturn_actors.cluster.addresses import Address, Tls, listen
from everturn_actors.cluster.greeting import Identity
from everturn_actors.cluster.hub import Hub
from everturn_actors.cluster.link import StreamLink
from everturn_actors.cluster.routing import RoutedActors
from everturn_actors.cluster.wire import Beat
from everturn_actors.ports import Ownership
from everturn_actors.session.registry import Registry


class LinkedNode:
    """A node that others can call; made by `open_node`."""

    def __init__(self, ownership: Ownership, hub: Hub, link: StreamLink) -> None:
        """Only `open_node` makes one."""
        self._ownership, self._hub, self._link = ownership, hub, link
        self.refusals = link.refusals
        "Returns which nodes did not let this one in, and why."

    def route(self, registry: Registry, tasks: TaskGroup) -> RoutedActors:
        """Return the actors of all nodes, of those of this one; see `ServicePorts.router`.

        From here on other nodes can ask for sessions of this one.
        """
        routed = RoutedActors(registry, self._ownership, self._link, tasks)
        self._hub.host = routed
        return routed


@asynccontextmanager
async def open_node(
    me: Identity,
    address: Address,
    ownership: Ownership,
    *,
    tls: Tls | None = None,
    beat: Beat | None = None,
) -> AsyncGenerator[LinkedNode]:
    """Listen for other nodes, and reach them, for a block.

    Until `LinkedNode.route` was called others are told that their sessions are not here.

    Args:
        me: Who this node is to others.
        address: Where it listens.
        ownership: Who works on what.
        tls: How nodes show each other who they are, beyond the secret; None = without TLS.
        beat: Times.

    Raises:
        OSError: The address is taken, or not one of this machine.
    """
    listener, _ = await listen(address, tls)
    hub = Hub(me, beat=beat)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hub.take, name="links from other nodes")
        try:
            yield LinkedNode(ownership, hub, StreamLink(me, tasks, tls=tls, beat=beat))
        finally:
            await hub.close()
            tasks.cancel_scope.cancel()
