"""`everturn mcp login`, `logout` and `list`: the MCP servers of agents, and who is logged in."""
