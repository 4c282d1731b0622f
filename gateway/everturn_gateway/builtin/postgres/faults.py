"""What a database refuses, as what it means: whether it passes, and what its operator does."""

from __future__ import annotations

from typing import Final

import asyncpg

from everturn_actors.errors import JournalError, JournalWriteError, StoreAwayError

LIBRARY_ERRORS: Final = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"All that the library raises. `TimeoutError` is an `OSError`."
_PASSES: Final = (
    OSError,
    asyncpg.InterfaceError,  # the connection was closed
    # No host is a primary now; or the connection broke in a way that the library did not foresee,
    # as while a standby is promoted.
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.QueryCanceledError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,  # a primary that became a standby: another one comes
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
"What an outage looks like from here."

_ADVICE: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (
        asyncpg.InvalidPasswordError,
        "it refuses this user and password; set them right in store.url of everturn.yaml",
    ),
    (
        asyncpg.InvalidAuthorizationSpecificationError,
        "it refuses this user; set store.url of everturn.yaml right, or pg_hba.conf of the server",
    ),
    (
        asyncpg.InvalidCatalogNameError,
        "the server has no database of this name; create it (createdb), or set store.url right",
    ),
    (
        asyncpg.TooManyConnectionsError,
        (
            "the server takes no more connections; raise its max_connections, or set"
            " store.connections lower where several programs share it"
        ),
    ),
    (
        asyncpg.CannotConnectNowError,
        "the server is starting up or shutting down; try again when it is ready",
    ),
    (
        asyncpg.InsufficientPrivilegeError,
        (
            "its user may not do this; grant it CREATE on the database, or make it the owner of the"
            " schema"
        ),
    ),
    (
        asyncpg.ReadOnlySQLTransactionError,
        (
            "it is read-only (a standby?); name the primary in store.url, or several hosts and"
            " target_session_attrs=read-write"
        ),
    ),
    (asyncpg.DiskFullError, "the disk of the server is full; make room there"),
    (
        asyncpg.TargetServerAttributeNotMatched,
        "none of its hosts takes writes now; promote one, or name the primary in store.url",
    ),
    (TimeoutError, "it does not answer in time; see whether the server and the way to it are up"),
    (
        OSError,
        "it cannot be reached; start the server, or set store.url of everturn.yaml right",
    ),
)


def passes(error: BaseException) -> bool:
    """Return whether what failed may succeed when the database is back."""
    is_mistake = isinstance(error, asyncpg.ClientConfigurationError)
    return isinstance(error, _PASSES) and not is_mistake


def explained(error: BaseException, place: str, *, is_write: bool = False) -> JournalError:
    """Return an error of the library as one line: where, what is wrong, and what to do.

    Args:
        error: What the library raised.
        place: The database, without its password.
        is_write: Whether something was to be kept, which was not.
    """
    away = JournalWriteError if is_write else StoreAwayError
    for known, advice in _ADVICE:
        if isinstance(error, known):
            return away(f"the database {place}: {advice}{_said(error)}")
    if passes(error):
        return away(f"the connection to the database {place} broke{_said(error)}")
    kind = JournalWriteError if is_write else JournalError
    return kind(f"the database {place} failed{_said(error)}")


def _said(error: BaseException) -> str:
    """Return what the library said, on one line; nothing where that says nothing."""
    text = " ".join(str(error).split())
    return f" ({text or type(error).__name__})"
