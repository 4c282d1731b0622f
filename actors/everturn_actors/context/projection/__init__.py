"""The history as messages that a request could show, and what was reduced of them. Pure.

- `arguments`: making the arguments of a call shorter, so that they stay the JSON of an object
- `grouping`: groups the flat messages of an imported history into blocks
- `markers`: what the default policy puts in the place of what it hides: short, and it says how to
  ask
- `projection`: what a policy works on: a conversation as blocks, and what became of each of its
  messages
- `reductions`: what stands in a session, as a projection, and what a stage did to it, as an event
- `results`: making one text shorter, with a marker that says so
- `turns`: the blocks a conversation is cut into
"""
