"""On which node an agent with a folder has its home, and what else goes with a seat.

An agent whose tools have a folder finds another folder on each machine, so one node works on all
its sessions: its *home*, the holder of the seat `agent:NAME`. The first node that has the agent
becomes its home, one whose folder has something in it before one whose folder is empty, and that
is written down in the store. From then on the seat goes elsewhere only by an operator's word
(`everturn seat move`), or where the folder is shared (`cluster.workspace_shared`).

So it is with channels that one process alone can reach. Where such a channel leads to an agent that
has a home, its seat goes where that is.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import anyio
from anyio import to_thread

from everturn_actors.cluster.ownership import LeaseOwnership
from everturn_actors.cluster.placement import agent_seat, channel_seat
from everturn_actors.documents import Document, Form, form_of
from everturn_actors.errors import JournalError, UnknownAgentError
from everturn_actors.ports import KeyedStore
from everturn_actors.service.handover import Handover
from everturn_gateway.channels.answering import routes_of
from everturn_gateway.config.channels import ChannelConfig
from everturn_gateway.config.settings import Config
from everturn_gateway.specs import AgentFile, AgentLibrary
from everturn_gateway.specs.placement import has_home
from everturn_gateway.tools.factory import FILES_FOLDER

logger = logging.getLogger(__name__)

SEATS_KEY: Final = "seats.json"
SEATS_FORM: Final[Form[dict[str, str]]] = form_of("seats", dict[str, str], {})
"By seat: the node that should have it. For an agent's, and one with keys, no other may."
DRAIN_SHARE: Final = 0.4
"Of the time that there is to stop: how long turns may take to finish in sessions that move."
LOOK_S: Final = 4.0
"How soon an operator's word is heard."
GRACE_S: Final = 6.0
"How long one whose folder is empty lets others be faster."


class Homes:
    """Keeps what this node may do for all, and where sessions are, as the store says."""

    def __init__(
        self,
        config: Config,
        keyed: KeyedStore,
        ownership: LeaseOwnership,
        library: AgentLibrary,
        handover: Handover,
    ) -> None:
        """Know nothing yet; `look` has to return before leases are held."""
        assert config.cluster is not None, "a store is shared where the configuration says so"
        self._config, self._cluster = config, config.cluster
        self._document = Document(keyed, SEATS_KEY, SEATS_FORM)
        self._ownership, self._library, self._handover = ownership, library, handover
        self._seats = ownership.view.me.seats
        "What every node of this configuration can do."
        self._bound = tuple(each for each in config.channels if not each.plugin.is_shareable)
        self._since: dict[str, float] = {}
        "When it was first seen of each seat that it has no home."

    async def run(self) -> NoReturn:
        """Look again and again, until cancelled."""
        fault = ""
        while True:
            await anyio.sleep(LOOK_S)
            try:
                await self.look()
                fault = ""
            except JournalError as error:
                if not fault:
                    logger.warning("homes cannot be looked up", extra={"error": str(error)})
                fault = str(error)

    async def look(self) -> None:
        """Do what the store says, and say there what nobody has said yet.

        Raises:
            JournalError: It cannot be read or written.
        """
        me = self._ownership.me.name
        homes = await self._document.load("which node has which seat is decided anew")
        own = {each.spec.name: each for each in self._agents() if self._has_home(each)}
        gone = {
            seat
            for seat, node in homes.items()
            if node == me and seat.startswith("agent:") and self._is_free(seat, own)
        }
        claims = await self._claims(homes, own)
        if gone or claims:
            homes = await self._document.change(partial(_decided, me=me, gone=gone, claims=claims))
        named = {seat.removeprefix("agent:") for seat in homes if seat.startswith("agent:")}
        agents = named | own.keys()
        await self._bind(agents)
        can = [seat for seat in self._seats if not self._is_elsewhere(seat, homes, agents)]
        can += [
            agent_seat(name)
            for name in own
            if self._cluster.workspace_shared or homes.get(agent_seat(name)) == me
        ]
        self._ownership.offer(can, homes)

    async def _bind(self, agents: Collection[str]) -> None:
        channels = [each.name for each in self._bound]
        if not self._ownership.placement.is_bound(agents, channels):
            bind = partial(self._ownership.placement.bind, agents, channels)
            await self._handover.rebind(bind, self._config.server.stop_timeout_s * DRAIN_SHARE)

    async def _claims(self, homes: Mapping[str, str], own: Mapping[str, AgentFile]) -> set[str]:
        """Return the seats that nobody has, and whose home this node should be."""
        free = {agent_seat(name): self._files(each) for name, each in own.items()}
        free |= {
            channel_seat(each.name): each.workspace / "channels" / each.name
            for each in self._bound
            if each.plugin.keeps_folder and not self._anchored_elsewhere(each, own.keys())
        }
        free = {seat: folder for seat, folder in free.items() if seat not in homes}
        now_s = anyio.current_time()
        self._since = {seat: self._since.get(seat, now_s) for seat in free}
        claims: set[str] = set()
        for seat, folder in free.items():
            is_full = await to_thread.run_sync(_has_something, folder)
            if is_full or now_s - self._since[seat] >= GRACE_S:
                claims.add(seat)
                said = "the files in its folder stay here" if is_full else "its folder is empty"
                logger.info("a home is here from now on", extra={"seat": seat, "why": said})
        return claims

    def _is_elsewhere(self, seat: str, homes: Mapping[str, str], agents: Iterable[str]) -> bool:
        """Say whether this node cannot have the seat of a channel now."""
        channel = next((each for each in self._bound if channel_seat(each.name) == seat), None)
        if channel is None:
            return False
        has_keys_elsewhere = (
            channel.plugin.keeps_folder
            and not self._cluster.is_one_machine
            and homes.get(seat) != self._ownership.me.name
        )
        return has_keys_elsewhere or self._anchored_elsewhere(channel, agents)

    def _anchored_elsewhere(self, channel: ChannelConfig, agents: Iterable[str]) -> bool:
        """Say whether a channel leads to an agent whose home is not here."""
        homeless = set(agents)
        return any(
            self._ownership.seat_epoch(agent_seat(route.agent)) is None
            for route in routes_of(self._config, self._library.names())
            if route.agent in homeless and route.channel in {"", channel.name, channel.platform}
        )

    def _is_free(self, seat: str, own: Mapping[str, AgentFile]) -> bool:
        """Say whether an agent of this node needs no home any more."""
        name = seat.removeprefix("agent:")
        return name in self._library.names() and name not in own

    def _has_home(self, file: AgentFile) -> bool:
        return has_home(file, is_one_machine=self._cluster.is_one_machine)

    def _agents(self) -> list[AgentFile]:
        found: list[AgentFile] = []
        for name in self._library.names():
            try:
                found.append(self._library.file(name))
            except UnknownAgentError:  # it went in this moment
                continue
        return found

    def _files(self, file: AgentFile) -> Path:
        root = self._config.common or self._config.workspace
        return file.files or root / FILES_FOLDER / file.spec.name


def _decided(homes: dict[str, str], *, me: str, gone: set[str], claims: set[str]) -> dict[str, str]:
    """Return who has which home: what another node decided meanwhile stands."""
    left = {seat: node for seat, node in homes.items() if seat not in gone or node != me}
    return {**dict.fromkeys(sorted(claims), me), **left}


def _has_something(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entries)
    except OSError:
        return False


def away(homes: Mapping[str, str], living: Iterable[str], held: Iterable[str]) -> tuple[str, ...]:
    """Return which seats wait for a node that does not live, one line each.

    Args:
        homes: By seat: the node that should have it.
        living: The names of the nodes that live.
        held: The seats that somebody has.
    """
    lives, taken = frozenset(living), frozenset(held)
    return tuple(
        f"{seat}: its folder is on node {node}, which does not live, and its sessions wait; start"
        f" that node, or let another one begin with the folder that it has: everturn seat move"
        f" {seat} NODE"
        for seat, node in sorted(homes.items())
        if node not in lives and seat not in taken and ":" in seat
    )
