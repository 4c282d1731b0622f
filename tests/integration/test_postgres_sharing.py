"""Who may open a database beside whom, and what the others are told."""

from __future__ import annotations

import socket
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from support.database import Server, needs_database
from support.lines import open_line
from support.patience import WAIT_S
from support.stores import postgres_setup

from everturn_actors.cluster.leases import Beat, Member
from everturn_actors.errors import WorkspaceLockedError
from everturn_actors.ports import Node
from everturn_gateway.builtin.postgres import database
from everturn_gateway.builtin.postgres.plugin import POSTGRES
from everturn_gateway.builtin.postgres.referee import PostgresReferee

pytestmark = needs_database


async def test_gateways_share_a_database_by_their_names(
    database_server: Server, tmp_path: Path
) -> None:
    """Two of one name, or one that does not share, would each think that it is alone."""
    section = database_server.section(f"t{uuid4().hex}")

    async def refusal(node: str) -> str:
        with pytest.raises(WorkspaceLockedError) as refused:
            async with POSTGRES.open(postgres_setup(section, tmp_path, node=node)):
                pass
        return str(refused.value)

    async with POSTGRES.open(postgres_setup(section, tmp_path, node="a")) as first:
        async with POSTGRES.open(postgres_setup(section, tmp_path, node="b")) as second:
            assert first.is_shared
            assert second.is_shared
            twin, alone = await refusal("a"), await refusal("")
        async with POSTGRES.open(postgres_setup(section, tmp_path, node="b")):
            pass  # it left nothing behind
    async with POSTGRES.open(postgres_setup(section, tmp_path)) as opened:
        assert not opened.is_shared
        sharing = await refusal("a")

    assert "another gateway of the database" in twin
    assert "is called 'a'" in twin
    assert "cluster.node" in twin
    assert "is in use by another gateway" in alone
    assert "store.schema" in alone
    assert "does not share it" in sharing
    assert "`cluster` section" in sharing


async def test_a_database_that_says_nothing_is_known_by_who_asks_each_second(
    database_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else may be asked meanwhile: whoever looks whether it is there, looks."""
    monkeypatch.setattr(database, "PING_S", 0.1)
    async with open_line(database_server.port) as line:
        section = database_server.section(f"t{uuid4().hex}")
        url = section.url.replace(f":{database_server.port}/", f":{line.port}/")
        settings = section.model_copy(update={"url": url})
        async with database.open_database(settings) as opened:
            own = await opened.connect("a machine that is gone is noticed in seconds")
            sock = own._transport.get_extra_info("socket")  # type: ignore[attr-defined]  # its own
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 3_000
            await own.close()
            referee = PostgresReferee(opened)
            await referee.prepare()
            line.set("silent")
            with anyio.move_on_after(0.1):
                await referee.beat(Beat(member=Member(node=Node(name="a"), instance="a")))
            assert "does not answer in time" in await opened.check()
            line.set("open")
            monkeypatch.setattr(database, "PING_S", WAIT_S)
            assert not await opened.check()
