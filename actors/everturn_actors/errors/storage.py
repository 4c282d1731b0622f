"""What reading, writing and holding a workspace may fail of: its operator has to act."""

from __future__ import annotations

from pathlib import Path

from everturn_actors.errors.base import CoreError


class JournalError(CoreError):
    """The journal of a session cannot be used.

    Attributes:
        path: The file, where there is one.
    """

    def __init__(self, message: str, *, path: Path | None = None) -> None:
        self.path = path
        super().__init__(f"{path}: {message}" if path else message)


class CorruptJournalError(JournalError):
    """The journal has a hole, a damaged line before good ones, or is another session's."""


class UnknownFormatError(JournalError):
    """A file was written by another version of Everturn, in a format unknown to this one."""


class JournalWriteError(JournalError):
    """An event could not be written; it was not accepted, and nothing of it was kept."""


class OutOfFilesError(JournalWriteError):
    """This process, or the machine, has no file descriptor left; nothing was read or written.

    It passes when connections are closed: neither is the journal damaged nor the disk full.
    """


class FencedError(JournalError):
    """Another writer appended to this session; this one has to drop its state and load again."""


class StoreAwayError(JournalError):
    """The store cannot be asked now; nothing was read. It passes: what was asked can be again."""


class StaleReadError(JournalError):
    """The store does not show yet what is known to be durable; read again."""


class ConflictError(JournalError):
    """Another writer was faster: what is stored is not what this one started from."""


class DamagedValueError(JournalError):
    """What is stored is not what it should be."""


class WorkspaceLostError(JournalWriteError):
    """The lock of the workspace was removed or replaced while this process held it.

    Another process may use the workspace now: nothing more is written, and this one has to end.
    """

    def __init__(self, path: Path, *, why: str = "") -> None:
        """Say that the lock is lost.

        Args:
            path: The lock.
            why: In words, where it is no file that was removed.
        """
        super().__init__(
            why
            or "was removed or replaced while this process used the workspace. Another one may use"
            " it now, so this one takes nothing more and stops; what it accepted is on disk. Start"
            " it again, and leave the file alone: it does no harm where nothing runs",
            path=None if why else path,
        )


class WorkspaceLockedError(CoreError):
    """Another process uses this workspace.

    Attributes:
        path: The lock file.
        pid: The process that holds it, 0 where that cannot be read.
    """

    def __init__(self, path: Path, pid: int, *, message: str = "") -> None:
        """Say who has it.

        Args:
            path: The lock.
            pid: Of the process.
            message: In words, where it is no folder of this machine.
        """
        self.path, self.pid = path, pid
        super().__init__(
            message
            or f"{path.parent} is in use by process {pid or '(unknown)'}; "
            "stop it or choose another --workspace (beside `everturn serve` several commands work)"
        )


# --- about the model ---
