"""One agent for an editor, in the Agent Client Protocol: over standard input and output.

All of it stands on the client of the HTTP API, as the terminal does. The package `acp` is an extra.

- `agent`: an agent of the gateway as an editor drives it: its sessions, prompts and permissions
- `calls`: calls of tools as an editor shows them: what kind each is, and what it changes in files
- `permissions`: calls that wait for a person, as permissions that an editor asks for
- `prompts`: what an editor sends as a prompt, as a message with files
- `stdio`: the agent of one editor, over standard input and output
- `updates`: from the updates of a conversation to what an editor is told of it
"""
