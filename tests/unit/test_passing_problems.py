"""What passes by itself is never told as a fault of the program."""

from __future__ import annotations

from support.tables import table

from everturn_actors.errors import (
    ConflictError,
    CoreError,
    FencedError,
    HomeElsewhereError,
    LinkBrokenError,
    LinkRefusedError,
    MovedError,
    OwnerAwayError,
    QueueFullError,
    StaleReadError,
    StoreAwayError,
)
from everturn_gateway.http.problems import core_problem


@table(
    "error",
    [
        ConflictError(""),
        FencedError(""),
        HomeElsewhereError("agent"),
        LinkBrokenError(),
        LinkRefusedError(),
        MovedError("session"),
        OwnerAwayError("session", "b", "why"),
        QueueFullError(),
        StaleReadError(""),
        StoreAwayError(""),
    ],
)
def test_a_node_or_a_store_that_is_away_may_be_asked_again(error: CoreError) -> None:
    """A proxy goes to the next node, and a program waits as long as it is told to."""
    problem = core_problem(error)

    assert problem.status in {429, 503}
    assert int(problem.headers["Retry-After"]) > 0
