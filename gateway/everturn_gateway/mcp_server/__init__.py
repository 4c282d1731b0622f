"""Agents for clients of MCP: each agent is a tool, each session a resource.

All of it stands on the client of the HTTP API, so a caller may here what it may there. Nothing else
imports this before an MCP client comes: the package `mcp` is an extra, and takes a second to load.
"""
