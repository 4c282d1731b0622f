"""People and programs with tokens of their own, over real HTTP: what each sees and may do."""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from fastapi.routing import APIRoute
from support.gateway import DEADLINE_S, HttpGateway, open_http_gateway, server_events, write_agent
from support.pictures import body_of, picture
from support.tables import table

from everturn_actors.errors import UnknownSessionError
from everturn_actors.events import Received, SessionEnded, SessionStarted, TurnFinished
from everturn_actors.model import Reply, ToolCall, Usage
from everturn_actors.ports import Clock
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http.access.scopes import RULES
from everturn_gateway.http.access.visibility import ANSWER_STEP_S
from everturn_gateway.http.asgi import create_app
from everturn_gateway.principals import SCOPES, Principal, Scope

API, ADMIN = "api-token-of-the-configuration", "admin-token-of-the-configuration"
GUARDED = ServerConfig(api_token=API, admin_token=ADMIN)
SESSIONS = "/api/v1/sessions"
_DEADLINE_S = 60 * DEADLINE_S  # hundreds of requests, and what is not there takes its time


class ClockAhead(SystemClock):
    """The machine's clock, put ahead by a test."""

    ahead = timedelta()

    def now(self) -> datetime:
        """Return the present instant of this clock."""
        return super().now() + self.ahead


@dataclass(slots=True)
class People:
    """A gateway, and a client of each who has a token."""

    gateway: HttpGateway
    stack: AsyncExitStack

    async def client(self, name: str, *scopes: Scope, **limits: Any) -> httpx2.AsyncClient:
        """Make a token and return a client that sends it."""
        return await self.holder(await self.gateway.token(name, *scopes, **limits))

    async def revoke(self, name: str) -> None:
        """Revoke a token, as the command line does."""
        now = datetime.now(UTC)  # noqa: TID251 - that of the command line
        await self.gateway.stored_tokens.revoke(name, now)

    async def holder(self, token: str) -> httpx2.AsyncClient:
        """Return a client that sends a token."""
        return await self.stack.enter_async_context(self.gateway.client(token=token))


