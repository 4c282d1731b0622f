"""What a stranger, or a web page, can do to the HTTP server: nothing that lasts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import SocketStream
from support.gateway import DEADLINE_S, HttpGateway, connect, open_http_gateway, read_all
from support.one_gateway import on_one_gateway

from everturn_channels.health import ChannelStatus
from everturn_channels.ingestion.deliveries import DeliveryAnswer
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http import protocol

USER, ADMIN = "user-token", "admin-token"
OPEN = {("get", "/livez")}
WEBHOOK = "/channels/{name}/webhook"
HEAD = b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
MEGABYTE = 1024 * 1024

SECRET = "X-Telegram-Bot-Api-Secret-Token"


async def pushed(stream: SocketStream, piece: bytes, most_bytes: int) -> int:
    """Send a piece again and again until the server hangs up; return how many bytes it took."""
    sent = 0
    with anyio.fail_after(DEADLINE_S):
        try:
            while sent < most_bytes:
                await stream.send(piece)
                sent += len(piece)
        except (anyio.BrokenResourceError, OSError):
            pass
    return sent


# --- who may ask ---


async def test_every_route_needs_a_token_but_the_one_that_says_that_it_lives(
    tmp_path: Path,
) -> None:
    """A route that somebody adds later is closed as well, unless it is opened on purpose."""
    config = ServerConfig(api_token=USER, admin_token=ADMIN)
    async with (
        open_http_gateway(tmp_path, server=config) as gateway,
        gateway.client(token=USER) as knows,
        gateway.client() as stranger,
        gateway.client(token=USER[:-1]) as guesses,
    ):
        paths = (await knows.get("/openapi.json")).json()["paths"]
        routes = [(method, path) for path, methods in paths.items() for method in methods]
        answers = {
            (method, path): (await stranger.request(method, path, json={})).status_code
            for method, path in routes
            if path != WEBHOOK
        }
        unknown = (await stranger.get("/nothing")).status_code
        guessed = {(await guesses.request(each, path, json={})).status_code for each, path in OPEN}
        guessed |= {(await guesses.get(path)).status_code for path in ("/version", "/nothing")}

    assert len(answers) > 30
    assert {route for route, status in answers.items() if status != 401} == OPEN
    assert unknown == 401
    assert guessed == {200, 401}


@on_one_gateway("path", ["/v1/chat/completions", "/api/v1/sessions", "/v1/models"])
async def test_a_page_from_elsewhere_reaches_no_route_whatever_it_sends(
    gateway: HttpGateway, path: str
) -> None:
    """The routes of OpenAI's clients are under the same rules: rebound names, other sites."""
    rebound = {"Host": "evil.example:8080"}
    other = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
    async with gateway.client() as client:
        refused = [
            (await client.post(path, headers=headers, content=b'{"agent": "test"}')).status_code
            for headers in (rebound, other, {"Origin": "null"}, {"Origin": "http://localhost.evil"})
        ]
        # a form, or a script of a page on this machine, sends without being asked beforehand
        forms = [
            (await client.post("/api/v1/sessions", headers=headers, content=b'{"agent": "test"}'))
            for headers in (
                {"Content-Type": "text/plain"},
                {"Content-Type": "application/x-www-form-urlencoded"},
                {},
            )
        ]
        here = await client.get("/api/v1/sessions", headers={"Origin": "http://localhost:3000"})

    assert refused == [403] * 4
    assert [answer.status_code for answer in forms] == [415] * 3
    assert here.json()["sessions"] == []
    assert not [name for name in here.headers if name.startswith("access-control")]


