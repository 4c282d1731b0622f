"""What the model sees, by the installed command: it survives a kill, and people are told of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import orjson
from support.command import everturn
from support.gateway import server_events
from support.model_api import Answer, ModelApi, Received, open_model_api, overflow
from support.patience import WAIT_S
from support.process import gateway_process, write_workspace
from support.responses_format import compacted

LONG = "word " * 400
ENOUGH = 9  # long messages and their answers: more than the small window holds
CHARACTERS_PER_TOKEN = 4


def give_small_window(folder: Path) -> None:
    """Give the agent `helper` a window that a few long messages fill."""
    file = folder / "agents" / "helper" / "agent.yaml"
    small = "fake-1, context_window: 6000, max_output_tokens: 500,"
    file.write_text(file.read_text().replace("fake-1,", small))


def is_summary(body: bytes) -> bool:
    """Whether a request asks for a summary: behind the conversation, or without tools, as data."""
    return b"The gateway asks this, no person" in body or b'"tools"' not in body


def answer(request: Received) -> Answer:
    """Answer, or summarise, and report what the request costs."""
    tokens = len(request.body) // CHARACTERS_PER_TOKEN
    text = "They count words." if is_summary(request.body) else "All right."
    return Answer(text=text, input_tokens=tokens)


def asked(api: ModelApi) -> list[bytes]:
    """Return the requests for answers, oldest first."""
    return [request.body for request in api.requests if not is_summary(request.body)]


def beginning(body: bytes) -> bytes:
    """Return what the next request begins with, if nothing is hidden before it."""
    return body[: body.index(b'],"tools"')]


async def new_session(client: httpx2.AsyncClient) -> str:
    """Start a session with the agent `helper`."""
    response = await client.post("/api/v1/sessions", json={"agent": "helper"})
    return str(response.raise_for_status().json()["id"])


async def say(client: httpx2.AsyncClient, session: str, *texts: str) -> str:
    """Send messages, each after the answer to the one before; return the last answer."""
    content = ""
    for text in texts:
        path = f"/api/v1/sessions/{session}/messages"
        response = await client.post(path, json={"content": text})
        content = str(response.raise_for_status().json()["content"])
    return content


async def until(client: httpx2.AsyncClient, session: str, event_type: str, after: int = 0) -> int:
    """Follow a session from event `after` until one of this type has come; return its number."""
    path = f"/api/v1/sessions/{session}/events"
    with anyio.fail_after(WAIT_S):
        async with client.stream("GET", path, headers={"Last-Event-ID": str(after)}) as response:
            async for event in server_events(response):
                if event.event == event_type:
                    return event.seq or 0
    message = f"the events ended before {event_type}"
    raise AssertionError(message)


async def test_a_kill_leaves_the_next_request_as_it_would_have_been(tmp_path: Path) -> None:
    """Neither a summary nor a crash costs the provider's cache more than it has to."""
    async with open_model_api(default=answer) as api:
        write_workspace(tmp_path, api.url)
        give_small_window(tmp_path)
        # The installed command, for each start of it has another seed of hashes.
        async with gateway_process(tmp_path, imported=None) as gateway, gateway.client() as client:
            session = await new_session(client)
            await say(client, session, *(f"{number}: {LONG}" for number in range(ENOUGH)))
            await until(client, session, "summarised")
            await say(client, session, "one", "two")
            api.script(Answer(text="never finished", hold={1: anyio.Event()}))
            count = api.count
            path = f"/api/v1/sessions/{session}/messages"
            accepted = await client.post(
                path, json={"content": "three"}, headers={"Prefer": "respond-async"}
            )
            await api.received(count + 1)
            await gateway.kill()
        async with gateway_process(tmp_path, imported=None) as gateway, gateway.client() as client:
            await api.received(count + 2)
            state = (await client.get(f"/api/v1/sessions/{session}")).json()
            if state["open_turn"] is not None:
                await until(client, session, "turn_finished", after=state["last_event"])
            await say(client, session, "four")
            report = (await client.get(f"/api/v1/sessions/{session}/context")).json()

        one, two, killed, again, four = asked(api)[-5:]
        assert accepted.status_code == 202
        assert b"They count words." in one
        assert two.startswith(beginning(one))
        assert killed.startswith(beginning(two))
        assert again == killed
        assert four.startswith(beginning(again))
        assert report["by_disposition"]["summarised"] == report["hidden_messages"] > 0


