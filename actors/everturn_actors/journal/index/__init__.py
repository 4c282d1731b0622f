"""Which sessions there are, without reading them all.

- `activity`: a table of all sessions, by id and by their last activity: an index over the session
  folders
- `entries`: the two small indexes: sessions that may have an open turn, and the session of a
  conversation
- `listing`: which sessions there are, page by page, and which of them have been idle for long
- `rows`: what the index knows of a session, from its files or from an append
"""
