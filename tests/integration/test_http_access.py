"""Who may ask, and how much: tokens, loopback, connections, time, and the address to listen on."""

from __future__ import annotations

import signal
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import pytest
from support.gateway import (
    DEADLINE_S,
    HttpGateway,
    connect,
    open_http_gateway,
    read_all,
    server_events,
)
from support.one_gateway import on_one_gateway

from everturn_actors.testing import ScriptedProvider
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.http.access import front
from everturn_gateway.http.server import serve_http

USER, ADMIN = "user-token", "admin-token"
PATHS = (
    *("/readyz", "/version", "/openapi.json", "/api/v1/agents", "/api/v1/usage", "/v1/models"),
    "/nothing",
)


async def statuses(
    client: httpx2.AsyncClient, paths: tuple[str, ...], headers: Mapping[str, str] | None = None
) -> set[int]:
    """Return the statuses that these paths answer with."""
    return {(await client.get(path, headers=headers)).status_code for path in paths}


# --- tokens ---


async def test_with_a_token_only_livez_and_the_empty_docs_page_answer_without_it(
    tmp_path: Path,
) -> None:
    """Nothing can be learned or done without the token; the page of the docs holds no data.

    Behind a proxy the name of the host is the proxy's, and the token is what counts.
    """
    server = ServerConfig(api_token=USER)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        async with gateway.client() as client:
            without = await statuses(client, PATHS)
            wrong = await statuses(client, PATHS, {"Authorization": f"Bearer {USER[:-1]}"})
            basic = await statuses(client, PATHS, {"Authorization": f"Basic {USER}"})
            open_to_all = await statuses(client, ("/livez", "/docs"))
            refused = await client.post("/api/v1/sessions", json={"agent": "test"})
        async with gateway.client(token=USER) as client:
            right = await statuses(client, PATHS[:-1])
            by_proxy = await statuses(client, PATHS[:-1], {"Host": "agents.example"})
            created = await client.post("/api/v1/sessions", json={"agent": "test"})

    assert without == wrong == basic == {401}
    assert open_to_all == right == by_proxy == {200}
    assert refused.json()["type"] == "urn:everturn:problem:unauthorized"
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert USER not in refused.text
    assert created.status_code == 201


async def test_the_administration_needs_its_own_token_where_there_is_one(tmp_path: Path) -> None:
    """Who may talk to agents may not therefore reload them."""
    server = ServerConfig(api_token=USER, admin_token=ADMIN)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        answers = {}
        for token in ("", USER, ADMIN):
            async with gateway.client(token=token) as client:
                answers[token] = (await client.get("/api/v1/admin/agents")).status_code

    assert answers == {"": 401, USER: 403, ADMIN: 200}


async def test_without_an_admin_token_the_administration_is_closed_beyond_loopback(
    tmp_path: Path,
) -> None:
    """Closed by default: an API token that many have opens no administration to the network.

    Nor does it send anything into the network behind, by a job with a webhook.
    """
    server = ServerConfig(host="0.0.0.0", api_token=USER)  # noqa: S104 - the case
    job = {"agent": "test", "every": 3600, "message": "x", "to": {"channel": "http", "chat": "a"}}
    async with open_http_gateway(tmp_path, server=server) as gateway:
        gateway.base_url = gateway.base_url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        async with gateway.client(token=USER) as client:
            admin = await client.get("/api/v1/admin/agents")
            agents = await client.get("/api/v1/agents")
            to_webhook = {**job, "to": {"webhook": "https://hooks.example.org/x"}}
            hook = await client.post("/api/v1/schedules", json=to_webhook)
            plain = await client.post("/api/v1/schedules", json=job)

    for closed in (admin, hook):
        assert closed.status_code == 403
        assert closed.json()["type"] == "urn:everturn:problem:admin-closed"
    assert (agents.status_code, plain.status_code) == (200, 201)


@on_one_gateway(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:8080"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "[::1"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Origin": "http://localhost:3000"}, 200),
    ],
)
async def test_without_a_token_a_foreign_page_gets_nothing(
    gateway: HttpGateway, headers: dict[str, str], status: int
) -> None:
    """A browser on this machine cannot be made to talk to the agents by a page from elsewhere."""
    async with gateway.client() as client:
        answers = [
            await client.get(each, headers=headers) for each in ("/api/v1/agents", "/metrics")
        ]

    for answer in answers:
        assert answer.status_code == status, answer.url
        if status == 403:
            assert answer.json()["type"] == "urn:everturn:problem:foreign-host"


# --- limits ---


