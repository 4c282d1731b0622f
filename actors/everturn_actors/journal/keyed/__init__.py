"""Small values by key: in files of the workspace (`files`), or in memory (`memory`).

- `checks`: what all stores of values look at before they write
- `draft`: the draft of a file: what takes its place, and the lock of whoever writes
- `files`: values by key in files of the workspace: the key is the path, and people may look at them
- `lines`: files of lines that are appended to
- `memory`: values by key in memory, with the semantics of those on disk
- `whole`: files that are kept whole
"""

from everturn_actors.journal.keyed.files import FileKeyedStore
from everturn_actors.journal.keyed.memory import MemoryKeyedStore

__all__ = ["FileKeyedStore", "MemoryKeyedStore"]
