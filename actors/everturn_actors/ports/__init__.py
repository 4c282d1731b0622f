"""What the core asks of the world, by subject: each of it is a protocol or a value of one."""

from everturn_actors.ports.agents import Agent, Agents, Clock, Quotes
from everturn_actors.ports.keyed import ABSENT, KeyedStore, Value
from everturn_actors.ports.models import (
    ModelProvider,
    ModelStatisticsStore,
    Summariser,
    WindowSource,
)
from everturn_actors.ports.observer import NullObserver, Observer, PassingObserver
from everturn_actors.ports.ownership import LocalOwnership, Node, Ownership
from everturn_actors.ports.store import (
    ALL_SESSIONS,
    CommitStats,
    Loaded,
    Place,
    SessionFilter,
    SessionStore,
    SessionSummary,
)
from everturn_actors.ports.tools import (
    ALLOW,
    Ask,
    AsksPeople,
    Gate,
    InquiryToMake,
    Questions,
    Tool,
    ToolCapabilities,
    ToolContext,
    ToolKind,
    ToolOutput,
    Verdict,
)

__all__ = [
    "ABSENT",
    "ALLOW",
    "ALL_SESSIONS",
    "Agent",
    "Agents",
    "Ask",
    "AsksPeople",
    "Clock",
    "CommitStats",
    "Gate",
    "InquiryToMake",
    "KeyedStore",
    "Loaded",
    "LocalOwnership",
    "ModelProvider",
    "ModelStatisticsStore",
    "Node",
    "NullObserver",
    "Observer",
    "Ownership",
    "PassingObserver",
    "Place",
    "Questions",
    "Quotes",
    "SessionFilter",
    "SessionStore",
    "SessionSummary",
    "Summariser",
    "Tool",
    "ToolCapabilities",
    "ToolContext",
    "ToolKind",
    "ToolOutput",
    "Value",
    "Verdict",
    "WindowSource",
]
