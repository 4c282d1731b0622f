"""Which lease a session belongs to: that of its partition, or a seat that it is bound to.

An id alone says the partition. Sessions of some agents and some channels go with a seat instead: of
an agent whose tools have a folder, which stands on one machine, and of a channel that one process
alone can reach. Which agent a session is of does not stand in its id: it is looked up in the store,
once for each session and process, and only where there is such a seat at all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from everturn_actors.cluster.partitions import PARTITIONS, lease_of, partition_of
from everturn_actors.model import ConversationKey

NOWHERE: Final = -1
"The partition of a session of which nobody has said yet what it is: no process works on it."
KNOWN_MAX: Final = 200_000
"Sessions whose agent and channel are remembered; some 30 MB."


def agent_seat(agent: str) -> str:
    """Return the seat of whoever works on all sessions of an agent."""
    return f"agent:{agent}"


def channel_seat(channel: str) -> str:
    """Return the seat of whoever receives on a channel."""
    return f"channel:{channel}"


class Placement:
    """Says which partition each session is in, those with a seat of their own included.

    The numbers from `PARTITIONS` on are seats. They mean something in this process alone.
    """

    def __init__(self) -> None:
        """Bind nothing: each session is in the partition of its id."""
        self._agents: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._seats: list[str] = []
        "By number, from `PARTITIONS` on; a number is never given to another one."
        self._known: OrderedDict[str, tuple[str, str]] = OrderedDict()
        "Agent and channel of sessions, those that were asked for longest ago first."

    def is_bound(self, agents: Iterable[str], channels: Iterable[str]) -> bool:
        """Say whether sessions of these go with a seat, and no others."""
        return self._agents.keys() == set(agents) and self._channels.keys() == set(channels)

    def bind(self, agents: Iterable[str], channels: Iterable[str]) -> None:
        """Let sessions of these go with a seat, and no others."""
        self._agents = {name: self._number(agent_seat(name)) for name in agents}
        self._channels = {name: self._number(channel_seat(name)) for name in channels}

    def is_known(self, session_id: str) -> bool:
        """Say whether `partition` can tell; else somebody has to look, and `note_key`."""
        return not (self._agents or self._channels) or session_id in self._known

    def note_key(self, session_id: str, key: ConversationKey) -> None:
        """Note which conversation a session is of."""
        self._known[session_id] = (key.agent, key.channel)
        self._known.move_to_end(session_id)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def partition(self, session_id: str, key: ConversationKey | None = None) -> int:
        """Return the partition of a session; `NOWHERE` where it is not known.

        Args:
            session_id: The session.
            key: Its conversation, where that is at hand.
        """
        if not (self._agents or self._channels):
            return partition_of(session_id)
        found = (key.agent, key.channel) if key is not None else self._known.get(session_id)
        if found is None:
            return NOWHERE
        agent, channel = found
        # An agent's folder decides: its channels are where it is.
        seat = self._agents.get(agent) or self._channels.get(channel)
        return partition_of(session_id) if seat is None else seat

    def lease(self, partition: int) -> str:
        """Return the name of a partition's lease; empty = of `NOWHERE`."""
        if partition == NOWHERE:
            return ""
        return (
            lease_of(partition) if partition < PARTITIONS else self._seats[partition - PARTITIONS]
        )

    def number(self, seat: str) -> int | None:
        """Return the partition of sessions that go with a seat; None = none do."""
        kind, _, name = seat.partition(":")
        bound = {"agent": self._agents, "channel": self._channels}.get(kind, {})
        return bound.get(name)

    def has_home(self, agent: str) -> bool:
        """Say whether the sessions of an agent go with a seat."""
        return agent in self._agents

    def _number(self, seat: str) -> int:
        if seat not in self._seats:
            self._seats.append(seat)
        return PARTITIONS + self._seats.index(seat)
