"""A file of SQLite that holds nothing but what can be read again elsewhere.

It is never synced: what a loss of power damages is put away and made anew, as is what another
version wrote. Blocking; may be used from several threads.

Source: https://www.sqlite.org/pragma.html: without syncs a database is damaged by a loss of power,
not by the end of a process (read 2026-11-22).
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

_FILE_MODE: Final = 0o600  # whose sessions these are, and what was said, is nobody else's
_BUSY_S: Final = 1.0


class CacheError(Exception):
    """The cache cannot be used now; the next use opens it again, or makes it anew."""


class Layout(Struct, frozen=True, kw_only=True):
    """What stands in a cache."""

    version: int
    "Of the schema; a file of another one is made anew."
    tables: tuple[str, ...]
    "All of them, for when that is done."
    schema: str
    pragmas: tuple[str, ...]
    "Said with each opening: `journal_mode = WAL`."


class SqliteCache:
    """The file; it is opened with its first use. Subclasses say what is asked of it."""

    def __init__(self, path: Path | None, layout: Layout) -> None:
        """Begin with nothing open.

        Args:
            path: The file; None = in memory, for as long as this lives.
            layout: What stands in it.
        """
        self._path, self._layout = path, layout
        self._mutex = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @property
    def is_open(self) -> bool:
        """Whether it was used already."""
        return self._connection is not None

    def close(self) -> None:
        """Close the file; another use opens it again."""
        with self._mutex:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def remove(self) -> None:
        """Remove the file: the next use makes it anew."""
        with self._mutex:
            self._put_away()

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Hold the cache for a block, which takes effect as a whole.

        Raises:
            CacheError: It cannot be read or written; where SQLite said so, it is removed.
        """
        with self._mutex:
            try:
                database = self._connection or self._open()
                with database:
                    yield database
            except sqlite3.Error as error:
                # A full disk says the same as damage; making it anew is right for both.
                self._put_away()
                message = f"{self._path}: {error}"
                raise CacheError(message) from error
            except OSError as error:  # the folder could not be read, or no file be made
                message = f"{self._path}: {error}"
                raise CacheError(message) from error

    def _open(self) -> sqlite3.Connection:
        if self._path is not None:
            # Made here: private, whatever the umask says, and so is SQLite's journal.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, _FILE_MODE))
        place = ":memory:" if self._path is None else self._path
        database = sqlite3.connect(place, check_same_thread=False, timeout=_BUSY_S)
        try:
            for pragma in ("locking_mode = EXCLUSIVE", "synchronous = OFF", *self._layout.pragmas):
                database.execute(f"PRAGMA {pragma}")
            with closing(database.execute("PRAGMA user_version")) as found:
                (version,) = found.fetchone()
            if version != self._layout.version:
                for name in self._layout.tables:
                    database.execute(f"DROP TABLE IF EXISTS {name}")
                database.executescript(self._layout.schema)
                database.execute(f"PRAGMA user_version = {self._layout.version:d}")
        except BaseException:
            database.close()
            raise
        self._connection = database
        return database

    def _put_away(self) -> None:
        """Close and remove the file."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None
        if self._path is not None:
            for suffix in ("", "-journal", "-wal", "-shm"):
                with suppress(OSError):
                    self._path.with_name(self._path.name + suffix).unlink()
