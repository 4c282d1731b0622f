"""The MCP server at `/mcp`: the agents for MCP clients, over streamable HTTP."""
