"""The mark of one file: an extended attribute with the sources of its text. Blocking.

It belongs to the file, not to its name: it stays over renames and hard links, and ends with the
file. A file that takes the place of another has none of its own.
Source: xattr(7), setxattr(2): `user.` attributes are for plain files and need the right to write
(Linux man-pages, read 2026-11-23).
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from everturn_actors.json_values import is_list
from everturn_actors.outside import one_source, together
from everturn_gateway.late_loading import late_pattern

ATTRIBUTE: Final = "user.everturn.outside"
INBOX: Final = "inbox"  # in an agent's workspace: what people sent, all of it from outside
_SENT: Final = "a file that was sent here"
_UNREADABLE: Final = "text whose mark cannot be read"
_NO_MARK: Final = frozenset((errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP))
_OF_A_FILE: Final = late_pattern(r"\Athe file .*?, with text from: ", re.DOTALL)


def file_source(path: str, sources: Iterable[str]) -> str:
    """Return in words what text from outside a file holds.

    >>> file_source("a.md", ["the page https://example.org"])
    'the file a.md, with text from: the page https://example.org'
    """
    return one_source(f"the file {path}, with text from: {', '.join(sources)}")


def read_mark(file: int | str, inside: str = "") -> tuple[str, ...]:
    """Return the sources of the text from outside in a file; empty = there is none.

    Where it has no mark, and stands in the inbox, it was sent by somebody. One that the owner
    trusts has an empty mark, also there.

    Args:
        file: An open file, or its path; a link is not followed.
        inside: Where it is, as seen from the workspace.

    Raises:
        OSError: It is not there.
    """
    if sys.platform == "linux":
        try:
            # One that is open has been followed already.
            data = os.getxattr(file, ATTRIBUTE, follow_symlinks=isinstance(file, int))
        except OSError as error:
            if error.errno not in _NO_MARK:
                raise
        else:
            return _read(data)
    return (_SENT,) if inside.startswith(f"{INBOX}/") else ()


def add_mark(fd: int, sources: Iterable[str]) -> bool:
    """Add sources to the mark of an open file; return whether the file system keeps marks.

    A file that nobody may write, as git keeps its objects, is writable for that moment.

    Raises:
        OSError: It belongs to somebody else, or the disk is full.
    """
    if sys.platform != "linux":
        return False
    try:
        before = _read(os.getxattr(fd, ATTRIBUTE))
    except OSError:
        before = ()
    plain = (_OF_A_FILE.sub("", each) for each in sources)  # not a file of a file of a file
    return _set(fd, together(plain, before))


def trust(fd: int) -> bool:
    """Say of an open file that its owner trusts it; return whether the file system keeps that.

    Raises:
        OSError: As `add_mark`.
    """
    return sys.platform == "linux" and _set(fd, ())


def keeps_marks(folder: Path) -> bool:
    """Return whether files in a folder keep marks; one is made there and removed.

    Raises:
        OSError: No file can be made.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        return _set(file.fileno(), ())


def _set(fd: int, sources: tuple[str, ...]) -> bool:
    if sys.platform != "linux":
        return False
    data = json.dumps(sources, ensure_ascii=False).encode("utf-8", "replace")
    try:
        os.setxattr(fd, ATTRIBUTE, data)
    except OSError as error:
        if error.errno in _NO_MARK:
            return False
        if error.errno not in {errno.EACCES, errno.EPERM}:
            raise
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        os.fchmod(fd, mode | stat.S_IWUSR)
        try:
            os.setxattr(fd, ATTRIBUTE, data)
        finally:
            os.fchmod(fd, mode)
    return True


def _read(data: bytes) -> tuple[str, ...]:
    """Read a mark, whoever wrote it."""
    value: object = None
    with suppress(ValueError):
        value = json.loads(data)
    if not is_list(value):
        return (_UNREADABLE,)
    return together(one_source(str(each)) for each in value)
