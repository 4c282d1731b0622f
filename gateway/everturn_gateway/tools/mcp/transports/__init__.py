"""How lines get to an MCP server and back: a program's pipes, or HTTP.

- `bounded`: how much of an answer of an MCP server is held, and what a broken connection is called
- `guarded`: the HTTP client with which a login at an MCP server is made and renewed
- `lines`: messages on a stream of bytes, one a line: cut, bounded, and read without a long pause
- `process`: an MCP server that is a program: started, written to, read from, and ended with all it
  started
- `sifting`: makes of what a server answers what is used of it, before the protocol's client looks
  at it
- `stdio`: the transport to an MCP server that is a program: JSON messages, one a line
- `streamable`: the transport to an MCP server behind an address: streamable HTTP
- `streams`: what goes over an MCP connection, whichever way it goes: bounded, and cut at once
"""
