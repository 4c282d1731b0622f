"""What a session is, as values: its state, the outbox, the queue. Pure.

Whatever makes state from events, or events into text and back, belongs here.

- `ambient`: what a turn is told of what was said before it and not to it, in words
- `apply`: `apply`: the one function that takes a session from one moment to the next
- `outbox`: what a session owes the people of its channel, and how it is told that they got it
- `queue`: the rules about messages that wait for a turn: how many, how long, and which go together
- `recovery`: bringing a session back: replay, and the events that close what a crash cut short
- `reports`: what is told of a session's context as plain dicts, for HTTP and the command line
- `serialization`: events as JSON, for whoever writes them down or sends them: the journal, HTTP
- `session_state`: what a session is at one moment
- `validation`: what comes in: whether it is a message, and a conversation that took place elsewhere
- `changes/`: what each kind of event changes in a session; `state.apply` chooses between them
"""
