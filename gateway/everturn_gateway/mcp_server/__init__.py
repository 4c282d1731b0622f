"""Agents for clients of MCP: each agent is a tool, each session a resource.

All of it stands on the client of the HTTP API, so a caller may here what it may there. Nothing else
imports this before an MCP client comes: the package `mcp` is an extra, and takes a second to load.

- `agent_call`: one call of an agent: a message, its turn as it runs, and the answer as a tool's
  result
- `elicitation`: asks the person at a client about a call that waits, in the words of MCP:
  elicitation
- `link`: how a request of an MCP client reaches the gateway
- `progress`: tells a client how a turn goes on, as progress notifications
- `resources`: sessions as resources of MCP: their list, and their messages page by page
- `server`: what an MCP client can ask: the agents as tools, the sessions as resources
- `stdio`: the MCP server of one client, over standard input and output
"""
