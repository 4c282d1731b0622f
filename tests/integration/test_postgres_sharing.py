"""Who may open a database beside whom, and what the others are told."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from support.database import Server, needs_database
from support.stores import postgres_setup

from everturn_actors.errors import WorkspaceLockedError
from everturn_gateway.builtin.postgres.plugin import POSTGRES

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
