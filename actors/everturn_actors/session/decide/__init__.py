"""What an actor does about commands: pure functions from a state and commands to a decision.

One module for each subject; `decider` puts them together. What they say is carried out by the
actor: it makes the events durable, answers, and starts the effects.

- `decider`: `decide`: what becomes of commands, all of them in one append
- `decision`: what is decided, and what it is decided by: values that pass between the decider and
  the actor
- `messages`: messages: said to the agent, beside it, or in its name
- `records`: what is told beside the conversation: deliveries, summaries, approvals, labels
- `session_end`: the end of a session, and who else may see it
- `turns`: the life of a turn: begun, resumed, asked again, paused, cancelled
"""
