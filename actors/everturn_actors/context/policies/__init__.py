"""Context policies: what a request leaves out or shortens, and in which order. Pure.

- `baseagent`: the `baseagent` policy: cut each result in its middle, prune old ones, summarise
- `duragent`: the `duragent` policy: which blocks a request keeps, and how large they may be
- `everturn`: the `everturn` policy, which is the default
- `jutul`: the `jutul` policy: evict one large result, clear old ones, summarise: cheapest first
- `native`: the `native` policy: as `everturn`, with summaries that the provider makes itself
- `picoclaw`: the `picoclaw` policy: summarise after a turn, drop whole turns before a call
"""
