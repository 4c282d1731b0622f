"""Where sessions live."""

from __future__ import annotations

from typing import Protocol

from everturn_actors.ports import SessionStore


class Store(SessionStore, Protocol):
    """Keeps sessions: their journals, snapshots, and the indexes that are made from them.

    To write one:

    1. Implement every method of `everturn_actors.ports.SessionStore`; its docstrings are the
       durability contract. What matters most: `append` returns only when the events survive a
       crash of the machine, writes all of them or none, and refuses with `FencedError` a caller
       who does not know the last number.
    2. Give `open_gateway` a function without arguments that opens it as an async context manager:
       `open_gateway(..., store=open_my_store)`. It is opened once, before anything else of the
       gateway, and closed last.
    3. Only one gateway may use a store at a time: refuse a second one with `WorkspaceLockedError`.
    4. Hold it to its contract: `everturn.testing.StoreContract`. It opens, closes and opens again,
       and compares what is there.

    A store keeps sessions alone; usage, schedules and tokens are files of the gateway's workspace.
    """
