"""Whisper on this machine, in a process of its own.

- `engine`: has a process hear, one file after the other
- `program`: hears files with Whisper: the process itself, which needs nothing of the gateway
"""
