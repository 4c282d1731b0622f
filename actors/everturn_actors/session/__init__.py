"""One conversation: its actor, who finds and starts it, and a message's way to its answer.

What belongs here runs while a session is active, or looks after sessions that are not.
"""
