"""An agent that acts, by the installed command: killed in a tool, asked, cancelled."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
import pytest
from support.answers import Answer
from support.command import everturn, start, terminal
from support.gateway import server_events
from support.model_api import ModelApi, open_model_api
from support.patience import WAIT_S
from support.process import GatewayProcess, gateway_process, write_workspace
from support.tables import table

from everturn_actors.model import ToolCall

KEY = {"OPENAI_API_KEY": "sk-test"}
DEADLINE_S = WAIT_S
ALLOWED = "mode: dangerous\n"


@asynccontextmanager
async def shell_agent(folder: Path, policy: str = "") -> AsyncGenerator[ModelApi]:
    """Write the agent `helper` with a shell, and open the model API that it asks."""
    async with open_model_api() as api:
        write_workspace(folder, api.url)
        agent = folder / "agents" / "helper"
        tools = "  tools:\n    - {type: builtin, name: bash}\n"
        file = agent / "agent.yaml"
        file.write_text(file.read_text() + tools)
        if policy:
            (agent / "policy.yaml").write_text(policy)
        with anyio.fail_after(DEADLINE_S):
            yield api


def running(command: str, call_id: str = "c1") -> Answer:
    """Return a reply that runs a command."""
    arguments = json.dumps({"command": command})
    return Answer(calls=(ToolCall(call_id=call_id, name="bash", arguments=arguments),))


async def begin(client: httpx2.AsyncClient, text: str) -> str:
    """Start a session and hand in a message; return the session's id."""
    made = await client.post("/api/v1/sessions", json={"agent": "helper"})
    session = str(made.raise_for_status().json()["id"])
    path = f"/api/v1/sessions/{session}/messages"
    sent = await client.post(path, json={"content": text}, headers={"Prefer": "respond-async"})
    assert sent.status_code == 202
    return session


async def until(client: httpx2.AsyncClient, session: str, kind: str) -> dict[str, Any]:
    """Follow a session from its beginning until an event of this type has come."""
    async with client.stream("GET", f"/api/v1/sessions/{session}/events") as response:
        async for event in server_events(response):
            if event.event == kind:
                return dict(event.data)
    raise AssertionError(kind)


async def log(client: httpx2.AsyncClient, session: str) -> list[dict[str, Any]]:
    """Return the messages of a session."""
    answer = await client.get(f"/api/v1/sessions/{session}/messages")
    return list(answer.raise_for_status().json()["messages"])


def tool_texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return the results among messages."""
    return [message["content"] for message in messages if message["role"] == "tool"]


def children(gateway: GatewayProcess) -> list[psutil.Process]:
    """Return what runs below a gateway."""
    return psutil.Process(gateway.process.pid).children(recursive=True)


def is_at_work(process: psutil.Process) -> bool:
    """Return whether a process runs; one that only waits to be reaped does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until_running(gateway: GatewayProcess, file: Path) -> None:
    """Wait until a command has made its file."""
    path = anyio.Path(file)
    while not await path.exists():
        assert gateway.process.returncode is None
        await anyio.sleep(0.01)


async def test_a_command_that_a_kill_cut_short_is_not_run_again(tmp_path: Path) -> None:
    """A transfer, a mail, a delete: done twice is worse than done once and not known."""
    async with shell_agent(tmp_path, ALLOWED) as api:
        api.script(running("echo run >> ran; sleep 60"))
        ran = tmp_path / ".everturn" / "files" / "helper" / "ran"
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            session = await begin(client, "go")
            await until_running(gateway, ran)
            left = children(gateway)
            await gateway.kill()
        api.script(Answer(text="I cannot tell whether it is done."))
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            await until(client, session, "turn_finished")
            messages = await log(client, session)

        assert ran.read_text() == "run\n"
        assert tool_texts(messages) == ["interrupted by a restart, outcome unknown"]
        assert messages[-1]["content"] == "I cannot tell whether it is done."
        assert left
        assert not [process for process in left if is_at_work(process)]


async def test_a_question_outlives_a_kill_and_is_answered_by_command(tmp_path: Path) -> None:
    """The gateway is updated while somebody thinks about it."""
    async with shell_agent(tmp_path) as api:
        api.script(running("echo done > made; cat made"), Answer(text="It is made."))
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            session = await begin(client, "make it")
            await until(client, session, "approval_asked")
            await gateway.kill()
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            waiting = (await client.get(f"/api/v1/sessions/{session}")).json()["approvals"]
            nothing = await everturn("approve", session, "c9", cwd=tmp_path, env=KEY)
            said = await everturn("approve", session, cwd=tmp_path, env=KEY)
            await until(client, session, "turn_finished")
            messages = await log(client, session)

        assert [each["call_id"] for each in waiting] == ["c1"]
        assert (nothing.code, nothing.err) == (
            2,
            "everturn: no call 'c9' waits for an approval\n",
        )
        assert (said.code, said.out) == (0, "allowed: call c1\n")
        assert tool_texts(messages) == ["done"]
        assert messages[-1]["content"] == "It is made."


