"""What a session is, as values: its state, the outbox, the queue. Pure.

Whatever makes state from events, or events into text and back, belongs here.
"""
