"""A database that is away, refuses, or answers unheard: nothing is lost, doubled or pretended."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.abc
import anyio.to_thread
import pytest
from support.database import Server, needs_database, running_server
from support.lines import State, open_line
from support.stores import open_postgres_store, postgres_setup
from support.tables import table

from everturn.testing._histories import KEY, SESSION_ID, next_event, replay, simple_log, state_in
from everturn_actors.errors import (
    CoreError,
    JournalError,
    JournalWriteError,
    WorkspaceLostError,
)
from everturn_actors.ports import ABSENT
from everturn_gateway.app import open_keyed
from everturn_gateway.builtin.postgres import database, guard
from everturn_gateway.builtin.postgres.plugin import POSTGRES
from everturn_gateway.builtin.postgres.schema import STEPS, VERSION
from everturn_gateway.builtin.postgres.settings import PostgresSettings, secrets
from everturn_gateway.config.settings import load_config
from everturn_gateway.errors import GatewayError
from everturn_gateway.plugins import OpenedStore
from everturn_gateway.plugins import base as plugins_base

pytestmark = needs_database

LINES = "runs/digest.jsonl"
ROUNDS = 3  # kills of the server, each in the middle of everybody's work
APPENDS = 15  # of each writer between two kills


@pytest.fixture
def section(database_server: Server) -> PostgresSettings:
    """Return a schema of its own."""
    return database_server.section(f"t{uuid4().hex}")


# --- how it is set up ---


@pytest.mark.parametrize("state", ["silent", "cut"])
async def test_a_host_that_is_gone_hides_no_other_one(
    database_server: Server, section: PostgresSettings, tmp_path: Path, state: State
) -> None:
    """Whether its machine answers nothing, or something there hangs up."""
    async with open_line(database_server.port) as gone:
        gone.set(state)
        hosts = f"127.0.0.1:{gone.port},127.0.0.1:{database_server.port}"
        url = section.url.replace(f"127.0.0.1:{database_server.port}", hosts)
        assert hosts in url
        both = section.model_copy(update={"url": f"{url}&target_session_attrs=read-write"})
        with anyio.fail_after(5):
            async with POSTGRES.open(postgres_setup(both, tmp_path)) as opened:
                assert await opened.store.active() == ()


async def refusal(section: PostgresSettings, folder: Path) -> str:
    """Return why a store cannot be opened; it is told soon, on one line, without the password."""
    with anyio.fail_after(20), pytest.raises(CoreError) as caught:
        async with POSTGRES.open(postgres_setup(section, folder)):
            raise AssertionError
    text = str(caught.value)
    assert "\n" not in text
    assert "hunter2" not in text
    return text


async def test_what_is_wrong_with_a_database_is_said_in_a_line(
    database_server: Server, tmp_path: Path
) -> None:
    """Whoever reads it knows what to do, and nothing was begun."""
    server = database_server
    for statement in (
        "CREATE ROLE locked LOGIN SUPERUSER PASSWORD 'hunter2'",
        "CREATE ROLE few LOGIN CONNECTION LIMIT 1",
        "CREATE ROLE guest LOGIN",
        "CREATE DATABASE lazy",
        "ALTER DATABASE lazy SET synchronous_commit = off",
        "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0",
        "CREATE DATABASE readonly",
        "ALTER DATABASE readonly SET default_transaction_read_only = on",
    ):
        server.psql(statement)
    faults = {
        server.url("locked:hunter3"): "refuses this user and password; set them right",
        server.url(database="nowhere"): "no database of this name; create it (createdb)",
        server.url("few", "lazy"): "takes no more connections; raise its max_connections",
        server.url("guest", "ascii"): "its encoding is SQL_ASCII; create it with UTF8",
        server.url(database="lazy"): "synchronous_commit is off",
        server.url(database="readonly"): "it is read-only",
        server.url("guest"): "its user may not do this; grant it CREATE",
        "postgresql://u:hunter2@127.0.0.1:1/x": "cannot be reached; start the server",
        "postgresql://u:hunter2@127.0.0.1:1,127.0.0.1:1/x": "cannot be reached; start the server",
        "postgresql://u:hunter2@127.0.0.1:port/x": "failed",
    }
    server.psql("ALTER DATABASE lazy RESET synchronous_commit")
    told = {}
    for url in faults:
        if url == server.url(database="lazy"):
            server.psql("ALTER DATABASE lazy SET synchronous_commit = off")
        if url == server.url("few", "lazy"):
            server.psql("CREATE SCHEMA AUTHORIZATION few", "lazy")
        told[url] = await refusal(PostgresSettings(url=url, schema="few"), tmp_path)

    assert [url for url, text in faults.items() if text not in told[url]] == [], told


async def test_tables_of_a_later_version_are_left_alone(
    section: PostgresSettings, tmp_path: Path, database_server: Server
) -> None:
    """An older Everturn must not write into what it does not understand."""
    async with open_postgres_store(section, tmp_path) as opened:
        await opened.keyed.put("a.json", b"kept")
    schema = section.table_schema
    database_server.psql(f"UPDATE {schema}.schema_version SET version = {VERSION + 1}")
    text = await refusal(section, tmp_path)

    assert f"version {VERSION + 1}, and this Everturn knows {VERSION}; use the Everturn" in text
    assert POSTGRES.examine is not None
    with pytest.raises(JournalError, match="use the Everturn that wrote them"):
        await POSTGRES.examine(postgres_setup(section, tmp_path))


async def test_tables_of_an_earlier_version_move_forward(
    section: PostgresSettings, tmp_path: Path, database_server: Server
) -> None:
    """Also while two commands try at once; and never under a gateway that works on them."""
    name, open_keyed = section.table_schema, POSTGRES.open_keyed
    assert open_keyed is not None
    begun = f"CREATE SCHEMA {name}; SET search_path = {name}; CREATE TABLE schema_version AS"
    database_server.psql(f"{begun} SELECT 1 AS version; {STEPS[0]}")
    version = f"SELECT version FROM {name}.schema_version"

    async def put(key: str) -> None:
        async with open_keyed(postgres_setup(section, tmp_path)) as keyed:
            await keyed.put(key, b"kept")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(put, "a.json")
        tasks.start_soon(put, "b.json")
    moved = database_server.psql(version)
    async with open_postgres_store(section, tmp_path) as opened:
        kept = [await opened.keyed.get(key) for key in ("a.json", "b.json")]
        database_server.psql(f"UPDATE {name}.schema_version SET version = 1")
        with pytest.raises(JournalError, match="a gateway of an earlier Everturn works on it"):
            await put("c.json")

    assert moved == str(VERSION)
    assert all(kept)


async def test_two_gateways_never_work_on_one_database(
    section: PostgresSettings, tmp_path: Path, database_server: Server
) -> None:
    """The second is told who has it; one that lost it to another stops."""
    # It may run on another machine: the text names it.
    async with open_postgres_store(section, tmp_path):
        text = await refusal(section, tmp_path)

    assert "is in use by another gateway (everturn process" in text
    assert "from 127.0.0.1, since 20" in text
    assert "store.schema" in text
    async with open_postgres_store(section, tmp_path):
        pass

    # Two would do the same work; what the first one appends is refused meanwhile.
    log, holder = simple_log(2), "application_name LIKE 'everturn process%'"
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {holder}"
    with anyio.fail_after(30), pytest.raises(ExceptionGroup) as caught:
        async with open_postgres_store(section, tmp_path) as first:
            await first.store.append(SESSION_ID, log[:1], expected_seq=0)
            await anyio.to_thread.run_sync(database_server.psql, cut)
            async with open_postgres_store(section, tmp_path) as second:
                await second.store.append(SESSION_ID, log[1:2], expected_seq=1)
                with pytest.raises(JournalError):
                    await first.store.append(SESSION_ID, log[1:3], expected_seq=1)
                assert (await state_in(second.store)).last_seq == 2
                await anyio.sleep_forever()

    assert caught.group_contains(WorkspaceLostError, match="another gateway took this database")


@table("node", ["", "a"])
async def test_a_gateway_takes_its_lock_from_its_own_connection_that_was_lost(
    database_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    """The way there broke, and the server waits for who does not come any more."""
    monkeypatch.setattr(guard, "LOOK_S", 0.05)
    monkeypatch.setattr(guard, "NODE_LOOK_S", 0.05)
    monkeypatch.setattr(database, "_CLOSE_S", 0.1)  # what was lost is not waited for here
    async with open_line(database_server.port) as line:
        url = database_server.url().replace(str(database_server.port), str(line.port))
        section = PostgresSettings(url=url, schema=f"t{uuid4().hex}", connections=2)
        holder = "SELECT max(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE "
        holder += (
            f"locktype = 'advisory' AND application_name LIKE 'everturn process {os.getpid()} %'"
        )
        async with POSTGRES.open(postgres_setup(section, tmp_path, node=node)) as opened:
            pid = partial(anyio.to_thread.run_sync, database_server.psql, holder)
            before = await pid()
            line.lose()
            with anyio.fail_after(20):
                while await pid() == before:  # noqa: ASYNC110 - the server tells nobody
                    await anyio.sleep(0.05)
            await opened.store.append(SESSION_ID, simple_log(1), expected_seq=0)


async def test_a_password_is_a_secret_and_a_library_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is written; and whoever lacks the library is told what to install."""
    # Errors of the library may show it as it is in the address, or as the server reads it.
    url = "postgresql://u:p%40ss-word@host/x?sslmode=require"

    assert set(secrets(PostgresSettings(url=url))) == {url, "p%40ss-word", "p@ss-word"}

    # Whoever installed Everturn alone is told what to install besides.
    file = tmp_path / "everturn.yaml"
    file.write_text("store: {type: postgres, url: 'postgresql://u@127.0.0.1:1/x'}\n")
    config = await anyio.to_thread.run_sync(partial(load_config, file, environ={}))
    monkeypatch.setattr(plugins_base, "find_spec", lambda _name: None)
    with pytest.raises(GatewayError, match=r"asyncpg.*pip install 'everturn\[postgres\]'"):
        async with open_keyed(config, is_change=False):
            raise AssertionError