async def test_cancel_ends_a_command_and_all_that_it_began(tmp_path: Path) -> None:
    """/stop that leaves a process running is no stop."""
    async with shell_agent(tmp_path, ALLOWED) as api:
        api.script(running("(sleep 61 & sleep 62 & touch began; wait)"))
        began = tmp_path / ".everturn" / "files" / "helper" / "began"
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            session = await begin(client, "go")
            await until_running(gateway, began)
            before = children(gateway)
            answer = await client.post(f"/api/v1/sessions/{session}/cancel")
            api.script(Answer(text="All right."))
            again = await client.post(
                f"/api/v1/sessions/{session}/messages", json={"content": "and now?"}
            )
            after = children(gateway)

        assert before
        assert answer.json() == {"cancelled": True}
        assert again.json()["content"] == "All right."
        assert not {process.pid for process in before} & {process.pid for process in after}


async def test_a_person_at_the_terminal_answers_what_the_agent_asks(tmp_path: Path) -> None:
    """By the number of a choice, in the chat and from another terminal."""
    question = {"question": "Which colour?", "choices": ["Red", "Blue"]}
    calls = [
        ToolCall(call_id=call_id, name="ask_user", arguments=json.dumps(question))
        for call_id in ("c1", "c2")
    ]
    async with shell_agent(tmp_path) as api:
        file = anyio.Path(tmp_path / "agents/helper/agent.yaml")
        text = await file.read_text()
        await file.write_text(f"{text}    - {{type: builtin, name: ask_user}}\n")
        api.script(Answer(calls=(calls[0],)), Answer(text="Blue it is."), Answer(calls=(calls[1],)))
        api.script(Answer(text="Red it is."))
        async with terminal("chat", cwd=tmp_path, env=KEY) as person:
            await person.expect("helper: session", "you>")
            await person.enter("paint it")
            await person.expect("Which colour?", "1. Red", "2. Blue", "your answer: 1-2")
            await person.enter("3")
            await person.expect("answer 1-2", "you>")
            await person.enter("2")
            await person.expect("answered: Blue", "Blue it is.", "you>")
            await person.enter("again")
            await person.expect("your answer: 1-2")
            await person.enter("red")
            await person.expect("answered: Red", "Red it is.", "you>")


async def test_a_person_at_the_terminal_is_asked_and_answers(tmp_path: Path) -> None:
    """Yes, always, no: without leaving the chat, and always is kept."""
    async with shell_agent(tmp_path) as api:
        api.script(
            running("echo one"),
            Answer(text="First."),
            running("echo two", "c2"),
            Answer(text="Second."),
            running("echo two", "c3"),
            Answer(text="Third."),
            running("rm x", "c4"),
            Answer(text="Fourth."),
        )
        async with terminal("chat", cwd=tmp_path, env=KEY) as person:
            await person.expect("helper: session", "you>")
            await person.enter("a")
            await person.expect("bash", "allow it?", "[a]lways bash:echo one")
            await person.enter("y")
            await person.expect("allowed", "First.", "you>")
            await person.enter("b")
            await person.expect("allow it?")
            await person.enter("a")
            await person.expect("from now on always", "Second.", "you>")
            await person.enter("c")
            await person.expect("Third.", "you>")
            await person.enter("d")
            await person.expect("allow it?")
            await person.enter("n")
            await person.expect("not allowed", "Fourth.", "you>")
            await person.press_control("d")
            await person.end()

        kept = (tmp_path / "agents" / "helper" / "policy.local.yaml").read_text()
        assert "bash:echo two" in kept
        assert "echo one" not in kept


@table("served", [False, True], ids=["alone", "served"])
async def test_run_without_a_person_never_waits_in_silence(tmp_path: Path, *, served: bool) -> None:
    """A script that hangs for an hour, and says nothing, is the worst of all outcomes."""
    async with shell_agent(tmp_path) as api:
        api.script(running("echo hi"), Answer(text="So be it."))
        if not served:
            done = await everturn("run", "go", cwd=tmp_path, env=KEY)

            assert (done.code, done.out) == (0, "So be it.\n")
            assert "waits to be allowed" in done.err
            assert "nobody can be asked here" in done.err
            return
        async with gateway_process(tmp_path), start("run", "go", cwd=tmp_path, env=KEY) as run:
            await api.received(1)
            assert run.process.stderr is not None
            said = b""
            while b"--deny" not in said:
                said += await run.process.stderr.receive()
            command = said.decode().partition("`everturn ")[2].partition("`")[0]
            await everturn(*command.split(), cwd=tmp_path, env=KEY)

            assert (await run.end()).out == "So be it.\n"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="interactive processes need tmux")
async def test_an_interactive_process_works_in_the_served_gateway(tmp_path: Path) -> None:
    """The served gateway runs on another event loop than most tests do."""
    spawn = {"action": "spawn", "command": "cat", "interactive": True, "label": "cat"}

    def calling(arguments: dict[str, object], call_id: str) -> Answer:
        call = ToolCall(call_id=call_id, name="background_process", arguments=json.dumps(arguments))
        return Answer(calls=(call,))

    async with shell_agent(tmp_path, ALLOWED) as api:
        file = tmp_path / "agents" / "helper" / "agent.yaml"
        tool = "    - {type: builtin, name: background_process}\n"
        file.write_text(file.read_text() + tool)
        api.script(calling(spawn, "c1"), Answer(text="It runs."))
        async with gateway_process(tmp_path) as gateway, gateway.client() as client:
            session = await begin(client, "go")
            await until(client, session, "turn_finished")
            (said,) = tool_texts(await log(client, session))
            await client.delete(f"/api/v1/sessions/{session}")

        assert "tmux" in said
        assert "cannot be used" not in said
