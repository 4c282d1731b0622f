"""What the core asks of the world, by subject: each of it is a protocol or a value of one.

- `agents`: who answers, and the time
- `keyed`: where small durable things live that are no session: pairing, tokens, cursors, run logs
- `maintenance`: what a store does beside a session's life: how much it keeps of it, and what of
  that goes
- `models`: models, and what was learnt about them
- `observer`: who is told what sessions do
- `ownership`: which process works on which session, where several share one store
- `search`: where it was said: a ranked index over what stands in the logs
- `store`: where sessions live
- `tools`: what an agent can do, and what decides whether it may
- `voice`: who hears what people say, and speaks
- `transfer`: how all that a store keeps goes to another one, byte for byte
"""

from everturn_actors.ports.agents import Agent, Agents, Clock, Quotes
from everturn_actors.ports.keyed import ABSENT, KeyedStore, Value
from everturn_actors.ports.models import (
    ModelProvider,
    ModelStatisticsStore,
    PromptCounter,
    Summariser,
    WindowSource,
    counted_by,
    counter_of,
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
from everturn_actors.ports.voice import Speaker, Speech, Transcriber, Transcript

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
    "PromptCounter",
    "Questions",
    "Quotes",
    "SessionFilter",
    "SessionStore",
    "SessionSummary",
    "Speaker",
    "Speech",
    "Summariser",
    "Tool",
    "ToolCapabilities",
    "ToolContext",
    "ToolKind",
    "ToolOutput",
    "Transcriber",
    "Transcript",
    "Value",
    "Verdict",
    "WindowSource",
    "counted_by",
    "counter_of",
]
