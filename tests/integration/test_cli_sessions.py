"""`everturn sessions` and `everturn doctor`: what is stored, and whether it is in order."""

from __future__ import annotations

import json
from pathlib import Path

from support.command import everturn, start, terminal, write_agent
from support.tables import table

READY = "Ctrl-C stops it."


async def talk(folder: Path, *prompts: str) -> str:
    """Return the id of a session in which these prompts were answered."""
    session = ""
    for prompt in prompts:
        more = ["--session", session] if session else []
        done = await everturn("run", prompt, "--json", *more, cwd=folder)
        session = json.loads(done.out)["session_id"]
    return session


def files_with(folder: Path, text: bytes) -> list[Path]:
    """Return the files below a folder that hold a text."""
    return [file for file in folder.rglob("*") if file.is_file() and text in file.read_bytes()]


async def test_a_gateway_makes_no_difference_to_what_is_stored(tmp_path: Path) -> None:
    """Listed, shown and exported: both ways read the same journals, and a script gets JSON."""
    write_agent(tmp_path)
    first, second = await talk(tmp_path, "1+1", "2+2", "# 3+3"), await talk(tmp_path, "4+4")
    asked = {
        "list": ("list", "--json"),
        "table": ("list",),
        "show": ("show", first, "--last", "2"),
        "data": ("show", first, "--json"),
        "export": ("export", first),
    }
    alone = {name: await everturn("sessions", *each, cwd=tmp_path) for name, each in asked.items()}
    one = await everturn("sessions", "list", "--json", "--limit", "1", cwd=tmp_path)
    async with start("serve", "--port", "0", cwd=tmp_path) as gateway:
        await gateway.until(READY)
        for name, each in asked.items():
            served = await everturn("sessions", *each, cwd=tmp_path)
            assert (served.code, served.out) == (0, alone[name].out), name
        events = await everturn("sessions", "export", first, "--format", "jsonl", cwd=tmp_path)

    said = {name: done.out for name, done in alone.items()}
    assert [row["session_id"] for row in json.loads(said["list"])] == [second, first]
    assert [row["session_id"] for row in json.loads(one.out)] == [second]
    assert said["table"].index(second) < said["table"].index(first)
    assert "helper" in said["table"]
    assert "turns     3, messages 6" in said["show"]
    assert "2+2" not in said["show"]
    assert said["show"].index("user, ") < said["show"].index("You said: “# 3+3”.")
    assert [m["text"] for m in json.loads(said["data"])["history"]][::2] == ["1+1", "2+2", "# 3+3"]
    assert said["export"].startswith(f"# Session {first}\n")
    assert "\n> # 3+3\n" in said["export"]
    records = [json.loads(line) for line in events.out.splitlines()]
    assert [record["seq"] for record in records] == [*range(1, len(records) + 1)]
    assert records[-1]["type"] == "turn_finished"


async def test_a_session_is_deleted_from_disk_after_a_question(tmp_path: Path) -> None:
    """Deleting is a promise, and a mistyped id must not cost a conversation."""
    write_agent(tmp_path)
    session, other = await talk(tmp_path, "a secret word"), await talk(tmp_path, "1+1")
    async with terminal("sessions", "delete", session, cwd=tmp_path) as person:
        await person.expect(f"Delete session {session} with its 2 messages?")
        await person.enter("n")
        kept, _ = await person.end()
    still = files_with(tmp_path, b"a secret word")
    async with terminal("sessions", "delete", other, "--yes", cwd=tmp_path) as person:
        removed, _ = await person.end()
    deleted = await everturn("sessions", "delete", session, cwd=tmp_path)
    again = await everturn("sessions", "delete", session, cwd=tmp_path)
    listed = await everturn("sessions", "list", cwd=tmp_path)
    files = files_with(tmp_path, b"a secret word")

    assert (kept, removed, deleted.code) == (1, 0, 0)
    assert still
    assert again.code == 2
    assert "there is no session" in again.err
    assert listed.out == "no sessions yet\n"
    assert files == []


@table("command", ["show", "delete"])
@table("session", ["nope", "../../../etc", "..", "a/b"])
async def test_unknown_sessions_are_named(tmp_path: Path, command: str, session: str) -> None:
    """An id comes from a person; as a path it must reach nothing."""
    write_agent(tmp_path)
    done = await everturn("sessions", command, session, cwd=tmp_path)

    assert done.code == 2
    assert f"there is no session {session!r}" in done.err


