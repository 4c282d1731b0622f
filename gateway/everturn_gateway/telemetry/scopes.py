"""Whose work is under way in a task: the session, its turn, and what is gathered of it meanwhile.

Context variables pass into the tasks that a task starts, so what a provider or a tool does on the
way knows the turn that it does it for.
"""

from __future__ import annotations

from everturn_actors.model import Outcome, Usage
from everturn_gateway.logs import Whereabouts, present_whereabouts


class Scope(Whereabouts, kw_only=True):
    """The work on one turn, or what a session does between two."""

    usage: Usage = Usage()
    "Of its model calls."
    call_failed: bool = False
    "Whether the newest model call did: the next one is a retry."
    outcome: Outcome | None = None
    "How the turn ended; None = it has not."


def present_scope() -> Scope | None:
    """Return whose work is under way; None where that is no session's."""
    here = present_whereabouts()
    return here if isinstance(here, Scope) else None
