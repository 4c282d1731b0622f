"""Requests to the gateway, made bad: a clear answer, never a fault of the server, and it goes on.

The gateway is real and listens; each test talks to one. Beside these, `test_openapi` tries what the
schema of the API forbids. See `test_fuzz_journal` for how to run it for longer.
"""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.gateway import HttpGateway, open_http_gateway
from support.mutations import as_json, mutated, torn
from support.patience import WAIT_S
from support.pictures import body_of, picture

SOON_S: Final = 0.1  # an answer that does not come by then is not looked at
LAST: Final = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
AGENT: Final = {"model": "test", "stream": False}
CALL: Final = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CHAT: Final = {
    **AGENT,
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
        {"role": "user", "content": "Well?"},
    ],
    "temperature": 0.5,
    "stream_options": {"include_usage": True},
}
JOB: Final = {
    "id": "mornings",
    "agent": "test",
    "cron": "30 8 * * mon-fri",
    "timezone": "Europe/Berlin",
    "start": "2030-03-28T00:00",
    "message": "Stand-up!",
    "to": {"channel": "http", "chat": 17, "topic": "x"},
    "misfire": "skip",
    "jitter_seconds": 60,
    "max_runs": 3,
}
PICTURE: Final = body_of(picture())
SHOWN: Final = {
    "type": "image_url",
    "image_url": {"url": f"data:image/png;base64,{PICTURE['data']}"},
}
WORD: Final = {"call_id": "a", "decision": "once", "sender": "ann", "arguments_hash": "0"}
BODIES: Final[tuple[tuple[str, Any], ...]] = (
    ("/api/v1/sessions", {"agent": "test", "chat": "c", "channel": "http"}),
    ("/api/v1/sessions/SESSION/messages", {"content": "Hi", "attachments": [PICTURE]}),
    ("/api/v1/sessions/SESSION/approve", WORD),
    ("/api/v1/sessions/SESSION/compact", {"focus": "the prices"}),
    ("/v1/chat/completions", CHAT),
    ("/v1/chat/completions", {**AGENT, "messages": [{"role": "user", "content": [SHOWN]}]}),
    ("/api/v1/schedules", JOB),
)
POST: Final = """\
POST /api/v1/sessions/SESSION/messages?x=%61 HTTP/1.1
Host: localhost
Accept: text/event-stream
Content-Type: application/json; charset=utf-8
Last-Event-ID: 3
Idempotency-Key: k-1
Origin: http://127.0.0.1
Content-Length: 16

"""
FOLLOW: Final = """\
GET /api/v1/sessions/SESSION/events?after=0&limit=5 HTTP/1.1
Host: 127.0.0.1
Range: bytes=0-

"""
LIST: Final = """\
GET /api/v1/sessions?limit=2 HTTP/1.1
Host: [::1]:80
If-None-Match: "a"

"""
ASK: Final = """\
OPTIONS /v1/models HTTP/1.1
Host: localhost
Origin: http://localhost
Access-Control-Request-Method: GET

"""
CHUNKED: Final = POST.replace("Content-Length: 16", "Transfer-Encoding: chunked")
HEADS: Final = tuple(
    head.replace("\n", "\r\n").encode() for head in (POST, CHUNKED, FOLLOW, LIST, ASK)
)
TOKENS: Final = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b": ",
        b":",
        b"\0",
        b" ",
        b"\t",
        b"HTTP/1.0",
        b"HTTP/2.0",
        b"%00",
        b"%",
    ),
    *(
        b"..%2f..%2f",
        b"//",
        b"?",
        b"#",
        b"Content-Length: 5\r\n",
        b"Content-Length: -1\r\n",
        b"\xff",
    ),
    *(b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"Upgrade: websocket\r\n"),
    *(
        b"Connection: Upgrade\r\n",
        b"ffffffffffffffff\r\n",
        b"0\r\n\r\n",
        b"5\r\nhello\r\n",
        b"PRI * ",
    ),
    *(b"Last-Event-ID: 99999999999999999999\r\n", b"Idempotency-Key: " + b"k" * 600 + b"\r\n"),
    *(b"Host: [::1\r\n", b"Content-Type: multipart/form-data; boundary=\r\n", b"limit=1e99&"),
    *(b"after=-1&", b"a" * 9_000),
)
STATUS: Final = re.compile(rb"(?:\A|\n)HTTP/1\.1 (\d\d\d) ")


def exchange(gateway: HttpGateway, data: bytes) -> bytes:
    """Send bytes and then a request that ends the connection; return what comes back in time."""
    address = urlsplit(gateway.base_url)
    with socket.create_connection((address.hostname, address.port), timeout=SOON_S) as line:
        answer = b""
        # What is left open is waited for by the server; to hang up is its right as well.
        with suppress(ConnectionError, TimeoutError):
            line.sendall(data + LAST)
            while piece := line.recv(65536):
                answer += piece
        return answer


def request(path: str, body: bytes) -> bytes:
    """Return a request that is whole."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def asked(gateway: HttpGateway, data: bytes) -> bytes:
    """Send a request whole, and return the answer; the server closes the connection."""
    address = urlsplit(gateway.base_url)
    with socket.create_connection((address.hostname, address.port), timeout=WAIT_S) as line:
        line.sendall(data)
        answer = b""
        while piece := line.recv(65536):
            answer += piece
        return answer


async def trying(
    gateway: HttpGateway, attempts: Callable[[], None], log: pytest.LogCaptureFixture
) -> None:
    """Run a property beside the gateway; nothing may fail, and a good message is answered then."""
    await anyio.to_thread.run_sync(attempts)
    async with gateway.client() as client:
        session = await gateway.session()
        answer = await client.post(f"/api/v1/sessions/{session}/messages", json={"content": "Hi"})

    assert answer.status_code == 200, answer.text
    assert [record for record in log.records if record.levelno >= logging.ERROR] == []


async def test_any_body_is_taken_or_refused_by_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Who wrote the client finds the mistake from the answer; nobody else notices."""
    async with open_http_gateway(tmp_path) as gateway:
        session = await gateway.session()

        @examples(20)
        @given(
            st.sampled_from(BODIES).flatmap(
                lambda chosen: st.tuples(
                    st.just(chosen[0]),
                    mutated(chosen[1]).map(as_json) | torn(as_json(chosen[1])),
                )
            )
        )
        def attempts(sent: tuple[str, bytes]) -> None:
            path, body = sent
            answer = asked(gateway, request(path.replace("SESSION", session), body))
            head, _, said = answer.partition(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])

            assert status < 500
            if status >= 400:
                problem = json.loads(said)
                assert problem.get("detail") or problem["error"]["message"]

        await trying(gateway, attempts, caplog)


async def test_any_head_is_answered_or_hung_up_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody who reaches the port can send these, without any token."""
    async with open_http_gateway(tmp_path) as gateway:
        session = (await gateway.session()).encode()

        @examples(20)
        @given(
            st.sampled_from(HEADS).flatmap(lambda head: torn(head, tokens=TOKENS, most=6)),
            st.sampled_from([b"", b'{"content":"Hi"}', b'10\r\n{"content":"Hi"}\r\n0\r\n\r\n']),
        )
        def attempts(head: bytes, body: bytes) -> None:
            answer = exchange(gateway, head.replace(b"SESSION", session) + body)

            for status in STATUS.findall(answer):
                assert int(status) < 500, answer

        await trying(gateway, attempts, caplog)
