"""How lines get to an MCP server and back: a program's pipes, or HTTP."""
