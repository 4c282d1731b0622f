"""Tries without a right: wrong tokens, many of them, through proxies and from many addresses."""

from __future__ import annotations

import logging
from collections import Counter
from ipaddress import ip_network
from pathlib import Path

import anyio
import pytest
from support.gateway import DEADLINE_S, HttpGateway, open_http_gateway

from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.access import guard
from everturn_gateway.principals import new_token
from everturn_gateway.principals.limits import RateLimiter

WEAK, STRONG = "hunter2", "a-token-of-forty-characters-0123456789abcd"
BEHIND_PROXY = (ip_network("127.0.0.1"),)


async def tries(
    gateway: HttpGateway, *tokens: str, address: str = "", path: str = "/version"
) -> list[int]:
    """Return how each token is answered."""
    headers = {"X-Forwarded-For": address} if address else {}
    async with gateway.client(headers=headers) as client:
        return [
            (await client.get(path, headers={"Authorization": f"Bearer {each}"})).status_code
            for each in tokens
        ]


async def counted(gateway: HttpGateway, token: str) -> dict[str, float]:
    """Return how many requests of nobody were counted, by reason."""
    async with gateway.client(token=token) as client:
        text = (await client.get("/metrics")).text
    lines = [line for line in text.splitlines() if line.startswith("everturn_http_unauthorized")]
    return {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in lines}


async def test_wrong_tokens_are_counted_and_then_not_looked_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A short token cannot be found by trying, and who tries is seen, by address, not by token."""
    async with open_http_gateway(tmp_path, server=ServerConfig(api_token=WEAK)) as gateway:
        principal = await gateway.token("alice", "operate")
        assert await tries(gateway, principal) == [200]
        guesses = [f"hunter{number}" for number in range(3, 30)]
        answers = await tries(gateway, *guesses)
        right_too_late = await tries(gateway, WEAK)
        async with gateway.client(token="hunter99") as client:  # noqa: S106 - made up
            refused = await client.get("/version")
        known = await tries(gateway, principal)
        reasons = await counted(gateway, principal)

    assert answers == [401] * guard.WRONG_BURST + [429] * (len(guesses) - guard.WRONG_BURST)
    assert right_too_late == [429]
    assert refused.json()["type"] == "urn:everturn:problem:too-many-requests"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert known == [200]
    assert reasons["wrong"] == guard.WRONG_BURST
    assert reasons["slowed"] == len(guesses) - guard.WRONG_BURST + 2
    (line,) = [r for r in caplog.records if r.message == "a request came with a wrong token"]
    assert line.__dict__["address"] == "127.0.0.1"
    assert not any("hunter" in str(record.__dict__) for record in caplog.records)


async def test_a_long_token_goes_on_working_beside_somebody_who_guesses(tmp_path: Path) -> None:
    """Nobody is kept out by a neighbour behind the same address."""
    async with open_http_gateway(tmp_path, server=ServerConfig(api_token=STRONG)) as gateway:
        alice = await gateway.token("alice", "read")
        assert await tries(gateway, alice) == [200]
        wrong = await tries(gateway, *[new_token() for _ in range(20)])
        right = await tries(gateway, STRONG, alice, STRONG)
        bob = await gateway.token("bob", "read")
        made_meanwhile = await tries(gateway, bob)
        with anyio.fail_after(DEADLINE_S):
            while await tries(gateway, bob) != [200]:  # noqa: ASYNC110 - a file is looked at
                await anyio.sleep(0.1)

    assert Counter(wrong) == {401: 10, 429: 10}
    assert right == [200, 200, 200]
    assert made_meanwhile in ([200], [429])  # known within a second, without a look for each try


async def test_behind_a_trusted_proxy_each_client_has_tries_of_its_own(tmp_path: Path) -> None:
    """Without trust all would be one; with it, what a client says of itself counts nothing."""
    server = ServerConfig(api_token=WEAK, trusted_proxies=BEHIND_PROXY)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        guesses = [f"x{number}" for number in range(12)]
        first = await tries(gateway, *guesses, address="203.0.113.1")
        second = await tries(gateway, "x", WEAK, address="203.0.113.2")
        forged = await tries(gateway, "x", WEAK, address="198.51.100.1, 203.0.113.1")
        neighbours = [
            await tries(gateway, "x", address=f"2001:db8::{number:x}") for number in range(1, 13)
        ]
    async with open_http_gateway(tmp_path, server=ServerConfig(api_token=WEAK)) as gateway:
        distrusted = [
            await tries(gateway, "x", address=f"203.0.113.{number}") for number in range(12)
        ]

    assert first == [401] * 10 + [429] * 2
    assert second == [401, 200]
    assert forged == [429, 429]
    assert neighbours == [[401]] * 10 + [[429]] * 2
    assert distrusted == [[401]] * 10 + [[429]] * 2


async def test_many_addresses_together_are_slowed_down_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever rents a thousand addresses has no thousand times the tries, nor fills the log."""
    monkeypatch.setattr(guard, "WRONG_OF_ALL", 30)
    # In the time of sixty requests on a busy machine, some more would be let through.
    defaults = RateLimiter.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "now_s", lambda: 0.0)
    server = ServerConfig(api_token=WEAK, trusted_proxies=BEHIND_PROXY)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        alice = await gateway.token("alice", "read")
        assert await tries(gateway, alice, address="192.0.2.1") == [200]
        answers = [await tries(gateway, "x", address=f"203.0.{number}.1") for number in range(60)]
        fresh = await tries(gateway, WEAK, alice, address="198.51.100.7")

    assert Counter(status for (status,) in answers) == {401: 30, 429: 30}
    assert fresh == [429, 200]
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == guard.LOGGED_OF_ALL


