"""`delegate` and `session`: what one conversation can have to do with another.

- `delegating`: `delegate`: a task for an agent that works on it alone and returns its conclusion
- `origins`: who is behind a turn that no person began: a delegate's task, a message of another
  session
- `plugin`: the plug-ins `session` and `delegate`
- `sessions`: `session`: the agent's other conversations, as far as its owner opens them
"""

from __future__ import annotations

from everturn_gateway.tools.conversations.origins import (
    is_asked_by_person,
    is_person,
    is_tainted,
    name_of_call,
    sources_behind,
)
from everturn_gateway.tools.places import DELEGATE

__all__ = [
    "DELEGATE",
    "is_asked_by_person",
    "is_person",
    "is_tainted",
    "name_of_call",
    "sources_behind",
]
