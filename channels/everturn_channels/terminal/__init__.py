"""A conversation in a terminal.

`client` is what a terminal needs of a gateway, `conversation` keeps to one conversation behind it,
`slash` and `reply` are pure, `screen` writes, `chat` and `attach` are the two things a person sees.

- `attach`: `everturn attach`: look on as a session goes on, and speak in it
- `attachments`: files of a person at a terminal, on their way into a conversation
- `chat`: `everturn chat`: a person and an agent take turns
- `client`: what a terminal needs of a gateway; the client of the HTTP API, in the gateway, provides
  it
- `conversation`: one conversation behind a client: its session of now, and how a message gets its
  answer
- `gauge`: a session's context as lines that a person reads: a bar for each region, then the facts
- `interrupts`: signals of a terminal: Ctrl-C while no prompt reads the keys, and the end of the
  terminal
- `lookups`: what a person asks of a conversation beside its turns, answered in text
- `prompt`: where a person's lines come from: a prompt that edits, or a pipe
- `questions`: what becomes of a call that waits to be allowed, while its turn is watched at a
  terminal
- `reply`: from the updates of a conversation to what a person reads
- `screen`: writes pieces to a terminal or a pipe
- `slash`: what a person may type instead of a message
"""
