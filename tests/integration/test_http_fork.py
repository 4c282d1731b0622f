"""A fork over HTTP: what it begins with, whose it is, and what is refused."""

from __future__ import annotations

from pathlib import Path

import httpx2
from support.gateway import HttpGateway, open_http_gateway
from support.one_gateway import on_one_gateway

from everturn_gateway.config.settings import ServerConfig

SESSIONS = "/api/v1/sessions"


async def say(client: httpx2.AsyncClient, session_id: str, text: str) -> int:
    """Say something; return the number of the newest event when it is answered."""
    answer = await client.post(f"{SESSIONS}/{session_id}/messages", json={"content": text})
    assert answer.status_code == 200, answer.text
    return int((await client.get(f"{SESSIONS}/{session_id}")).json()["last_event"])


async def test_a_conversation_goes_on_twice(tmp_path: Path) -> None:
    """The fork knows what was said before it, and nothing of what came after; over a restart."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        first = await gateway.session()
        at = await say(client, first, "one")
        await say(client, first, "two")
        made = await client.post(f"{SESSIONS}/{first}/fork", json={"at_seq": at})
        fork = made.json()["id"]
        await say(client, fork, "else")
        asked = [message.text for message in gateway.provider.requests[-1].messages]
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        told = (await client.get(f"{SESSIONS}/{fork}")).json()
        log = (await client.get(f"{SESSIONS}/{fork}/log?types=branched")).json()["events"]
        listed = (await client.get(f"{SESSIONS}?order=activity")).json()["sessions"]

    assert made.status_code == 201
    assert made.headers["location"] == f"{SESSIONS}/{fork}"
    assert asked == ["one", "reply 1", "else"]
    assert (told["branch_of"], told["turns"], told["status"]) == (first, 2, "active")
    assert [(each["of"], each["at_seq"]) for each in log] == [(first, at)]
    assert {each["id"] for each in listed} == {first, fork}


async def test_a_fork_is_its_makers_and_needs_to_see_the_first(tmp_path: Path) -> None:
    """To read is not enough, and what is not open to somebody is not there to be forked."""
    server = ServerConfig(api_token="t" * 40)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        tokens = [await gateway.token(name, "talk") for name in ("ann", "bob")]
        reader = await gateway.token("eve", "read")
        async with (
            gateway.client(token=tokens[0]) as ann,
            gateway.client(token=tokens[1]) as bob,
            gateway.client(token=reader) as eve,
        ):
            hers = (await ann.post(SESSIONS, json={"agent": "test"})).json()["id"]
            at = {"at_seq": await say(ann, hers, "one")}
            hidden = await bob.post(f"{SESSIONS}/{hers}/fork", json=at)
            for name in ("bob", "eve"):
                await ann.put(f"{SESSIONS}/{hers}/shares/{name}")
            read = await eve.post(f"{SESSIONS}/{hers}/fork", json=at)
            forked = await bob.post(f"{SESSIONS}/{hers}/fork", json=at)
            path = f"{SESSIONS}/{forked.json()['id']}"
            seen = [(await each.get(path)).status_code for each in (bob, ann, eve)]

    assert (hidden.status_code, read.status_code, forked.status_code) == (404, 403, 201)
    assert (forked.json()["principal"], forked.json()["shared_with"]) == ("bob", [])
    assert seen == [200, 404, 404]


@on_one_gateway("at_seq", [0, -1, 99, 2**60, "x", None, 1.5])
async def test_a_point_that_is_none_is_refused(gateway: HttpGateway, at_seq: object) -> None:
    """With what is wrong, and without a new session."""
    async with gateway.client() as client:
        first = await gateway.session()
        before = (await client.get(SESSIONS)).json()["sessions"]
        await say(client, first, "one")
        answer = await client.post(f"{SESSIONS}/{first}/fork", json={"at_seq": at_seq})
        listed = (await client.get(SESSIONS)).json()["sessions"]

    assert answer.status_code == (409 if at_seq == 99 else 422)
    assert [each["id"] for each in listed] == [each["id"] for each in before]
