"""Where sessions live, and all else that a gateway keeps."""

from __future__ import annotations

from typing import Protocol

from everturn_actors.ports import KeyedStore, SessionStore


class Store(SessionStore, Protocol):
    """Keeps sessions, and beside them small values by key: pairing, tokens, usage, run logs.

    To write one:

    1. Implement every method of `everturn_actors.ports.SessionStore`; its docstrings are the
       durability contract. What matters most: `append` returns only when the events survive a
       crash of the machine, writes all of them or none, and refuses with `FencedError` a caller
       who does not know the last number.
    2. Have an attribute `keyed`, a `everturn_actors.ports.KeyedStore`: values that are replaced by
       compare-and-set, and lines that are appended to.
    3. Give `open_gateway` a function without arguments that opens it as an async context manager:
       `open_gateway(..., store=open_my_store)`. It is opened once, before anything else of the
       gateway, and closed last.
    4. Only one gateway may use a store at a time: refuse a second one with `WorkspaceLockedError`.
    5. Hold it to its contracts: `everturn.testing.StoreContract` and `KeyedStoreContract`. They
       open, close and open again, and compare what is there.

    What belongs to one machine stays in the workspace: files of agents, processes, weights.
    """

    @property
    def keyed(self) -> KeyedStore:
        """What is kept beside sessions."""
        ...
