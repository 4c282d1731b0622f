"""Files of a person at a terminal, on their way into a conversation."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from anyio.to_thread import run_sync

from everturn_actors.errors import InvalidInputError
from everturn_actors.model import Upload
from everturn_actors.state.validation import ATTACHMENT_BYTES, check_uploads, sniffed


class Basket:
    """The files that go with the next message."""

    def __init__(self) -> None:
        """Begin empty."""
        self.uploads: tuple[Upload, ...] = ()

    async def obey(self, path: str) -> str:
        """Do what `/attach` asks for; return what to tell the person.

        Args:
            path: The file to add; empty = all that wait are put back.

        Raises:
            InvalidInputError: It cannot be read, or not be sent.
        """
        if not path:
            had, self.uploads = len(self.uploads), ()
            return f"({had} put back)" if had else "(/attach FILE sends a file with your message)"
        upload = await read_upload(path)
        check_uploads((*self.uploads, upload))
        self.uploads = (*self.uploads, upload)
        return f"(goes with your next message: {', '.join(u.file_name for u in self.uploads)})"

    def empty(self) -> None:
        """Forget what was sent."""
        self.uploads = ()


async def read_upload(path: str) -> Upload:
    """Read a file to be sent.

    Args:
        path: Where it is; `~` is the home folder, quotes around it are left out.

    Raises:
        InvalidInputError: It is no plain file, cannot be read, or cannot come with a message.
    """
    upload = await run_sync(_read, path)
    check_uploads([upload])
    return upload


def _read(path: str) -> Upload:
    file = Path(_unquoted(path.strip()))
    try:
        file = file.expanduser()
        if not file.is_file():  # a pipe would be waited for, a folder has no bytes
            why = "it is no file" if file.exists() else "there is none"
            msg = f"{path}: {why}"
            raise InvalidInputError(msg)
        with file.open("rb") as opened:
            data = opened.read(ATTACHMENT_BYTES + 1)
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        msg = f"{path}: it cannot be read: {reason}"
        raise InvalidInputError(msg) from error
    kind = sniffed(data) or mimetypes.guess_type(file.name)[0] or ""
    return Upload(data=data, media_type=kind, file_name=file.name)


def _unquoted(path: str) -> str:
    is_quoted = len(path) > 1 and path[0] == path[-1] and path[0] in {"'", '"'}
    return path[1:-1] if is_quoted else path
