"""SIGKILL at each operation on files: of checkpoints, and of the renewal of a login."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Final

import anyio
import pytest
import pytest_asyncio
from support.checkpoint_work import Work, others
from support.examples import LONG_RUN
from support.killing.forked import Forks, open_forks
from support.killing.hook.kill_points import KillPoint, Moment
from support.mcp_auth import AuthServer, browsed, open_auth_server
from support.mcp_world import open_world

from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.testing import ManualClock
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.checkpoints import UnknownCheckpointError
from everturn_gateway.tools.mcp import McpLogins, McpOAuthSettings, McpServerSettings
from everturn_gateway.tools.mcp.oauth.flow import log_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOWHERE: Final = KillPoint(number=0)
BEFORE: Final = {"tea": "green", "cup": "blue"}
WANTS_LOGIN: Final = "it wants a login: `everturn mcp login web`"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def forks() -> AsyncGenerator[Forks]:
    """Open the process that does what is ordered: to import what that needs takes a second."""
    async with open_forks() as opened:
        yield opened


async def points(forks: Forks, deed: str, folder: Path, trace: Path) -> list[KillPoint]:
    """Do something without a kill; return where it could have been killed.

    Before an operation is as good as after the one before it: by day one of the two, at night both.
    """
    assert await forks.do(deed, folder, trace, NOWHERE) == 0
    lines = (await anyio.Path(trace).read_text()).splitlines()
    found: list[KillPoint] = []
    for number, line in enumerate(lines, 1):
        moments: list[Moment] = ["before", "after"] if LONG_RUN or number == 1 else ["after"]
        if "write" in line.split()[1]:
            moments.append("half")
        found += [KillPoint(number=number, moment=moment) for moment in moments]
    return found


async def begin(folder: Path) -> Work:
    """Return an agent with two files in a folder of its own."""
    work = await others(partial(Work, folder))
    await others(lambda: work.write(**BEFORE))
    return work


async def taken_back(folder: Path) -> dict[str, str]:
    """Take back what is left to take back, as after a start; return what stands there then."""
    work = await others(partial(Work, folder))
    try:
        undone = await work.checkpoints.undo()
    except UnknownCheckpointError:
        pass
    else:
        assert undone.left == {}
    return await work.now()


async def test_a_turn_that_is_killed_anywhere_can_be_taken_back(
    tmp_path: Path, forks: Forks
) -> None:
    """Between the checkpoint and the change, in the middle of either, and behind them."""
    await begin(tmp_path / "whole")
    found = await points(forks, "change", tmp_path / "whole", tmp_path / "trace")
    for n, at in enumerate(found):
        folder = tmp_path / str(n)
        await begin(folder)
        assert await forks.do("change", folder, tmp_path / "traces", at) == -SIGKILL, at
        assert await taken_back(folder) == BEFORE, at

    assert len(found) > 20


async def test_taking_back_that_is_killed_anywhere_is_finished(
    tmp_path: Path, forks: Forks
) -> None:
    """No file is half one and half the other, none is forgotten, and nothing more is taken back."""
    folder, changed = tmp_path / "agent", tmp_path / "changed"
    await begin(folder)
    assert await forks.do("change", folder, tmp_path / "made", NOWHERE) == 0
    await others(partial(shutil.copytree, folder, changed))
    found = await points(forks, "undo", folder, tmp_path / "trace")
    for at in found:
        await others(partial(shutil.rmtree, folder))
        await others(partial(shutil.copytree, changed, folder))
        assert await forks.do("undo", folder, tmp_path / "traces", at) == -SIGKILL, at
        assert await taken_back(folder) == BEFORE, at
        assert await taken_back(folder) == BEFORE, at

    assert len(found) > 10


async def log_in_at(auth: AuthServer, folder: Path) -> McpServerSettings:
    """Log in as a person does, and have the token end; return the settings of the server."""
    settings = McpServerSettings(name="web", url=auth.url, oauth=McpOAuthSettings())
    logins = McpLogins(FileKeyedStore(folder / "kept"), ManualClock(), SecretRegistry())
    back = "http://127.0.0.1:8765/callback"
    await log_in(settings, redirect_uri=back, browse=browsed, logins=logins)
    auth.revoke_all()
    await anyio.Path(folder / "url").write_text(auth.url)
    return settings


async def test_a_renewal_that_is_killed_holds_or_asks_for_a_login(
    tmp_path: Path, forks: Forks
) -> None:
    """The refresh token is spent with the server's answer: what was not kept of it is gone.

    Then the server is told so once, a person is asked to log in, and that helps.
    """
    held: list[bool] = []
    async with open_auth_server() as auth:
        whole = tmp_path / "whole"
        await log_in_at(auth, whole)
        found = await points(forks, "renew", whole, tmp_path / "trace")
        for n, at in enumerate(found):
            folder = tmp_path / str(n)
            settings = await log_in_at(auth, folder)
            before = auth.renewals
            assert await forks.do("renew", folder, tmp_path / "traces", at) == -SIGKILL, at
            assert auth.renewals == before + 1, at
            store = FileKeyedStore(folder / "kept")
            async with open_world(folder, settings, keyed=store) as world:
                await world.prepare()
                faults = world.box.faults
            held.append(not faults)
            if faults:
                assert faults[0].endswith(WANTS_LOGIN), at
                await log_in_at(auth, folder)
            async with open_world(folder, settings, keyed=store) as world:
                assert await world.text("web_echo", text="again") == "again", at

    assert {*held} == {True, False}
    assert held == sorted(held), "once it is kept it holds"
