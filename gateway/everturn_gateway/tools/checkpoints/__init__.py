"""What a workspace was before a turn changed it, so that the turn can be taken back.

- `scan`: reads a workspace: which files it has, and what they hold
- `store`: the checkpoints of one workspace on disk
- `values`: what is written down of a turn that changed files
- `workspaces`: the checkpoints of workspaces: made around calls that may change files, and taken
  back
"""

from __future__ import annotations

from everturn_gateway.tools.checkpoints.store import CheckpointStore, UnknownCheckpointError
from everturn_gateway.tools.checkpoints.values import Change, Checkpoint, FileState, Undone
from everturn_gateway.tools.checkpoints.workspaces import CheckpointedWorkspaces, Checkpoints

__all__ = [
    "Change",
    "Checkpoint",
    "CheckpointStore",
    "CheckpointedWorkspaces",
    "Checkpoints",
    "FileState",
    "Undone",
    "UnknownCheckpointError",
]
