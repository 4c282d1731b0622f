"""A conversation in a terminal.

`client` is what a terminal needs of a gateway, `conversation` keeps to one conversation behind it,
`slash` and `reply` are pure. A person at a terminal has `live`; `chat` and `attach` are for pipes.

- `attach`: `everturn attach` through a pipe: look on as a session goes on, and speak in it
- `attachments`: files of a person at a terminal, on their way into a conversation
- `chat`: `everturn chat` through a pipe: a line, its answer, the next line
- `client`: what a terminal needs of a gateway; the client of the HTTP API, in the gateway, provides
  it
- `commands`: commands that end with lines to show
- `conversation`: one conversation behind a client: its session of now, and how a message gets its
  answer
- `gauge`: a session's context as lines that a person reads: a bar for each region, then the facts
- `interrupts`: signals of a terminal: Ctrl-C while no prompt reads the keys, and the end of the
  terminal
- `live/`: one prompt that stays, and the session above it
- `lookups`: what a person asks of a conversation beside its turns, answered in text
- `prompt`: lines from a pipe, one question at a terminal, and what was typed on other days
- `questions`: what becomes of a call that waits to be allowed, while its turn is watched
- `reply`: from the updates of a conversation to what a person reads
- `screen`: writes pieces to a terminal or a pipe
- `slash`: what a person may type instead of a message
"""
