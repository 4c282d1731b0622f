"""The message-count window: how many messages a session holds in memory and in its snapshot. Pure.

Source: the seed design "Context Window Management", layer 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from everturn_actors.model import Turn

DEFAULT_WINDOW_MESSAGES = 1000  # until an agent's model is known
_MIN_MESSAGES, _MAX_MESSAGES = 100, 2000
_TOKENS_PER_MESSAGE = (
    200  # an average; twice as many are held so that the budget can trim precisely
)


def window_messages(max_input_tokens: int) -> int:
    """Return how many messages to hold for a model that takes `max_input_tokens`."""
    return min(max((max_input_tokens // _TOKENS_PER_MESSAGE) * 2, _MIN_MESSAGES), _MAX_MESSAGES)


def let_go(
    checkpointed: Sequence[Turn], *, held_messages: int, limit_messages: int
) -> tuple[int, int]:
    """Decide which turns leave the old end of `checkpointed`.

    Only whole turns go, and only as many as are needed; what is not checkpointed never goes, so
    that the total may stay above the limit.

    Args:
        checkpointed: Finished turns, oldest first.
        held_messages: Messages held in all: checkpointed, pending and running.
        limit_messages: The window.

    Returns:
        How many turns leave, and how many messages they hold.
    """
    turns = messages = 0
    for turn in checkpointed:
        if held_messages - messages <= limit_messages:
            break
        turns += 1
        messages += turn.size_messages
    return turns, messages
