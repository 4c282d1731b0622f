"""What a login opens: the role of its token, a second login that raises it, and its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from support.gateway import HttpGateway, open_http_gateway
from support.patience import WAIT_S
from support.tables import wrong_rows

from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.principals import Logins
from everturn_gateway.principals.logins import LOGIN_S, RAISED_S

API, ADMIN = "api-token-of-the-configuration", "admin-token-of-the-configuration"
GUARDED = ServerConfig(api_token=API, admin_token=ADMIN)
LOGIN = "/console/login"
RELOAD = "/api/v1/admin/reload"
SESSIONS = "/api/v1/sessions"
DEADLINE_S = WAIT_S


class Browser:
    """What a browser does: it keeps the cookie, and says where a request comes from."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def log_in(self, token: str) -> int:
        """Show a token; return the status."""
        answer = await self.client.post(LOGIN, headers={"Authorization": f"Bearer {token}"})
        return answer.status_code

    async def reload(self) -> int:
        """Do what only an administrator may; return the status."""
        return (await self.client.post(RELOAD)).status_code

    async def me(self) -> tuple[str, bool, float]:
        """Return as whom it asks, whether that may administer, and for how long still."""
        told = (await self.client.get(LOGIN)).json()
        return told["name"], "admin" in told["scopes"], told["raised_seconds"]


@asynccontextmanager
async def browser(gateway: HttpGateway) -> AsyncGenerator[Browser]:
    """Open a browser with nobody logged in."""
    async with gateway.client(headers={"Sec-Fetch-Site": "same-origin"}) as client:
        yield Browser(client)


class Times:
    """A time that stands still until it is moved."""

    now_s = 0.0


async def test_a_second_login_administers_for_a_quarter_of_an_hour(tmp_path: Path) -> None:
    """The first one reads, talks and approves; afterwards it is that again."""
    times = Times()
    logins = Logins(lambda: times.now_s)
    async with (
        open_http_gateway(tmp_path, server=GUARDED, logins=logins) as gateway,
        browser(gateway) as page,
    ):
        await page.log_in(API)
        begun = await page.client.post(SESSIONS, json={"agent": "test"})
        refused = await page.client.post(RELOAD)
        before = await page.me()
        cookie = dict(page.client.cookies)
        wrong = await page.log_in("wrong")
        raised, during = await page.log_in(ADMIN), await page.me()
        async with browser(gateway) as planter:
            planter.client.cookies.update(cookie)
            old = await planter.client.post(RELOAD)
        reloads = [await page.reload()]
        times.now_s += RAISED_S - 1
        again = await page.client.post(LOGIN)  # without a token, which makes nothing longer
        reloads.append(await page.reload())
        times.now_s += 1
        reloads.append(await page.reload())
        after, listed = await page.me(), await page.client.get(SESSIONS)
        # The admin token alone opens the page too, and administers for as long.
        async with browser(gateway) as admin:
            await admin.log_in(ADMIN)
            alone = [await admin.reload()]
            times.now_s += RAISED_S
            alone.append(await admin.reload())
            seen = await admin.client.get(SESSIONS)
        times.now_s += LOGIN_S
        over = await page.client.get(SESSIONS)

    assert (begun.status_code, refused.status_code) == (201, 403)
    assert (refused.json()["scope"], "admin token" in refused.json()["detail"]) == ("admin", True)
    first = ("api_token", False, 0)
    assert [before, during, after] == [first, ("api_token", True, RAISED_S), first]
    assert (wrong, raised) == (401, 204)
    assert old.status_code == 401  # whoever has planted the cookie gets no part of it
    assert (again.status_code, reloads) == (204, [200, 200, 403])
    assert (alone, seen.status_code) == ([200, 403], 200)
    assert (listed.status_code, over.status_code) == (200, 401)


async def test_where_no_login_is_needed_the_admin_token_raises_as_well(tmp_path: Path) -> None:
    """On loopback: the page says what it needs, a wrong token is refused and counted."""
    async with (
        open_http_gateway(tmp_path, server=ServerConfig(admin_token=ADMIN)) as gateway,
        browser(gateway) as page,
    ):
        refused = await page.client.post(RELOAD)
        before = await page.me()
        wrong = await page.log_in("wrong")
        raised = await page.log_in(ADMIN)
        reloaded, me = await page.reload(), await page.me()

    assert (refused.status_code, refused.json()["scope"]) == (401, "admin")
    assert (before, wrong, raised) == (("local", False, 0), 401, 204)
    assert (reloaded, me[:2]) == (200, ("local", True))


