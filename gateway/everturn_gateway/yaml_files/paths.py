"""Paths in folders that people own: anything may stand there, and asking must not fail oddly."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_PASSING = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE))


def may_pass(error: OSError) -> bool:
    """Return whether a file that could not be read may be readable later, though it stays as it is.

    The system was short of something, or its disk was away.
    """
    return error.errno in _PASSING


def resolved(path: Path) -> Path:
    """Return a path with its links resolved, whether something is there or not.

    Raises:
        OSError: Links lead to themselves, a folder on the way may not be read, or it is no path.
            `Path.resolve` raises `RuntimeError` and `ValueError` for some of these.
    """
    try:
        return path.resolve()
    except RuntimeError as error:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error
    except ValueError as error:  # a NUL in its name
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path)) from error


def is_there(path: Path) -> bool:
    """Return whether a name stands in its folder, wherever it leads.

    A link that leads nowhere is there: whoever made it wanted something. So is what cannot be
    looked at: reading it says what is wrong.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True
