"""How the end of a turn is told. Pure."""

from __future__ import annotations

from everturn_actors.service import TurnResult
from everturn_gateway.http.problems import Problem, problem


def turn_problem(result: TurnResult) -> Problem | None:
    """Return the problem that tells of a turn without an answer; None where it was answered."""
    if result.outcome == "answered":
        return None
    return problem(
        f"turn-{result.outcome}",
        result.error or f"the turn was {result.outcome}",
        extra={
            "session_id": result.session_id,
            "turn_id": f"t{result.turn}" if result.turn else None,
            "outcome": result.outcome,
        },
    )
