"""What the boundaries around our own and others' code need to know of an exception. Pure of IO."""

from __future__ import annotations

import errno
from math import inf
from pathlib import Path
from typing import Final

import anyio

from everturn_actors.errors import ActorStoppedError, CoreError, OutOfFilesError, is_group

BROKEN_STREAM: Final = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    OSError,
)
"What a stream raises whose other end is gone."

_NO_FILES: Final = frozenset((errno.EMFILE, errno.ENFILE))


def is_cancelled() -> bool:
    """Whether the current task was called off, by its owner or by a deadline.

    Without that a cancellation comes from inside: a library cancelled work of its own and let the
    exception out. Such a one is a fault like any other; passed on, it would end the task unnoticed.
    """
    return anyio.current_effective_deadline() == -inf


def kind_of(error: BaseException) -> str:
    """Return what a person is told of a failure.

    Errors of the core say who has to act. Of any other the kind alone is told: its text was written
    for whoever debugs, and may hold a secret. The log has it, with the traceback.
    """
    cause = first_cause(error)
    if isinstance(cause, CoreError):
        return str(cause)
    return (
        f"{type(cause).__name__}, a fault in the program and not in the message;"
        " the log of the gateway tells more"
    )


def first_cause(error: BaseException) -> BaseException:
    """Return the first failure of what may be a group; that an actor stopped is never the cause.

    Where a file or a connection could not be opened for want of descriptors, that is told as what
    it is, wherever it was met: it passes, and is no fault of the program.
    """
    if is_group(error):
        causes = [first_cause(leaf) for leaf in error.exceptions]
        return next((c for c in causes if not isinstance(c, ActorStoppedError)), causes[0])
    return (out_of_files(error) if isinstance(error, OSError) else None) or error


def out_of_files(error: OSError, path: Path | None = None) -> OutOfFilesError | None:
    """Return `error` in the words of an operator where no descriptor was left; None elsewhere.

    Args:
        error: What opening a file or a connection failed of.
        path: The file; by default the one that the error names.
    """
    if error.errno not in _NO_FILES:
        return None
    if path is None and isinstance(error.filename, str):
        path = Path(error.filename)
    name = errno.errorcode[error.errno or 0]
    why = (
        f"too many files and connections are open ({name}); try again, and raise the limit"
        " (`ulimit -n`, LimitNOFILE)"
    )
    found = OutOfFilesError(why, path=path)
    found.__cause__ = error
    return found
