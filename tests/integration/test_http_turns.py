"""Messages, turns and streams over HTTP: what a client that comes and goes can rely on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from support.gateway import (
    DEADLINE_S,
    HttpGateway,
    ServerEvent,
    open_http_gateway,
    server_events,
    serving,
)
from support.one_gateway import on_one_gateway
from support.tables import table

from everturn_actors.errors import ModelAuthError
from everturn_actors.model import IncomingMessage, Reply, ToolCall
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import ScriptedProvider, texts
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http import server as server_module

WORDS = "one two three four"
PLACES = {"session_id", "instance"}  # where a request went


@asynccontextmanager
async def streaming(
    client: httpx2.AsyncClient,
    method: str,
    path: str,
    *,
    json: Mapping[str, str] | None = None,
    params: Mapping[str, int] | None = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncGenerator[AsyncGenerator[ServerEvent]]:
    """Open an event stream; leaving the block closes its connection."""
    async with client.stream(method, path, json=json, params=params, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        events = server_events(response)
        try:
            yield events
        finally:
            await events.aclose()


async def read_until(events: AsyncGenerator[ServerEvent], name: str) -> list[ServerEvent]:
    """Read messages up to the first one called `name`."""
    found: list[ServerEvent] = []
    with anyio.fail_after(DEADLINE_S):
        async for event in events:
            found.append(event)
            if event.event == name:
                return found
    pytest.fail(f"the stream ended without {name}: {found}")


async def until(
    gateway: HttpGateway, session_id: str, is_so: Callable[[SessionState], bool]
) -> None:
    """Wait until the session is so."""
    with anyio.fail_after(DEADLINE_S):
        while not is_so(await gateway.service.view(session_id)):
            await anyio.lowlevel.checkpoint()


def names(events: list[ServerEvent]) -> list[str]:
    """Return the names of messages."""
    return [event.event for event in events]


def said(events: list[ServerEvent]) -> str:
    """Return the text that tokens make; one at offset 0 begins anew."""
    text = ""
    for event in events:
        if event.event == "token":
            text = text[: event.data["offset"]] + event.data["text"]
    return text


# --- send and wait ---


async def test_a_message_is_answered_when_its_turn_is_done_or_piece_by_piece(
    tmp_path: Path,
) -> None:
    """The plainest client sends one request and has the reply; others stream it.

    Tokens carry no id, so that a client's last id is always a durable event.
    """
    async with (
        open_http_gateway(tmp_path, provider=ScriptedProvider("hello!", WORDS)) as gateway,
        gateway.client() as client,
    ):
        session_id = await gateway.session()
        answer = await client.post(
            f"/api/v1/sessions/{session_id}/messages", json={"content": "hi"}
        )
        path = f"/api/v1/sessions/{await gateway.session()}/stream"
        async with streaming(client, "POST", path, json={"content": "hi"}) as stream:
            events = [event async for event in stream]

    assert answer.status_code == 200
    assert answer.json() == {
        "session_id": session_id,
        "message_id": "m5",
        "turn_id": "t1",
        "role": "assistant",
        "content": "hello!",
        "usage": {
            "input_tokens": 0,
            "output_tokens": 0,
            "cached_tokens": 0,
            "cache_written_tokens": 0,
            "cost_usd": 0,
        },
        "outcome": "answered",
        "refused": [],
    }
    tokens = [event for event in events if event.event == "token"]
    assert (events[0].event, events[0].data, events[0].seq) == (
        "received",
        {"message_id": "m2"},
        2,
    )
    assert said(events) == WORDS
    assert {token.seq for token in tokens} == {None}
    assert {(token.data["turn_id"], token.data["step"]) for token in tokens} == {("t1", 1)}
    assert (events[-1].event, events[-1].seq) == ("done", 6)
    assert events[-1].data["content"] == WORDS
    assert events[-1].data["message_id"] == "m5"


@on_one_gateway(
    "body",
    [
        '{"content": "hi"}',
        '{"content": " \\u00e4\\ud83d\\ude00 ", "retry_for_seconds": 60.0}',
        '{"content": "", "attachments": [{"media_type": "text/plain", "data": "SGVsbG8="}]}',
        '{"content": "\\ud83d"}',
        '{"content": "hi", "retry_for_seconds": true}',
        '{"content": "hi", "more": 1}',
        '{"content": " "}',
        '["hi"]',
        '{"content": "hi"',
        "",
    ],
)
async def test_a_message_is_taken_the_same_however_its_kind_of_json_is_called(
    gateway: HttpGateway, body: str
) -> None:
    """Plain JSON goes past FastAPI; what is wrong with it is said in the same words."""
    found: list[tuple[int, object]] = []
    gateway.provider.script[:] = ["hello!", "hello!"]
    async with gateway.client() as client:
        for kind in ("application/json", "application/vnd.message+json"):
            answer = await client.post(
                f"/api/v1/sessions/{await gateway.session()}/messages",
                content=body,
                headers={"Content-Type": kind, "Idempotency-Key": "k1"},
            )
            said = {k: v for k, v in answer.json().items() if k not in PLACES}
            found.append((answer.status_code, said))

    assert found[0] == found[1]


async def test_respond_async_answers_when_the_message_is_durable(tmp_path: Path) -> None:
    """A client that does not wait still finds the answer where it was told to look."""
    provider = ScriptedProvider(WORDS)
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        session_id = await gateway.session()
        async with gateway.client() as client:
            accepted = await client.post(
                f"/api/v1/sessions/{session_id}/messages",
                json={"content": "hi"},
                headers={"Prefer": "wait=5, Respond-Async"},
            )
            provider.release()
            async with streaming(client, "GET", accepted.headers["location"]) as stream:
                events = await read_until(stream, "turn_finished")

    assert accepted.status_code == 202
    assert accepted.headers["preference-applied"] == "respond-async"
    assert accepted.json()["message_id"] == "m2"
    assert accepted.json()["events"] == accepted.headers["location"]
    assert events[0].seq == 3
    assert events[-2].data["text"] == WORDS


async def test_a_failed_turn_is_a_problem_that_names_the_turn(tmp_path: Path) -> None:
    """A client learns why there is no answer, and which turn failed.

    A stream never just stops: its last message says how the turn came out.
    """
    provider = ScriptedProvider(*[ModelAuthError("the key was refused") for _ in range(2)])
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        gateway.client() as client,
    ):
        first, second = [f"/api/v1/sessions/{await gateway.session()}" for _ in range(2)]
        answer = await client.post(f"{first}/messages", json={"content": "hi"})
        async with streaming(client, "POST", f"{second}/stream", json={"content": "hi"}) as stream:
            events = [event async for event in stream]

    assert answer.status_code == 502
    assert answer.json()["type"] == "urn:everturn:problem:turn-failed"
    assert answer.json()["detail"] == "the key was refused"
    assert answer.json()["turn_id"] == "t1"
    assert names(events) == ["received", "error"]
    assert events[-1].data["type"] == "urn:everturn:problem:turn-failed"
    assert events[-1].seq == 5


async def test_a_cancelled_turn_ends_its_waiter(tmp_path: Path) -> None:
    """Cancel is answered when the turn is closed, and whoever waited is told."""
    provider = ScriptedProvider()
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}"
        answers: list[httpx2.Response] = []
        async with gateway.client() as client:

            async def wait() -> None:
                answers.append(await client.post(f"{path}/messages", json={"content": "hi"}))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await provider.until_called()
                cancelled = await client.post(f"{path}/cancel")
            nothing = await client.post(f"{path}/cancel")

    assert cancelled.json() == {"cancelled": True}
    assert nothing.json() == {"cancelled": False}
    assert answers[0].status_code == 409
    assert answers[0].json()["type"] == "urn:everturn:problem:turn-cancelled"


async def test_a_late_turn_is_504_and_the_message_stays_accepted(tmp_path: Path) -> None:
    """A request has a deadline; what was accepted has none."""
    provider = ScriptedProvider(WORDS)
    provider.hold()
    server = ServerConfig(request_timeout_s=1)
    async with open_http_gateway(
        tmp_path, provider=provider, server=server, on_disconnect="continue"
    ) as gateway:
        session_id = await gateway.session()
        async with gateway.client() as client:
            late = await client.post(
                f"/api/v1/sessions/{session_id}/messages", json={"content": "hi"}
            )
            provider.release()
            async with streaming(client, "GET", late.json()["events"]) as stream:
                events = await read_until(stream, "turn_finished")

    assert late.status_code == 504
    assert late.json()["message_id"] == "m2"
    assert events[-1].data["outcome"] == "answered"
    assert len(provider.requests) == 1


# --- idempotency ---


async def test_the_same_key_gets_the_first_answer_also_after_a_restart(tmp_path: Path) -> None:
    """A client that is unsure whether its message arrived sends it again, without a second turn."""
    key = {"Idempotency-Key": '"a7c1-\u007e"'}
    provider = ScriptedProvider("first", "second")
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}/messages"
        async with gateway.client() as client:
            first = await client.post(path, json={"content": "hi"}, headers=key)
            again = await client.post(path, json={"content": "hi"}, headers=key)
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        gateway.client() as client,
    ):
        later = await client.post(path, json={"content": "hi"}, headers=key)
        streamed: list[ServerEvent] = []
        async with streaming(
            client, "POST", path.replace("messages", "stream"), json={"content": "hi"}, headers=key
        ) as stream:
            streamed = await read_until(stream, "done")

    assert first.json() == again.json() == later.json()
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == later.headers["idempotent-replayed"] == "true"
    assert streamed[-1].data == first.json()
    assert len(provider.requests) == 1


async def test_a_key_with_another_message_or_that_is_none_is_refused(tmp_path: Path) -> None:
    """A key that is used twice by mistake must not answer a question with another's answer.

    One that could not be kept is never half taken.
    """
    key = {"Idempotency-Key": "k"}
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}/messages"
        await client.post(path, json={"content": "hi"}, headers=key)
        other = await client.post(path, json={"content": "bye"}, headers=key)
        bad = {
            each: await client.post(path, json={"content": "hi"}, headers={"Idempotency-Key": each})
            for each in ("", "x" * 256, "tab\there")
        }
        state = await gateway.service.view(session_id)

    assert other.status_code == 422
    assert other.json()["type"] == "urn:everturn:problem:idempotency-key-reused"
    assert other.json()["message_id"] == "m2"
    for name, answer in bad.items():
        assert answer.status_code == 422, name
        assert answer.json()["errors"][0]["parameter"] == "header.Idempotency-Key"
    assert state.turns == 1


# --- streams ---


async def test_a_broken_stream_resumes_mid_turn_without_a_gap_or_a_repeat(tmp_path: Path) -> None:
    """The connection breaks within a reply: the next one goes on where the last id stands."""
    provider = ScriptedProvider(WORDS)
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider, on_disconnect="continue") as gateway:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}"
        async with (
            gateway.client() as client,
            streaming(client, "POST", f"{path}/stream", json={"content": "hi"}) as stream,
        ):
            before = await read_until(stream, "token")
        last_id = max(event.seq for event in before if event.seq)
        async with (
            gateway.client() as client,
            streaming(
                client, "GET", f"{path}/events", headers={"Last-Event-ID": str(last_id)}
            ) as stream,
        ):
            so_far = await read_until(stream, "token")
            provider.release()
            after = so_far + await read_until(stream, "turn_finished")

    durable = [event.seq for event in [*before, *after] if event.seq]
    assert durable == [2, 3, 4, 5, 6]
    assert said(before) == "one "
    assert (so_far[-1].data["offset"], so_far[-1].data["text"]) == (0, "one ")
    assert said(after) == WORDS
    assert len(provider.requests) == 1


async def test_a_broken_stream_can_be_asked_for_again_by_its_key(tmp_path: Path) -> None:
    """The same POST with the same key goes on in the stream's own words, to its end."""
    provider = ScriptedProvider(WORDS)
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider, on_disconnect="continue") as gateway:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}/stream"
        key = {"Idempotency-Key": "k"}
        async with (
            gateway.client() as client,
            streaming(client, "POST", path, json={"content": "hi"}, headers=key) as stream,
        ):
            await read_until(stream, "token")
        provider.release()
        async with (
            gateway.client() as client,
            streaming(
                client,
                "POST",
                path,
                json={"content": "hi"},
                headers={**key, "Last-Event-ID": "2"},
            ) as stream,
        ):
            after = [event async for event in stream]

    assert "received" not in names(after)
    assert said(after) == WORDS
    assert after[-1].event == "done"
    assert len(provider.requests) == 1


