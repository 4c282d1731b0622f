"""What was said, found again: the index over the logs, and what may be shown of its matches.

One search stands behind `recall_context`, `/search`, `everturn sessions search`, the console and
HTTP. The index is a cache beside the sessions; every match is read from the log before it is shown.

- `finding`: what the index names, read from the logs, and only what may be shown
- `index`: keeps the index of what was said up to the logs: behind the turns, and from the logs
  themselves
- `logs`: the logs of what was found, as a service reads them, or as a store has them
- `sources`: what the index is made of: sessions of a store, and their events as its table has them
- `standing`: messages as they stand by the rest of their log: their writers may have changed or
  deleted them
- `table`: the index of what was said, in a file of its own: SQLite FTS5
- `texts`: what an event says, for the index and for whoever shows what was found
- `words`: texts as the index holds them, and questions as it is asked them
"""
