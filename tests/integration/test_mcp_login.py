"""Logins at MCP servers that ask for one: a person at a browser, then tokens that renew themselves.

Both sides of the protocol, and the authorization server, are the official package's.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from support.command import everturn, start, write_agent
from support.mcp_auth import LASTS_S, AuthServer, browsed, open_auth_server, write_browser
from support.mcp_world import DEADLINE_S, McpWorld, open_world
from support.tables import table

from everturn_actors.journal.keyed import FileKeyedStore, MemoryKeyedStore
from everturn_actors.ports import KeyedStore
from everturn_actors.testing import ManualClock
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.mcp import McpLogins, McpOAuthSettings, McpServerSettings
from everturn_gateway.tools.mcp.oauth import McpLogin, McpLoginError
from everturn_gateway.tools.mcp.oauth.flow import log_in
from everturn_gateway.tools.mcp.transports.guarded import check_address

BACK = "http://127.0.0.1:8765/callback"
WANTS_LOGIN = "it answers with HTTP 401: it wants a login: `everturn mcp login web`"


def at(auth: AuthServer, oauth: McpOAuthSettings | None = None) -> McpServerSettings:
    """Return the settings of the server."""
    return McpServerSettings(name="web", url=auth.url, oauth=oauth or McpOAuthSettings())


async def logged_in(
    auth: AuthServer, store: KeyedStore, oauth: McpOAuthSettings | None = None
) -> McpLogin:
    """Log in as a person does who says yes."""
    logins = McpLogins(store, ManualClock(), SecretRegistry())
    with anyio.fail_after(DEADLINE_S):
        return await log_in(at(auth, oauth), redirect_uri=BACK, browse=browsed, logins=logins)


@asynccontextmanager
async def agent_with_login(folder: Path) -> AsyncGenerator[tuple[AuthServer, McpWorld]]:
    """Yield a server, and an agent that has it after a person logged in."""
    store = MemoryKeyedStore()
    async with open_auth_server() as auth:
        await logged_in(auth, store)
        async with open_world(folder, at(auth), keyed=store) as world:
            yield auth, world


async def test_a_token_is_renewed_once_for_all_calls(tmp_path: Path) -> None:
    """Each refresh token counts once: the second call that used it would end the login."""
    # Discovery, registration, a code with PKCE, a token; and its secrets are masked.
    async with agent_with_login(tmp_path) as (auth, world):
        (token,) = auth.valid

        assert await world.text("web_echo", text="hello") == "hello"
        assert world.environment.secrets.mask(f"at {token}") == "at ***"
        assert len(auth.clients) == 1

        # A server may take a token back, or its clock may be another.
        auth.revoke_all()
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(world.text, "web_pid")

        assert auth.renewals == 1

    # Each refresh token counts once: the second call that used it would end the login.
    folder = tmp_path / "ended"
    folder.mkdir()
    async with agent_with_login(folder) as (auth, world):
        world.clock.advance(LASTS_S)
        auth.revoke_all()
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(world.text, "web_pid")

        assert auth.renewals == 1
        assert world.box.faults == ()


async def test_a_renewed_login_is_kept_whatever_happens_meanwhile(tmp_path: Path) -> None:
    """A kill right after it, or an authorization server that is down, ends no login."""
    # A gateway that is killed at any moment after it goes on with the token that holds.
    folder = tmp_path / "killed"
    folder.mkdir()
    store = FileKeyedStore(folder / "kept")
    async with open_auth_server() as auth:
        await logged_in(auth, store)
        async with open_world(folder, at(auth), keyed=store) as world:
            auth.revoke_all()
            await world.text("web_pid")
        (file,) = (folder / "kept" / "mcp-logins").glob("*.json")
        async with open_world(folder, at(auth), keyed=FileKeyedStore(folder / "kept")) as after:
            assert await after.text("web_echo", text="still") == "still"

        assert auth.renewals == 1
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600

    # It is back in a minute; nobody should have to log in for that.
    folder = tmp_path / "down"
    folder.mkdir()
    memory = MemoryKeyedStore()
    async with open_auth_server() as auth:
        login = await logged_in(auth, memory)
        elsewhere = {**login.authorization, "token_endpoint": "http://127.0.0.1:9/token"}
        logins = McpLogins(memory, ManualClock(), SecretRegistry())
        await logins.keep(_with(login, elsewhere))
        async with open_world(folder, at(auth), keyed=memory) as world:
            auth.revoke_all()
            why = await world.failure("web_pid")
            await logins.keep(login)
            await world.text("web_pid")

        assert why.endswith(WANTS_LOGIN)
        assert auth.renewals == 1


async def test_a_login_that_is_over_or_missing_says_so_and_takes_a_new_one_at_once(
    tmp_path: Path,
) -> None:
    """Neither the gateway nor the server has to be started again."""
    folder = tmp_path / "over"
    folder.mkdir()
    store = MemoryKeyedStore()
    async with open_auth_server() as auth:
        await logged_in(auth, store)
        async with open_world(folder, at(auth), keyed=store) as world:
            auth.revoke_all()
            auth.refresh.clear()
            why = await world.failure("web_echo", text="x")
            faults = world.box.faults
            await logged_in(auth, store)
            said = await world.text("web_echo", text="again")

            assert why.endswith(WANTS_LOGIN)
            assert faults == (f"MCP server 'web': {WANTS_LOGIN}",)
            assert said == "again"
            assert world.box.faults == ()

    # A person who logs in does not wait for the minutes of a server that fails.
    folder = tmp_path / "missing"
    folder.mkdir()
    store = MemoryKeyedStore()
    async with (
        open_auth_server() as auth,
        open_world(folder, at(auth), keyed=store) as world,
    ):
        await world.until_ended()
        faults = world.box.faults
        await logged_in(auth, store)
        world.clock.advance(5)
        await world.prepare()
        with anyio.fail_after(DEADLINE_S):
            life = world.connection._life
            assert life is not None
            await life.settled.wait()
        await world.prepare()

        assert faults == (f"MCP server 'web': {WANTS_LOGIN}",)
        assert await world.text("web_echo", text="now") == "now"


def _with(login: McpLogin, authorization: dict[str, object]) -> McpLogin:
    return replace(login, authorization=authorization)


async def test_a_client_is_the_one_that_an_operator_registered_or_a_person_let_in(
    tmp_path: Path,
) -> None:
    """Who may not register himself is told what to set; of a no nothing is kept."""
    # Many servers let nobody register himself; who tries is told what to set.
    async with open_auth_server() as open_one:
        await logged_in(open_one, MemoryKeyedStore())
        (client,) = open_one.clients.values()
    oauth = McpOAuthSettings(client_id=client.client_id, client_secret=client.client_secret or "")
    store = MemoryKeyedStore()
    async with open_auth_server(registers=False) as auth:
        with pytest.raises(McpLoginError, match=r"oauth\.client_id"):
            await logged_in(auth, store)
        auth.clients[client.client_id] = client
        await logged_in(auth, store, oauth)
        async with open_world(tmp_path, at(auth, oauth), keyed=store) as world:
            auth.revoke_all()

            assert await world.text("web_echo", text="known") == "known"

    # The words are the server's; nothing is kept.
    store = MemoryKeyedStore()
    async with open_auth_server() as auth:
        auth.says_no = True
        with pytest.raises(McpLoginError, match="it was refused: access_denied: not today"):
            await logged_in(auth, store)

    assert await McpLogins(store, ManualClock(), SecretRegistry()).all() == ()


@table(
    ("address", "server"),
    [
        ("http://auth.example.com/token", "https://mcp.example.com/mcp"),
        ("http://127.0.0.1:8080/admin", "https://mcp.example.com/mcp"),
        ("https://localhost/admin", "https://mcp.example.com/mcp"),
        ("file:///etc/passwd", "https://mcp.example.com/mcp"),
        ("file://localhost/etc/passwd", "http://127.0.0.1:9000/mcp"),
        ("javascript:alert(1)", "http://127.0.0.1:9000/mcp"),
    ],
)
def test_a_server_cannot_send_a_login_anywhere(address: str, server: str) -> None:
    """It names the addresses that are asked, and the page that the person's browser opens."""
    with pytest.raises(ValueError, match="it names"):
        check_address(address, server)


