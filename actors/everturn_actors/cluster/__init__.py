"""Several processes that share one store: who works on which session, and on what else.

`partitions` and `leases` are pure; `ownership` asks the referee, which is the store. A process that
is alone loads none of it (`ports.ownership.LocalOwnership`).
"""
