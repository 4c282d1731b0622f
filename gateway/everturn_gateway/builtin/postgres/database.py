"""The one way to the server: connections, deadlines, and going on after an outage."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import SplitResult, urlsplit

import anyio
import asyncpg
from asyncpg.pool import PoolConnectionProxy
from msgspec import Struct

from everturn_actors.errors import is_group
from everturn_actors.supervisor import Backoff
from everturn_gateway.builtin.postgres.faults import LIBRARY_ERRORS, explained, passes
from everturn_gateway.builtin.postgres.settings import PostgresSettings

T = TypeVar("T")

if TYPE_CHECKING:
    _Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Proxy: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
Work: TypeAlias = Callable[["Connection | Proxy"], Awaitable[T]]
"What is done with a connection. After an outage it is done again: the second time has to be known."

CONNECT_S: Final = 5.0  # while nothing answers, the system asks after 1, 3 and 7 s: begin anew
COMMAND_S: Final = 60.0  # a statement takes milliseconds; what takes longer hangs
PING_S: Final = 2.0
_START_S: Final = 10.0  # of a server that is just starting
_CLOSE_S: Final = 5.0
_HOST_S: Final = 0.25  # between two hosts, and two tries of one
_BACKOFF: Final = Backoff(first_s=0.05, longest_s=0.3)  # all wait for the one that is back
# What a server learns of a client whose machine is gone, after some 15 s instead of two hours.
# Source: https://www.postgresql.org/docs/current/runtime-config-connection.html (read 2026-11-26).
_SETTINGS: Final = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
}
# The same the other way: what is sent and not confirmed, or asked for and not answered by the
# machine at all, for so long ends the connection. A server that takes its time is waited for: its
# machine confirms. Source: tcp(7), TCP_USER_TIMEOUT (read 2026-11-27).
_LOST_S: Final = 3
_PROBES: Final = {
    "TCP_KEEPIDLE": 2,
    "TCP_KEEPINTVL": 1,
    "TCP_KEEPCNT": _LOST_S,
    "TCP_USER_TIMEOUT": _LOST_S * 1000,
}
"Options of a connection, where the system knows them."


class Attempt(Struct):
    """How often something was tried."""

    failures: int = 0

    @property
    def is_again(self) -> bool:
        """Whether an earlier try may have been done without its answer being heard."""
        return self.failures > 0


class Database:
    """One schema of one database. `open_database` opens it."""

    def __init__(self, settings: PostgresSettings, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        """Take what was opened."""
        self._settings, self._pool = settings, pool
        self.place = place_of(settings)
        "Where it is, for people."
        self.schema = settings.table_schema
        self.outage_s = 0.0
        "How long to go on trying while it is away: not at all, until somebody works with it."
        self.fault = ""
        "Why it could not be used the last time; empty = it could."

    async def connect(self, name: str) -> Connection:
        """Return a connection of one's own; `name` is shown in `pg_stat_activity`.

        Raises:
            Exception: As the library raises it; `faults` knows what it means.
        """
        return await _connect(self._settings, name)

    async def run(self, work: Work[T], *, is_write: bool = False) -> T:
        """Do something with a connection; where the database is away, again until it is back.

        Raises:
            JournalError: It stayed away, or refuses.
        """
        return await self.trying(lambda _attempt: self._with_connection(work), is_write=is_write)

    async def run_knowing(
        self, work: Callable[[Connection | Proxy, Attempt], Awaitable[T]], *, is_write: bool
    ) -> T:
        """Do the same with work that has to know whether it was tried before.

        Raises:
            JournalError: The database stayed away, or refuses.
        """

        async def once(attempt: Attempt) -> T:
            return await self._with_connection(lambda connection: work(connection, attempt))

        return await self.trying(once, is_write=is_write)

    async def trying(self, work: Callable[[Attempt], Awaitable[T]], *, is_write: bool = False) -> T:
        """Do something that opens what it needs; again while it fails as in an outage.

        Raises:
            JournalError: It fails still, or otherwise.
        """
        attempt, deadline = Attempt(), anyio.current_time() + self.outage_s
        while True:
            try:
                done = await work(attempt)
            except LIBRARY_ERRORS as error:
                told = explained(error, self.place, is_write=is_write)
                if passes(error):
                    self.fault = str(told)
                if not passes(error) or anyio.current_time() >= deadline:
                    raise told from error
            else:
                self.fault = ""
                return done
            attempt.failures += 1
            await anyio.sleep(_BACKOFF.pause_s(attempt.failures, random.random()))  # noqa: S311

    async def rows(self, query: str, *values: object) -> list[asyncpg.Record]:
        """Return all rows of a query; see `run`."""
        return await self.run(lambda connection: connection.fetch(query, *values))

    async def row(
        self, query: str, *values: object, is_write: bool = False
    ) -> asyncpg.Record | None:
        """Return the first row of a query; None where there is none."""
        return await self.run(
            lambda connection: connection.fetchrow(query, *values), is_write=is_write
        )

    async def value(self, query: str, *values: object, is_write: bool = False) -> Any:  # noqa: ANN401 - as its column says
        """Return the first column of the first row; None where there is none."""
        row = await self.row(query, *values, is_write=is_write)
        return None if row is None else row[0]

    async def execute(self, query: str, *values: object) -> None:
        """Change something; see `run`."""
        await self.run(lambda connection: connection.execute(query, *values), is_write=True)

    async def check(self) -> str:
        """Return why nothing can be kept now; empty where it can. Looks only where in doubt."""
        if not self.fault:
            return ""
        try:
            with anyio.fail_after(PING_S):
                await self._with_connection(lambda connection: connection.fetchval("SELECT 1"))
        except LIBRARY_ERRORS as error:
            return str(explained(error, self.place))
        self.fault = ""
        return ""

    async def _with_connection(self, work: Work[T]) -> T:
        async with self._pool.acquire(timeout=CONNECT_S) as connection:
            return await work(connection)


@asynccontextmanager
async def open_database(settings: PostgresSettings) -> AsyncGenerator[Database]:
    """Open connections to a database, and close them at the end.

    Raises:
        JournalError: It cannot be reached, or refuses; says what to do.
    """

    async def connect(*_parts: object, **_more: object) -> Connection:
        return await _connect(settings, "everturn")

    try:
        pool = asyncpg.create_pool(
            settings.url,
            min_size=0,  # with others, the library logs each try to have them while there is none
            max_size=settings.connections,
            connect=connect,
            reset=_leave_as_it_is,
        )
        _ = await pool  # opens none yet
        await _starting_up(pool)
    except (*LIBRARY_ERRORS, ValueError) as error:
        raise explained(error, place_of(settings)) from error
    try:
        yield Database(settings, pool)
    finally:
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_CLOSE_S) as closing:
                await pool.close()
            if closing.cancelled_caught:
                pool.terminate()


async def _leave_as_it_is(_connection: object) -> None:
    """Do nothing as a connection is given back: nobody changes its session.

    The library would ask the server to set everything back, a round trip each time.
    """


async def _starting_up(pool: asyncpg.Pool[asyncpg.Record]) -> None:
    """Open the first connection; a server that is just starting is waited for."""
    deadline = anyio.current_time() + _START_S
    while True:
        try:
            async with pool.acquire(timeout=CONNECT_S):
                return
        except asyncpg.CannotConnectNowError:
            if anyio.current_time() >= deadline:
                raise
            await anyio.sleep(_HOST_S)


async def _connect(settings: PostgresSettings, name: str) -> Connection:
    """Return a connection to the first host that takes it.

    The library asks one host after the other, and none behind one whose machine is gone, or that
    lets connect and hangs up. So each is asked by itself, a moment after the one before, and again
    as long as another one has not answered.
    """
    urls = hosts_of(settings.url)
    if len(urls) == 1:
        return await _connect_to(urls[0], settings, name)
    found: list[Connection] = []
    failures: dict[str, BaseException] = {}

    async def ask(url: str, answered: anyio.Event, tries: anyio.CancelScope) -> None:
        while len(failures) < len(urls):
            try:
                connection = await _connect_to(url, settings, name)
            except (*LIBRARY_ERRORS, ValueError) as error:
                failures[url] = error
            else:
                if found:
                    connection.terminate()  # both let themselves be used
                else:
                    found.append(connection)
                tries.cancel()
                return
            answered.set()
            if not passes(failures[url]):
                return  # it would say the same
            await anyio.sleep(_HOST_S)

    try:
        async with anyio.create_task_group() as tasks:
            for url in urls:
                answered = anyio.Event()
                tasks.start_soon(ask, url, answered, tasks.cancel_scope)
                with anyio.move_on_after(_HOST_S):
                    await answered.wait()
    except BaseException as error:
        for connection in found:
            connection.terminate()  # whoever asked for it is gone
        if is_group(error):  # one host alone would raise it as it is
            raise error.exceptions[0] from error
        raise
    if found:
        return found[0]
    lasting = [error for error in failures.values() if not passes(error)]
    raise [*lasting, *failures.values()][0]


class _Probed(_Connection):
    """A connection that ends soon after the way to its server has."""

    __slots__ = ()
    _transport: asyncio.Transport

    def probe(self) -> None:
        """Let the operating system look whether the other side is there."""
        sock = self._transport.get_extra_info("socket")
        if sock.family == socket.AF_UNIX:
            return
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _PROBES.items():
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def _connect_to(url: str, settings: PostgresSettings, name: str) -> Connection:
    connection = await asyncpg.connect(
        url,
        connection_class=_Probed,
        timeout=CONNECT_S,
        command_timeout=COMMAND_S,
        server_settings={
            **_SETTINGS,
            "application_name": f"{name} on {socket.gethostname()}"[:63],
            "search_path": settings.table_schema,
        },
    )
    connection.probe()
    return connection


def hosts_of(url: str) -> list[str]:
    """Return an address of several hosts as several of one each, none of them twice."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return [url]
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [url]
    once = dict.fromkeys(hosts.split(","))
    return [parts._replace(netloc=f"{user}{at}{host}").geturl() for host in once]


def place_of(settings: PostgresSettings) -> str:
    """Return the address of a database without what is secret in it."""
    try:
        parts: SplitResult = urlsplit(settings.url)
        user = parts.username
    except ValueError:
        return "of store.url"
    host = parts.netloc.rpartition("@")[2]
    return f"{f'{user}@' if user else ''}{host}{parts.path}"