async def test_events_are_the_log_from_any_place_that_is_one(tmp_path: Path) -> None:
    """Following from the first event, from a number or by Last-Event-ID gives the same log.

    Two windows on one conversation show the same, live.
    """
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}"
        async with streaming(client, "GET", f"{path}/events", params={"after": 1}) as stream:
            await gateway.service.submit(IncomingMessage(text="one", session_id=session_id))
            live = await read_until(stream, "turn_finished")
        await client.post(f"{path}/messages", json={"content": "two"})
        await client.post(f"{path}/reset")
        async with streaming(client, "GET", f"{path}/events") as stream:
            whole = [event async for event in stream]
        async with streaming(client, "GET", f"{path}/events", params={"after": 5}) as stream:
            later = [event async for event in stream]
        async with streaming(
            client, "GET", f"{path}/events?after=1", headers={"Last-Event-ID": "5"}
        ) as stream:
            resumed = [event async for event in stream]
        over = await client.get(f"{path}/events", params={"after": len(whole)})
        for bad in ("x", "-1", "1.5", "9" * 30):  # an error, not the beginning
            by_query = await client.get(f"{path}/events", params={"after": bad})
            by_header = await client.get(f"{path}/events", headers={"Last-Event-ID": bad})

            assert by_query.status_code == by_header.status_code == 422, bad
            assert by_query.json()["errors"][0]["parameter"] == "query.after"
            assert by_header.json()["errors"][0]["parameter"] == "header.Last-Event-ID"

    assert live[0].data["text"] == "one"
    assert said(live) == "reply 1"
    assert [event.seq for event in whole] == list(range(1, len(whole) + 1))
    assert names(whole)[:6] == [
        "session_started",
        "received",
        "turn_started",
        "step_started",
        "model_replied",
        "turn_finished",
    ]
    assert names(whole)[-1] == "session_ended"
    assert whole[1].data["text"] == "one"
    assert whole[1].data["seq"] == 2
    assert later == resumed == whole[5:]
    assert over.status_code == 204


