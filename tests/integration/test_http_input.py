"""Bad input over HTTP: a clear problem that names the place, and nothing is lost or stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.gateway import HttpGateway, open_http_gateway
from support.one_gateway import on_one_gateway

from everturn_actors.errors import JournalWriteError
from everturn_actors.events import Event, ModelReplied, Received
from everturn_actors.journal.files import FileStore
from everturn_actors.service import TurnService
from everturn_gateway.config.settings import ServerConfig

JSON = {"Content-Type": "application/json"}


@on_one_gateway(
    ("body", "status", "detail"),
    [
        (b"{", 400, "at character 1"),
        (b'{"content": "a"', 400, "at character 15"),
        (b'{"content": "a\xff"}', 400, "invalid UTF-8 at byte 14"),
        (b"[" * 100_000, 400, "nested too deeply"),
        (b'{"content": ' + b"9" * 5000 + b"}", 400, "digits"),
        (b"", 422, "no body"),
        (b"[]", 422, "has to be a JSON object"),
        (b"null", 422, "has to be a JSON object"),
        (b"{}", 422, "#/content: Field required"),
        (b'{"content": null}', 422, "#/content: Input should be a valid string"),
        (b'{"content": ""}', 422, "#/content"),
        (b'{"content": " \\n\\t "}', 422, "#/content: must be more than blanks"),
        (b'{"content": "\\ud800"}', 422, "#/content"),
        (b'{"content": "a", "contnet": "b"}', 422, "#/contnet"),
        (b'{"content": "a", "b/~": "b"}', 422, "#/b~1~0"),
        (b'{"content": "a", "\\ud800": "b"}', 422, "not valid Unicode"),
    ],
)
async def test_a_bad_body_is_refused_by_place(
    gateway: HttpGateway, body: bytes, status: int, detail: str
) -> None:
    """Who wrote the client finds the mistake from the answer alone; the session is untouched."""
    async with gateway.client() as client:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}/messages"
        answer = await client.post(path, content=body, headers=JSON)
        state = await gateway.service.view(session_id)
        good = await client.post(path, json={"content": "good"})

    problem = answer.json()
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(problem) >= {"type", "title", "status", "detail", "instance"}
    assert problem["status"] == status
    assert problem["instance"] == path
    assert detail in problem["detail"]
    assert state.last_seq == 1
    assert good.status_code == 200


async def test_a_body_of_another_type_is_refused(tmp_path: Path) -> None:
    """A form that a web page sends without asking never becomes a message."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}/messages"
        answers = [
            await client.post(path, content=b'{"content": "a"}', headers={"Content-Type": kind})
            for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
        ]
        without = await client.post(path, content=b'{"content": "a"}')

    assert [answer.status_code for answer in (*answers, without)] == [415] * 4
    assert "not as text/plain" in answers[0].json()["detail"]


async def test_two_megabytes_are_refused_without_being_read(tmp_path: Path) -> None:
    """The limit protects the memory of the gateway, whether the client tells the size or not."""

    async def chunks() -> object:
        for _ in range(64):
            yield b"x" * 32_768

    server = ServerConfig(max_upload_bytes=1)  # less than any body may have
    async with (
        open_http_gateway(tmp_path, server=server) as gateway,
        gateway.client() as client,
    ):
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}/messages"
        told = await client.post(path, json={"content": "x" * 2_000_000})
        untold = await client.post(path, content=chunks(), headers=JSON)  # type: ignore[arg-type]
        # More than the buffers between hold: the answer must reach a client that still sends.
        huge = await client.post(path, content=b"x" * 20_000_000, headers=JSON)
        good = await client.post(path, json={"content": "x" * 1_000_000})

    assert told.status_code == untold.status_code == huge.status_code == 413
    assert told.json()["limit_bytes"] == untold.json()["limit_bytes"] == 1024 * 1024
    assert told.headers["connection"] == "close"
    assert good.status_code == 200


async def test_a_message_over_its_own_limit_is_refused(tmp_path: Path) -> None:
    """A server with a larger body limit still keeps to what a message may be."""
    server = ServerConfig(max_body_bytes=4 * 1024 * 1024)
    async with (
        open_http_gateway(tmp_path, server=server) as gateway,
        gateway.client() as client,
    ):
        session_id = await gateway.session()
        answer = await client.post(
            f"/api/v1/sessions/{session_id}/messages", json={"content": "x" * 2_000_000}
        )

    assert answer.status_code == 422
    assert "2000000 bytes" in answer.json()["detail"]


