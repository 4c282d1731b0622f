"""The store in a PostgreSQL database: `store: {type: postgres, url: ...}`.

`plugin` describes it and imports nothing heavy; `opening` puts it together. `database` is the one
way to the server, `schema` the tables, `writer` the group commit, `guard` what keeps a second
gateway out. `logs`, `lists` and `blobs` are the roles of `SessionStore`, `keyed` is `KeyedStore`.
Nothing else of Everturn knows asyncpg.

- `base`: what the roles of the store share
- `blobs`: large results and media in a table
- `database`: the one way to the server: connections, deadlines, and going on after an outage
- `examination`: what `doctor` says of a database: how it is set up, and whether each session can be
  read
- `faults`: what a database refuses, as what it means: whether it passes, and what its operator does
- `guard`: keeps a second gateway out of a schema, by a lock that ends with the connection that
  holds it
- `keyed`: values by key in a table
- `lists`: which sessions there are, and which of them are current or active, in tables
- `loading`: what the tables hold of one session, read and checked
- `logs`: logs and snapshots in tables
- `maintenance`: `Maintenance` in tables; see there for what each method promises
- `opening`: a database opened as a store: one gateway at a time, and commands beside it
- `plugin`: the description of the store in PostgreSQL
- `referee`: who works on what, where several gateways share a database: leases in two tables
- `rows`: values as the columns hold them
- `schema`: the tables, and how an older schema becomes this one
- `settings`: what `everturn.yaml` says of a database
- `transfer`: all that a schema keeps as bytes, for a move to another store or from one
- `writer`: group commit: all appends that wait become durable in one statement, which is one
  transaction
"""
