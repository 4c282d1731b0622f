"""What is written down of a turn that changed files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from everturn_actors.codec import Timestamp, Value


class FileState(Value, frozen=True, kw_only=True, omit_defaults=False):
    """One file as it stood."""

    digest: str
    "Of its content, which is kept under this name."
    mode: int
    "Its permissions."
    mark: tuple[str, ...] = ()
    "The text from outside that it held, by source."

    def is_like(self, other: FileState | None) -> bool:
        """Return whether content and permissions are the same."""
        return other is not None and (self.digest, self.mode) == (other.digest, other.mode)


class Change(Value, frozen=True, kw_only=True):
    """What became of one file: None where there was none."""

    before: FileState | None = None
    after: FileState | None = None


class Checkpoint(Value, frozen=True, kw_only=True):
    """One turn that changed files."""

    number: int
    "Counts those of a workspace from 1."
    session_id: str
    turn: int
    at: Timestamp
    "When the turn was about to change something for the first time, UTC."
    changes: Mapping[str, Change] = {}
    "By path, as seen from the workspace."
    not_kept: int = 0
    "How many files more it changed, of which nothing is kept."
    state: Literal["made", "undoing", "undone"] = "made"
    "undoing: it is being taken back, or that was cut short."


class Undone(Value, frozen=True, kw_only=True):
    """What was taken back."""

    checkpoint: Checkpoint
    restored: tuple[str, ...] = ()
    "Files that are as they were before the turn."
    left: Mapping[str, str] = {}
    "Files that were left as they are, and why."
