"""Calls that wait for a person, over HTTP and through the terminal's clients, with a real shell."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import yaml
from support.gateway import (
    HttpGateway,
    open_client_here,
    open_http_client,
    server_events,
)
from support.patience import WAIT_S
from support.shell_agents import results, running, shell_agent, until_asked

from everturn_actors.events import ApprovalDecided
from everturn_actors.model import Reply

DEADLINE_S = WAIT_S


def path(session_id: str, *parts: object) -> str:
    """Return the path of something of a session."""
    return "/".join(map(str, ("/api/v1/sessions", session_id, *parts)))


async def begin(
    gateway: HttpGateway, client: httpx2.AsyncClient, *replies: Reply | str
) -> tuple[str, dict[str, Any]]:
    """Send a message whose turn comes to a question; return the session and its document."""
    gateway.provider.script += replies
    session_id = await gateway.session("second")
    sent = await client.post(
        path(session_id, "messages"),
        json={"content": "look"},
        headers={"Prefer": "respond-async"},
    )
    assert sent.status_code == 202
    await until_asked(gateway, session_id)
    return session_id, (await client.get(path(session_id))).json()


async def test_a_command_waits_and_runs_when_it_is_allowed(tmp_path: Path) -> None:
    """The default of a fresh agent: nothing runs that nobody has seen."""
    async with shell_agent(tmp_path) as gateway, gateway.client() as client:
        session_id, document = await begin(gateway, client, running("echo hi > seen; cat seen"))
        (waiting,) = document["approvals"]
        asked = {"call_id": "c1", "decision": "allow_once"}
        answer = await client.post(
            path(session_id, "approve"),
            json={**asked, "arguments_hash": waiting["arguments_hash"]},
        )
        await gateway.provider.until_called(2)

        assert (waiting["name"], json.loads(waiting["arguments"])["command"]) == (
            "bash",
            "echo hi > seen; cat seen",
        )
        assert (answer.status_code, answer.json()) == (200, asked)
        assert await results(gateway, session_id) == ["hi"]
        file = gateway.config.workspace / "files" / "second" / "seen"
        assert await anyio.Path(file).read_text() == "hi\n"


async def test_a_command_that_is_allowed_for_good_stands_in_the_policy_and_is_not_asked_again(
    tmp_path: Path,
) -> None:
    """Always means always: in the next turn, and after a restart."""
    async with shell_agent(tmp_path) as gateway, gateway.client() as client:
        session_id, _ = await begin(gateway, client, running("echo one"), "done")
        word = {"call_id": "c1", "decision": "allow_always"}
        await client.post(path(session_id, "approve"), json=word)
        await gateway.provider.until_called(2)
        kept = await anyio.Path(tmp_path / "agents/second/policy.local.yaml").read_text()
    async with shell_agent(tmp_path) as gateway, gateway.client() as client:
        gateway.provider.script += [running("echo one", "c2"), "again"]
        session_id = await gateway.session("second")
        answer = await client.post(path(session_id, "messages"), json={"content": "again"})

        assert yaml.safe_load(kept)["allow"] == ["bash:echo one"]
        assert answer.json()["content"] == "again"
        assert await results(gateway, session_id) == ["one"]


async def test_what_the_policy_allows_runs_and_what_it_denies_does_not(tmp_path: Path) -> None:
    """An owner who wrote it down is not asked; one that is denied nobody can allow."""
    async with (
        shell_agent(tmp_path, allow=["bash:echo *"], deny=["bash:rm *"]) as gateway,
        gateway.client() as client,
    ):
        gateway.provider.script += [
            running("echo a && echo b"),
            running("echo a; rm -rf x", "c2"),
            "done",
        ]
        session_id = await gateway.session("second")
        answer = await client.post(path(session_id, "messages"), json={"content": "go"})
        first, second = await results(gateway, session_id)

        assert answer.json()["content"] == "done"
        assert first == "a\nb"
        assert "deny: bash:rm *" in second


async def test_the_stream_of_a_turn_tells_what_waits_and_what_was_decided(tmp_path: Path) -> None:
    """A web client shows a button at once, and takes it away when somebody has answered."""
    async with shell_agent(tmp_path) as gateway, gateway.client() as client:
        gateway.provider.script += [running("echo hi"), "done"]
        session_id = await gateway.session("second")
        told: dict[str, dict[str, Any]] = {}
        async with client.stream(
            "POST", path(session_id, "stream"), json={"content": "go"}
        ) as response:
            async for event in server_events(response):
                told[event.event] = event.data
                if event.event == "approval_required":
                    word = {"call_id": event.data["id"], "decision": "deny"}
                    await client.post(path(session_id, "approve"), json=word)

        assert told["approval_required"]["name"] == "bash"
        assert told["approval_required"]["pattern"] == "bash:echo hi"
        assert told["approval_decided"]["decision"] == "deny"
        assert told["tool_result"]["is_error"]
        assert told["done"]["content"] == "done"


async def test_a_word_that_does_not_count_is_refused_with_its_reason(tmp_path: Path) -> None:
    """A client that is wrong has to learn why, and the call goes on waiting."""
    rows: list[tuple[dict[str, Any], int, str]] = [
        ({"call_id": "other", "decision": "deny"}, 404, "unknown-approval"),
        ({"call_id": "c1", "decision": "perhaps"}, 422, "invalid-input"),
        ({"call_id": "", "decision": "deny"}, 422, "invalid-input"),
        ({"call_id": "c1", "decision": "deny", "arguments_hash": "0"}, 409, "approval-closed"),
        ({"call_id": "c1", "decision": "deny", "sender": "eve"}, 403, "not-an-approver"),
    ]
    async with (
        shell_agent(tmp_path, approvers=["admin"]) as gateway,
        gateway.client() as client,
    ):
        session_id, _ = await begin(gateway, client, running("echo hi"))
        for word, status, kind in rows:
            answer = await client.post(path(session_id, "approve"), json=word)

            assert answer.status_code == status, word
            assert answer.json()["type"].endswith(kind)
            assert len((await client.get(path(session_id))).json()["approvals"]) == 1


async def test_both_clients_of_the_terminal_tell_and_answer_alike(tmp_path: Path) -> None:
    """`everturn chat` has to work with a gateway in its own process, and with another."""
    async with (
        shell_agent(tmp_path) as gateway,
        gateway.client() as client,
        open_client_here(gateway) as here,
        open_http_client(gateway.base_url, token="") as there,
    ):
        for calls, terminal in ((2, here), (4, there)):
            session_id, _ = await begin(gateway, client, running("echo hi"), "done")
            (approval,) = (await terminal.status(session_id)).approvals
            assert (approval.call_id, approval.pattern) == ("c1", "bash:echo hi")
            await terminal.decide(session_id, approval.call_id, "allow_once")
            await gateway.provider.until_called(calls)

            assert await results(gateway, session_id) == ["hi"]


async def test_a_call_of_a_conversation_that_nobody_keeps_is_refused_not_asked(
    tmp_path: Path,
) -> None:
    """An OpenAI client cannot answer a question; it must not wait an hour for one."""
    async with shell_agent(tmp_path) as gateway, gateway.client() as client:
        gateway.provider.script += [running("echo hi"), "I may not"]
        answer = await client.post(
            "/v1/chat/completions",
            json={"model": "second", "messages": [{"role": "user", "content": "go"}]},
        )

        assert answer.status_code == 200
        assert answer.json()["choices"][0]["message"]["content"] == "I may not"


async def test_who_may_answer_is_a_matter_of_scope_and_policy(tmp_path: Path) -> None:
    """To see a session and to talk in it does not yet let its tools run."""
    async with shell_agent(tmp_path) as gateway:
        tokens = {
            "alice": await gateway.token("alice", "talk"),
            "bob": await gateway.token("bob", "talk", "approve"),
            "carol": await gateway.token("carol", "approve", "operate"),
        }
        gateway.provider.script += [running("echo one"), "done"]
        async with AsyncExitStack() as stack:
            clients = {
                name: await stack.enter_async_context(gateway.client(token=token))
                for name, token in tokens.items()
            }
            begun = await clients["alice"].post("/api/v1/sessions", json={"agent": "second"})
            session_id = begun.json()["id"]
            await clients["alice"].post(
                path(session_id, "messages"),
                json={"content": "look"},
                headers={"Prefer": "respond-async"},
            )
            asked = await until_asked(gateway, session_id)
            word = {"call_id": asked.call_id, "decision": "allow_once", "sender": "alice"}
            answers = {
                "alice": await clients["alice"].post(path(session_id, "approve"), json=word),
                "unseen": await clients["bob"].post(path(session_id, "approve"), json=word),
            }
            await clients["alice"].put(path(session_id, "shares", "bob"))
            answers["bob"] = await clients["bob"].post(path(session_id, "approve"), json=word)
            answers["carol"] = await clients["carol"].post(path(session_id, "approve"), json=word)
            await gateway.provider.until_called(2)
        log = await gateway.service.history(session_id, after=0, limit=99)

    assert {name: answer.status_code for name, answer in answers.items()} == {
        "alice": 403,
        "unseen": 404,
        "bob": 200,
        "carol": 200,  # the same word again
    }
    assert asked.approvers == ()
    assert [e.body.by for e in log if isinstance(e.body, ApprovalDecided)] == ["bob"]


async def test_a_policy_that_names_approvers_holds_for_principals_too(tmp_path: Path) -> None:
    """A scope opens the way to a question; who is responsible stands in the policy."""
    async with shell_agent(tmp_path, approvers=["bob"]) as gateway, AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(
                gateway.client(token=await gateway.token(name, *scopes))
            )
            for name, scopes in (
                ("alice", ("talk", "approve")),
                ("bob", ("operate", "approve")),
                ("root", ("admin",)),
            )
        }
        gateway.provider.script.append(running("echo one"))
        for _ in range(3):
            gateway.provider.script += (running("echo one"), "done")
        calls = 0
        told: list[tuple[str, int, str]] = []
        for name, sender in (("alice", "bob"), ("bob", ""), ("root", "bob"), ("root", "")):
            session_id = (
                await clients["alice"].post("/api/v1/sessions", json={"agent": "second"})
            ).json()["id"]
            await clients["alice"].post(
                path(session_id, "messages"),
                json={"content": "look"},
                headers={"Prefer": "respond-async"},
            )
            asked = await until_asked(gateway, session_id)
            word = {"call_id": asked.call_id, "decision": "deny", "sender": sender}
            answer = await clients[name].post(path(session_id, "approve"), json=word)
            log = await gateway.service.history(session_id, after=0, limit=99)
            by = [e.body.by for e in log if isinstance(e.body, ApprovalDecided)]
            told.append((name, answer.status_code, ",".join(by)))
            calls += 2 if answer.status_code == 200 else 1
            await gateway.provider.until_called(calls)

    assert told == [
        ("alice", 403, ""),  # whatever she says who she is
        ("bob", 200, "bob"),
        ("root", 200, "bob"),  # an admin speaks for somebody
        ("root", 200, "root"),
    ]


async def test_an_answer_says_what_was_refused(tmp_path: Path) -> None:
    """A model that was refused something may not say so; the program that asked has to know."""
    async with shell_agent(tmp_path, mode="restrict") as gateway, gateway.client() as client:
        gateway.provider.script += [running("echo hi > seen"), "All is done."]
        session_id = await gateway.session("second")
        answer = await client.post(path(session_id, "messages"), json={"content": "look"})

    body = answer.json()
    (refused,) = body["refused"]
    assert (body["content"], body["outcome"]) == ("All is done.", "answered")
    assert refused.startswith('bash {"command": "echo hi > seen"}: ')
    assert "mode restrict" in refused
