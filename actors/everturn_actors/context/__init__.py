"""What the model sees: from a conversation and an agent to a request that fits. Pure.

Start reading at `render`; `window` bounds what a session holds, `budget` what a request holds.
"""