async def test_a_principal_stays_itself_with_a_raised_role(tmp_path: Path) -> None:
    """It is raised by a token with the scope admin, and only for as long as that is good."""
    async with (
        open_http_gateway(tmp_path, server=GUARDED) as gateway,
        browser(gateway) as page,
        browser(gateway) as other,
    ):
        foreign = await gateway.session()
        bob = await gateway.token("bob", "talk")
        root = await gateway.token("root", "admin")
        await page.log_in(bob)
        closed = await page.client.get(f"{SESSIONS}/{foreign}")
        await page.log_in(root)
        reloads, me = [await page.reload()], await page.me()
        await other.log_in(root)
        alone = await other.me()
        await gateway.stored_tokens.revoke("root", gateway.started_at)
        reloads.append(await page.reload())
        left = [(await each.client.get(SESSIONS)).status_code for each in (page, other)]

    assert closed.status_code == 404
    assert (me[:2], alone[:2]) == (("bob", True), ("root", True))
    assert reloads == [200, 403]
    assert left == [200, 401]


async def test_what_is_open_ends_with_the_login(tmp_path: Path) -> None:
    """Nothing more is told to a page that was logged out, here or in another tab."""
    times = Times()
    logins = Logins(lambda: times.now_s)
    with anyio.fail_after(DEADLINE_S):
        async with open_http_gateway(tmp_path, server=GUARDED, logins=logins) as gateway:
            with wrong_rows(3) as row_of:
                for how in ("logout", "revoked", "expiry"):  # which ends all that are left
                    with row_of(how):
                        await _see_a_login_end(gateway, times, how)


async def _see_a_login_end(gateway: HttpGateway, times: Times, how: str) -> None:
    async with browser(gateway) as page, browser(gateway) as other:
        token = await gateway.token(how, "operate")
        await page.log_in(token)
        await other.log_in(API)
        async with (
            page.client.stream("GET", "/api/v1/stream") as stream,
            other.client.stream("GET", "/api/v1/stream") as kept,
        ):
            lines, others = stream.aiter_lines(), kept.aiter_lines()
            await _until(lines, "event: hello")
            await _until(others, "event: hello")
            if how == "logout":
                await page.client.delete(LOGIN)
            elif how == "expiry":
                times.now_s = LOGIN_S
            else:
                await gateway.stored_tokens.revoke(how, gateway.started_at)
            rest = [line async for line in lines]
            if how != "expiry":
                await gateway.session()
                await _until(others, "event: rows")
        after = await page.client.get("/api/v1/stream")

    assert "event: error" in rest
    assert after.status_code == 401


async def test_a_raised_role_ends_nothing_but_what_needs_it(tmp_path: Path) -> None:
    """What was open before goes on, and what is told to whoever sees all goes on after it."""
    times = Times()
    logins = Logins(lambda: times.now_s)
    with anyio.fail_after(DEADLINE_S):
        async with (
            open_http_gateway(tmp_path, server=GUARDED, logins=logins) as gateway,
            browser(gateway) as page,
            browser(gateway) as his,
        ):
            bob = await gateway.token("bob", "talk")
            await page.log_in(API)
            await his.log_in(bob)
            for each in (page, his):
                await each.log_in(ADMIN)
            async with (
                page.client.stream("GET", "/api/v1/stream") as stream,
                his.client.stream("GET", "/api/v1/stream") as wider,
            ):
                lines, others = stream.aiter_lines(), wider.aiter_lines()
                await _until(lines, "event: hello")
                await _until(others, "event: hello")
                times.now_s = RAISED_S
                rest = [line async for line in others]
                await gateway.session()
                await _until(lines, "event: rows")

    assert "event: error" in rest


async def _until(lines: AsyncIterator[str], text: str) -> None:
    async for line in lines:
        if line == text:
            return
    pytest.fail(f"the stream ended before {text!r}")
