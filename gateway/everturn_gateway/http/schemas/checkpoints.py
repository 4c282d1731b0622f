"""Turns that changed files, and what was taken back of them: bodies of answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from everturn_actors.state.serialization import utc_text
from everturn_gateway.errors import printable
from everturn_gateway.http.schemas.base import Body
from everturn_gateway.tools.checkpoints import Change, Checkpoint, Undone


class ChangedFileBody(Body):
    """One file that a turn changed."""

    path: str = Field(description="As seen from the agent's workspace.")
    change: Literal["added", "changed", "deleted"]

    @staticmethod
    def of(path: str, change: Change) -> ChangedFileBody:
        """Return the body of a change."""
        if change.before is None:
            return ChangedFileBody(path=printable(path), change="added")
        kind: Literal["changed", "deleted"] = "changed" if change.after else "deleted"
        return ChangedFileBody(path=printable(path), change=kind)


class CheckpointBody(Body):
    """A turn that changed files."""

    number: int = Field(description="Counts those of the workspace from 1.")
    session_id: str
    turn_id: str = Field(pattern=r"^t[0-9]+$")
    created_at: str = Field(description="When it was about to change something for the first time.")
    state: Literal["made", "undoing", "undone"] = Field(
        description="undoing: taking it back was cut short; asked again, it goes on."
    )
    files: tuple[ChangedFileBody, ...]
    not_kept: int = Field(description="Files more that it changed, of which nothing is kept.")

    @staticmethod
    def of(checkpoint: Checkpoint) -> CheckpointBody:
        """Return the body of a checkpoint."""
        return CheckpointBody(
            number=checkpoint.number,
            session_id=checkpoint.session_id,
            turn_id=f"t{checkpoint.turn}",
            created_at=utc_text(checkpoint.at),
            state=checkpoint.state,
            files=tuple(ChangedFileBody.of(*each) for each in sorted(checkpoint.changes.items())),
            not_kept=checkpoint.not_kept,
        )


class CheckpointList(Body):
    """Those of an agent's workspace."""

    checkpoints: tuple[CheckpointBody, ...] = Field(description="Newest first, at most 50.")


class CheckpointDetail(CheckpointBody):
    """One of them, with what changed."""

    diff: str = Field(description="A unified diff, shortened where it is long.")


class LeftFileBody(Body):
    """A file that was left as it is."""

    path: str
    reason: str


class UndoneBody(Body):
    """What was taken back."""

    checkpoint: CheckpointBody
    restored: tuple[str, ...] = Field(description="Files that are as they were before the turn.")
    left: tuple[LeftFileBody, ...] = Field(
        description="Files that were left as they are: others changed them since."
    )

    @staticmethod
    def of(undone: Undone) -> UndoneBody:
        """Return the body of what was taken back."""
        return UndoneBody(
            checkpoint=CheckpointBody.of(undone.checkpoint),
            restored=tuple(map(printable, undone.restored)),
            left=tuple(_left(undone)),
        )


def _left(undone: Undone) -> Iterator[LeftFileBody]:
    for path, reason in undone.left.items():
        yield LeftFileBody(path=printable(path), reason=printable(reason))
