"""The core of Everturn: sessions, their journal, the turn and what the model sees.

No network and no chat platform. Start reading at `service` (the entry point), `session` (the actor)
and `state` (the one transition function).
"""
