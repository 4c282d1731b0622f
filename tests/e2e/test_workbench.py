"""The agent `workbench`, by the installed command: tools, skills, memory and approvals at work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
from support.command import DEADLINE_S, everturn, start
from support.gateway import server_events
from support.process import gateway_process

AGENTS = Path(__file__).parents[2] / "agents"


def set_up(folder: Path) -> None:
    """Make a folder with the agents that come with Everturn, and nothing that they have made."""
    made = shutil.ignore_patterns("memory", "policy.local.yaml")
    shutil.copytree(AGENTS, folder / "agents", ignore=made)
    (folder / "everturn.yaml").write_text("server: {port: 0}\n", encoding="utf-8")


async def told(folder: Path, said: str) -> str:
    """Say something to the workbench in a new session; return its answer."""
    done = await everturn("run", "--agent", "workbench", said, cwd=folder)
    assert done.code == 0, done.err
    return done.out.strip()


async def until(client: httpx2.AsyncClient, session: str, event_type: str) -> None:
    """Follow a session until an event of this type has come."""
    path = f"/api/v1/sessions/{session}/events"
    with anyio.fail_after(DEADLINE_S):
        async with client.stream("GET", path, params={"after": 0}) as response:
            async for event in server_events(response):
                if event.event == event_type:
                    return
    message = f"the events ended before {event_type}"
    raise AssertionError(message)


async def test_it_remembers_in_another_session_and_after_the_process_is_gone(
    tmp_path: Path,
) -> None:
    """Notes are what outlasts a conversation."""
    await anyio.to_thread.run_sync(set_up, tmp_path)
    noted = await told(tmp_path, 'call remember {"content": "my cat is called Mia"}')
    recalled = await told(tmp_path, 'call recall {"days": 7}')

    assert noted.startswith("remember: noted in memory/daily/")
    assert "my cat is called Mia" in recalled


async def test_files_skills_and_commands_work_as_the_policy_says(tmp_path: Path) -> None:
    """What the example shows is what an agent of one's own begins with."""
    await anyio.to_thread.run_sync(set_up, tmp_path)
    async with gateway_process(tmp_path):
        written = await told(
            tmp_path, 'call write_file {"path": "notes.txt", "content": "hello\\n"}'
        )
        read = await told(tmp_path, 'call read_file {"path": "notes.txt"}')
        skill = await told(
            tmp_path,
            'call read_skill {"name": "daily-note"}\nthen call bash {"command": "date -u +%H:%M"}',
        )
        ran = await told(tmp_path, 'call bash {"command": "pwd"}')
        denied = await told(tmp_path, 'call bash {"command": "rm -rf x"}')

    assert written == "write_file: wrote 6 bytes to notes.txt (a new file)"
    assert read == "read_file:\nnotes.txt, line 1 of 1:\n1\thello"
    assert skill.startswith("read_skill:\nSkill daily-note, SKILL.md:")
    assert "\n\nbash: " in skill
    assert ran == f"bash: {tmp_path / '.everturn' / 'files' / 'workbench'}"
    assert denied == "bash did not work: the policy denies it (deny: bash:rm *)"


async def test_its_program_waits_for_a_persons_word(tmp_path: Path) -> None:
    """Nobody has vouched for what it does; once somebody did for good, it is not asked again."""
    await anyio.to_thread.run_sync(set_up, tmp_path)
    async with gateway_process(tmp_path) as gateway, gateway.client() as client:
        created = await client.post("/api/v1/sessions", json={"agent": "workbench"})
        session = str(created.raise_for_status().json()["id"])
        async with start(
            "run", "--session", session, 'call word-count {"args": ["a", "b", "a"]}', cwd=tmp_path
        ) as waiting:
            await until(client, session, "approval_asked")
            approved = await everturn("approve", session, "--always", cwd=tmp_path)
            first = await waiting.end()
        again = await told(tmp_path, 'call word-count {"args": ["c"]}')
        left = (await client.get(f"/api/v1/sessions/{session}")).json()["approvals"]

    assert "cli:word-count from now on" in approved.out
    assert first.out.strip() == "word-count:\nwords: 3\na: 2\nb: 1"
    assert again == "word-count:\nwords: 1\nc: 1"
    assert left == []


async def test_a_tool_that_was_searched_is_judged_and_logged_as_itself(tmp_path: Path) -> None:
    """Whoever reads the log or the policy knows nothing of how the model found it."""
    await anyio.to_thread.run_sync(set_up, tmp_path)
    home = anyio.Path(tmp_path / "agents" / "workbench")
    agent, policy = home / "agent.yaml", home / "policy.yaml"
    await agent.write_text(f"{await agent.read_text()}\n  tool_search: {{mode: always}}\n")
    use = 'call use_tool {"name": "word-count", "arguments": {"args": "a b a"}}'
    found = await told(tmp_path, 'call search_tools {"query": "count words"}')
    hidden = await everturn("run", "--agent", "workbench", use, cwd=tmp_path)
    allowed = (await policy.read_text()).replace("allow:\n", "allow:\n  - cli:word-count\n")
    await policy.write_text(allowed)
    counted = await everturn("run", "--agent", "workbench", use, "--json", cwd=tmp_path)
    session = json.loads(counted.out)["session_id"]
    logged = await anyio.to_thread.run_sync(log_of, tmp_path, session)

    assert '"name":"word-count"' in found
    assert "words: 3" not in hidden.out
    assert "words: 3" in json.loads(counted.out)["text"]
    assert '"name":"word-count"' in logged
    assert '"name":"use_tool"' not in logged


def log_of(folder: Path, session: str) -> str:
    """Return all that is written down of a session."""
    files = (folder / ".everturn" / "sessions" / session).glob("*.jsonl")
    return "".join(each.read_text() for each in files)
