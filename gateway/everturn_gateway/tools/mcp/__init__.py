"""Tools of Model Context Protocol servers, through the official client.

Source: https://modelcontextprotocol.io/specification, revisions up to 2026-07-28.

- `connection`: one MCP server of one agent: started when needed, restarted when it died, closed
  when idle
- `errors`: what can go wrong between the gateway and an MCP server; none of it is a bug of the
  gateway
- `listing`: the list of tools of an MCP server: what of it an agent is offered
- `names`: how the tools of MCP servers are called towards the model
- `open_calls`: a call that a server works on, and what the server asks whoever waits for it
- `prompts`: the prompts of an MCP server: texts that a person may send, with places to fill in
- `resources`: the resources of an MCP server, as two tools: one lists them, one reads one
- `results`: what a tool of an MCP server returned, in words for a model
- `schemas`: the schema of a tool's arguments, as an MCP server tells it: checked, and made to pass
- `servers`: the MCP servers of all agents: who has which, and the tools that come of it
- `session`: what a connection needs of the protocol, without the package that speaks it
- `settings`: which MCP servers an agent has, as its owner wrote it down
- `tool`: a tool of an MCP server, as an agent has it
- `wire`: the protocol, through the official client: hands are shaken, tools listed and called
- `oauth/`: logins at MCP servers that ask for one: how they are made, kept and renewed (OAuth 2.1)
- `requests/`: what an MCP server asks in the middle of a call: a person, the agent's model, or for
  its folder
- `transports/`: how lines get to an MCP server and back: a program's pipes, or HTTP
"""

from __future__ import annotations

from everturn_gateway.tools.mcp.connection import McpLimits
from everturn_gateway.tools.mcp.errors import McpError, McpRefusedError, UnknownPromptError
from everturn_gateway.tools.mcp.listing import Prompt
from everturn_gateway.tools.mcp.oauth import McpLogins
from everturn_gateway.tools.mcp.requests.sampling import SamplingModel
from everturn_gateway.tools.mcp.servers import McpServers, McpToolbox, open_mcp
from everturn_gateway.tools.mcp.settings import (
    McpOAuthSettings,
    McpSamplingSettings,
    McpServerSettings,
)
from everturn_gateway.tools.mcp.tool import McpTool

__all__ = [
    "McpError",
    "McpLimits",
    "McpLogins",
    "McpOAuthSettings",
    "McpRefusedError",
    "McpSamplingSettings",
    "McpServerSettings",
    "McpServers",
    "McpTool",
    "McpToolbox",
    "Prompt",
    "SamplingModel",
    "UnknownPromptError",
    "open_mcp",
]
