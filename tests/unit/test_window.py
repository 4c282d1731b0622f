"""The message-count window."""

from __future__ import annotations

from support.conversations import simple_turn
from support.tables import table

from everturn_actors.context.estimation.window import let_go, window_messages


@table(
    ("max_input", "messages"),
    [
        (0, 100),
        (8_192, 100),
        (10_199, 100),
        (10_200, 102),
        (128_000, 1280),
        (131_072, 1310),
        (200_000, 2000),
        (2_000_000, 2000),
    ],
)
def test_the_window_follows_from_the_models_window(max_input: int, messages: int) -> None:
    """Twice what an average conversation fits, between 100 and 2,000, never configured."""
    assert window_messages(max_input) == messages


TURNS = [simple_turn(1), simple_turn(2, calls=(3,)), simple_turn(3)]  # 2, 5 and 2 messages


@table(
    ("held", "limit", "gone"),
    [
        (9, 9, (0, 0)),
        (9, 8, (1, 2)),
        (9, 7, (1, 2)),
        (9, 6, (2, 7)),  # a turn leaves whole, though one message would do
        (9, 2, (2, 7)),
        (9, 0, (3, 9)),
        (30, 10, (3, 9)),  # what is pending does not leave
    ],
)
def test_whole_turns_leave_and_no_more_than_needed(
    held: int, limit: int, gone: tuple[int, int]
) -> None:
    """Half a turn would be a call without its result, or an answer without its question."""
    assert let_go(TURNS, held_messages=held, limit_messages=limit) == gone


def test_nothing_leaves_where_nothing_is_checkpointed() -> None:
    """Pending turns are in no snapshot yet: letting them go would lose them after a crash."""
    assert let_go([], held_messages=500, limit_messages=100) == (0, 0)