# --- clients that leave ---


@table("route", ["messages", "stream"])
async def test_a_turn_pauses_when_its_client_leaves(tmp_path: Path, route: str) -> None:
    """With `pause`, nothing is spent on an answer that nobody waits for; who comes back gets it."""
    provider = ScriptedProvider(WORDS, WORDS)
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider, on_disconnect="pause") as gateway:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}"
        await _leave_mid_turn(gateway, f"{path}/{route}")
        await until(gateway, session_id, lambda state: state.status == "paused")
        provider.release()
        async with (
            gateway.client() as client,
            streaming(client, "GET", f"{path}/events") as stream,
        ):
            paused = await read_until(stream, "status_changed")
            resumed = (await client.post(f"{path}/resume")).json()
            again = (await client.post(f"{path}/resume")).json()
            events = paused + await read_until(stream, "turn_finished")

    assert (resumed, again) == ({"resumed": True}, {"resumed": False})
    assert events[-1].data["outcome"] == "answered"
    assert said(events) == WORDS
    assert [event.seq for event in events if event.seq] == list(range(1, 9))


@table("route", ["messages", "stream"])
async def test_a_turn_continues_when_its_client_leaves(tmp_path: Path, route: str) -> None:
    """With `continue`, the answer is there when the client comes back."""
    provider = ScriptedProvider(WORDS)
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider, on_disconnect="continue") as gateway:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}"
        await _leave_mid_turn(gateway, f"{path}/{route}")
        provider.release()
        await until(gateway, session_id, lambda state: state.open_turn is None)
        async with gateway.client() as client:
            messages = (await client.get(f"{path}/messages")).json()["messages"]

    assert [m["content"] for m in messages] == ["hi", WORDS]
    assert len(provider.requests) == 1


