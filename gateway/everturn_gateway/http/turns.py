"""How the end of a turn is told. Pure."""

from __future__ import annotations

from everturn_actors.service import TurnResult
from everturn_gateway.http.problems import Problem


def turn_problem(result: TurnResult) -> Problem | None:
    """Return the problem that tells of a turn without an answer; None where it was answered."""
    if result.outcome == "answered":
        return None
    kind, title, status = {
        "failed": ("turn-failed", "The turn failed", 502),
        "cancelled": ("turn-cancelled", "The turn was cancelled", 409),
        "interrupted": ("turn-interrupted", "The turn was interrupted", 502),
    }[result.outcome]
    return Problem(
        kind=kind,
        title=title,
        status=status,
        detail=result.error or f"the turn was {result.outcome}",
        extra={
            "session_id": result.session_id,
            "turn_id": f"t{result.turn}" if result.turn else None,
            "outcome": result.outcome,
        },
    )