# --- damage ---


async def test_a_damaged_snapshot_is_put_aside_and_the_session_goes_on(
    section: PostgresSettings, tmp_path: Path, database_server: Server
) -> None:
    """The log gives the same; what is damaged beyond that, doctor names."""
    log, schema = simple_log(2), section.table_schema
    setup = postgres_setup(section, tmp_path)
    assert POSTGRES.examine is not None
    async with open_postgres_store(section, tmp_path) as opened:
        await opened.store.append(SESSION_ID, log, expected_seq=0)
        await opened.store.save_snapshot(replay(log[:6]), compaction="archive")
        good = await POSTGRES.examine(setup)
        database_server.psql(f"UPDATE {schema}.snapshot SET data = substring(data for 600)")
        seen = await POSTGRES.examine(setup)
        inspected = await opened.store.inspect(SESSION_ID)
        loaded = await opened.store.load(SESSION_ID)
        again = await opened.store.load(SESSION_ID)
        database_server.psql(f"UPDATE {schema}.event SET line = line || 'x' WHERE seq = 3")
        bad = await POSTGRES.examine(setup)
        with pytest.raises(JournalError, match=r"event/.*line 4"):
            await opened.store.load(SESSION_ID)

    assert [note.text for note in good if note.is_problem and "fsync" not in note.text] == []
    assert any("rebuilt from its log with its next message" in note.text for note in seen)
    assert any("line 4" in note.text and "restore" in note.text for note in bad)
    assert inspected is not None
    assert loaded is not None
    assert again is not None
    assert inspected == loaded
    assert (loaded.events, len(loaded.repairs), again.repairs) == (log, 1, ())
    assert database_server.psql(f"SELECT count(*) FROM {schema}.damaged") == "1"


