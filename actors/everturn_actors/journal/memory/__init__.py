"""A store in memory, with the semantics of the one on disk; its disk can be made to fail."""

from everturn_actors.journal.memory.disk import Failure, MemoryDisk, PowerLostError, Stored
from everturn_actors.journal.memory.store import MemoryStore, open_memory_store

__all__ = [
    "Failure",
    "MemoryDisk",
    "MemoryStore",
    "PowerLostError",
    "Stored",
    "open_memory_store",
]
