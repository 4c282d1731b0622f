"""What the roles of the store share."""

from __future__ import annotations

from pathlib import Path

from everturn_actors.errors import UnknownSessionError
from everturn_actors.ids import is_session_id
from everturn_gateway.builtin.postgres.database import Database
from everturn_gateway.builtin.postgres.writer import Writer


class OnDatabase:
    """One schema, as all roles of the store see it."""

    def __init__(
        self, database: Database, writer: Writer, *, results_max_bytes: int, media_max_bytes: int
    ) -> None:
        """Take what was opened."""
        self._database, self._writer = database, writer
        self._limits = {"result": results_max_bytes, "media": media_max_bytes}


def where(database: Database, table: str, session_id: str) -> Path:
    """Return where rows stand, as errors name it."""
    return Path(f"{database.schema}.{table}", session_id)


def checked(session_id: str) -> str:
    """Return a session id.

    Raises:
        UnknownSessionError: It is none.
    """
    if not is_session_id(session_id):
        raise UnknownSessionError(session_id)
    return session_id
