"""Files that the gateway writes for itself: readable for its owner alone, and never half written.

Not for the event loop.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


def write_private(path: Path, data: bytes) -> None:
    """Put `data` in the place of `path`: after a crash the old file stands there or the new one.

    Two writers of one path would spoil each other's draft: the caller lets one finish first.

    Raises:
        OSError: It could not be written; the old file still stands.
    """
    draft = path.with_name(f"{path.name}.tmp")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def put_aside(path: Path) -> Path:
    """Rename a damaged file to a free name beside it, so that nothing overwrites it.

    Returns:
        Its new name, or the old one where it has to stay.
    """
    aside = path.with_name(f"{path.name}.damaged")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{number}")
    try:
        path.rename(aside)
    except OSError:
        return path
    return aside
