"""Where sessions are kept: on disk (`files`), or in memory for tests and passing turns (`memory`).

Small values beside them live in `keyed`.

Only the composition root chooses between them; everything else knows `ports.SessionStore` and
`ports.KeyedStore`.
"""
