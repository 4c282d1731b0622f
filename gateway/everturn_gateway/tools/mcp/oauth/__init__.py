"""Logins at MCP servers that ask for one: how they are made, kept and renewed (OAuth 2.1).

`logins` keeps them and needs no package; `flow` makes one, with a person at a browser; `renewal`
sends a login's token with each request, and renews it. The last two import `mcp`.
"""

from __future__ import annotations

from everturn_gateway.tools.mcp.oauth.logins import McpLogin, McpLoginError, McpLogins

__all__ = ["McpLogin", "McpLoginError", "McpLogins"]
