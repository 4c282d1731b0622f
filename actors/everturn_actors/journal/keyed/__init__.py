"""Small values by key: in files of the workspace (`files`), or in memory (`memory`)."""

from everturn_actors.journal.keyed.files import FileKeyedStore
from everturn_actors.journal.keyed.memory import MemoryKeyedStore

__all__ = ["FileKeyedStore", "MemoryKeyedStore"]