async def _leave_mid_turn(
    gateway: HttpGateway, path: str, headers: dict[str, str] | None = None
) -> None:
    """Send a message, and close the connection while the model talks."""
    async with gateway.client() as client, anyio.create_task_group() as tasks:

        async def send() -> None:
            await client.post(path, json={"content": "hi"}, headers=headers)

        tasks.start_soon(send)
        await gateway.provider.until_called()
        tasks.cancel_scope.cancel()


async def test_a_second_client_that_waits_keeps_a_turn_running(tmp_path: Path) -> None:
    """A turn is paused for want of anybody who waits, not because one of two left."""
    provider = ScriptedProvider(WORDS)
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider, on_disconnect="pause") as gateway:
        session_id = await gateway.session()
        path, key = f"/api/v1/sessions/{session_id}", {"Idempotency-Key": "k"}
        async with (
            gateway.client() as client,
            streaming(
                client, "POST", f"{path}/stream", json={"content": "hi"}, headers=key
            ) as stream,
        ):
            before = await read_until(stream, "token")
            await _leave_mid_turn(gateway, f"{path}/messages", key)
            provider.release()
            after = await read_until(stream, "done")
            events = (await client.get(f"{path}/messages")).json()["messages"]

    assert said(before + after) == WORDS
    assert len(events) == 2
    assert len(provider.requests) == 1


# --- the server stops ---


