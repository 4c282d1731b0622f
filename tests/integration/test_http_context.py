"""What the model sees, over HTTP: the report, past requests, and summaries on demand."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import yaml
from support.gateway import (
    HttpGateway,
    open_http_gateway,
    server_events,
    serving,
    write_agent,
)
from support.patience import WAIT_S
from support.shell_agents import running, shell_agent
from support.tables import table

from everturn_actors.events import CallFinished, Event, Summarised
from everturn_actors.model import Reply, ToolCall, Usage, UserMessage
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.http import server as server_module
from everturn_gateway.http.schemas.context import DispositionsBody, ExplanationBody, RequestPartBody

UNKNOWN = "20260101T000000000-00000000"
DEADLINE_S = WAIT_S


def path(session_id: str, *parts: object) -> str:
    """Return the path of something of a session."""
    return "/".join(map(str, ("/api/v1/sessions", session_id, *parts)))


async def say(gateway: HttpGateway, session_id: str, *texts: str) -> None:
    """Send messages, one turn each."""
    async with gateway.client() as client:
        for text in texts:
            answer = await client.post(path(session_id, "messages"), json={"content": text})
            assert answer.status_code == 200, answer.text


async def write_second(folder: Path, context: dict[str, Any], **model: int) -> None:
    """Write the agent `second`, whose context is made to fit in another way."""
    file = await anyio.to_thread.run_sync(lambda: write_agent(folder / "agents", name="second"))
    document = yaml.safe_load(await anyio.Path(file).read_text())
    document["spec"]["model"] |= model
    document["spec"]["session"]["context"] = context
    await anyio.Path(file).write_text(yaml.safe_dump(document))


@asynccontextmanager
async def summarised_agent(
    folder: Path, server: ServerConfig | None = None
) -> AsyncGenerator[HttpGateway]:
    """Open a gateway in which the scripted model writes the summaries of the agent `second`."""
    await write_second(folder, {"summarizer": {"provider": "scripted", "name": "scripted"}})
    async with open_http_gateway(folder, server=server) as gateway:
        yield gateway


async def summary_of(gateway: HttpGateway, session_id: str) -> Summarised:
    """Return a session's first summary as soon as there is one."""
    with anyio.fail_after(DEADLINE_S):
        async with aclosing(gateway.service.watch(session_id, after=0)) as updates:
            async for update in updates:
                if isinstance(update, Event) and isinstance(update.body, Summarised):
                    return update.body
    raise AssertionError


async def test_the_report_comes_while_a_turn_runs(tmp_path: Path) -> None:
    """Whoever wonders what an agent is doing asks just then, and must not wait for it."""
    usage = Usage(input_tokens=100, output_tokens=5, cached_tokens=40)
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        gateway.provider.script.append(Reply(text="Good morning.", usage=usage))
        session = await gateway.session()
        await say(gateway, session, "Good morning")
        idle = await client.get(path(session, "context"))
        gateway.provider.hold()
        prefer = {"Prefer": "respond-async"}
        await client.post(path(session, "messages"), json={"content": "And?"}, headers=prefer)
        await gateway.provider.until_called(2)
        with anyio.fail_after(DEADLINE_S):
            busy = await client.get(path(session, "context"))
        gateway.provider.release()
    before, now = idle.json(), busy.json()

    assert (idle.status_code, busy.status_code) == (200, 200)
    assert before["reported"] | {"input_tokens": 100, "cached_tokens": 40} == before["reported"]
    assert (before["policy"], before["model"], before["level"]) == ("everturn", "scripted", "green")
    assert (before["shown_messages"], before["hidden_messages"]) == (2, 0)
    assert before["regions"]["turn"] == 0 < now["regions"]["turn"]
    assert sum(now["regions"].values()) == now["window_tokens"]
    assert now["next"]


