"""How the gateway is: bodies of answers."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from everturn_actors.cluster.leases import Share
from everturn_actors.state.serialization import utc_text
from everturn_actors.supervisor import ChildStatus
from everturn_gateway.http.schemas.base import Body, Timestamp
from everturn_gateway.starts import HowEnded, Start


class _Health(Body):
    """A body that is made ready with its first answer: each start loads these, for its probes."""

    model_config = ConfigDict(defer_build=True)


class StatusBody(_Health):
    """Whether the gateway lives."""

    status: Literal["ok"]


class TaskBody(_Health):
    """A long task of the gateway that should run and does not."""

    name: str
    state: Literal["backing_off", "failed"] = Field(
        description="backing_off: it is started again; failed: it stays down until a restart."
    )
    since: Timestamp
    restarts: int
    failures: int = Field(description="In a row.")
    error: str = Field(description="Why it failed the last time.")
    needed: bool = Field(description="Whether no message can be taken without it.")

    @staticmethod
    def of(status: ChildStatus) -> TaskBody:
        """Return the body of a task that is down."""
        error = status.error
        return TaskBody(
            name=status.name,
            state="failed" if status.state == "failed" else "backing_off",
            since=utc_text(status.since),
            restarts=status.restarts,
            failures=status.failures,
            error=f"{error.kind}: {error.text}".removesuffix(": ") if error else "",
            needed=status.is_needed,
        )


class ReadyBody(_Health):
    """That the gateway takes messages, and what of it does not work meanwhile."""

    status: Literal["ready"]
    tasks: tuple[TaskBody, ...] = Field(description="Long tasks that are down.")
    restarts: dict[str, int] = Field(
        description="How often parts that failed were started again since the gateway began, those"
        " that run now too; parts that never were are left out."
    )
    blocked_chats: dict[str, int] = Field(
        description="By channel, in how many chats nothing can be taken for a while; see "
        "/api/v1/channels."
    )
    quarantined_sessions: int = Field(
        description="Sessions that failed again and again, and wait for somebody to cancel their "
        "turn, reset or delete them."
    )
    homes_away: tuple[str, ...] = Field(
        default=(),
        description="Of several gateways: agents and channels whose sessions wait for the one that "
        "has their folder. One line each.",
    )
    node_differences: tuple[str, ...] = Field(
        default=(),
        description="Of several gateways: what others have otherwise than the one that answers, and"
        " which do not let it in. One line each.",
    )
    refused_keys: tuple[str, ...] = Field(
        default=(),
        description="Of providers with several keys: which cannot be used, by position. One line "
        "each.",
    )


class NodeBody(_Health):
    """A gateway that shares the store."""

    name: str
    address: str = Field(description="Where the others reach it.")
    version: str
    drains: bool = Field(description="Whether it goes, and gives back what it holds.")
    partitions: int = Field(description="How many parts of the sessions it works on.")
    seats: tuple[str, ...] = Field(description="What it does for all.")
    is_this: bool = Field(description="Whether it is the one that answers.")

    @staticmethod
    def of(share: Share, this: str) -> NodeBody:
        """Return the body of a node; `this` is the name of the one that answers."""
        node = share.member.node
        return NodeBody(
            name=node.name,
            address=node.address,
            version=node.version,
            drains=share.member.drains,
            partitions=share.partitions,
            seats=share.seats,
            is_this=node.name == this,
        )


class NodeList(_Health):
    """Gateways that share the store, as the one that answers knows them."""

    nodes: tuple[NodeBody, ...] = Field(description="By name; none where it is alone.")
    homes: dict[str, str] = Field(
        default_factory=dict, description="By seat: the node that should have it."
    )
    differences: tuple[str, ...] = Field(
        description="What other nodes have otherwise than the one that answers: agents, channels,"
        " version; and which do not let it in. One line each."
    )


class VersionBody(_Health):
    """Which program answers."""

    name: Literal["everturn"] = "everturn"
    version: str
    started_at: Timestamp


class StartBody(_Health):
    """A start of the gateway."""

    at: Timestamp
    version: str
    after: HowEnded = Field(
        description="How the run before it ended: it was closed (clean), or it was not (killed)."
        " first: there was none."
    )

    @staticmethod
    def of(start: Start) -> StartBody:
        """Return the body of `start`."""
        return StartBody(at=utc_text(start.at), version=start.version, after=start.after)


class StartList(_Health):
    """Starts of the gateway that serve others, the last one first."""

    starts: tuple[StartBody, ...]
