"""Taking back what a turn changed: over HTTP, by the command line, in a chat."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from anyio import to_thread
from support.feeding_adapter import feeding
from support.gateway import open_http_gateway

from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import Reply, ToolCall
from everturn_actors.testing import ManualClock, ScriptedProvider

TOOLS = "\n  tools:\n    - {type: builtin, name: files}\n"


def written(text: str) -> list[Reply]:
    """Return what a model says that writes a file."""
    arguments = json.dumps({"path": "a.txt", "content": text})
    call = ToolCall(call_id=text, name="write_file", arguments=arguments)
    return [Reply(calls=(call,), stop_reason="tool_calls"), Reply(text="done")]


async def test_a_session_takes_back_its_own_turns_over_http(tmp_path: Path) -> None:
    """The newest first, and no other session's; what was changed since is named and left."""
    provider = ScriptedProvider(*written("one"), *written("two"), *written("three"))
    file = tmp_path / "workspace" / "files" / "test" / "a.txt"
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        agent = tmp_path / "agents" / "test" / "agent.yaml"
        await to_thread.run_sync(lambda: agent.write_text(agent.read_text() + TOOLS))
        await gateway.library.reload()
        mine, other = await gateway.session(), await gateway.session()
        async with gateway.client() as client:
            for session in (mine, mine, other):
                path = f"/api/v1/sessions/{session}/messages"
                said = await client.post(path, json={"content": "go"})
                assert said.status_code == 200, said.text
            listed = (await client.get("/api/v1/agents/test/checkpoints")).json()["checkpoints"]
            shown = (await client.get("/api/v1/agents/test/checkpoints/2")).json()
            left = (await client.post(f"/api/v1/sessions/{mine}/undo")).json()
            newest = (await client.post("/api/v1/agents/test/checkpoints/3/undo")).json()
            gone = await client.post("/api/v1/agents/test/checkpoints/3/undo")
            missing = await client.post("/api/v1/agents/test/checkpoints/9/undo")

    assert [each["number"] for each in listed] == [3, 2, 1]
    assert [each["session_id"] for each in listed] == [other, mine, mine]
    assert listed[0]["files"] == [{"path": "a.txt", "change": "changed"}]
    assert shown["diff"].splitlines()[-2:] == ["-one", "+two"]
    assert left["left"] == [
        {"path": "a.txt", "reason": "it was changed since, and is left as it is"}
    ]
    assert newest["restored"] == ["a.txt"]
    assert (gone.status_code, missing.status_code) == (404, 404)
    assert missing.json()["type"].endswith("unknown-checkpoint")
    assert await to_thread.run_sync(file.read_text) == "two"


async def test_undo_in_a_chat_is_done_once_however_often_it_comes(tmp_path: Path) -> None:
    """A platform hands in again what it was not told of, and another turn would go."""
    undone: list[str] = []
    disk, clock = MemoryDisk(), ManualClock()

    async def undo(agent: str, session_id: str) -> str:
        undone.append(agent)
        return f"Taken back: {bool(session_id)}."

    begin = partial(feeding, tmp_path, disk=disk, clock=clock, more={"undo": undo})
    async with begin() as fed:
        await fed.say("hello")
        await fed.until_idle()
        answers = [await fed.command("undo"), await fed.command("undo")]
        last = fed.numbers
    async with begin() as fed:
        fed.numbers = last - 1
        answers.append(await fed.command("undo"))

    assert answers == ["Taken back: True.", "Taken back: True.", "That was taken back already."]
    assert undone == ["test", "test"]
