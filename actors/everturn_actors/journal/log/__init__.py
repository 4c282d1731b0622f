"""The log of a session: lines, files, archives, and where they lie.

- `archive`: what a session's archive has to hold, as its snapshot wrote it down, and what it does
  hold
- `codec`: one event, one line of `events.jsonl`
- `files`: reading a log: whole, its end, or from a given number on
- `layout`: which file is where in a workspace
"""
