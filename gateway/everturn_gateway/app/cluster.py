"""This gateway among those that share its store: what it holds, and what runs while it does.

Loaded where `everturn.yaml` has a section `cluster`, and by nobody else.
"""

from __future__ import annotations

import logging
import secrets
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from hashlib import sha256
from typing import Final, NoReturn

import anyio
import msgspec
from anyio import to_thread

from everturn_actors.cluster.addresses import Tls, read_address
from everturn_actors.cluster.greeting import Identity
from everturn_actors.cluster.heartbeat import Heartbeat
from everturn_actors.cluster.leases import Member, Referee, Share, shares
from everturn_actors.cluster.node import LinkedNode, open_node
from everturn_actors.cluster.ownership import LeasedSeats, LeaseOwnership
from everturn_actors.cluster.placement import channel_seat
from everturn_actors.errors import UnknownAgentError
from everturn_actors.ports import Clock, Node
from everturn_actors.supervisor import Supervisor
from everturn_gateway.app.homes import DRAIN_SHARE, Homes, away
from everturn_gateway.app.other_rows import show_rows_of_others
from everturn_gateway.config.cluster import ClusterTls
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError
from everturn_gateway.scheduler.sharing.shared_scheduler import SharedScheduler
from everturn_gateway.specs import AgentLibrary

__all__ = [
    "SCHEDULER",
    "Homes",
    "LeasedSeats",
    "SharedScheduler",
    "compare",
    "differences",
    "give_back",
    "homes_away",
    "nodes_of",
    "open_links",
    "open_ownership",
    "show_rows_of_others",
]

logger = logging.getLogger(__name__)

SCHEDULER: Final = "scheduler"
"The seat of whoever runs scheduled jobs."
_RUN_BYTES: Final = 8
_LOOK_S: Final = 5.0  # how often it looks whether the others are like this one


@asynccontextmanager
async def open_ownership(
    config: Config, referee: Referee, clock: Clock, supervisor: Supervisor, *, version: str
) -> AsyncGenerator[LeaseOwnership]:
    """Hold leases from `LeaseOwnership.begin` to the end of a block; then they are free at once.

    Args:
        config: Names this gateway, and what it can do for all.
        referee: The store.
        clock: Makes the pauses.
        supervisor: Runs what holds them.
        version: Of Everturn.
    """
    cluster = config.cluster
    assert cluster is not None, "a store is shared where the configuration says so"
    me = Member(
        node=Node(name=cluster.node, address=cluster.advertise, version=version),
        instance=f"{cluster.node}-{secrets.token_hex(_RUN_BYTES)}",
        seats=(SCHEDULER, *(channel_seat(each.name) for each in config.channels)),
        channels=tuple(each.name for each in config.channels),
    )
    drain_s = config.server.stop_timeout_s * DRAIN_SHARE
    ownership = LeaseOwnership(me)
    heartbeat = Heartbeat(referee, ownership, clock, drain_s=drain_s)
    async with anyio.create_task_group() as tasks:
        supervisor.start(tasks, "leases", heartbeat.run, is_needed=True)
        try:
            yield ownership
        finally:
            tasks.cancel_scope.cancel()
            await heartbeat.leave()


@asynccontextmanager
async def open_links(config: Config, ownership: LeaseOwnership) -> AsyncGenerator[LinkedNode]:
    """Let the other gateways reach this one, and reach them, for a block.

    Raises:
        GatewayError: The address is taken, or a certificate cannot be used.
    """
    cluster = config.cluster
    assert cluster is not None, "a store is shared where the configuration says so"
    me = Identity(name=cluster.node, secret=cluster.secret)
    tls = await to_thread.run_sync(_tls, cluster.tls) if cluster.tls is not None else None
    async with AsyncExitStack() as stack:
        node = open_node(me, read_address(cluster.listen), ownership, tls=tls)
        try:
            linked = await stack.enter_async_context(node)
        except OSError as error:
            msg = (
                f"cluster.listen: other gateways cannot reach this one at {cluster.listen}:"
                f" {error.strerror or error}; take another address"
            )
            raise GatewayError(msg) from error
        ownership.refusals = linked.refusals
        yield linked