async def test_the_page_of_the_docs_stands_in_no_other_page(tmp_path: Path) -> None:
    """Framed unseen, its buttons could be clicked for somebody."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        answer = await client.get("/docs")

    policy = answer.headers["content-security-policy"]
    assert {"frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"} <= set(
        policy.split("; ")
    )
    assert answer.headers["x-frame-options"] == "DENY"


# --- how much ---


async def test_connections_that_say_nothing_keep_nobody_out(tmp_path: Path) -> None:
    """They need no token; the one that was silent for longest makes room for who speaks."""
    config = ServerConfig(max_connections=5)
    async with open_http_gateway(tmp_path, server=config) as gateway, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(await connect(gateway)) for _ in range(20)]
        ends = [await read_all(each) for each in silent[:15]]
        async with gateway.client() as client:
            answer = await client.get("/livez")
        await silent[19].send(
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        late = await read_all(silent[19])

    assert ends == [b""] * 15
    assert answer.status_code == 200
    assert late.startswith(b"HTTP/1.1 200 ")


async def test_what_never_becomes_a_request_is_not_kept(tmp_path: Path) -> None:
    """All of this is sent without a token, and stood in memory until its connection ended."""
    config = ServerConfig(api_token=USER)
    async with open_http_gateway(tmp_path, server=config) as gateway:
        for name, begin, piece in (
            ("trailers", HEAD + b"0\r\n", (b"X: " + b"a" * 997 + b"\r\n") * 64),
            ("one trailer", HEAD + b"0\r\nX: ", b"a" * 65536),
            ("extension of a chunk", HEAD + b"1;", b"a" * 65536),
            ("head", b"GET /livez HTTP/1.1\r\n", b"X: " + b"a" * 65531 + b"\r\n"),
            ("address", b"GET /", b"a" * 65536),
        ):
            async with await connect(gateway) as stream:
                await stream.send(begin)
                taken = await pushed(stream, piece, 64 * MEGABYTE)

            # what lies in the buffers of both sockets is taken by nobody
            assert taken < 32 * MEGABYTE, name


async def test_requests_that_nobody_waits_for_are_not_queued_without_end(tmp_path: Path) -> None:
    """Forty bytes each, and two kilobytes of memory: a stranger could send a million of them.

    The limit is for floods, not for clients that pipeline: as many as it allows are answered.
    """
    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n%b\r\n"
    ahead = request % b"" * (protocol.PIPELINED_MOST - 1) + request % b"Connection: close\r\n"
    async with open_http_gateway(tmp_path) as gateway:
        async with await connect(gateway) as stream:
            taken = await pushed(stream, request % b"" * 2000, 64 * MEGABYTE)
            async with gateway.client() as client:
                later = await client.get("/livez")
        async with await connect(gateway) as stream:
            await stream.send(ahead)
            answer = await read_all(stream)

    assert protocol.PIPELINED_MOST == 32
    assert taken < 32 * MEGABYTE
    assert later.status_code == 200
    assert answer.count(b"HTTP/1.1 200 OK") == protocol.PIPELINED_MOST


# --- deliveries of platforms ---


@dataclass(slots=True)
class OneWebhook:
    """Channels of which one takes deliveries that show the secret."""

    taken: list[bytes] = field(default_factory=list[bytes])

    def statuses(self) -> tuple[ChannelStatus, ...]:
        """Return nothing: nobody asks."""
        return ()

    def troubled(self) -> tuple[ChannelStatus, ...]:
        """Return nothing: all is well."""
        return ()

    async def check(self, name: str) -> None:
        """Know of no channel: nobody asks."""
        del name

    def admits_webhook(self, name: str, headers: Mapping[str, str]) -> bool | None:
        """Return whether the secret is the right one."""
        return headers.get(SECRET) == "right" if name == "telegram" else None

    async def take_webhook(
        self, name: str, headers: Mapping[str, str], body: bytes
    ) -> DeliveryAnswer | None:
        """Note what came."""
        assert (name, headers[SECRET]) == ("telegram", "right")
        self.taken.append(body)
        return DeliveryAnswer(status=200)

    def answer_challenge(self, name: str, query: Mapping[str, str]) -> None:
        """Know of no challenge: nobody asks."""
        del name, query


@on_one_gateway(
    ("name", "secret", "status"),
    [("telegram", "wrong", b"401"), ("telegram", "", b"401"), ("other", "right", b"404")],
)
async def test_a_delivery_without_the_secret_is_refused_before_its_body(
    gateway: HttpGateway, name: str, secret: str, status: bytes
) -> None:
    """Anybody finds the address; a megabyte for each that comes would be a lot of memory."""
    channels = gateway.channels = OneWebhook()
    async with await connect(gateway) as stream:
        await stream.send(
            f"POST /channels/{name}/webhook HTTP/1.1\r\nHost: bot.example\r\n"
            f"X-Telegram-Bot-Api-Secret-Token: {secret}\r\nContent-Length: 1000000\r\n\r\n".encode()
        )
        with anyio.fail_after(DEADLINE_S):
            answer = await stream.receive()

    assert answer.startswith(b"HTTP/1.1 " + status)
    assert channels.taken == []
