"""The promise: kill the process at any moment, start it again, and the conversation goes on."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import anyio
import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam
from support.command import everturn
from support.gateway import ServerEvent, server_events
from support.model_api import Answer, ModelApi, Received, open_model_api
from support.patience import WAIT_S
from support.process import gateway_process, write_workspace

from everturn_actors.model import ToolCall

ROUNDS = 6  # kills in a row
CONVERSATIONS = 5


async def new_session(client: httpx2.AsyncClient) -> str:
    """Start a session with the agent `helper`."""
    response = await client.post("/api/v1/sessions", json={"agent": "helper"})
    return str(response.raise_for_status().json()["id"])


async def send(client: httpx2.AsyncClient, session: str, text: str, key: str) -> httpx2.Response:
    """Send a message without waiting for its answer."""
    return await client.post(
        f"/api/v1/sessions/{session}/messages",
        json={"content": text},
        headers={"Idempotency-Key": key, "Prefer": "respond-async"},
    )


async def messages(client: httpx2.AsyncClient, session: str) -> list[dict[str, Any]]:
    """Return the messages of a session, oldest first."""
    path = f"/api/v1/sessions/{session}/messages?limit=500"
    return list((await client.get(path)).raise_for_status().json()["messages"])


def log_of(folder: Path, session: str) -> list[dict[str, Any]]:
    """Return the events of a session as they stand on disk."""
    files = folder / ".everturn" / "sessions" / session
    lines: list[dict[str, Any]] = []
    for name in ("events.archive.jsonl", "events.jsonl"):
        if (files / name).exists():
            lines += [json.loads(line) for line in (files / name).read_bytes().splitlines()]
    return lines


async def events_until_done(
    client: httpx2.AsyncClient, session: str, after: int
) -> list[ServerEvent]:
    """Follow a session from event `after` to the end of a turn."""
    seen: list[ServerEvent] = []
    headers = {"Last-Event-ID": str(after)}
    path = f"/api/v1/sessions/{session}/events"
    with anyio.fail_after(WAIT_S):
        async with client.stream("GET", path, headers=headers) as response:
            async for event in server_events(response):
                seen.append(event)
                if event.event == "turn_finished":
                    return seen
    return seen


async def test_a_kill_in_the_middle_of_a_model_call_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    """The main promise: the answer comes by itself after the restart, once."""
    async with open_model_api() as api:
        write_workspace(tmp_path, api.url)
        api.script(Answer(text="never finished", hold={1: anyio.Event()}), Answer(text="Hello."))
        async with gateway_process(tmp_path, imported=None) as gateway, gateway.client() as client:
            session = await new_session(client)
            accepted = await send(client, session, "hi", "key-1")
            await api.received(1)
            await gateway.kill()

        assert accepted.status_code == 202

        async with gateway_process(tmp_path, imported=None) as gateway, gateway.client() as client:
            await events_until_done(client, session, 0)
            after = await messages(client, session)
            repeated = await client.post(
                f"/api/v1/sessions/{session}/messages",
                json={"content": "hi"},
                headers={"Idempotency-Key": "key-1"},
            )

        assert [(m["role"], m["content"]) for m in after] == [
            ("user", "hi"),
            ("assistant", "Hello."),
        ]
        assert repeated.json()["content"] == "Hello."
        assert api.count == 2
        assert [e["seq"] for e in log_of(tmp_path, session)] == [1, 2, 3, 4, 5, 6]


async def test_a_kill_between_a_clients_call_and_its_result_loses_nothing(tmp_path: Path) -> None:
    """A tool of the client may take an hour; the turn is there when it is done."""
    tool: ChatCompletionToolUnionParam = {"type": "function", "function": {"name": "ask_ann"}}
    hi: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
    chat = {"X-Everturn-Session": "chat"}
    call = ToolCall(call_id="c1", name="ask_ann")
    async with open_model_api() as api:
        write_workspace(tmp_path, api.url)
        api.script(Answer(calls=(call,)), Answer(text="Ann is well."))
        async with (
            gateway_process(tmp_path) as gateway,
            openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x") as client,
        ):
            first = await client.chat.completions.create(
                model="helper", messages=hi, tools=[tool], extra_headers=chat
            )
            await gateway.kill()
        (given,) = first.choices[0].message.tool_calls or []
        async with (
            gateway_process(tmp_path) as gateway,
            openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x") as client,
        ):
            second = await client.chat.completions.create(
                model="helper",
                messages=[{"role": "tool", "tool_call_id": given.id, "content": "she is well"}],
                extra_headers=chat,
            )

        assert second.choices[0].message.content == "Ann is well."
        assert api.count == 2
        assert api.requests[-1].json()["messages"][-1]["content"] == "she is well"


async def test_a_stream_that_a_kill_cut_off_resumes_with_the_last_event_id(tmp_path: Path) -> None:
    """A client in the middle of a reply comes back after a crash without a gap or a repeat."""
    async with open_model_api() as api:
        write_workspace(tmp_path, api.url)
        api.script(Answer(text="one two", hold={1: anyio.Event()}), Answer(text="one two three"))
        seen: list[ServerEvent] = []
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            session = await new_session(client)
            path = f"/api/v1/sessions/{session}/stream"
            with pytest.raises(httpx2.HTTPError):
                async with client.stream("POST", path, json={"content": "count"}) as response:
                    async for event in server_events(response):
                        seen.append(event)
                        if event.event == "token":
                            await gateway.kill()
        last_id = max(e.seq for e in seen if e.seq)
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            rest = await events_until_done(client, session, last_id)

        tokens = [e.data for e in rest if e.event == "token"]
        assert "".join(t["text"] for t in tokens) in {"", "one two three"}
        ids = [e.seq for e in rest if e.seq]
        assert ids == list(range(last_id + 1, ids[-1] + 1))
        replied = next(e.data for e in rest if e.event == "model_replied")
        assert replied["text"] == "one two three"


async def test_a_torn_last_line_is_cut_off_and_reported(tmp_path: Path) -> None:
    """Power can fail in the middle of a write; what was acknowledged before it stays."""
    async with open_model_api(default=Answer(text="Yes.")) as api:
        write_workspace(tmp_path, api.url)
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            session = await new_session(client)
            await client.post(f"/api/v1/sessions/{session}/messages", json={"content": "one"})
            await gateway.kill()
        log = tmp_path / ".everturn" / "sessions" / session / "events.jsonl"
        log.write_bytes(log.read_bytes() + b'{"v":2,"seq":7,"at":"2026-01-')
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            reply = await client.post(
                f"/api/v1/sessions/{session}/messages", json={"content": "two"}
            )

        assert reply.json()["content"] == "Yes."
        assert [e["seq"] for e in log_of(tmp_path, session)] == list(range(1, 12))
        assert len(list(log.parent.glob("events.jsonl.torn-*"))) == 1
        assert "a journal was repaired" in (tmp_path / "serve.log").read_text()


async def test_a_stop_waits_for_the_running_turn(tmp_path: Path) -> None:
    """A deployment does not cut off an answer that is on its way."""
    gate = anyio.Event()
    async with open_model_api() as api:
        write_workspace(tmp_path, api.url)
        api.script(Answer(text="nearly there", hold={1: gate}))
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            session = await new_session(client)
            await send(client, session, "hi", "k")
            await api.received(1)
            async with anyio.create_task_group() as tasks:
                codes: list[int] = []

                async def stop() -> None:
                    codes.append(await gateway.stop())

                tasks.start_soon(stop)
                gate.set()
        lines = log_of(tmp_path, session)

        assert codes == [0]
        assert [e.get("text") for e in lines if e["type"] == "model_replied"] == ["nearly there"]
        assert lines[-1]["outcome"] == "answered"


async def test_a_second_process_on_the_workspace_refuses_to_start(tmp_path: Path) -> None:
    """Two writers would tear the logs apart."""
    async with open_model_api() as api:
        write_workspace(tmp_path, api.url)
        async with gateway_process(tmp_path) as gateway:
            second = await everturn("serve", cwd=tmp_path)

            assert second.code == 2
            assert f"process {gateway.process.pid}" in second.err
            assert "Traceback" not in second.err


class Crowd:
    """Conversations that go on sending through crashes, as clients that retry do."""

    def __init__(self, sessions: list[str]) -> None:
        self.sessions = sessions
        self.sent: dict[str, list[str]] = {session: [] for session in sessions}
        "Keys that were acknowledged or may have been, by session."
        self.acknowledged: set[str] = set()

    async def talk(self, client: httpx2.AsyncClient, session: str, round_number: int) -> None:
        """Send messages until the gateway is gone."""
        for number in range(100):
            key = f"{session}-{round_number}-{number}"
            self.sent[session].append(key)
            try:
                response = await send(client, session, key, key)
            except httpx2.HTTPError:
                return
            if response.status_code == 202:
                self.acknowledged.add(key)
            await anyio.lowlevel.checkpoint()

    async def repeat_unacknowledged(self, client: httpx2.AsyncClient) -> None:
        """Send again, with its key, what was not acknowledged."""
        for session, keys in self.sent.items():
            for key in keys:
                if key not in self.acknowledged:
                    assert (await send(client, session, key, key)).status_code == 202
                    self.acknowledged.add(key)


async def kill_after_calls(api: ModelApi, calls: int) -> None:
    """Wait until the model has been called so many times more."""
    await api.received(api.count + calls)


def echo(request: Received) -> Answer:
    """Answer with what was asked."""
    return Answer(text=f"You said {request.newest_text}")


async def audit(client: httpx2.AsyncClient, folder: Path, crowd: Crowd) -> None:
    """Compare what was sent with what the logs and the API say."""
    for session, keys in crowd.sent.items():
        lines = log_of(folder, session)
        received = [e["text"] for e in lines if e["type"] == "received"]
        answered = [e["received"] for e in lines if e["type"] == "turn_started"]
        finished = [e for e in lines if e["type"] == "turn_finished"]

        assert [e["seq"] for e in lines] == list(range(1, len(lines) + 1))
        assert sorted(received) == sorted(set(keys)), "each message once, none lost"
        assert sum(map(len, answered)) == len(received), "each message in exactly one turn"
        assert [e["outcome"] for e in finished] == ["answered"] * len(answered)
        assert sum(m["role"] == "user" for m in await messages(client, session)) <= len(keys)


async def test_kill_after_kill_every_message_is_answered_exactly_once(tmp_path: Path) -> None:
    """What a month of crashes does to a gateway, in a few seconds."""
    moments = random.Random(20261121)  # noqa: S311 - the same moments in every run
    async with open_model_api(default=echo) as api:
        write_workspace(tmp_path, api.url)
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            crowd = Crowd([await new_session(client) for _ in range(CONVERSATIONS)])
        for round_number in range(ROUNDS):
            async with (
                gateway_process(tmp_path) as gateway,
                gateway.client() as client,
                anyio.create_task_group() as tasks,
            ):
                for session in crowd.sessions:
                    tasks.start_soon(crowd.talk, client, session, round_number)
                await kill_after_calls(api, moments.randrange(1, 60))
                await gateway.kill()
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            await crowd.repeat_unacknowledged(client)
            with anyio.fail_after(WAIT_S):
                for session in crowd.sessions:
                    await until_answered(client, session)
            await audit(client, tmp_path, crowd)
            doctor = await everturn("doctor", cwd=tmp_path)

        assert "damaged" not in doctor.out


async def until_answered(client: httpx2.AsyncClient, session: str) -> None:
    """Wait until a session owes no answer."""
    while True:
        state = (await client.get(f"/api/v1/sessions/{session}")).raise_for_status().json()
        if not state["waiting"] and state["open_turn"] is None:
            return
        await events_until_done(client, session, state["last_event"])