@asynccontextmanager
async def people(
    folder: Path,
    server: ServerConfig = GUARDED,
    provider: ScriptedProvider | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[People]:
    """Open a gateway with tokens."""
    with anyio.fail_after(_DEADLINE_S):
        async with (
            open_http_gateway(folder, server=server, provider=provider, clock=clock) as gateway,
            AsyncExitStack() as stack,
        ):
            yield People(gateway, stack)


async def begin(client: httpx2.AsyncClient, **body: object) -> str:
    """Begin a session and return its id."""
    answer = await client.post(SESSIONS, json={"agent": "test", **body})
    assert answer.status_code in {200, 201}, answer.text
    return str(answer.json()["id"])


async def say(client: httpx2.AsyncClient, session_id: str, text: str) -> httpx2.Response:
    """Send a message and wait for the answer."""
    return await client.post(f"{SESSIONS}/{session_id}/messages", json={"content": text})


async def listed(client: httpx2.AsyncClient) -> set[str]:
    """Return the ids of all sessions that are listed, page by page."""
    found: set[str] = set()
    after = ""
    while True:
        page = (await client.get(SESSIONS, params={"limit": 1, "after": after})).json()
        found |= {row["id"] for row in page["sessions"]}
        after = page["next"]
        if after is None:
            return found


# --- the table ---


async def test_every_route_has_a_rule_and_every_rule_a_route(tmp_path: Path) -> None:
    """A route that somebody adds and forgets here is closed, and this says so before that."""
    async with open_http_gateway(tmp_path) as gateway:
        app = await anyio.to_thread.run_sync(create_app(gateway).api)
        routes = [r for r in app.routes if isinstance(r, APIRoute)]
    found = [(method, route.path) for route in routes for method in route.methods or ()]

    assert len(found) == len(set(found))
    assert set(found) == set(RULES)
    for (_, path), rule in RULES.items():
        assert ("{session_id}" in path) == (rule.session == "session_id")
        assert ("{schedule_id}" in path) == (rule.job == "schedule_id")


async def test_a_route_that_is_in_no_table_is_closed_to_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgotten means closed, also to whoever runs the gateway."""
    monkeypatch.setattr(
        "everturn_gateway.http.access.scopes.RULES",
        {key: rule for key, rule in RULES.items() if key != ("GET", "/api/v1/usage")},
    )
    async with people(tmp_path) as gateway:
        admin = await gateway.holder(ADMIN)
        closed = await admin.get("/api/v1/usage")
        other = await admin.get("/api/v1/agents")

    assert (closed.status_code, closed.json()["type"]) == (403, "urn:everturn:problem:closed")
    assert other.status_code == 200


PLACES = {
    "session_id": "20261121T224956123-3f9a2c1b",
    "schedule_id": "standup",
    "number": "1",
    "name": "test",
    "path": "agent.yaml",
    "channel": "telegram",
    "sender": "1",
    "model": "test",
    "seq": "1",
    "topic": "language",
    "principal": "bob",
    "response_id": "resp_20261121T224956123-3f9a2c1b_2",
}


def is_endless(answer: httpx2.Response) -> bool:
    """Whether an answer is a stream, for whose end nobody waits."""
    return answer.headers.get("content-type", "").startswith("text/event-stream")


async def test_each_scope_opens_what_the_table_says_and_nothing_else(tmp_path: Path) -> None:
    """The contract of the table, asked of every route with every scope over HTTP."""
    async with people(tmp_path) as gateway:
        clients: dict[Scope, httpx2.AsyncClient] = {
            scope: await gateway.client(f"only-{scope}", scope) for scope in SCOPES
        }
        wrong: list[tuple[str, str, str, int]] = []
        for (method, template), rule in RULES.items():
            path = template.replace(":path", "").format(**PLACES)
            for scope, client in clients.items():
                principal = Principal(name="x", scopes=frozenset[Scope]((scope,)))
                may = rule.need == "open" or principal.may(rule.need)
                async with client.stream(method, path, json={}) as answer:
                    if not is_endless(answer):
                        await answer.aread()
                # Files of agents are closed to everybody where their owner has not opened them.
                is_closed = not is_endless(answer) and b"editing-closed" in answer.content
                refused = answer.status_code == 403 and not is_closed
                if refused == may:
                    wrong.append((scope, method, path, answer.status_code))
                if refused and not path.startswith("/v1/"):
                    assert answer.json()["scope"] == rule.need
                    assert f'scope="{rule.need}"' in answer.headers["www-authenticate"]

    assert wrong == []


async def test_the_document_names_the_scope_of_each_operation(tmp_path: Path) -> None:
    """Whoever makes a token for a program reads there what it needs."""
    async with people(tmp_path) as gateway:
        client = await gateway.client("reader", "read")
        document = (await client.get("/openapi.json")).json()

    told = {
        (method.upper(), path): operation["security"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    rules = {(method, path.replace(":path", "")): rule for (method, path), rule in RULES.items()}
    in_schema = {key: rule for key, rule in rules.items() if key in told}
    # The page, the document, another protocol, and what the console alone asks for.
    beside = {"/docs", "/openapi.json", "/mcp", "/console/login"}
    assert {path for method, path in rules if (method, path) not in told} == beside
    assert told == {
        key: [] if rule.need == "open" else [{"token": [rule.need]}]
        for key, rule in in_schema.items()
    }


# --- what is whose ---


async def test_a_search_finds_what_its_reader_may_see(tmp_path: Path) -> None:
    """Not even how many there are of somebody else."""
    async with people(tmp_path) as gateway:
        alice = await gateway.client("alice", "talk")
        bob = await gateway.client("bob", "talk")
        ops = await gateway.client("ops", "operate")
        hers, his = await begin(alice), await begin(bob)
        await say(alice, hers, "the needle is mine")
        await say(bob, his, "no needle here")
        found = [
            {
                hit["session_id"]
                for hit in (await each.get("/api/v1/search?q=needle")).json()["hits"]
            }
            for each in (alice, bob, ops)
        ]
        await alice.put(f"{SESSIONS}/{hers}/shares/bob")
        given = (await bob.get("/api/v1/search?q=mine")).json()["hits"]

    assert found == [{hers}, {his}, {hers, his}]
    assert {hit["session_id"] for hit in given} == {hers}


async def test_a_principal_sees_what_it_began_and_what_it_was_given(tmp_path: Path) -> None:
    """Two people on one gateway do not read one another, but for what one gives the other."""
    async with people(tmp_path) as gateway:
        alice = await gateway.client("alice", "talk")
        bob = await gateway.client("bob", "talk")
        ops = await gateway.client("ops", "operate")
        owner = await gateway.holder(API)
        hers, his, ours = await begin(alice), await begin(bob), await begin(owner)
        before = await listed(bob)
        given = await alice.put(f"{SESSIONS}/{hers}/shares/bob")
        answered = await say(bob, hers, "Hello, it is me.")
        seen = (await bob.get(f"{SESSIONS}/{hers}")).json()
        after = await listed(bob)
        not_his = await bob.put(f"{SESSIONS}/{hers}/shares/carol")
        everything = await listed(ops), await listed(owner)
        taken = await alice.delete(f"{SESSIONS}/{hers}/shares/bob")
        gone = await bob.get(f"{SESSIONS}/{hers}")
        last = await listed(bob)
        log = await gateway.gateway.service.history(hers, after=0, limit=99)

    assert before == last == {his}
    assert (given.status_code, given.json()["shared_with"]) == (200, ["bob"])
    assert answered.status_code == 200
    assert (seen["principal"], seen["shared_with"]) == ("alice", ["bob"])
    assert after == {hers, his}
    assert (not_his.status_code, not_his.json()["type"]) == (
        403,
        "urn:everturn:problem:not-the-owner",
    )
    assert everything == ({hers, his, ours}, {hers, his, ours})
    assert (taken.json()["shared_with"], gone.status_code) == ([], 404)
    started = next(e.body for e in log if isinstance(e.body, SessionStarted))
    said = next(e.body for e in log if isinstance(e.body, Received))
    assert (started.principal, said.sender) == ("alice", "bob")


async def test_what_is_somebody_elses_is_answered_like_what_is_not_there(tmp_path: Path) -> None:
    """On every route that names a session, in every word, and at the same beat of time."""
    async with people(tmp_path) as gateway:
        alice = await gateway.client("alice", "talk")
        bob = await gateway.client("bob", "talk", "approve", "operate", agents=("other",))
        talker = await gateway.client("carol", "talk", "approve")
        hers = await begin(alice)
        assert (await say(alice, hers, "A secret: plum.")).status_code == 200
        missing = f"{hers[:-8]}{'0' * 8}"
        differing: list[str] = []
        for (method, template), rule in RULES.items():
            if not rule.session:
                continue
            for client in (bob, talker):
                answers = [
                    await client.request(
                        method,
                        template.format(**{**PLACES, "session_id": each}),
                        json={"content": "x"},
                        headers={"Idempotency-Key": "k", "Last-Event-ID": "1"},
                    )
                    for each in (hers, missing)
                ]
                told = [
                    (a.status_code, a.text.replace(each, "ID"), sorted(a.headers))
                    for a, each in zip(answers, (hers, missing), strict=True)
                ]
                if told[0] != told[1] or told[0][0] not in {403, 404} or "plum" in told[0][1]:
                    differing.append(f"{method} {template}: {told}")
                if told[0][0] == 404:
                    waited = [a.elapsed.total_seconds() for a in answers]
                    assert min(waited) >= ANSWER_STEP_S * 0.9

    assert differing == []


async def test_openai_clients_find_no_conversation_of_somebody_else(tmp_path: Path) -> None:
    """Not by the name that another one gave it, nor by the id, in the header or in `user`."""
    async with people(tmp_path) as gateway:
        alice = await gateway.client("alice", "talk")
        bob = await gateway.client("bob", "talk")
        owner = await gateway.holder(API)

        async def chat(client: httpx2.AsyncClient, **more: Any) -> httpx2.Response:
            headers = more.pop("headers", {})
            body = {"model": "test", "messages": [{"role": "user", "content": "Hi"}], **more}
            return await client.post("/v1/chat/completions", json=body, headers=headers)

        hers = await chat(alice, user="ticket 4711")
        session = hers.headers["x-everturn-session"]
        his = await chat(bob, user="ticket 4711")
        ours = await chat(owner, user="ticket 4711")
        again = await chat(alice, headers={"X-Everturn-Session": "ticket 4711"})
        by_id = [
            await chat(bob, user=session),
            await chat(bob, headers={"X-Everturn-Session": session}),
            await chat(bob, user=session, headers={"X-Everturn-Session": session}),
        ]
        missing = await chat(bob, user=f"{session[:-8]}00000000")
        named = [
            (await client.post(SESSIONS, json={"agent": "test", "chat": "x"})).json()["id"]
            for client in (alice, bob, alice, owner)
        ]
        stateless = await chat(bob)

    ids = {each.headers["x-everturn-session"] for each in (hers, his, ours)}
    assert len(ids) == 3
    assert again.headers["x-everturn-session"] == session
    assert {each.status_code for each in by_id} == {404} == {missing.status_code}
    assert {each.text.replace(session, "ID") for each in by_id} == {
        missing.text.replace(f"{session[:-8]}00000000", "ID")
    }
    assert (named[0] == named[2], len(set(named))) == (True, 3)
    assert stateless.status_code == 200


async def test_agents_that_a_principal_does_not_know_are_not_there_for_it(tmp_path: Path) -> None:
    """Not in lists, by name, in the words of an error, nor by their sessions, jobs and usage."""
    await anyio.to_thread.run_sync(lambda: write_agent(tmp_path / "agents", name="secret"))
    async with people(tmp_path) as gateway:
        owner = await gateway.holder(API)
        ops = await gateway.client("ops", "operate", agents=("test", "gone"))
        hidden, shown = await begin(owner, agent="secret"), await begin(owner)
        await say(owner, hidden, "Hello")
        job = {"every": "1d", "message": "x", "to": {"channel": "http", "chat": "c"}}
        for name in ("secret", "test"):
            made = await owner.post(
                "/api/v1/schedules", json={**job, "id": f"job-of-{name}", "agent": name}
            )
            assert made.status_code == 201, made.text
        chat = {"model": "secret", "messages": [{"role": "user", "content": "Hi"}]}
        answers = [
            await ops.get("/api/v1/agents"),
            await ops.get("/v1/models"),
            await ops.get("/api/v1/agents/secret"),
            await ops.get("/api/v1/agents/secret/spec"),
            await ops.get("/api/v1/agents/gone"),
            await ops.get("/v1/models/secret"),
            await ops.post("/v1/chat/completions", json=chat),
            await ops.post(SESSIONS, json={"agent": "secret"}),
            await ops.get(f"{SESSIONS}/{hidden}/messages"),
            await ops.get("/api/v1/schedules"),
            await ops.get("/api/v1/schedules/job-of-secret"),
            await ops.post("/api/v1/schedules/job-of-secret/run"),
            await ops.post("/api/v1/schedules", json={**job, "agent": "secret"}),
            await ops.post(
                "/api/v1/schedules",
                json={"agent": "test", "every": "1d", "message": "x", "to": {"session": hidden}},
            ),
            await ops.get("/api/v1/usage"),
        ]
        sessions = await listed(ops)

    statuses = [each.status_code for each in answers]
    assert statuses == [200, 200, *[404] * 7, 200, 404, 404, 404, 404, 200]
    assert sessions == {shown}
    for answer in answers:
        shown_text = answer.text.replace("job-of-secret", "").replace("/secret", "")
        assert '"secret"' not in shown_text.replace("no agent 'secret'", ""), answer.request.url
    assert "there are: test" in answers[2].json()["detail"]


# --- who did what ---


async def test_the_log_names_who_did_what_and_nobody_speaks_for_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Among several people, each act has a name, and it is that of the token."""
    caplog.set_level(logging.INFO)
    provider = ScriptedProvider()
    async with people(tmp_path, provider=provider) as gateway:
        alice = await gateway.client("alice", "talk")
        ops = await gateway.client("ops", "operate")
        session = await begin(alice)
        provider.hold()
        sent = await alice.post(
            f"{SESSIONS}/{session}/messages",
            json={"content": "Long"},
            headers={"Prefer": "respond-async"},
        )
        await provider.until_called()
        cancelled = await alice.post(f"{SESSIONS}/{session}/cancel")
        provider.release()
        reset = await ops.post(f"{SESSIONS}/{session}/reset")
        log = await gateway.gateway.service.history(session, after=0, limit=99)
        other = await begin(alice)
        deleted = await ops.delete(f"{SESSIONS}/{other}")
        with pytest.raises(UnknownSessionError):
            await gateway.gateway.service.view(other)

    assert (sent.status_code, cancelled.json()) == (202, {"cancelled": True})
    assert (reset.status_code, deleted.status_code) == (204, 204)
    bodies = [event.body for event in log]
    assert [b.by for b in bodies if isinstance(b, TurnFinished | SessionEnded)] == ["alice", "ops"]
    acts = [
        (record.__dict__["principal"], record.__dict__["route"], record.__dict__["status"])
        for record in caplog.records
        if record.message == "acted over HTTP"
    ]
    template = f"{SESSIONS}/{{session_id}}"
    assert acts == [
        ("alice", f"POST {template}/cancel", 200),
        ("ops", f"POST {template}/reset", 204),
        ("ops", f"DELETE {template}", 204),
    ]


# --- tokens that end ---


async def test_a_token_is_in_force_with_the_next_request_and_ends_with_the_next(
    tmp_path: Path,
) -> None:
    """Neither making nor revoking one needs a restart, and a name that comes back has its own."""
    clock = ClockAhead()
    async with people(tmp_path, clock=clock) as gateway:
        alice = await gateway.client("alice", "talk")
        session = await begin(alice)
        await gateway.revoke("alice")
        revoked = await alice.get(f"{SESSIONS}/{session}")
        again = await gateway.client("alice", "read")
        seen = await again.get(f"{SESSIONS}/{session}")
        old = await alice.get(f"{SESSIONS}/{session}")
        short = await gateway.client("short", "read", expires_at=clock.now() + timedelta(hours=1))
        first = await short.get("/version")
        clock.ahead = timedelta(hours=1)
        expired = await short.get("/version")

    assert (revoked.status_code, seen.status_code, old.status_code) == (401, 200, 401)
    assert (first.status_code, expired.status_code) == (200, 401)
    assert "expired" in expired.json()["detail"]
    assert 'error="invalid_token"' in expired.headers["www-authenticate"]


@table("how", ["revoked", "expired", "taken back"])
async def test_what_is_open_ends_within_seconds(tmp_path: Path, how: str) -> None:
    """A stream that outlived its token would go on telling for days."""
    clock = ClockAhead()
    async with people(tmp_path, clock=clock) as gateway:
        alice = await gateway.client("alice", "talk")
        bob = await gateway.client("bob", "talk", expires_at=clock.now() + timedelta(hours=1))
        session = await begin(alice)
        await alice.put(f"{SESSIONS}/{session}/shares/bob")
        events: list[str] = []
        async with (
            bob.stream("GET", f"{SESSIONS}/{session}/events") as response,
            aclosing(server_events(response)) as arriving,
        ):
            async for event in arriving:
                events.append(event.event)
                if events == ["session_started", "session_shared"] and how == "revoked":
                    await gateway.revoke("bob")
                if events == ["session_started", "session_shared"] and how == "expired":
                    clock.ahead = timedelta(hours=1)
                if events == ["session_started", "session_shared"] and how == "taken back":
                    await alice.delete(f"{SESSIONS}/{session}/shares/bob")
        still = await alice.get(f"{SESSIONS}/{session}")

    assert response.status_code == 200
    assert events[-1] == "error"
    assert still.status_code == 200


async def test_a_wait_for_a_turn_ends_with_its_token_and_the_turn_goes_on(tmp_path: Path) -> None:
    """Whoever lost the right to the answer gets none; what was accepted is done all the same."""
    provider = ScriptedProvider()
    async with people(tmp_path, provider=provider) as gateway:
        alice = await gateway.client("alice", "talk")
        ops = await gateway.client("ops", "operate")
        session = await begin(alice)
        provider.hold()
        answers: list[httpx2.Response] = []

        async def wait() -> None:
            answers.append(await say(alice, session, "Long"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await provider.until_called()
            await gateway.revoke("alice")
        provider.release()
        resumed = await ops.post(f"{SESSIONS}/{session}/resume")
        state = await gateway.gateway.service.view(session)

    assert (answers[0].status_code, resumed.status_code) == (401, 200)
    assert "reply" not in answers[0].text
    assert state.turns == 1


# --- limits ---


async def test_a_token_has_its_requests_a_minute(tmp_path: Path) -> None:
    """One program that loops takes nothing from the others."""
    async with people(tmp_path) as gateway:
        busy = await gateway.client("busy", "read", requests_per_minute=3)
        other = await gateway.client("other", "read")
        answers = [await busy.get("/version") for _ in range(5)]
        openai = await busy.get("/v1/models")
        fine = [(await other.get("/version")).status_code for _ in range(5)]
        metrics = await (await gateway.holder(API)).get("/metrics")

    assert [each.status_code for each in answers] == [200, 200, 200, 429, 429]
    assert answers[3].headers["content-type"] == "application/problem+json"
    assert answers[3].json()["type"] == "urn:everturn:problem:too-many-requests"
    assert 1 <= int(answers[3].headers["retry-after"]) <= 20
    assert openai.json()["error"]["type"] == "rate_limit_error"
    assert fine == [200] * 5
    assert 'everturn_http_throttled_total{limit="principal"} 3.0' in metrics.text


async def test_whoever_began_a_session_pays_and_stops_at_the_daily_limit(tmp_path: Path) -> None:
    """Also where somebody else talks in it, in calls without a session, and after a restart."""
    cents = Usage(input_tokens=10, output_tokens=1, cost_nanodollars=60_000_000)
    provider = ScriptedProvider(*[Reply(text="dear", usage=cents) for _ in range(9)])
    chat = {"model": "test", "messages": [{"role": "user", "content": "Hi"}]}
    async with people(tmp_path, provider=provider) as gateway:
        alice = await gateway.client("alice", "talk", daily_cost_usd=0.1)
        bob = await gateway.client("bob", "talk")
        token = alice.headers["authorization"].partition(" ")[2]
        hers = await begin(alice)
        await alice.put(f"{SESSIONS}/{hers}/shares/bob")
        allowed = [
            (await say(bob, hers, "One")).status_code,
            (await alice.post("/v1/chat/completions", json=chat)).status_code,
        ]
        refused = [
            await say(alice, hers, "Two"),
            await say(bob, hers, "Two"),
            await alice.post("/v1/chat/completions", json=chat),
            await alice.post(f"{SESSIONS}/{hers}/compact"),
        ]
        own = (await bob.post("/v1/chat/completions", json=chat)).status_code
        usage = (await alice.get("/api/v1/usage")).json()
        of_bob = (await bob.get("/api/v1/usage")).json()
        asked = {"principal": "alice"}
        not_his = (await bob.get("/api/v1/usage", params=asked)).json()
        owner = await gateway.holder(API)
        told = (await owner.get("/api/v1/usage", params=asked)).json()
        everything = (await owner.get("/api/v1/usage")).json()
        by_principal = (await owner.get("/api/v1/usage?by=principal")).json()["groups"]
        of_his = (await bob.get("/api/v1/usage?by=principal")).json()["groups"]
        his_view = (await bob.get("/api/v1/usage?by=principal&principal=alice")).json()["groups"]
        his_sessions = (await bob.get("/api/v1/usage?by=session")).json()["groups"]
    async with people(tmp_path, provider=provider) as gateway:
        later = await (await gateway.holder(token)).post("/v1/chat/completions", json=chat)
        owner = await gateway.holder(API)
        by_meter = await say(owner, hers, "Three")  # the owner is not asked before

    assert allowed == [200, 200]
    assert [each.status_code for each in (*refused, later)] == [429] * 5
    assert own == 200
    assert refused[0].json()["type"] == "urn:everturn:problem:daily-cost-reached"
    assert 0 < int(refused[0].headers["retry-after"]) <= 86_400
    assert "alice has used up its daily limit of $0.1" in refused[1].json()["detail"]
    assert by_meter.status_code == 502
    assert "alice has used up its daily limit" in by_meter.json()["detail"]
    assert usage["total"]["cost_usd"] == pytest.approx(0.12)
    told_by = [(each["name"], round(each["cost_usd"], 9)) for each in by_principal]
    assert told_by == [("alice", 0.12), ("bob", 0.06)]
    assert [each["name"] for each in of_his] == ["bob"]
    assert his_view == his_sessions == []
    assert [row["agent"] for row in usage["rows"]] == ["test"]
    assert of_bob["total"]["calls"] == 1
    assert not_his["rows"] == []
    assert told == usage
    assert everything["total"]["calls"] == 3


async def test_whoever_is_limited_to_agents_is_told_of_no_other_in_any_way(tmp_path: Path) -> None:
    """Not by numbers of all of them, nor by the words of an error about one that is gone."""
    folder = tmp_path / "agents"
    await anyio.to_thread.run_sync(lambda: write_agent(folder, name="brief"))
    async with people(tmp_path) as gateway:
        ops = await gateway.client("ops", "operate", agents=("brief",))
        admin = await gateway.holder(ADMIN)
        session = await begin(ops, agent="brief")
        whole = [await ops.get(path) for path in ("/metrics", "/api/v1/channels")]
        await anyio.to_thread.run_sync(shutil.rmtree, folder / "brief")
        reloaded = (await admin.post("/api/v1/admin/reload")).json()
        context = await ops.get(f"{SESSIONS}/{session}/context")
        told = await admin.get(f"{SESSIONS}/{session}/context")

    assert [answer.status_code for answer in whole] == [403, 403]
    assert {answer.json()["type"] for answer in whole} == {"urn:everturn:problem:limited-to-agents"}
    assert reloaded["removed"] == ["brief"]
    assert (context.status_code, told.status_code) == (404, 404)
    assert "test" in told.json()["detail"]
    assert "test" not in context.json()["detail"]
    assert context.json()["type"] == told.json()["type"] == "urn:everturn:problem:unknown-agent"


async def test_a_file_a_response_and_a_call_that_waits_are_their_principals_own(
    tmp_path: Path,
) -> None:
    """Ids that somebody else got hold of open nothing.

    A file's name is the hash of its bytes, which whoever has the bytes knows.
    """
    image = body_of(picture())
    call = ToolCall(call_id="c", name="mine")
    provider = ScriptedProvider("A cat.", Reply(calls=(call,)), "for bob", "for alice")
    tools = [{"type": "function", "name": "mine"}]
    async with people(tmp_path, provider=provider) as gateway:
        alice, bob = [await gateway.client(name, "talk", "read") for name in ("alice", "bob")]
        hers, his = await begin(alice), await begin(bob)
        shown = {"content": "Look", "attachments": [image]}
        await alice.post(f"{SESSIONS}/{hers}/messages", json=shown)
        history = (await alice.get(f"{SESSIONS}/{hers}/messages")).json()
        url = history["messages"][0]["attachments"][0]["url"]
        own_file = await alice.get(url)
        name = url.rpartition("/")[2]
        tricks = (f"..%2F..%2F{hers}%2Fmedia%2F{name}", "%2e%2e", hers)
        files = [
            (await bob.get(each)).status_code
            for each in (
                *(url, url.replace(hers, his)),
                *[f"{SESSIONS}/{his}/media/{trick}" for trick in tricks],
            )
        ]
        asked = {"model": "test", "input": "Hi", "tools": tools}
        response = (await alice.post("/v1/responses", json=asked)).json()
        given = next(
            item["call_id"] for item in response["output"] if item["type"] == "function_call"
        )
        path = f"/v1/responses/{response['id']}"
        of_response = [
            (await bob.get(path)).status_code,
            (await bob.get(f"{path}/input_items")).status_code,
            (await bob.post(f"{path}/cancel")).status_code,
        ]
        result = {"type": "function_call_output", "call_id": given, "output": "forged"}
        forged = await bob.post("/v1/responses", json={"model": "test", "input": [result]})
        follows = {"model": "test", "input": "and?", "previous_response_id": response["id"]}
        followed = await bob.post("/v1/responses", json=follows)
        own = await alice.get(path)

    assert own_file.status_code == 200
    assert files == [404] * 5
    assert of_response == [404, 404, 404]
    assert (forged.status_code, followed.status_code) == (400, 404)
    assert own.json()["status"] == "completed"
    assert len(provider.requests) == 2