@on_one_gateway(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nothing", 404, "not-found"),
        ("GET", "/api/v1/sessions/", 404, "not-found"),
        ("GET", "/api/v1/nothing", 404, "not-found"),
        ("PUT", "/api/v1/sessions", 405, "method-not-allowed"),
        ("POST", "/livez", 405, "method-not-allowed"),
        ("GET", "/api/v1/sessions?limit=0", 422, "invalid-input"),
        ("GET", "/api/v1/sessions?limit=abc", 422, "invalid-input"),
        ("GET", "/api/v1/sessions/x/messages?after=zzz", 422, "invalid-input"),
        ("GET", "/api/v1/sessions/a%20b%0A%C3%A4/messages", 404, "unknown-session"),
    ],
)
async def test_every_error_is_a_problem_document(
    gateway: HttpGateway, method: str, path: str, status: int, kind: str
) -> None:
    """A client reads all errors in one way, also those of the routing.

    The instance is a reference that a client may put into an address again.
    """
    async with gateway.client() as client:
        answer = await client.request(method, path)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"urn:everturn:problem:{kind}"
    assert answer.json()["instance"] == path.partition("?")[0]
    assert ("allow" in answer.headers) == (status == 405)


@on_one_gateway(
    "body",
    [
        {},
        {"agent": ""},
        {"agent": 7},
        {"agent": "test", "chat": ""},
        {"agent": "test", "chat": "line\nbreak"},
        {"agent": "test", "chat": "x" * 257},
        {"agent": "test", "more": 1},
    ],
)
async def test_a_bad_session_is_refused(gateway: HttpGateway, body: dict[str, object]) -> None:
    """Nothing is begun for a request that is not understood."""
    async with gateway.client() as client:
        answer = await client.post("/api/v1/sessions", json=body)
        rows = (await client.get("/api/v1/sessions")).json()["sessions"]

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith("#/")
    assert rows == []


async def test_a_mistake_of_ours_is_500_and_shows_nothing_of_the_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traceback is for the log; the next request is served."""

    async def broken(_: TurnService, session_id: str) -> None:
        msg = f"inside of {session_id}"
        raise RuntimeError(msg)

    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        session_id = await gateway.session()
        monkeypatch.setattr(TurnService, "view", broken)
        failed = await client.get(f"/api/v1/sessions/{session_id}")
        later = await client.get("/livez")

    assert failed.status_code == 500
    assert failed.json()["type"] == "urn:everturn:problem:internal"
    assert "inside" not in failed.text.replace("inside Everturn", "")
    assert later.status_code == 200


async def test_a_disk_that_fails_is_told_by_what_was_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepted means durable, and stays accepted: the answer names the message, which goes on.

    Where it cannot be durable, the client hears so and can send it again.
    """
    append = FileStore.append
    refused_kinds: tuple[type[object], ...] = (Received,)

    async def full(
        self: FileStore, session_id: str, events: tuple[Event, ...], *, expected_seq: int
    ) -> None:
        if any(isinstance(event.body, refused_kinds) for event in events):
            msg = "no space left on device"
            raise JournalWriteError(msg)
        await append(self, session_id, events, expected_seq=expected_seq)

    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        path = f"/api/v1/sessions/{await gateway.session()}/messages"
        monkeypatch.setattr(FileStore, "append", full)
        refused = await client.post(path, json={"content": "hi"})
        monkeypatch.setattr(FileStore, "append", append)
        sent_again = await client.post(path, json={"content": "hi"})
        path = f"/api/v1/sessions/{await gateway.session()}"
        refused_kinds = (ModelReplied,)
        monkeypatch.setattr(FileStore, "append", full)
        failed = await client.post(f"{path}/messages", json={"content": "hi"})
        streamed = await client.post(f"{path}/stream", json={"content": "ho"})
        monkeypatch.setattr(FileStore, "append", append)
        again = await client.post(f"{path}/messages", json={"content": "hu"})
        messages = (await client.get(f"{path}/messages")).json()["messages"]

    assert refused.status_code == 507
    assert refused.json()["type"] == "urn:everturn:problem:not-written"
    assert "no space left" in refused.json()["detail"]
    assert sent_again.status_code == 200
    assert sent_again.json()["turn_id"] == "t1"
    assert failed.status_code == 503
    assert failed.json()["type"] == "urn:everturn:problem:session-failed"
    assert failed.json()["message_id"] == "m2"
    assert "event: error" in streamed.text
    assert "urn:everturn:problem:session-failed" in streamed.text
    assert again.status_code == 200
    assert [m["content"] for m in messages if m["role"] == "user"] == ["hi", "ho", "hu"]


async def test_a_damaged_journal_is_told_and_stops_no_other_session(tmp_path: Path) -> None:
    """The problem names the file to look at; the neighbour works on."""
    async with open_http_gateway(tmp_path) as gateway:
        bad, good = await gateway.session(), await gateway.session()
        async with gateway.client() as client:
            for _ in range(3):
                await client.post(f"/api/v1/sessions/{bad}/messages", json={"content": "hi"})
    log = next(log for log in (tmp_path / "workspace").rglob("events.jsonl") if bad in str(log))
    whole = log.with_name("events.archive.jsonl").read_bytes().splitlines(keepends=True)
    log.write_bytes(b"{garbage}\n" + whole[-1])
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        damaged = await client.get(f"/api/v1/sessions/{bad}")
        works = await client.post(f"/api/v1/sessions/{good}/messages", json={"content": "hi"})

    assert damaged.status_code == 500
    assert damaged.json()["type"] == "urn:everturn:problem:journal-damaged"
    assert "events.jsonl" in damaged.json()["detail"]
    assert works.status_code == 200