# --- outages ---


_DONE = (b"INSERT 0", b"UPDATE ", b"SELECT ")
"What the server says of a statement that is done."


class Cutter:
    """A way to the server that can be cut in the moment of an answer."""

    def __init__(self) -> None:
        self.cuts = 0
        "How many answers to come are not delivered: the connection breaks instead."
        self.port = 0

    async def serve(self, upstream: int, client: anyio.abc.SocketStream) -> None:
        """Hand on what one client and the server say."""
        async with (
            await anyio.connect_tcp("127.0.0.1", upstream) as server,
            client,
            anyio.create_task_group() as tasks,
        ):

            async def ask() -> None:
                async for data in client:
                    await server.send(data)
                tasks.cancel_scope.cancel()

            async def answer() -> None:
                async for data in server:
                    if self.cuts and any(each in data for each in _DONE):
                        self.cuts -= 1
                        break
                    await client.send(data)
                tasks.cancel_scope.cancel()

            tasks.start_soon(ask)
            tasks.start_soon(answer)


@asynccontextmanager
async def cuttable(server: Server) -> AsyncGenerator[Cutter]:
    """Open such a way."""
    cutter = Cutter()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    cutter.port = listener.extra(anyio.abc.SocketAttribute.local_port)

    async def one(client: anyio.abc.SocketStream) -> None:
        try:
            await cutter.serve(server.port, client)
        except* (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, one)
        yield cutter
        tasks.cancel_scope.cancel()


