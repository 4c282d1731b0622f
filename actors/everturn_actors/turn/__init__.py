"""One turn: the loop of model calls and tool calls, approvals, and summaries beside it.

What belongs here acts for a turn and knows nothing of the actor that started it.

- `call_status`: what a running model call waits for, told by whoever holds it up to whoever shows
  the reply
- `compaction`: has older turns of a session summarised: one summary at a time, beside the turns
- `counting`: what the next request costs, asked of its provider where that decides what is hidden
- `loop`: the only agentic loop there is: call the model, run what it asks for, until it has
  answered
- `media`: the bytes of the images that a session's next request shows, read from its store
- `model_call`: one model call of a turn: what is sent, how often, and what is learnt from it
- `model_retry`: when a model that gave no reply is called again: at once a few times, then ever
  later
- `model_statistics`: what was learnt about models, where it need not survive the process
- `observer_boundary`: the boundary around an observer: what it makes of what it is told never
  reaches a session
- `provider_boundary`: the boundary around one call of a model: whatever goes wrong behind it is a
  `ModelError`
- `recollection`: what a turn is reminded of before its first call: notes, and older messages that
  fit
- `replay`: finds a past request in a session's log, and makes it again from the state it came from
- `reply_flaws`: what is wrong with a reply: withheld, empty, calls that cannot be read, another
  form
- `summaries`: has a model write a summary, within bounds; what no model writes is a digest
- `voice/`: what people said is heard before a turn, and its answer is spoken at its end
- `calls/`: the calls of one reply: the agent's gate, the people who are asked, the runs and their
  results
"""