async def test_a_stopping_server_lets_followers_go_and_tells_waiters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody hangs on a server that goes; what was accepted is answered by the next one."""
    monkeypatch.setattr(server_module, "TURN_GRACE_S", 0.05)
    provider = ScriptedProvider(WORDS)
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}"
        answers: list[httpx2.Response] = []
        followed: list[ServerEvent] = []
        streamed: list[ServerEvent] = []
        gateway.listening = anyio.Event()
        async with anyio.create_task_group() as clients:

            async def wait() -> None:
                async with gateway.client() as client:
                    answers.append(await client.post(f"{path}/messages", json={"content": "hi"}))

            async def follow() -> None:
                async with (
                    gateway.client() as client,
                    streaming(client, "GET", f"{path}/events") as stream,
                ):
                    followed.extend([event async for event in stream])

            async def stream() -> None:
                async with (
                    gateway.client() as client,
                    streaming(client, "POST", f"{path}/stream", json={"content": "ho"}) as messages,
                ):
                    streamed.extend([event async for event in messages])

            async with serving(gateway):
                clients.start_soon(wait)
                await provider.until_called()
                clients.start_soon(follow)
                clients.start_soon(stream)
                await until(gateway, session_id, lambda state: len(state.waiting) == 1)
    provider.release()
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        await until(gateway, session_id, lambda state: not state.has_work)
        state = await gateway.service.view(session_id)

    assert answers[0].status_code == 503
    assert answers[0].json()["message_id"] == "m2"
    assert "received" in names(followed)
    assert names(streamed)[-1] == "error"
    assert streamed[-1].data["type"] == "urn:everturn:problem:stopping"
    assert [turn.outcome for turn in state.held_turns] == ["answered", "answered"]


async def test_a_request_that_cannot_be_done_is_told_of_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a database is away, say: it is no fault of the program, and may be sent again."""
    monkeypatch.setattr(server_module, "TURN_GRACE_S", 0.0)
    monkeypatch.setattr(server_module, "CLOSE_S", 2.9)  # of which one second, to cancel them
    asked, answers = anyio.Event(), list[httpx2.Response]()

    async def hang(*_: object, **__: object) -> None:
        asked.set()
        await anyio.sleep_forever()

    async with open_http_gateway(tmp_path) as gateway:
        monkeypatch.setattr(gateway.service, "submit", hang)
        session_id = await gateway.session()
        gateway.listening = anyio.Event()
        async with anyio.create_task_group() as clients:

            async def send() -> None:
                async with gateway.client() as client:
                    path = f"/api/v1/sessions/{session_id}/messages"
                    answers.append(await client.post(path, json={"content": "hi"}))

            async with serving(gateway):
                clients.start_soon(send)
                await asked.wait()

    assert answers[0].status_code == 503
    assert answers[0].json()["type"] == "urn:everturn:problem:stopping"


async def test_a_turn_that_ends_soon_is_answered_by_a_stopping_server(tmp_path: Path) -> None:
    """A deploy does not cut off answers that are almost there."""
    provider = ScriptedProvider(WORDS)
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        session_id = await gateway.session()
        answers: list[httpx2.Response] = []
        gateway.listening = anyio.Event()
        async with anyio.create_task_group() as clients:

            async def wait() -> None:
                async with gateway.client() as client:
                    answers.append(
                        await client.post(
                            f"/api/v1/sessions/{session_id}/messages", json={"content": "hi"}
                        )
                    )

            async with serving(gateway):
                clients.start_soon(wait)
                await provider.until_called()
                clients.start_soon(_release_when_closed, gateway)

    assert answers[0].json()["content"] == WORDS


async def _release_when_closed(gateway: HttpGateway) -> None:
    """Let the model go on when the server takes no more connections."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            try:
                port = int(gateway.base_url.rpartition(":")[2])
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
            except OSError:
                break
    gateway.provider.release()


# --- calls ---


async def test_calls_and_results_are_streamed_in_order(tmp_path: Path) -> None:
    """A client that shows what an agent does needs call, result and the texts between."""
    call = Reply(
        text="let me look",
        calls=(ToolCall(call_id="c1", name="clock"),),
        stop_reason="tool_calls",
    )
    provider = ScriptedProvider(call, "it is noon")
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}"
        async with gateway.client() as client:
            async with streaming(
                client, "POST", f"{path}/stream", json={"content": "time?"}
            ) as stream:
                events = [event async for event in stream]
            messages = (await client.get(f"{path}/messages")).json()["messages"]

    told = [event for event in events if event.event != "token"]
    assert names(told) == ["received", "message", "tool_result", "done"]
    assert told[1].data["content"] == "let me look"
    assert told[1].data["tool_calls"] == [{"id": "c1", "name": "clock", "arguments": "{}"}]
    assert (told[2].data["id"], told[2].data["is_error"]) == ("c1", True)
    assert told[3].data["content"] == "it is noon"
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1]["tool_calls"] == told[1].data["tool_calls"]
    assert messages[2]["tool_call_id"] == "c1"
    assert texts(provider.requests[1]) == ["time?"]
