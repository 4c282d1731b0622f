"""Everturn, to be embedded: agents whose conversations survive crashes, in a program of your own.

Ask an agent, with nothing but this package installed:

>>> import anyio, everturn
>>> async def main():
...     agent = everturn.Agent(name="hello", instructions="Be brief.", model="builtin/echo")
...     async with everturn.open_gateway(agent) as gateway:
...         answer = await gateway.ask("hello", "Hi!")
...         print(answer.text.partition(".")[0])
>>> anyio.run(main)
You said: “Hi!”

Everything public stands in `__all__`; modules that begin with `_` are not. What you may subclass or
implement says how in its docstring, step by step: `Tool` (or the decorator `tool`), `Provider`,
`Channel`, `Policy`, `Store`. `everturn.testing` has doubles and contract suites for them.

Importing this loads the core alone: no web framework, no library of a chat platform.
"""

from __future__ import annotations

from everturn._agents import Agent
from everturn._channels import open_chat_queues
from everturn._errors import TurnFailedError
from everturn._gateway import Gateway, PendingApproval
from everturn._opening import open_gateway
from everturn._providers import Provider
from everturn._stores import Store
from everturn._tools import FunctionTool, Tool, tool
from everturn_actors.context.policy import Policy
from everturn_actors.errors import (
    CoreError,
    InvalidInputError,
    JournalError,
    ModelAuthError,
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    RateLimitedError,
    ToolFailedError,
    UnknownAgentError,
    WorkspaceLockedError,
)
from everturn_actors.model import (
    Decision,
    ModelRequest,
    Reply,
    ToolCall,
    ToolDefinition,
    Upload,
    Usage,
)
from everturn_actors.ports import ToolCapabilities, ToolContext, ToolOutput
from everturn_actors.service import Submission, TurnResult, TurnService
from everturn_channels.adapter import Adapter as Channel
from everturn_channels.adapter import (
    Capabilities,
    ChatRef,
    InboundEvent,
    InboundHandler,
    Message,
    Outbound,
    Person,
)
from everturn_channels.errors import (
    ChannelError,
    ConnectionLostError,
    NotSentError,
    RefusedError,
    SetupError,
    UnknownOutcomeError,
)
from everturn_channels.ingestion.chat_queues import ChatQueues
from everturn_channels.ingestion.events import PlatformEvent
from everturn_gateway.errors import ConfigError, GatewayError

__all__ = [
    "Agent",
    "Capabilities",
    "Channel",
    "ChannelError",
    "ChatQueues",
    "ChatRef",
    "ConfigError",
    "ConnectionLostError",
    "CoreError",
    "Decision",
    "FunctionTool",
    "Gateway",
    "GatewayError",
    "InboundEvent",
    "InboundHandler",
    "InvalidInputError",
    "JournalError",
    "Message",
    "ModelAuthError",
    "ModelError",
    "ModelRefusedError",
    "ModelRequest",
    "ModelTransientError",
    "NotSentError",
    "Outbound",
    "PendingApproval",
    "Person",
    "PlatformEvent",
    "Policy",
    "Provider",
    "RateLimitedError",
    "RefusedError",
    "Reply",
    "SetupError",
    "Store",
    "Submission",
    "Tool",
    "ToolCall",
    "ToolCapabilities",
    "ToolContext",
    "ToolDefinition",
    "ToolFailedError",
    "ToolOutput",
    "TurnFailedError",
    "TurnResult",
    "TurnService",
    "UnknownAgentError",
    "UnknownOutcomeError",
    "Upload",
    "Usage",
    "WorkspaceLockedError",
    "open_chat_queues",
    "open_gateway",
    "tool",
]