async def test_connections_beyond_the_limit_get_503(tmp_path: Path) -> None:
    """One client too many is told so, and those that are there are served."""
    server = ServerConfig(max_connections=1)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        async with gateway.client() as first, gateway.client() as second:
            session = await first.post("/api/v1/sessions", json={"agent": "test"})
            path = f"/api/v1/sessions/{session.json()['id']}/events"
            async with first.stream("GET", path) as response:
                events = server_events(response)
                begun = await anext(events)
                refused = await second.get("/api/v1/agents")
                await events.aclose()
        async with gateway.client() as third:
            later = await third.get("/livez")

    assert begun.event == "session_started"
    assert refused.status_code == 503
    assert refused.json()["type"] == "urn:everturn:problem:too-many-connections"
    assert refused.headers["retry-after"] == "1"
    assert later.status_code == 200


@asynccontextmanager
async def following(gateway: HttpGateway, session_id: str) -> AsyncGenerator[None]:
    """Follow a session with a connection of one's own."""
    path = f"/api/v1/sessions/{session_id}/events"
    async with gateway.client() as client, client.stream("GET", path) as response:
        assert response.status_code == 200
        async with aclosing(server_events(response)) as events:
            await anext(events)
            yield


async def test_followers_leave_room_for_messages_and_health(tmp_path: Path) -> None:
    """As many as may follow do; the next is told to come again, and everything else works."""
    server = ServerConfig(max_connections=6, max_followers=4)
    async with open_http_gateway(tmp_path, server=server) as gateway, AsyncExitStack() as stack:
        session = await gateway.session()
        for _ in range(4):
            await stack.enter_async_context(following(gateway, session))
        path = f"/api/v1/sessions/{session}"
        async with gateway.client() as client:
            refused = await client.get(f"{path}/events")
            unknown = await client.get("/api/v1/sessions/s-unknown/events")
            answered = await client.post(f"{path}/messages", json={"content": "Hello"})
            health = [
                (await client.get(each)).status_code for each in ("/livez", "/readyz", "/metrics")
            ]
        await stack.aclose()
        async with following(gateway, session):
            pass

    assert refused.status_code == unknown.status_code == 503
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.headers["retry-after"] == "5"
    assert refused.json()["type"] == "urn:everturn:problem:too-many-followers"
    assert answered.status_code == 200
    assert health == [200, 200, 200]


async def test_whoever_watches_is_answered_when_nobody_else_is(tmp_path: Path) -> None:
    """Every connection waits for an answer, and still the process can be looked at."""
    provider = ScriptedProvider()
    provider.hold()
    server = ServerConfig(max_connections=3)
    async with (
        open_http_gateway(tmp_path, server=server, provider=provider) as gateway,
        anyio.create_task_group() as tasks,
    ):
        sessions = [await gateway.session() for _ in range(3)]

        async def ask(session: str) -> None:
            async with gateway.client() as client:
                path = f"/api/v1/sessions/{session}/messages"
                answers.append(await client.post(path, json={"content": "Hello"}))

        answers = list[httpx2.Response]()
        for session in sessions:
            tasks.start_soon(ask, session)
        await provider.until_called(3)
        async with gateway.client() as client:
            refused = await client.get("/api/v1/agents")
            health = [
                (await client.get(each)).status_code for each in ("/livez", "/readyz", "/metrics")
            ]
        provider.release()

    assert refused.status_code == 503
    assert health == [200, 200, 200]
    assert [each.status_code for each in answers] == [200] * 3


async def test_a_client_that_reads_nothing_does_not_keep_its_connection(tmp_path: Path) -> None:
    """It has asked, so it is not silent; two of them would take all there are for ever."""
    provider = ScriptedProvider("x" * 12_000_000)  # more than a kernel takes for a client
    server = ServerConfig(max_connections=2, idle_timeout_s=0.3)
    async with (
        open_http_gateway(tmp_path, server=server, provider=provider) as gateway,
        AsyncExitStack() as stack,
    ):
        path = f"/api/v1/sessions/{await gateway.session()}/messages"
        async with gateway.client() as client:
            await client.post(path, json={"content": "Hello"})
        for _ in range(2):
            deaf = await stack.enter_async_context(await connect(gateway))
            await deaf.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        status = 503
        with anyio.fail_after(DEADLINE_S):
            while status == 503:
                async with gateway.client() as client:
                    # On a busy machine this one may be silent for too long as well.
                    with suppress(httpx2.TransportError):
                        status = (await client.get("/api/v1/agents")).status_code
                await anyio.lowlevel.checkpoint()

    assert status == 200


