"""Sessions as files, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

from support.gateway import open_http_gateway
from support.shell_agents import running
from support.tables import table

SESSIONS = "/api/v1/sessions"
HOSTILE = "# I am a heading\n\n> and `I` quote\n</html><script>"


async def test_a_conversation_is_taken_along_for_people_and_in_openais_format(
    tmp_path: Path,
) -> None:
    """Who said what, and what a tool gave; what anybody wrote stays a quotation of theirs.

    For programs each call has its result behind it, and what was said meanwhile stands after that.
    """
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        gateway.provider.script += [HOSTILE, running("echo hi"), "Done \ud83d."]
        session_id = await gateway.session()
        path = f"{SESSIONS}/{session_id}"
        taken = [await client.post(f"{path}/messages", json={"content": "Hello"})]
        await client.patch(path, json={"title": "Trip"})
        taken.append(await client.post(f"{path}/messages", json={"content": HOSTILE}))
        answer = await client.get(f"{path}/export")
        lines = await client.get(f"{path}/export", params={"format": "openai"})
        unknown = await client.get(f"{SESSIONS}/{session_id[:-1]}x/export")
        wrong = await client.get(f"{path}/export", params={"format": "pdf"})

    assert [each.status_code for each in taken] == [200, 200]
    text = answer.text
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert f"{session_id}.md" in answer.headers["content-disposition"]
    assert text.startswith(f"# Session {session_id}\n")
    assert "*Called `Trip`*" in text
    assert text.count("\n> # I am a heading\n> \n> > and `I` quote\n> </html><script>\n") == 2
    assert 'calls `bash`\n\n> {"command": "echo hi"}' in text
    assert "> there is no tool 'bash'" in text
    assert [line for line in text.splitlines() if line.startswith("# ")] == [
        f"# Session {session_id}"
    ]
    assert (unknown.status_code, wrong.status_code) == (404, 422)
    (line,) = lines.text.splitlines()
    found = json.loads(line)
    first, said, user, call, result, done = found["messages"]
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert (found["session_id"], found["agent"]) == (session_id, "test")
    assert [each["role"] for each in (first, said)] == ["user", "assistant"]
    assert user == {"role": "user", "content": HOSTILE}
    assert (call["role"], call["content"]) == ("assistant", "I will look.")
    assert result["tool_call_id"] == call["tool_calls"][0]["id"]
    assert result["content"]
    assert done == {"role": "assistant", "content": "Done \ud83d."}


@table("compaction", ["archive", "discard"])
async def test_events_are_taken_along_as_they_are(tmp_path: Path, compaction: str) -> None:
    """A program reads each line; those that an agent lets go of are named."""
    async with (
        open_http_gateway(tmp_path, compaction=compaction) as gateway,
        gateway.client() as client,
    ):
        session_id = await gateway.session()
        path = f"{SESSIONS}/{session_id}"
        for number in range(80):
            gateway.provider.script.append(f"reply {number}")
            await client.post(f"{path}/messages", json={"content": f"message {number}"})
        answer = await client.get(f"{path}/export", params={"format": "jsonl"})
        told = (await client.get(f"{path}/export")).text
        log = (await client.get(f"{path}/log", params={"after": 0})).json()["events"]
        end = (await client.get(path)).json()["last_event"]

    records = [json.loads(line) for line in answer.text.splitlines()]
    gaps = [(each["first"], each["last"]) for each in records if each["type"] == "gap"]
    events = [each for each in records if each["type"] != "gap"]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert events[: len(log)] == log
    missing = {seq for first, last in gaps for seq in range(first, last + 1)}
    assert missing | {each["seq"] for each in events} == {*range(1, end + 1)}
    assert bool(missing) == ("no longer kept" in told) == (compaction == "discard")