# --- the command ---------------------------------------------------------------------------------


def write_agent_with(folder: Path, auth: AuthServer) -> None:
    """Write an agent that has the server."""
    file = write_agent(folder)
    tools = f"  tools:\n    - {{type: mcp, name: web, url: '{auth.url}'}}\n"
    file.write_text(file.read_text() + tools)


async def test_a_person_logs_in_with_a_browser_and_out(tmp_path: Path) -> None:
    """The browser comes back to the command; no token is shown anywhere."""
    async with open_auth_server() as auth:
        await anyio.to_thread.run_sync(write_agent_with, tmp_path, auth)
        browser = await write_browser(tmp_path)
        before = await everturn("mcp", "list", cwd=tmp_path)
        made = await everturn(
            "mcp", "login", "web", "--json", cwd=tmp_path, env={"BROWSER": browser}
        )
        listed = await everturn("mcp", "list", "--json", cwd=tmp_path)
        (token,) = auth.valid
        await _end_logins(tmp_path)
        doctor = await everturn("doctor", cwd=tmp_path)
        out = await everturn("mcp", "logout", "web", cwd=tmp_path)
        again = await everturn("mcp", "logout", "web", "--json", cwd=tmp_path)

    assert before.out.split()[-1] == "none"
    assert made.code == 0, made.err
    (shown,) = json.loads(listed.out)
    assert json.loads(made.out) == {key: shown[key] for key in shown if key != "agent"}
    assert shown["login"] == "holds until it is taken back"
    assert token not in made.out + made.err + listed.out
    assert "its login is over; `everturn mcp login web`" in doctor.out
    assert (out.code, again.code) == (0, 1)
    assert json.loads(again.out)["logged_out"] is False


async def _end_logins(folder: Path) -> None:
    logins = McpLogins(FileKeyedStore(folder / ".everturn"), ManualClock(), SecretRegistry())
    for each in await logins.all():
        await logins.end(each)


async def test_a_person_without_a_browser_pastes_where_it_ended(tmp_path: Path) -> None:
    """On a server there is none; and who kills the command in between begins anew, unharmed."""
    async with open_auth_server() as auth:
        await anyio.to_thread.run_sync(write_agent_with, tmp_path, auth)
        async with start("mcp", "login", "web", "--no-browser", cwd=tmp_path) as killed:
            await killed.until_error("paste that address")
            killed.process.kill()
        left = list((tmp_path / ".everturn").rglob("mcp-logins/*"))
        async with start("mcp", "login", "web", "--no-browser", cwd=tmp_path) as running:
            said = await running.until_error("paste that address")
            page = next(word for word in said.split() if word.startswith(f"{auth.url[:-4]}/auth"))
            done = await running.end(f"{await browsed(page)}\n".encode())

    assert left == []
    assert done.code == 0, done.err
    assert len(auth.valid) == 1
