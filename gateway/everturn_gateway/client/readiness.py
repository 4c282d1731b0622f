"""Asks a running gateway whether it takes messages, and what of it is down."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from msgspec import Struct

from everturn_gateway.client.answers import Json, value_of
from everturn_gateway.client.api import ask_once

UNAVAILABLE: Final = 503
_CHANNELS: Final = ":channels-not-ready"


class TaskDown(Struct, frozen=True, kw_only=True):
    """A long task of a gateway that should run and does not."""

    name: str
    is_given_up: bool
    "Whether it stays down until the gateway is started anew."
    since: datetime
    failures: int
    error: str


class Readiness(Struct, frozen=True, kw_only=True):
    """What a gateway says of itself."""

    fault: str
    "Why it takes no messages; empty where it does. Channels are asked on their own."
    tasks: tuple[TaskDown, ...]
    restarts: Mapping[str, int]
    "How often parts that failed were started again, by part; those that run now too."
    quarantined_sessions: int
    "Sessions that failed again and again, and wait for somebody."
    homes_away: tuple[str, ...] = ()
    "Agents and channels whose sessions wait for a node that does not live, one line each."
    node_differences: tuple[str, ...] = ()
    "What other nodes have otherwise, and which do not let it in, one line each."
    refused_keys: tuple[str, ...] = ()
    "Keys of providers with several that cannot be used, one line each."


async def ask_readiness(url: str, *, token: str) -> Readiness:
    """Return what the gateway at `url` says at `/readyz`.

    Args:
        url: Where it listens.
        token: Its API token; empty where it asks for none.

    Raises:
        CoreError: It refuses the request.
        ClientError: It cannot be reached, or its answer is not understood.
    """
    said = await ask_once(url, "GET", "/readyz", token=token, also=(UNAVAILABLE,))
    return value_of(_readiness, said)


def _readiness(data: Json) -> Readiness:
    is_told_apart = str(data.get("type", "")).endswith(_CHANNELS)
    is_ready = data.get("status") == "ready"
    return Readiness(
        fault="" if is_ready or is_told_apart else str(data["detail"]),
        tasks=tuple(map(_task, data.get("tasks", ()))),
        restarts={str(part): int(times) for part, times in data.get("restarts", {}).items()},
        quarantined_sessions=int(data.get("quarantined_sessions", 0)),
        homes_away=tuple(map(str, data.get("homes_away", ()))),
        node_differences=tuple(map(str, data.get("node_differences", ()))),
        refused_keys=tuple(map(str, data.get("refused_keys", ()))),
    )


def _task(data: Json) -> TaskDown:
    return TaskDown(
        name=data["name"],
        is_given_up=data["state"] == "failed",
        since=datetime.fromisoformat(data["since"]),
        failures=data["failures"],
        error=data["error"],
    )
