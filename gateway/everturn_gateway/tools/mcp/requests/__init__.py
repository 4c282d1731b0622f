"""What an MCP server asks in the middle of a call: a person, the agent's model, or for its folder.

Two forms of the protocol carry the same requests. Servers of the revision 2026-07-28 end the call
with them and are called again with the answers, so a question outlives the process. Those of older
ones ask while the call is open, and lose it with the connection.

- `dialogue`: one call of a server's tool, with all that the server asks before it answers
- `fields`: the fields of a form: read from a server's schema, asked, and their answers read
- `incoming`: what a server asks, as the protocol's client receives it, given to the call that it
  belongs to
- `interview`: what a server asks a person, question by question, and what it is answered
- `sampling`: lets a server use a model of the agent's, as far as the agent's owner says
- `values`: what goes to and fro when a server asks something in the middle of a call
"""