async def test_a_past_request_is_explained_also_after_a_restart(tmp_path: Path) -> None:
    """The log is the truth: another process makes the same request of it, byte for byte."""
    provider = ScriptedProvider()
    provider.script.append(Reply(calls=(ToolCall(call_id="c1", name="nothing"),)))
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        session = await gateway.session()
        await say(gateway, session, "one", "two")
        async with gateway.client() as client:
            events = await gateway.service.history(session, after=0, limit=100)
            first = (await client.get(path(session, "context", 2))).json()
            last = (await client.get(path(session, "context", events[-2].seq))).json()
    async with open_http_gateway(tmp_path) as again, again.client() as client:
        later = (await client.get(path(session, "context", events[-2].seq))).json()
    sent = provider.requests[-1].messages

    assert (first["turn"], first["step"], first["verdict"]) == (1, 1, "same")
    assert (last["turn"], last["step"], last["verdict"]) == (2, 1, "same")
    assert later == last
    assert [m["content"] for m in last["request"]["messages"]] == [m.text for m in sent]
    assert [m["role"] for m in last["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert last["request"]["messages"][1]["tool_calls"][0]["id"] == "c1"


async def test_two_requests_are_compared_and_halves_are_sent_alone(tmp_path: Path) -> None:
    """A page that moves from request to request is sent what differs, and not all of it."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        session = await gateway.session()
        await say(gateway, session, "one", "two", "three")
        listed = (await client.get(path(session, "requests"))).json()["requests"]
        last, before = (path(session, "context", each["replied_seq"]) for each in listed[:2])
        whole = (await client.get(last)).json()
        dispositions = (await client.get(last, params={"part": "dispositions"})).json()
        request = (await client.get(last, params={"part": "request"})).json()
        differing = (await client.get(last, params={"than": listed[1]["replied_seq"]})).json()
        none = (await client.get(before, params={"than": listed[1]["started_seq"]})).json()
        late = (
            await client.get(last, params={"since": dispositions["messages"][-1]["seq"]})
        ).json()
        both = await client.get(last, params={"than": 2, "part": "request"})
        wrong = await client.get(last, params={"than": 0, "part": "all"})
        unknown = await client.get(last, params={"than": 1})

    ExplanationBody.model_validate(whole)
    DispositionsBody.model_validate(differing)
    assert RequestPartBody.model_validate(request).model_dump(mode="json") == request
    assert request["request"] == whole["request"]
    assert [m["seq"] for m in dispositions["messages"]] == [m["seq"] for m in whole["messages"]]
    assert "request" not in dispositions
    assert "messages" not in request
    assert [m["begins"] for m in differing["messages"]] == ["reply 2", "three"]
    assert [m["was"] for m in differing["messages"]] == [None, None]
    assert differing["by_disposition"] == {"kept": 5}
    assert none["messages"] == []
    assert late == {**dispositions, "messages": dispositions["messages"][-1:]}
    assert none["than"] == listed[1]["replied_seq"]
    assert (both.status_code, wrong.status_code, unknown.status_code) == (422, 422, 404)
    assert len(wrong.json()["errors"]) == 2
    assert unknown.json()["type"] == "urn:everturn:problem:unknown-request"


async def test_all_requests_are_listed_page_by_page_and_what_was_made_of_them(
    tmp_path: Path,
) -> None:
    """A slider over them needs each, once, with what it cost and what was hidden before it."""
    usage = Usage(input_tokens=100, output_tokens=5, cached_tokens=40, cost_nanodollars=2_000_000)
    provider = ScriptedProvider()
    provider.script.append(Reply(calls=(ToolCall(call_id="c1", name="nothing"),), usage=usage))
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        gateway.client() as client,
    ):
        session = await gateway.session()
        empty = (await client.get(path(session, "requests"))).json()
        await say(gateway, session, "one", *(f"{n} {'word ' * 100}" for n in range(9)))
        # Nobody needs a second model to make room.
        digest = (await client.post(path(session, "compact"), json={"focus": ""})).json()
        await say(gateway, session, "after it")
        whole = (await client.get(path(session, "requests"))).json()
        found: list[dict[str, Any]] = []
        page: dict[str, Any] = {"next": 0}
        while page["next"] is not None:
            params = {"limit": 4, "before": page["next"]}
            page = (await client.get(path(session, "requests"), params=params)).json()
            assert len(page["requests"]) <= 4
            found += page["requests"]
        gateway.provider.hold()
        prefer = {"Prefer": "respond-async"}
        await client.post(path(session, "messages"), json={"content": "?"}, headers=prefer)
        await gateway.provider.until_called(13)
        (open_one,) = (await client.get(path(session, "requests"), params={"limit": 1})).json()[
            "requests"
        ]
        gateway.provider.release()
        wrong = await client.get(path(session, "requests"), params={"limit": 0, "before": -1})
        nobody = await client.get(path(UNKNOWN, "requests"))

    assert empty == {"requests": [], "next": None}
    assert (digest["done"], digest["source"]) == (True, "digest")
    assert digest["tokens_after"] < digest["tokens_before"]
    assert found == whole["requests"]
    assert [(each["turn"], each["step"]) for each in found[-3:]] == [(2, 1), (1, 2), (1, 1)]
    assert len(found) == len(gateway.provider.requests) - 1 == 12
    first = found[-1]
    assert first["reported"] | {"input_tokens": 100, "cached_tokens": 40} == first["reported"]
    assert (first["cost_usd"], first["tries"]) == (0.002, 1)
    assert first["estimated_tokens"] > 0
    assert [each["reductions"] for each in found] == [1] + [0] * 11
    assert (open_one["replied_seq"], open_one["seconds"], open_one["turn"]) == (0, None, 12)
    assert (wrong.status_code, nobody.status_code) == (422, 404)


async def test_a_large_result_is_given_back_whole(tmp_path: Path) -> None:
    """The log holds the beginning and the end of it; a person wants what was cut out."""
    text = "\n".join(map(str, range(1, 5001)))
    async with (
        shell_agent(tmp_path, allow=["bash:seq *"]) as gateway,
        gateway.client() as client,
    ):
        gateway.provider.script.append(running("seq 1 5000"))
        session = await gateway.session("second")
        await say(gateway, session, "look")
        events = await gateway.service.history(session, after=0, limit=100)
        (finished,) = (e.body for e in events if isinstance(e.body, CallFinished))
        answer = await client.get(path(session, "results", finished.path))
        gone = await client.get(path(session, "results", "other"))
        outside = await client.get(path(session, "results", "..%2Fstate.yaml"))
        nobody = await client.get(path(UNKNOWN, "results", finished.path))

    assert len(finished.text) < len(text)
    assert text in answer.text
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert gone.json()["type"] == "urn:everturn:problem:unknown-result"
    assert outside.status_code == 404
    assert nobody.json()["type"] == "urn:everturn:problem:unknown-session"


async def test_what_cannot_be_explained_is_said(tmp_path: Path) -> None:
    """A number from the wrong place gets the right ones, and no stack of errors."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        session = await gateway.session()
        await say(gateway, session, "one")
        wrong = await client.get(path(session, "context", 1))
        zero = await client.get(path(session, "context", 0))
        word = await client.get(path(session, "context", "m2"))
        nobody = await client.get(path(UNKNOWN, "context", 2))
        nothing = await client.get(path(UNKNOWN, "context"))

    assert wrong.status_code == 404
    assert wrong.headers["content-type"] == "application/problem+json"
    assert wrong.json()["type"] == "urn:everturn:problem:unknown-request"
    assert "requests were sent for the events 5" in wrong.json()["detail"]
    assert (zero.status_code, word.status_code) == (422, 422)
    assert {nobody.json()["type"], nothing.json()["type"]} == {
        "urn:everturn:problem:unknown-session"
    }


async def test_what_does_not_fit_is_told_with_its_parts(tmp_path: Path) -> None:
    """Just when nothing fits, a person asks why."""
    await write_second(
        tmp_path, {"policy": "picoclaw"}, context_window=3_000, max_output_tokens=500
    )
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        session = await gateway.session("second")
        failed = await client.post(path(session, "messages"), json={"content": "word " * 9_000})
        report = await client.get(path(session, "context"))

    assert failed.status_code == 502
    assert report.status_code == 409
    assert report.json()["type"] == "urn:everturn:problem:context-does-not-fit"
    assert "window 3,000" in report.json()["detail"]


async def test_a_discarded_log_is_named_as_the_reason(tmp_path: Path) -> None:
    """`compaction: discard` costs the past; it must not look like a fault."""
    async with open_http_gateway(tmp_path, compaction="discard") as gateway:
        session = await gateway.session()
        await say(gateway, session, *(f"number {n} " * 12 for n in range(12)))
    async with open_http_gateway(tmp_path, compaction="discard") as gateway:
        await say(gateway, session, "after a restart")
        async with gateway.client() as client:
            answer = await client.get(path(session, "context", 64))

    assert answer.status_code == 404
    assert "was discarded" in answer.json()["detail"]


async def test_compact_answers_when_the_summary_is_made(tmp_path: Path) -> None:
    """A person asks for it before a long piece of work, and names what matters."""
    async with summarised_agent(tmp_path) as gateway, gateway.client() as client:
        session = await gateway.session("second")
        await say(gateway, session, "one")
        early = await client.post(path(session, "compact"))
        await say(gateway, session, *(f"number {n} " * 12 for n in range(9)))
        gateway.provider.script.append("## Intent\nCounting.")
        done = await client.post(path(session, "compact"), json={"focus": "the number seven"})
        report = (await client.get(path(session, "context"))).json()
    asked = gateway.provider.requests[-1].messages[-1]

    assert early.status_code == 200
    assert early.json()["done"] is False
    assert early.json()["text"]
    assert done.status_code == 200, done.text
    assert (done.json()["done"], done.json()["source"]) == (True, "model")
    assert done.json()["messages"] == report["summary"]["messages"] == report["hidden_messages"] > 0
    assert report["by_disposition"]["summarised"] == report["hidden_messages"]
    assert isinstance(asked, UserMessage)
    assert "the number seven" in asked.text


async def test_compact_is_accepted_at_once_for_who_does_not_wait(tmp_path: Path) -> None:
    """A summary takes as long as a model likes; a web page does not."""
    async with summarised_agent(tmp_path) as gateway, gateway.client() as client:
        session = await gateway.session("second")
        await say(gateway, session, *(f"number {n} " * 12 for n in range(10)))
        calls = len(gateway.provider.requests)
        gateway.provider.script.append("## Intent\nCounting.")
        gateway.provider.hold()
        with anyio.fail_after(DEADLINE_S):
            accepted = await client.post(
                path(session, "compact"), json={}, headers={"Prefer": "respond-async"}
            )
            await gateway.provider.until_called(calls + 1)
            status = await client.get(path(session))
        gateway.provider.release()
        summary = await summary_of(gateway, session)
        async with (
            client.stream("GET", accepted.json()["events"]) as stream,
            aclosing(server_events(stream)) as events,
        ):
            told = await anext(aiter(events))

    assert accepted.status_code == 202
    assert accepted.headers["preference-applied"] == "respond-async"
    assert accepted.headers["location"] == accepted.json()["events"]
    assert status.status_code == 200
    assert summary.text.startswith("## Intent")
    assert told.event == "summarised"


@table("headers", [{}, {"Prefer": "respond-async"}])
async def test_compact_refuses_what_it_cannot_do(tmp_path: Path, headers: dict[str, str]) -> None:
    """An ended session gets no summary, and an unknown one no 202."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client(headers=headers) as client:
        session = await gateway.session()
        await client.post(path(session, "reset"))
        ended = await client.post(path(session, "compact"), json={})
        unknown = await client.post(path(UNKNOWN, "compact"), json={})
        wrong = await client.post(path(session, "compact"), json={"fokus": "x"})
        long = await client.post(path(session, "compact"), json={"focus": "x" * 2_001})
        context = await client.get(path(session, "context"))

    assert ended.status_code == 409
    assert ended.json()["type"] == "urn:everturn:problem:session-ended"
    assert unknown.status_code == 404
    assert wrong.json()["errors"][0]["pointer"] == "#/fokus"
    assert long.json()["errors"][0]["pointer"] == "#/focus"
    assert context.status_code == 200


async def test_a_summary_that_takes_too_long_goes_on_without_its_client(tmp_path: Path) -> None:
    """The deadline of a request is not the summary's."""
    async with summarised_agent(tmp_path) as gateway:
        session = await gateway.session("second")
        await say(gateway, session, *(f"number {n} " * 12 for n in range(10)))
    server = ServerConfig(request_timeout_s=1)
    async with summarised_agent(tmp_path, server) as gateway, gateway.client() as client:
        await gateway.service.view(session)
        gateway.provider.script.append("## Intent\nCounting.")
        gateway.provider.hold()
        late = await client.post(path(session, "compact"), json={})
        gateway.provider.release()
        summary = await summary_of(gateway, session)

    assert late.status_code == 504
    assert "it goes on" in late.json()["detail"]
    assert summary.text.startswith("## Intent")


async def test_a_stopping_server_keeps_nobody_waiting_for_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deploy must not hang on a model, nor a client on a server that is gone."""
    monkeypatch.setattr(server_module, "TURN_GRACE_S", 0.05)
    answers: dict[str, httpx2.Response] = {}
    async with summarised_agent(tmp_path) as gateway:
        session, other = await gateway.session("second"), await gateway.session("second")
        for each in (session, other):
            await say(gateway, each, *(f"number {n} " * 12 for n in range(10)))
        calls = len(gateway.provider.requests)
        gateway.provider.hold()
        gateway.listening = anyio.Event()
        async with anyio.create_task_group() as clients:

            async def compact(session_id: str, prefer: str) -> None:
                async with gateway.client(headers={"Prefer": prefer}) as client:
                    answers[prefer] = await client.post(path(session_id, "compact"), json={})

            async with serving(gateway):
                clients.start_soon(compact, session, "respond-async")
                clients.start_soon(compact, other, "wait")
                with anyio.fail_after(DEADLINE_S):
                    await gateway.provider.until_called(calls + 2)
        gateway.provider.release()

    assert answers["respond-async"].status_code == 202
    assert answers["wait"].status_code == 503
    assert answers["wait"].json()["type"] == "urn:everturn:problem:stopping"