async def test_a_healthy_folder_is_said_to_be_one_and_is_repaired_by_its_owner_alone(
    tmp_path: Path,
) -> None:
    """Exit code 0 is what a monitor looks for."""
    write_agent(tmp_path)
    await talk(tmp_path, "1+1")
    done = await everturn("doctor", cwd=tmp_path)
    async with start("serve", "--port", "0", cwd=tmp_path) as gateway:
        await gateway.until(READY)
        served = await everturn("doctor", cwd=tmp_path)
        # Rewriting the journals of a running gateway would destroy them.
        repair = await everturn("doctor", "--repair", cwd=tmp_path)

    assert (done.code, served.code) == (0, 0), done.out + served.out
    assert "problem" not in done.out
    assert f"process {gateway.process.pid} serves this workspace" in served.out
    assert repair.code == 1
    assert f"in use by process {gateway.process.pid}" in repair.out


async def test_every_kind_of_trouble_is_found_and_what_can_be_is_repaired(tmp_path: Path) -> None:
    """One command says all that is wrong, and with --repair sets right what loses nothing."""
    write_agent(tmp_path)
    bad = write_agent(tmp_path, "bad", provider="openai", model="gpt-5-mini")
    session = await talk(tmp_path, "1+1")
    workspace = tmp_path / ".everturn"
    workspace.chmod(0o755)
    (workspace / "gateway.json").write_text('{"pid": 999999999, "url": "http://127.0.0.1:1"}')
    config = tmp_path / "everturn.yaml"
    config.write_text("server: {api_token: in-the-open}\nroutes: []\n")
    log = workspace / "sessions" / session / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:1], b"garbage\n", *lines[1:]]))

    found = await everturn("doctor", cwd=tmp_path)
    repaired = await everturn("doctor", "--repair", cwd=tmp_path)
    after = await everturn("doctor", cwd=tmp_path)

    assert (found.code, after.code) == (1, 1)
    assert str(bad) in found.out
    assert "OPENAI_API_KEY" in found.out
    assert f"{workspace} is open to other users (0755)" in found.out
    assert f"{config} is open to other users" in found.out
    assert "which is gone" in found.out
    assert str(log) in found.out
    assert "in-the-open" not in found.out
    assert repaired.out.count("repaired") >= 4
    assert workspace.stat().st_mode & 0o777 == 0o700
    assert config.stat().st_mode & 0o777 == 0o600
    assert "journals     in order" in after.out
    assert [line for line in after.out.splitlines() if line.startswith("problem")] == [
        line for line in after.out.splitlines() if str(bad) in line
    ]


async def test_a_repair_claims_only_what_it_did(tmp_path: Path) -> None:
    """Lost events are noted, nothing is said to be repaired but that, and `show` has the gap."""
    write_agent(tmp_path)
    session = await talk(tmp_path, "1+1", "2+2")
    folder = tmp_path / ".everturn" / "sessions" / session
    (folder / "events.archive.jsonl").unlink()

    found = await everturn("doctor", cwd=tmp_path)
    repaired = await everturn("doctor", "--repair", cwd=tmp_path)
    after = await everturn("doctor", cwd=tmp_path)
    shown = await everturn("sessions", "show", session, cwd=tmp_path)

    lost = [line for line in found.out.splitlines() if line.startswith("problem")]
    assert len(lost) == 1
    assert "events.archive.jsonl: it is missing: events 1 to " in lost[0]
    done = [line for line in repaired.out.splitlines() if line.startswith("repaired  journals")]
    assert "says now that events 1 to " in done[0]
    assert "Nothing was brought back" in done[0]
    assert not any("rebuilt" in line and "index" not in line for line in done)
    assert lost[0].replace("problem ", "note    ") in repaired.out
    assert (found.code, repaired.code, after.code) == (1, 0, 0)
    assert "journals     in order" in after.out
    assert "the archive that held them was lost or damaged" in shown.out


async def test_a_broken_configuration_is_a_finding(tmp_path: Path) -> None:
    """The doctor is asked when something is wrong; it must not fail on it."""
    (tmp_path / "everturn.yaml").write_text("server: [\n")
    done = await everturn("doctor", cwd=tmp_path)

    assert done.code == 1
    assert "everturn.yaml:" in done.out
