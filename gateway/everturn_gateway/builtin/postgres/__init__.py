"""The store in a PostgreSQL database: `store: {type: postgres, url: ...}`.

`plugin` describes it and imports nothing heavy; `opening` puts it together. `database` is the one
way to the server, `schema` the tables, `writer` the group commit, `guard` what keeps a second
gateway out. `logs`, `lists` and `blobs` are the roles of `SessionStore`, `keyed` is `KeyedStore`.
Nothing else of Everturn knows asyncpg.
"""
