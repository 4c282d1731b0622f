"""What an MCP server asks in the middle of a call: a person, the agent's model, or for its folder.

Two forms of the protocol carry the same requests. Servers of the revision 2026-07-28 end the call
with them and are called again with the answers, so a question outlives the process. Those of older
ones ask while the call is open, and lose it with the connection.
"""
