"""An outage of the model, as clients over HTTP and at a terminal see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import httpx2
from support.command import everturn
from support.command import write_agent as write_cli_agent
from support.gateway import DEADLINE_S, open_http_gateway, server_events
from support.model_api import Answer, open_model_api, server_error
from support.tables import table

from everturn_actors.errors import ModelTransientError
from everturn_actors.events import OUTAGE_LINE
from everturn_actors.testing import ManualClock, ScriptedProvider
from everturn_gateway.config.settings import ServerConfig

DOWN = [ModelTransientError("fake at here: HTTP 503")] * 4
"What the first tries of a turn get."


async def next_try(clock: ManualClock, provider: ScriptedProvider) -> None:
    """Let the time go by until the model is called again."""
    calls = len(provider.requests)
    with anyio.fail_after(DEADLINE_S):
        await provider.until_called()
        while len(provider.requests) == max(calls, 1):
            clock.advance(0.5)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()


async def fall_out(clock: ManualClock, provider: ScriptedProvider) -> None:
    """Let the quick tries of a turn go by."""
    for _ in range(3):
        await next_try(clock, provider)


async def until_out(client: httpx2.AsyncClient, session: str) -> dict[str, Any]:
    """Return the session's document once its turn waits for the model."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            found = (await client.get(f"/api/v1/sessions/{session}")).json()
            if found["open_turn"] and found["open_turn"]["outage"]:
                return dict(found["open_turn"]["outage"])


async def test_a_stream_tells_of_it_once_and_then_has_the_answer(tmp_path: Path) -> None:
    """Whoever watches knows why nothing comes."""
    clock, provider = ManualClock(), ScriptedProvider(*DOWN, DOWN[0])
    async with (
        open_http_gateway(tmp_path, provider=provider, clock=clock) as gateway,
        gateway.client() as client,
    ):
        session = await gateway.session()
        path = f"/api/v1/sessions/{session}"
        async with (
            client.stream("POST", f"{path}/stream", json={"content": "hi"}) as response,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(fall_out, clock, provider)
            events = server_events(response)
            seen = [await anext(events), await anext(events)]
            outage = await until_out(client, session)
            for _ in range(2):
                await next_try(clock, provider)
            seen += [event async for event in events]

        assert [event.event for event in seen if event.event != "token"] == [
            "received",
            "notice",
            "done",
        ]
        assert seen[1].data["text"] == OUTAGE_LINE
        assert outage["attempts"] == 1
        assert outage["error"] == "fake at here: HTTP 503"
        assert outage["since"] < outage["retry_at"] < outage["give_up_at"]
        assert seen[-1].data["content"] == "reply 6"


@table("path", ["messages", "chat"])
async def test_a_client_that_asks_for_no_waiting_is_told_at_once(tmp_path: Path, path: str) -> None:
    """An interactive program has something better to do than to wait for a quarter of an hour."""
    clock, provider = ManualClock(), ScriptedProvider(*DOWN)
    async with (
        open_http_gateway(tmp_path, provider=provider, clock=clock) as gateway,
        gateway.client() as client,
        anyio.create_task_group() as tasks,
    ):
        session = await gateway.session()
        tasks.start_soon(fall_out, clock, provider)
        if path == "messages":
            # An integer to JSON, however it is written.
            body: dict[str, Any] = {"content": "hi", "retry_for_seconds": 0.0}
            answer = await client.post(f"/api/v1/sessions/{session}/messages", json=body)
        else:  # by itself where nothing of the call is kept
            body = {"model": "test", "messages": [{"role": "user", "content": "hi"}]}
            answer = await client.post("/v1/chat/completions", json=body)

        assert answer.status_code == 502
        assert "HTTP 503" in answer.text


async def test_a_call_of_openai_s_waits_where_it_asks_to(tmp_path: Path) -> None:
    """The header says for how long, and the agent's limit holds all the same."""
    clock, provider = ManualClock(), ScriptedProvider(*DOWN)
    async with (
        open_http_gateway(tmp_path, provider=provider, clock=clock) as gateway,
        gateway.client() as client,
        anyio.create_task_group() as tasks,
    ):

        async def wait_it_out() -> None:
            await fall_out(clock, provider)
            await next_try(clock, provider)

        tasks.start_soon(wait_it_out)
        body = {"model": "test", "messages": [{"role": "user", "content": "hi"}]}
        headers = {"X-Everturn-Retry-For": "60"}
        answer = await client.post("/v1/chat/completions", json=body, headers=headers)

        assert answer.status_code == 200
        assert answer.json()["choices"][0]["message"]["content"] == "reply 5"


async def test_who_waits_for_longer_than_the_server_lets_them_is_told_that_it_is_kept(
    tmp_path: Path,
) -> None:
    """The request ends, and the turn does not."""
    clock, provider = ManualClock(), ScriptedProvider(*DOWN)
    server = ServerConfig(request_timeout_s=2)
    async with (
        open_http_gateway(
            tmp_path,
            provider=provider,
            clock=clock,
            server=server,
            on_disconnect="continue",
        ) as gateway,
        gateway.client() as client,
        anyio.create_task_group() as tasks,
    ):
        session = await gateway.session()
        tasks.start_soon(fall_out, clock, provider)
        path, key = f"/api/v1/sessions/{session}/messages", {"Idempotency-Key": "k"}
        late = await client.post(path, json={"content": "hi"}, headers=key)
        await until_out(client, session)
        await next_try(clock, provider)
        again = await client.post(path, json={"content": "hi"}, headers=key)

        assert late.status_code == 504
        assert late.headers["Retry-After"]
        assert "is accepted" in late.json()["detail"]
        assert (again.status_code, again.json()["content"]) == (200, "reply 5")


async def test_a_command_says_on_its_error_output_why_it_waits(tmp_path: Path) -> None:
    """The output has the answer alone; a person at the terminal knows what is going on."""
    async with open_model_api() as api:
        api.default = Answer(text="at last")
        api.script(*[server_error(503)] * 4)
        write_cli_agent(tmp_path, provider="openai", model="fake-1", base_url=api.url)
        done = await everturn("run", "hello", cwd=tmp_path, env={"OPENAI_API_KEY": "sk-test"})

    assert (done.code, done.out) == (0, "at last\n")
    assert done.err == f"everturn: {OUTAGE_LINE}\n"


async def test_a_stream_says_no_more_of_an_empty_reply_than_it_knows(tmp_path: Path) -> None:
    """The first is asked for again, the second ends the turn: neither notice may say otherwise."""
    provider = ScriptedProvider("", "")
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        gateway.client() as client,
    ):
        path = f"/api/v1/sessions/{await gateway.session()}/stream"
        page = (await client.post(path, json={"content": "hello"})).text

    told = 'event: notice\nid: {}\ndata: {{"text":"The reply could not be used: it was empty."}}'
    assert [page.count(told.format(number)) for number in (5, 6)] == [1, 1]
    assert "event: error" in page
    assert "asked again" not in page