async def test_an_address_has_its_requests_a_minute(tmp_path: Path) -> None:
    """Also with a right token; health stays open to whoever watches the process."""
    server = ServerConfig(
        api_token=STRONG, trusted_proxies=BEHIND_PROXY, address_requests_per_minute=5
    )
    async with open_http_gateway(tmp_path, server=server) as gateway:
        busy = await tries(gateway, *[STRONG] * 8, address="203.0.113.1")
        calm = await tries(gateway, STRONG, address="203.0.113.2")
        health = await tries(gateway, "x", address="203.0.113.1", path="/livez")

    assert busy == [200] * 5 + [429] * 3
    assert (calm, health) == ([200], [200])


async def test_a_token_counts_once_and_whole(tmp_path: Path) -> None:
    """What two readers could read in two ways is read in none."""
    rows = [
        [f"Bearer {STRONG}", "Bearer x"],
        ["Bearer x", f"Bearer {STRONG}"],
        [f"Bearer {STRONG}", f"Bearer {STRONG}"],
        [f"Bearer {STRONG}, Bearer x"],
        [f"Basic {STRONG}"],
        [f"Bearer\t{STRONG}"],
        [STRONG],
        [f"Bearer {STRONG.upper()}"],
        [f"Bearer {STRONG}x"],
        ["Bearer"],
    ]
    server = ServerConfig(api_token=STRONG, trusted_proxies=BEHIND_PROXY)
    async with open_http_gateway(tmp_path, server=server) as gateway, gateway.client() as client:
        for number, lines in enumerate(rows):  # each from an address of its own
            headers = [("Authorization", line) for line in lines]
            address = ("X-Forwarded-For", f"203.0.113.{number}")
            answer = await client.get("/version", headers=[*headers, address])
            right = await client.get(
                "/version", headers=[("authorization", f"bEARER  {STRONG}"), address]
            )

            assert answer.status_code == 401, lines
            assert STRONG not in answer.text
            assert right.status_code == 200


async def test_on_this_machine_a_token_narrows_and_nothing_widens(tmp_path: Path) -> None:
    """Where no token is needed, one that is sent is still believed for no more than it is."""
    async with open_http_gateway(tmp_path) as gateway:
        alice = await gateway.token("alice", "read")
        paths = ("/version", "/api/v1/schedules", "/api/v1/admin/agents")
        local = [(await tries(gateway, "anything", path=path))[0] for path in paths]
        narrowed = [(await tries(gateway, alice, path=path))[0] for path in paths]
        unknown = await tries(gateway, new_token())
        passed_on = [
            (await tries(gateway, each, address="203.0.113.1"))[0] for each in ("anything", alice)
        ]
        async with gateway.client(headers={"Via": "1.1 proxy"}) as client:
            through_proxy = await client.get("/version")
    async with open_http_gateway(tmp_path, server=ServerConfig(require_token=True)) as gateway:
        required = await tries(gateway, "anything", alice)
        async with gateway.client() as client:
            nothing = await client.get("/version")

    assert local == [200, 200, 200]
    assert narrowed == [200, 403, 403]
    assert unknown == [401]
    assert passed_on == [401, 200]
    assert through_proxy.status_code == nothing.status_code == 401
    assert "proxy" in through_proxy.json()["detail"]
    assert required == [401, 200]


async def test_the_admin_token_is_not_found_by_trying_where_no_token_is_needed(
    tmp_path: Path,
) -> None:
    """On loopback a page or an agent's command could try; each try counts."""
    async with open_http_gateway(tmp_path, server=ServerConfig(admin_token=WEAK)) as gateway:
        guesses = [f"hunter{number}" for number in range(3, 20)]
        answers = await tries(gateway, *guesses, WEAK, path="/api/v1/admin/agents")
        calm = await tries(gateway, WEAK, path="/version")

    assert answers == [401] * len(answers)  # the right one came too late
    assert calm == [200]


async def test_guessers_side_by_side_get_no_more_tries(tmp_path: Path) -> None:
    """A limit that is looked at before and counted after an await would let a crowd through."""
    async with open_http_gateway(tmp_path, server=ServerConfig(api_token=WEAK)) as gateway:
        answers: list[int] = []

        async def guess() -> None:
            answers.extend(await tries(gateway, *[new_token() for _ in range(5)]))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(guess)

    assert Counter(answers)[401] <= guard.WRONG_BURST + 10
    assert Counter(answers)[429] >= 30