async def test_what_was_done_unheard_is_not_done_twice(
    database_server: Server, tmp_path: Path
) -> None:
    """The connection breaks behind the commit: it is looked up, and neither lost nor doubled."""
    async with cuttable(database_server) as way:
        url = database_server.url().replace(str(database_server.port), str(way.port))
        section = PostgresSettings(url=url, schema=f"t{uuid4().hex}", connections=2)
        async with open_postgres_store(section, tmp_path) as opened:
            store, keyed = opened.store, opened.keyed
            log = simple_log(2)
            await store.append(SESSION_ID, log[:1], expected_seq=0)
            for number in range(1, 6):
                way.cuts = number % 2 + 1
                await store.append(SESSION_ID, log[number : number + 1], expected_seq=number)
            way.cuts = 1
            first = await keyed.put("a.json", b"one", expected=ABSENT)
            way.cuts = 1
            await keyed.put("a.json", b"two", expected=first)
            for number, line in enumerate((b"a\n", b"b\n", b"c\n")):
                way.cuts = 1
                await keyed.append(LINES, line, expected_bytes=2 * number)
            way.cuts = 1
            bound = await store.bind(KEY, SESSION_ID, instead_of="")
            assert way.cuts == 0
            state, value = await state_in(store), await keyed.get("a.json")
            (lines,) = await keyed.read([LINES])

    assert state == replay(log[:6])
    assert value is not None
    assert (value.data, lines, bound) == (b"two", b"a\nb\nc\n", SESSION_ID)


async def test_a_server_that_is_killed_again_and_again_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    """With all its syncs, as it runs at its owner's; writers wait until it is back."""
    ids = [f"20261121T2249561{number:02d}-3f9a2c1b" for number in range(6)]
    acknowledged = dict.fromkeys(ids, 0)

    async def talk(opened: OpenedStore, session_id: str) -> None:
        log = simple_log(1, session_id=session_id)
        await opened.store.append(session_id, log, expected_seq=0)
        acknowledged[session_id] = len(log)
        while rounds[session_id] < ROUNDS:
            for _ in range(APPENDS):
                last = acknowledged[session_id]
                await opened.store.append(session_id, (next_event(last),), expected_seq=last)
                acknowledged[session_id] += 1
            rounds[session_id] += 1
            if all(rounds[each] > kills[0] for each in ids):
                kills[0] += 1
                server.kill()
                await anyio.to_thread.run_sync(server.start)

    rounds, kills = dict.fromkeys(ids, 0), [0]
    with running_server(is_quick=False) as server:
        section = server.section("everturn")
        async with open_postgres_store(section, tmp_path) as opened:
            with anyio.fail_after(100):
                async with anyio.create_task_group() as tasks:
                    for session_id in ids:
                        tasks.start_soon(talk, opened, session_id)
            assert await opened.fault() == ""
        async with open_postgres_store(section, tmp_path) as opened:
            for session_id in ids:
                events = await opened.store.read(session_id, after=0, limit=10_000)
                last = acknowledged[session_id]
                assert [event.seq for event in events] == list(range(1, last + 1))
                assert (await state_in(opened.store, session_id)).last_seq == last
    assert kills == [ROUNDS]


async def test_a_database_that_stays_away_is_said_and_what_was_refused_is_not_there(
    tmp_path: Path,
) -> None:
    """No database, no acknowledgement; when it is back, everything goes on by itself."""
    with running_server() as server:
        section = server.section("everturn", outage_s=0.2)
        async with open_postgres_store(section, tmp_path) as opened:
            log = simple_log(1)
            await opened.store.append(SESSION_ID, log, expected_seq=0)
            server.kill()
            with pytest.raises(JournalWriteError, match="cannot be reached; start the server"):
                await opened.store.append(
                    SESSION_ID, (next_event(len(log)),), expected_seq=len(log)
                )
            with pytest.raises(JournalError, match="cannot be reached; start the server"):
                await opened.keyed.get("a.json")
            fault = await opened.fault()
            await anyio.to_thread.run_sync(server.start)
            assert await opened.fault() == ""
            state = await state_in(opened.store)
            await opened.store.append(SESSION_ID, (next_event(len(log)),), expected_seq=len(log))

    assert "cannot be reached" in fault
    assert state == replay(log)
