"""Where sessions are kept: on disk (`files`), or in memory for tests and passing turns (`memory`).

Only the composition root chooses between them; everything else knows `ports.SessionStore`.
"""
