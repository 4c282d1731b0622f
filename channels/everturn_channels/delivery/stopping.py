"""When a delivery leaves the rest to the next start. Pure."""

from __future__ import annotations

from everturn_actors.delivery.port import Outgoing


def leaves(session: Outgoing) -> bool:
    """Whether nothing new begins: the service stops, and not all goes well, or all is there.

    What was said last is still delivered, as long as each message arrives at once; how long that
    may take, the service decides.
    """
    if not session.is_stopping:
        return False
    left = [item for item in session.state.outbox if not item.is_delivered]
    chunks = (chunk for item in left for chunk in item.chunks or ())
    return not left or any(chunk.mark in {"unsent", "unknown"} for chunk in chunks)
