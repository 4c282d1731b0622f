"""Where the traceback of an unexpected error is kept, so that a person need not read it."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from pathlib import Path

from everturn_gateway.logs import SecretRegistry
from everturn_gateway.workspace_files import LOG_NAME


class CrashLog:
    """The log file of this process."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        "The workspace, as soon as it is known."
        self.debug = False
        "Whether tracebacks go to the terminal instead."
        self.secrets = SecretRegistry()
        "What no traceback, and nothing else that this process writes, may show."

    def write(self, error: BaseException) -> Path | None:
        """Append the traceback of `error` to the log; return the file.

        None where it went to the terminal, or could not be written at all.
        """
        text = self.secrets.mask("".join(traceback.format_exception(error)))
        if self.debug:
            sys.stderr.write(text)
            return None
        if self.folder is not None and self.folder.is_dir():
            path = self.folder / LOG_NAME
            try:
                log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
                return _append(log, path, text)
            except OSError:
                pass  # the workspace may be what is broken, or its disk is full
        try:
            log, name = tempfile.mkstemp(prefix="everturn-", suffix=".log")
            return _append(log, Path(name), text)
        except OSError:
            return None


def _append(log: int, path: Path, text: str) -> Path:
    with os.fdopen(log, "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path


crash_log = CrashLog()