@asynccontextmanager
async def open_sharing(
    config: Config,
    referee: Referee,
    clock: Clock,
    supervisor: Supervisor,
    *,
    version: str,
    links: bool,
) -> AsyncGenerator[tuple[LeaseOwnership, LinkedNode | None]]:
    """Hold leases, and with `links` reach the others, while the block runs."""
    async with (
        open_ownership(config, referee, clock, supervisor, version=version) as own,
        open_links(config, own) if links else nullcontext() as node,
    ):
        yield own, node


def _tls(files: ClusterTls) -> Tls:
    """Return what certificates make of connections; of a file that is none, say which."""
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    others = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    name, path = "certificate", files.certificate
    try:
        own.load_cert_chain(files.certificate, files.key)
        name, path = "authorities", files.authorities
        others.load_verify_locations(files.authorities)
    except (OSError, ssl.SSLError) as error:
        msg = f"cluster.tls.{name}: {path} cannot be used: {error.strerror or error}"
        raise GatewayError(msg) from error
    return Tls(own=own, others=others)


async def give_back(ownership: LeaseOwnership, config: Config) -> None:
    """Let the others have all that this gateway holds, while its turns come to their end."""
    with anyio.move_on_after(config.server.stop_timeout_s * DRAIN_SHARE) as scope:
        await ownership.drain()
    if scope.cancelled_caught:
        logger.warning("some of what this node held is given up before its turns have ended")


async def compare(ownership: LeaseOwnership, library: AgentLibrary) -> NoReturn:
    """Tell the others of which agents this node knows; warn where they differ, or their version."""
    told: frozenset[str] = frozenset()
    version = -1
    while True:
        if library.version != version:
            version = library.version
            ownership.share_digest(await to_thread.run_sync(partial(digest_of, library)))
        notes = frozenset(differences(ownership))
        for note in sorted(notes - told):
            logger.warning("the cluster is not as it should be", extra={"why": note})
        told = notes
        await anyio.sleep(_LOOK_S)


def differences(ownership: LeaseOwnership) -> tuple[str, ...]:
    """Return what other nodes have otherwise than this one, and which homes are away, in lines."""
    me = next((each for each in ownership.view.members if each.node == ownership.me), None)
    if me is None:
        return ()
    notes = list(homes_away(ownership))
    for other in ownership.view.members:
        if other.node.version != me.node.version:
            notes.append(
                f"node {other.node.name} runs Everturn {other.node.version}, this one"
                f" {me.node.version}; use one version, but for the time of an upgrade"
            )
        if other.digest and me.digest and other.digest != me.digest:
            notes.append(
                f"node {other.node.name} has other agents than this one: who answers depends on"
                " where a conversation is; give all nodes the same agents folder"
            )
        if why := ownership.refusals().get(other.node.name):
            notes.append(f"node {other.node.name} cannot be asked: {why}")
        if missing := sorted({*me.channels} ^ {*other.channels}):
            notes.append(
                f"node {other.node.name} and this one do not have the same channels:"
                f" {', '.join(missing)}"
            )
    return tuple(notes)


def homes_away(ownership: LeaseOwnership) -> tuple[str, ...]:
    """Return which seats wait for a node that does not live, one line each."""
    return away(ownership.homes, (each.name for each in ownership.nodes()), ownership.holders())


def nodes_of(ownership: LeaseOwnership) -> tuple[Share, ...]:
    """Return which nodes live, by name, and what each of them holds, as far as this one knows."""
    return shares(ownership.view.members, ownership.holders())


def digest_of(library: AgentLibrary) -> str:
    """Return a hash of all agents, the same on machines that have the same ones.

    Takes a while: not for the event loop.
    """
    found = sha256()
    for name in library.names():
        try:
            file = library.file(name)
        except UnknownAgentError:  # it went in this moment, and the version with it
            continue
        found.update(msgspec.json.encode((name, file.document), enc_hook=str, order="sorted"))
        found.update(repr(file.spec.prompt).encode("utf-8", "surrogatepass"))
    return found.hexdigest()[:16]
