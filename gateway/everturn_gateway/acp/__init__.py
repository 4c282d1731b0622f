"""One agent for an editor, in the Agent Client Protocol: over standard input and output.

All of it stands on the client of the HTTP API, as the terminal does. The package `acp` is an extra.
"""
