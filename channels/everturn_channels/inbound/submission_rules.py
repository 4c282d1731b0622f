"""How a message is handed to its conversation: under which name, and how it waits there. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Literal

from everturn_actors.model import AmbientRules, ConversationKey, Queueing
from everturn_actors.state.validation import KEY_CHARS
from everturn_channels.settings import BufferRules, QueueRules

ALBUM_HOLD_S: Final = 1.0  # the parts of an album come one by one, within a second


def message_key(key: ConversationKey, message_id: str) -> str:
    """Return the idempotency key of a message: the same for the same message, for ever."""
    told = f"{key.channel}:{key.chat}:{message_id}"
    if len(told) <= KEY_CHARS:
        return told
    # The same each time, and short enough for a key.
    return f"{key.channel[:64]}:{sha256(told.encode('utf-8', 'replace')).hexdigest()}"


def ambient_rules(buffer: BufferRules, shown: Literal["message", "note", "never"]) -> AmbientRules:
    """Return how what is not said to the agent is kept, and what the next turn is told of it."""
    return AmbientRules(
        shown=shown, max_messages=buffer.max_messages, max_age_s=int(buffer.max_age_s)
    )


def queueing(queue: QueueRules, *, is_album: bool, took_s: float) -> Queueing:
    """Return how a message waits. `took_s` is how long it took to fetch its files.

    The next part of an album comes as soon as the one before is taken, and takes about as long.
    """
    debounce_s = queue.debounce_s
    if is_album:
        debounce_s = max(debounce_s, ALBUM_HOLD_S) + took_s  # one turn answers all its parts
    return Queueing(
        debounce_s=debounce_s,
        joins="own" if queue.mode == "sequential" else "all",
        drops_when_busy=queue.mode == "drop",
        max_waiting=queue.max_pending,
        overflow=queue.overflow,
    )
