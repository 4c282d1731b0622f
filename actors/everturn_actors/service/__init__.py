"""The one entry point to sessions: what callers import.

- `activity`: what goes on now: how much there is to do, and who waits for whom
- `bindings`: which session each conversation is in, and who decides that: one at a time for one
  conversation
- `branches`: sessions that begin with what was said before: in another session, or elsewhere
- `conversations`: which session a conversation goes on in, what it is called, and who shares it
- `files`: the files that come with messages: named, and kept before the message is accepted
- `handover`: sessions that this process begins to work on, and those that another one works on from
  now on
- `maintenance`: what may be done to a passive session, without making it active
- `opening`: how the service is put together, and taken apart
- `pinning`: which events can be pinned, and what is kept of them then
- `reader`: what can be read of sessions, whether they are active or not
- `stateless`: turns of which nothing is kept
- `turn_service`: the one entry point: every caller submits here and reads the updates it yields
"""

from everturn_actors.protocol.commands import Compacted
from everturn_actors.protocol.feed import TakeDelta, TextDelta, Update
from everturn_actors.service.branches import Copied
from everturn_actors.service.opening import ServicePorts, ServiceSettings, open_service
from everturn_actors.service.stateless import ONCE, History
from everturn_actors.service.turn_service import TurnService
from everturn_actors.session.runtime import RuntimeStats
from everturn_actors.session.submission import Submission
from everturn_actors.session.turn_result import TurnResult

__all__ = [
    "ONCE",
    "Compacted",
    "Copied",
    "History",
    "RuntimeStats",
    "ServicePorts",
    "ServiceSettings",
    "Submission",
    "TakeDelta",
    "TextDelta",
    "TurnResult",
    "TurnService",
    "Update",
    "open_service",
]
