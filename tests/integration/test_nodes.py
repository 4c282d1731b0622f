"""Two gateways on one database, in this process: who holds what while they come and go."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from support.database import Server, needs_database

from everturn_actors.cluster.ownership import LeaseOwnership
from everturn_actors.cluster.partitions import PARTITIONS
from everturn_gateway.app import open_gateway
from everturn_gateway.config.settings import Config, load_config

pytestmark = needs_database

WAIT_S = 30


def node(folder: Path, name: str, url: str, schema: str, secret: str) -> Config:
    """Return the configuration of a node."""
    (folder / name / "agents").mkdir(parents=True)
    file = folder / name / "everturn.yaml"
    file.write_text(
        f'store: {{type: postgres, url: "{url}", schema: {schema}, connections: 2}}\n'
        f"cluster: {{node: {name}, listen: {folder / name}/link, secret: {secret}}}\n"
    )
    return load_config(file, environ={})


async def until(is_so: Callable[[], bool], *owners: LeaseOwnership) -> None:
    """Wait until something is so."""
    with anyio.fail_after(WAIT_S):
        while not is_so():
            for each in owners:
                with anyio.move_on_after(0.1):
                    await each.changed()


@pytest.fixture
def schema() -> str:
    """Return the name of a schema of this test's own."""
    return f"t{uuid4().hex}"


@pytest.fixture
def configs(database_server: Server, tmp_path: Path, schema: str) -> list[Config]:
    """Return the configurations of two nodes, read beside the event loop."""
    secret = uuid4().hex
    return [node(tmp_path, name, database_server.url(), schema, secret) for name in ("a", "b")]


async def test_nodes_share_the_work_and_give_it_back(
    database_server: Server, configs: list[Config], schema: str
) -> None:
    """Each partition and each seat is one node's; who leaves in order leaves no gap of a lease."""

    def owner_of(gateway: object) -> LeaseOwnership:
        ownership = getattr(gateway, "ownership", None)
        assert isinstance(ownership, LeaseOwnership)
        return ownership

    def held(ownership: LeaseOwnership) -> set[int]:
        return {each for each in range(PARTITIONS) if ownership.epoch(each) is not None}

    async with AsyncExitStack() as stack:
        a = owner_of(await stack.enter_async_context(open_gateway(configs[0], environ={})))
        await until(lambda: len(held(a)) == PARTITIONS, a)
        assert a.seat_holder("scheduler") == a.me
        async with open_gateway(configs[1], environ={}) as gateway:
            b = owner_of(gateway)
            await until(lambda: len(held(a)) + len(held(b)) == PARTITIONS and bool(held(b)), a, b)
            assert not held(a) & held(b)
            assert len(held(b)) > PARTITIONS / 4
            here = next(iter(held(a)))
            await until(lambda: b.holder(here) == a.me, a, b)
            assert [each.name for each in b.nodes()] == ["a", "b"]
            seats = [each.seat_epoch("scheduler") for each in (a, b)]
            assert sum(epoch is not None for epoch in seats) == 1
        with anyio.fail_after(2):  # and not after the length of a lease
            while len(held(a)) < PARTITIONS:
                await a.changed()
    nodes = database_server.psql(f"SELECT count(*) FROM {schema}.node")  # noqa: S608 - its own
    assert nodes == "0"