async def test_a_silent_or_idle_connection_is_closed(tmp_path: Path) -> None:
    """Connections that never come to a request, or to the next one, cannot use the server up."""
    whole = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    server = ServerConfig(idle_timeout_s=0.3)
    async with (
        open_http_gateway(tmp_path, server=server) as gateway,
        AsyncExitStack() as stack,
    ):
        streams = []
        for said in (b"", whole[:13], whole[:-10], whole):
            stream = await stack.enter_async_context(await connect(gateway))
            if said:
                await stream.send(said)
            streams.append(stream)
        *silent, answered = [await read_all(stream) for stream in streams]

    assert silent == [b"", b"", b""]
    assert answered.startswith(b"HTTP/1.1 200 OK")
    assert answered.endswith(b'{"status":"ok"}')


@on_one_gateway(
    "said",
    [
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 80_000,  # kept as it arrives
        b"\x16\x03\x01 hello\r\n\r\n",
    ],
)
async def test_an_endless_head_and_what_is_not_http_are_refused(
    gateway: HttpGateway, said: bytes
) -> None:
    """A client of another protocol is told, and the server goes on."""
    async with await connect(gateway) as stream:
        await stream.send(said)
        answer = await read_all(stream)
    async with gateway.client() as client:
        later = await client.get("/livez")

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer
    assert later.status_code == 200


async def test_a_body_that_does_not_come_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is never completed does not hold its connection for ever."""
    monkeypatch.setattr(front, "GRACE_S", 0)
    server = ServerConfig(request_timeout_s=0.05)
    async with (
        open_http_gateway(tmp_path, server=server) as gateway,
        await connect(gateway) as stream,
    ):
        await stream.send(
            b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        answer = await read_all(stream)

    assert answer.startswith(b"HTTP/1.1 504 ")
    assert b"urn:everturn:problem:timeout" in answer


async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    """The limits on a connection know how many requests are open on it."""
    async with open_http_gateway(tmp_path) as gateway, await connect(gateway) as stream:
        request = b"GET /%b HTTP/1.1\r\nHost: localhost\r\n%b\r\n"
        await stream.send(
            request % (b"livez", b"")
            + request % (b"version", b"")
            + request % (b"readyz", b"Connection: close\r\n")
        )
        answer = await read_all(stream)

    assert [answer.find(word) for word in (b'"ok"', b'"1.2.3"', b'"ready"')] == sorted(
        answer.find(word) for word in (b'"ok"', b'"1.2.3"', b'"ready"')
    )
    assert answer.count(b"HTTP/1.1 200 OK") == 3


# --- listening ---


async def test_where_it_cannot_or_must_not_listen_is_named(tmp_path: Path) -> None:
    """A port that is taken, a mistyped host, and, closed by default, all hosts without a token.

    The operator learns which address it was, instead of a traceback.
    """
    async with open_http_gateway(tmp_path) as gateway:
        port = int(gateway.base_url.rpartition(":")[2])
        config = gateway.config

        async def error_of(server: ServerConfig) -> GatewayError:
            gateway.config = type(config)(
                workspace=config.workspace, agents_dir=config.agents_dir, server=server
            )
            with pytest.raises(GatewayError) as caught:
                await serve_http(gateway, on_ready=lambda _: None)
            return caught.value

        in_use = await error_of(ServerConfig(port=port))
        others = {
            host: await error_of(ServerConfig(host=host, port=0, api_token=USER))
            for host in ("192.0.2.1", "no-such-name.invalid")
        }
        open_to_all = await error_of(ServerConfig(host="0.0.0.0", port=0))  # noqa: S104 - the case

    assert str(in_use).startswith(f"cannot listen on 127.0.0.1:{port}: the port is in use")
    for host, error in others.items():
        assert f"cannot listen on {host}:0" in str(error)
    assert isinstance(open_to_all, ConfigError)
    assert [fault.field for fault in open_to_all.faults] == ["server.host"]


async def test_a_server_reports_its_port_frees_it_and_leaves_signals_alone(tmp_path: Path) -> None:
    """Port 0 takes a free one, which a restart finds again; nobody learns of which software it is.

    Who stops the gateway is decided in one place, and it is not the HTTP server.
    """
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    local = ServerConfig(host="localhost")
    async with open_http_gateway(tmp_path, server=local) as gateway, gateway.client() as client:
        during = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        host, _, port = gateway.base_url.rpartition(":")
        answer = await client.get("/livez")
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", int(port)))
        again.listen()

    assert during == before
    assert (host, int(port) > 0) == ("http://localhost", True)
    assert answer.status_code == 200
    assert not {"server", "x-powered-by"} & set(answer.headers)