async def test_a_summary_cut_off_by_a_kill_is_made_after_the_restart(tmp_path: Path) -> None:
    """Nobody waits for a summary, and none is lost."""
    never = anyio.Event()
    began = anyio.Event()

    def slow(request: Received) -> Answer:
        if is_summary(request.body) and not began.is_set():
            began.set()
            return Answer(text="never finished", hold={1: never})
        return answer(request)

    async with open_model_api(default=slow) as api:
        write_workspace(tmp_path, api.url)
        give_small_window(tmp_path)
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            session = await new_session(client)
            await say(client, session, *(f"{number}: {LONG}" for number in range(ENOUGH)))
            with anyio.fail_after(WAIT_S):
                await began.wait()
            said = await say(client, session, "meanwhile")
            await gateway.kill()
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            await say(client, session, "go on")
            await until(client, session, "summarised")
            await say(client, session, "what do they do?")

        newest = asked(api)[-1]
        texts = [message["content"] for message in orjson.loads(newest)["messages"]]
        assert said == "All right."
        assert "They count words." in texts[0]
        assert {"meanwhile", "go on", "what do they do?"} <= set(texts)


async def test_an_item_of_openais_stands_for_older_turns_after_a_kill(tmp_path: Path) -> None:
    """Killed before its text was there, it is made again; then it goes back, also after a kill."""
    began = anyio.Event()

    def compacting(request: Received) -> Answer:
        if b"compaction_trigger" in request.body:
            return Answer(blocks=(compacted(),))
        if is_summary(request.body) and not began.is_set():
            began.set()
            return Answer(text="never finished", hold={1: anyio.Event()})
        return answer(request)

    async with open_model_api(default=compacting) as api:
        write_workspace(tmp_path, f"{api.url}/responses")
        file = tmp_path / "agents" / "helper" / "agent.yaml"
        native = "{on_disconnect: continue, context: {policy: native}}"
        file.write_text(file.read_text().replace("{on_disconnect: continue}", native))
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            session = await new_session(client)
            await say(client, session, *(f"{number}: {LONG}" for number in range(6)))
            path = f"/api/v1/sessions/{session}"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.post, f"{path}/compact")
                with anyio.fail_after(WAIT_S):
                    await began.wait()
                tasks.cancel_scope.cancel()
            await gateway.kill()
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            made = (await client.post(f"{path}/compact")).json()
            await say(client, session, "one")
            await gateway.kill()
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            await say(client, session, "two")
            last = (await client.get(path)).json()["last_event"]
            past = (await client.get(f"{path}/context/{last - 1}")).json()
            first = past["request"]["messages"][0]
            found = (await client.get("/api/v1/search", params={"q": "count words"})).json()

    one, two = (orjson.loads(each)["input"] for each in asked(api)[-2:])
    assert made["source"] == "provider"
    assert one[0] == two[0] == compacted()
    assert two[: len(one)] == one
    assert past["verdict"] == "same"
    assert "They count words." in first["content"]
    assert "enc-1" in first["opaque"], "a person sees what went in its place"
    assert "They count words." in json.dumps(found), "others read the text beside it"


async def test_a_request_that_is_too_long_is_answered_and_told_of(tmp_path: Path) -> None:
    """The person reads one line, and the limit that the provider named holds from then on."""
    async with open_model_api(default=answer) as api:
        write_workspace(tmp_path, api.url)
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            session = await new_session(client)
            await say(client, session, *(f"{number}: {LONG}" for number in range(4)))
            api.script(overflow())
            chat = await everturn("chat", "--session", session, cwd=tmp_path, stdin=b"and now?\n")
            report = (await client.get(f"/api/v1/sessions/{session}/context")).json()

        refused, sent = asked(api)[-2:]
        assert chat.code == 0
        assert "All right." in chat.out
        told = (chat.out + chat.err).count("Context window exceeded. Compressing history")
        assert told == 1
        assert len(sent) < len(refused)
        assert orjson.loads(sent)["messages"][-1]["content"] == "and now?"
        assert report["window_tokens"] == 8192


async def test_what_is_hidden_is_counted_and_explained(tmp_path: Path) -> None:
    """A person has older turns summarised, sees it, and sees what was asked before."""

    async def told(*arguments: str) -> dict[str, Any]:
        done = await everturn(*arguments, "--json", cwd=tmp_path)
        assert done.code == 0, done.err
        return dict(json.loads(done.out))

    async with open_model_api(default=answer) as api:
        write_workspace(tmp_path, api.url)
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            session = await new_session(client)
            await say(client, session, *(f"{number}: {LONG}" for number in range(8)))
            compacted = await told("compact", session, "--focus", "the words")
            await say(client, session, "and now?")
            shown = await told("context", "show", session)
            events = (await client.get(f"/api/v1/sessions/{session}")).json()["last_event"]
            now = await told("context", "explain", session, str(events - 1))
            past = await told("context", "explain", session, "5")

        assert compacted["done"] is True
        assert compacted["tokens_after"] < compacted["tokens_before"]
        assert shown["hidden_messages"] == compacted["messages"] == 8
        assert shown["shown_messages"] + shown["hidden_messages"] == 18
        assert sum(shown["regions"].values()) == shown["window_tokens"]
        assert now["verdict"] == past["verdict"] == "same"
        assert [m["disposition"] for m in now["messages"]].count("summarised") == 8
        assert {m["disposition"] for m in past["messages"]} == {"kept"}
        [summary] = [r.body for r in api.requests if is_summary(r.body)]
        assert b"the words" in summary
