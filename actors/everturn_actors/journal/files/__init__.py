"""The file store: plain files in a workspace, one folder for each session.

`open_file_store` is the only way to get one. It holds the workspace's lock, owns the writer task,
and lets go of both at its end. The store is made of three roles: logs, lists, and large texts.

- `base`: what the roles of the file store share: the workspace, its lock, and worker threads
- `blobs`: large results and media in files
- `lists`: which sessions there are, and which of them are current or active, in files
- `logs`: logs and snapshots in files
- `maintenance`: `Maintenance` on plain files; see there for what each method promises
- `transfer`: all that a workspace keeps as bytes, for a move to another store or from one
"""

from __future__ import annotations

from everturn_actors.journal.files.blobs import FileBlobs
from everturn_actors.journal.files.lists import FileIndex
from everturn_actors.journal.files.logs import FileLogs

__all__ = ["FileStore"]


class FileStore(FileLogs, FileIndex, FileBlobs):
    """`SessionStore` on plain files; see there for what each method promises.

    What the contract leaves open:

    * An append that was queued is written, also where its caller is cancelled meanwhile.
    * A crash in the middle of an append may leave its first events in the log: they were never
      acknowledged, and each prefix of a log is a log.
    * Where a log ends is kept in memory until `mark_passive`, and read from the file again then.
    """
