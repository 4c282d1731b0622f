"""The core of Everturn: sessions, their journal, the turn and what the model sees.

No network and no chat platform. Start reading at `service` (the entry point), `session` (the actor)
and `state` (the one transition function).

- `checksums`: lines of JSON that carry a checksum: `{...,"crc":"89abcdef"}`
- `codec`: values to JSON and back: the one codec for all that is written down or sent
- `documents`: values of a keyed store as what they mean: read when they change, written when it is
  time
- `faults`: what the boundaries around our own and others' code need to know of an exception
- `gaps`: events that a session's history no longer holds, and why
- `ids`: session ids, sortable by time and safe as a file name; names and hashes of other things
- `json_values`: values as JSON and YAML give them, narrowed to what can be asked of them
- `outside`: which text from outside stands behind a message, and what it is called
- `scopes`: cancel scopes and times for what every turn does several times
- `spec`: what an agent is, as far as the core needs to know
- `sqlite_cache`: a file of SQLite that holds nothing but what can be read again elsewhere
- `supervisor`: supervision of long tasks: a fault ends the task that has it, and nothing else
- `testing`: doubles for whoever tests something built on the core; part of the public API
- `todo`: the to-do list of long work: the model writes it by calls of one tool, and people see it
- `cluster/`: several processes that share one store: who works on which session, and on what else
- `context/`: what the model sees: from a conversation and an agent to a request that fits
- `delivery/`: what is pending for people outside: the port of channels, and the worker that
  calls it
- `errors/`: errors of the core
- `events/`: what can happen to a session, by subject
- `journal/`: where sessions are kept: on disk (`files`), or in memory for tests and passing turns
  (`memory`)
- `model/`: the values a conversation is made of, by subject
- `ports/`: what the core asks of the world, by subject: each of it is a protocol or a value of one
- `protocol/`: what can be asked of a session, and what is told of it: commands, the mailbox, the
  feed
- `service/`: the one entry point to sessions: what callers import
- `session/`: one conversation: its actor, who finds and starts it, and a message's way to its
  answer
- `state/`: what a session is, as values: its state, the outbox, the queue
- `turn/`: one turn: the loop of model calls and tool calls, approvals, and summaries beside it
"""
