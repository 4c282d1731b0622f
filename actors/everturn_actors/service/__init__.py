"""The one entry point to sessions: what callers import."""

from everturn_actors.protocol.commands import Compacted
from everturn_actors.protocol.feed import TakeDelta, TextDelta, Update
from everturn_actors.service.branches import Copied
from everturn_actors.service.opening import ServicePorts, ServiceSettings, open_service
from everturn_actors.service.stateless import ONCE, History
from everturn_actors.service.turn_service import TurnService
from everturn_actors.session.runtime import RuntimeStats
from everturn_actors.session.submission import AnnouncementReceipt, Submission
from everturn_actors.session.turn_result import TurnResult

__all__ = [
    "ONCE",
    "AnnouncementReceipt",
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
