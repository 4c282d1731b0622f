"""Tools of Model Context Protocol servers, through the official client.

Source: https://modelcontextprotocol.io/specification, revisions up to 2026-07-28.
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
