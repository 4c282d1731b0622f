"""A PostgreSQL of the tests' own: real, on loopback, in a folder that is gone at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil
import pytest
from support.ports import free_port

from everturn_gateway.builtin.postgres.settings import PostgresSettings

_START_S: Final = 60.0


def _programs() -> Path | None:
    """Return the folder of initdb and postgres; the newest, where there are several."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent  # links may stand elsewhere, without their siblings
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    return max(folders, key=lambda each: int(each.parent.name), default=None)


PROGRAMS: Final = _programs()
# Continuous integration must not pass without them.
needs_database = pytest.mark.skipif(
    PROGRAMS is None and "CI" not in os.environ,
    reason="no PostgreSQL: apt-get install postgresql",
)
_HBA: Final = """\
host all locked 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
"""
_QUICK: Final = ("fsync=off", "full_page_writes=off")
"No test takes the power away."


class Server:
    """A server that can be killed, and started again on what it left."""

    def __init__(
        self, folder: Path, *, is_quick: bool = True, copy_of: Server | None = None
    ) -> None:
        """Make its files.

        Args:
            folder: For them.
            is_quick: Do without the syncs that only a loss of power needs.
            copy_of: The primary of which it is a standby; None = it is none.
        """
        assert PROGRAMS is not None, "no PostgreSQL"
        self._folder, self._is_quick = folder, is_quick
        # As root, PostgreSQL runs as somebody else.
        other = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._uid = other.pw_uid if other else None
        self._gid = other.pw_gid if other else None
        if other is not None:
            os.chown(folder, other.pw_uid, other.pw_gid)
        self._data, self.port = folder / "data", free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if copy_of is not None:
            self._run("pg_basebackup", "-D", self._data, "-R", "-X", "stream", "-c", "fast",
                      "--no-sync", "-d", copy_of.url())  # fmt: skip
            return
        self._run("initdb", "-D", self._data, "-U", "everturn", "-A", "trust", "-E", "UTF8",
                  "--locale=C", "--no-sync")  # fmt: skip
        (self._data / "pg_hba.conf").write_text(_HBA)

    def url(self, user: str = "everturn", database: str = "postgres") -> str:
        """Return the address of a database there; `user` may hold a password."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}?sslmode=disable"

    def section(self, schema: str, **more: object) -> PostgresSettings:
        """Return the settings of a store in a schema."""
        found = {"url": self.url(), "schema": schema, "connections": 3, **more}
        return PostgresSettings.model_validate(found)

    def start(self, *settings: str) -> None:
        """Start it; it takes connections when this returns."""
        assert PROGRAMS is not None
        names = ("listen_addresses=127.0.0.1", f"unix_socket_directories={self._folder}",
                 f"port={self.port}", "max_connections=40", "shared_buffers=16MB", "jit=off",
                 "max_wal_senders=4", "wal_retrieve_retry_interval=500ms", "max_wal_size=64MB",
                 "min_wal_size=32MB")  # fmt: skip
        quick = _QUICK if self._is_quick else ()
        options = [part for each in (*names, *quick, *settings) for part in ("-c", each)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAMS / "postgres", "-D", self._data, *options],
                stdout=subprocess.DEVNULL,
                stderr=log,
                user=self._uid,
                group=self._gid,
            )
        deadline = time.monotonic() + _START_S
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a crash of the machine would, all its processes at once."""
        if self._process is not None and self._process.poll() is None:
            server = psutil.Process(self._process.pid)
            for each in (server, *server.children()):
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            self._process.wait()
        self._process = None

    def stop(self) -> None:
        """Ask it to stop."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # "fast": connections are closed
            self._process.wait(_START_S)
            self._process = None

    def promote(self) -> None:
        """Make a standby the primary."""
        self._run("pg_ctl", "promote", "-D", self._data)

    @property
    def is_running(self) -> bool:
        """Whether its first process lives."""
        return self._process is not None and self._process.poll() is None

    def sleeper(self, for_s: float) -> subprocess.Popen[bytes]:
        """Take a connection, and keep it for a while."""
        assert PROGRAMS is not None
        asked = [str(PROGRAMS / "psql"), "-qX", "-c", f"SELECT pg_sleep({for_s})", self.url()]
        return subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def psql(self, statement: str, database: str = "postgres") -> str:
        """Do something there; return what it prints."""
        return self._run("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", statement,
                         self.url(database=database))  # fmt: skip

    def dump(self, schema: str) -> str:
        """Return a schema as `pg_dump` writes it."""
        return self._run("pg_dump", "--schema", schema, self.url())

    def _answers(self) -> bool:
        assert PROGRAMS is not None
        asked = (str(PROGRAMS / "pg_isready"), "-q", "-d", self.url())
        return subprocess.run(asked, check=False).returncode == 0

    def _run(self, program: str, *args: str | Path) -> str:
        assert PROGRAMS is not None
        done = subprocess.run(
            [PROGRAMS / program, *args],
            capture_output=True,
            check=False,
            user=self._uid,
            group=self._gid,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()


@contextmanager
def running_server(*settings: str, is_quick: bool = True) -> Generator[Server]:
    """Run a server for a block.

    Args:
        settings: Of `postgresql.conf`, `name=value`.
        is_quick: Do without the syncs that only a loss of power needs.
    """
    folder = Path(tempfile.mkdtemp(prefix="everturn-database-"))
    try:
        server = Server(folder, is_quick=is_quick)
        try:
            server.start(*settings)
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder)
