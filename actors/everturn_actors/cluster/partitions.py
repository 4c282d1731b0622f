"""Which partition a session is in, and which process should hold what. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from everturn_actors.ids import RANDOM_HEX_DIGITS, is_session_id

PARTITIONS: Final = 64
"Enough for some twenty processes. Never changed: all that share a store count alike."

_DIGITS: Final = 4  # the first of the random ones


def partition_of(session_id: str) -> int:
    """Return the partition of a session, from its id alone.

    An id of another form, which no store holds, is in partition 0.
    """
    if not is_session_id(session_id):
        return 0
    begin = len(session_id) - RANDOM_HEX_DIGITS
    return int(session_id[begin : begin + _DIGITS], 16) % PARTITIONS


def lease_of(partition: int) -> str:
    """Return the name of a partition's lease."""
    return f"partition:{partition}"


def partition_in(lease: str) -> int | None:
    """Return the partition that a lease is of; None = of none, but of a seat."""
    kind, _, number = lease.partition(":")
    return int(number) if kind == "partition" and number.isdecimal() else None


def should_hold(lease: str, nodes: Iterable[str]) -> str:
    """Return which of `nodes` should hold a lease; "" where there are none.

    Rendezvous hashing: where a node comes or goes, only leases move that go to it or were its own.
    """
    return max(nodes, key=lambda node: (_score(lease, node), node), default="")


def _score(lease: str, node: str) -> bytes:
    return blake2b(f"{node}\0{lease}".encode(), digest_size=8).digest()
