"""What each kind of event changes in a session; `state.apply` chooses between them. Pure.

- `calls`: calls of the open step: asked about, begun, finished
- `deliveries`: what became of what is pending for people
- `messages`: messages that came, were replaced, or went unanswered; and what was said beside them
- `notes`: what the model is shown besides what is said: notes, quotes, pinned messages
- `reductions`: what is hidden from the model for good, and the summaries that tell of it
- `steps`: from one state to the next: what all events have in common
- `turns`: turns as they begin, go on and end, and the replies of the model in them
- `voice`: what was heard of people who speak, and said to them
"""
