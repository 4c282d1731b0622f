"""The suite that holds a store to its contract."""

from __future__ import annotations

from everturn.testing._store_lists import ListContract
from everturn.testing._store_logs import LogContract
from everturn.testing._store_results import ResultContract


class StoreContract(LogContract, ResultContract, ListContract):
    """Holds a store to `everturn_actors.ports.SessionStore`.

    1. Subclass it in a test module, under a name that begins with `Test`.
    2. Implement `open_store`: it opens the store on what the last one of the same test left.
       `self.folder` is an empty folder of the test.

    >>> class TestMyStore(StoreContract):
    ...     def open_store(self):
    ...         return open_my_store(self.folder / "sessions.db")
    """
