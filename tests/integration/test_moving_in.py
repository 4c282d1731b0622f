"""`everturn import`: agents of other programs move in, and nothing of theirs is changed.

The folders are as those programs document or write them, see `moving_in.sources`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import yaml
from support.command import everturn
from support.disk_model import Picture, lay_out, picture_of
from support.disk_trace import Recorder
from support.stores import tree_marks
from support.tables import table

from everturn_gateway.commands.moving_in.sources import read
from everturn_gateway.commands.moving_in.writing import Places, plan, write

AT_MS = 4_102_444_800_000  # 2100
SKILL = "---\nname: weather\ndescription: Tells the weather.\n---\nLook it up.\n"


def put(folder: Path, files: dict[str, object]) -> None:
    """Write files, those that are no text as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def claw_workspace() -> dict[str, object]:
    """Return what several of them keep in a workspace."""
    return {
        "workspace/SOUL.md": "You are Clawdia.",
        "workspace/AGENTS.md": "Be brief.",
        "workspace/USER.md": "The user is Ann.",
        "workspace/memory/MEMORY.md": "Ann likes tea.",
        "workspace/memory/2026-11-01.md": "Rain.",
        "workspace/skills/weather/SKILL.md": SKILL,
    }


def jobs() -> dict[str, object]:
    """Return jobs of each kind, as nanobot and PicoClaw write them."""
    to = {"kind": "agent_turn", "deliver": True, "channel": "telegram", "to": "77"}
    return {
        "version": 1,
        "jobs": [
            {
                "id": "1",
                "name": "Tea time",
                "enabled": True,
                "schedule": {"kind": "cron", "expr": "0 16 * * *", "tz": "Europe/Berlin"},
                "payload": {**to, "message": "Say that it is time for tea."},
            },
            {
                "id": "2",
                "name": "look",
                "enabled": True,
                "schedule": {"kind": "every", "everyMs": 3_600_000},
                "payload": {**to, "message": "Look."},
            },
            {
                "id": "3",
                "name": "once",
                "enabled": True,
                "schedule": {"kind": "at", "atMs": AT_MS},
                "payload": {**to, "message": "Now."},
            },
            {
                "id": "4",
                "name": "odd",
                "enabled": True,
                "schedule": {"kind": "moon"},
                "payload": to,
            },
        ],
    }


def nanobot(folder: Path) -> None:
    """Write a folder of nanobot."""
    put(folder, claw_workspace())
    meta = {"_type": "metadata", "key": "telegram:77", "metadata": {}}
    said = [{"role": "user", "content": "I am Ann."}, {"role": "assistant", "content": "Hi Ann!"}]
    put(
        folder,
        {
            "config.json": {
                "agents": {"defaults": {"model": "anthropic/claude-sonnet-5", "provider": "auto"}},
                "providers": {"anthropic": {"apiKey": "sk-ant-secret"}, "groq": {"apiKey": "gsk"}},
                "channels": {
                    "telegram": {"enabled": True, "token": "1:abc", "allowFrom": ["77|ann"]},
                    "slack": {"enabled": True},
                },
            },
            "cron/jobs.json": jobs(),
            "workspace/sessions/telegram_77.jsonl": "\n".join(map(json.dumps, [meta, *said]))
            + "\n{torn",
        },
    )


def picoclaw(folder: Path) -> None:
    """Write a folder of PicoClaw."""
    put(folder, claw_workspace())
    said = [{"role": "user", "content": "I am Ann."}, {"role": "assistant", "content": "Hi Ann!"}]
    model = {"model_name": "main", "model": "anthropic/claude-sonnet-5", "api_key": "sk-ant-secret"}
    put(
        folder,
        {
            "config.json": {
                "agents": {"defaults": {"model_name": "main"}},
                "model_list": [model],
                "channels": {
                    "telegram": {"enabled": True, "token": "1:abc", "allow_from": ["77"]},
                    "slack": {"enabled": True},
                },
            },
            "workspace/cron/jobs.json": jobs(),
            "workspace/sessions/telegram_77.json": {"key": "telegram:77", "messages": said},
        },
    )


def openclaw(folder: Path) -> None:
    """Write a folder of OpenClaw, with comments in its configuration."""
    put(folder, claw_workspace())
    config = """{
      // the model
      agents: { defaults: { model: { primary: "anthropic/claude-sonnet-5" } } },
      channels: { telegram: { botToken: "1:abc", allowFrom: ["77"] }, slack: { enabled: true }, },
      env: { ANTHROPIC_API_KEY: "sk-ant-secret", /* "no" */ },
    }"""
    rows = [
        {"type": "session", "id": "x"},
        *(
            {"type": "message", "message": {"role": r, "content": [{"type": "text", "text": t}]}}
            for r, t in (("user", "I am Ann."), ("assistant", "Hi Ann!"))
        ),
    ]
    delivery = {"mode": "announce", "channel": "telegram", "to": "77"}
    told: list[dict[str, object]] = []
    for job in jobs()["jobs"]:  # type: ignore[attr-defined]
        payload = {"kind": "agentTurn", "message": job["payload"].get("message", "")}
        told.append({**job, "payload": payload, "delivery": delivery})
    put(
        folder,
        {
            "openclaw.json": config,
            "cron/jobs.json": {"version": 1, "jobs": told},
            "agents/main/sessions/telegram:77.jsonl": "\n".join(map(json.dumps, rows)),
        },
    )


def hermes(folder: Path) -> None:
    """Write a folder of hermes-agent."""
    put(
        folder,
        {
            "config.yaml": "model: {default: claude-sonnet-5, provider: anthropic}\n",
            ".env": "ANTHROPIC_API_KEY=sk-ant-secret\nGROQ_API_KEY=gsk\nTELEGRAM_BOT_TOKEN=1:abc\n"
            "TELEGRAM_ALLOWED_USERS=77\n",
            "SOUL.md": "You are Clawdia.",
            "AGENTS.md": "Be brief.",
            "memories/MEMORY.md": "Ann likes tea.",
            "memories/USER.md": "The user is Ann.",
            "skills/home/weather/SKILL.md": SKILL,
        },
    )
    origin = {"platform": "telegram", "chat_id": "77"}
    times = (
        ("Tea time", {"kind": "cron", "expr": "0 16 * * *"}),
        ("look", {"kind": "interval", "minutes": 60}),
        ("once", {"kind": "once", "run_at": "2100-01-01T00:00:00+00:00"}),
        ("odd", {"kind": "moon"}),
    )
    rows = [
        {"id": name, "name": name, "prompt": "Do it.", "schedule": schedule, "origin": origin}
        for name, schedule in times
    ]
    put(folder, {"cron/jobs.json": {"jobs": rows}})
    with closing(sqlite3.connect(folder / "state.db")) as database, database:
        database.execute("CREATE TABLE sessions (id, source, chat_id, started_at)")
        database.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id, role, content, timestamp)"
        )
        database.execute("INSERT INTO sessions VALUES ('s', 'telegram', '77', 1)")
        for at, (role, text) in enumerate((("user", "I am Ann."), ("assistant", "Hi Ann!"))):
            values = (role, text, at)
            database.execute(
                "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', ?, ?, ?)",
                values,
            )


@table("make", [nanobot, picoclaw, openclaw, hermes])
async def test_an_agent_moves_in_with_all_that_has_a_counterpart(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """First as a plan; what has none is named; a second time nothing is overwritten."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    make(theirs)
    before = tree_marks(theirs)
    move = ("import", make.__name__, str(theirs), "--to", str(ours))
    planned = await everturn(*move, "--dry-run", "--json", cwd=tmp_path)
    assert not ours.exists()
    moved = await everturn(*move, "--json", cwd=tmp_path)
    assert moved.code == 0, moved.err
    again = await everturn(*move, "--json", cwd=tmp_path)
    checked = await everturn("agent", "validate", cwd=ours)
    listed = await everturn("schedule", "list", "--json", cwd=ours)
    sessions = json.loads((await everturn("sessions", "list", "--json", cwd=ours)).out)
    said = await everturn("sessions", "show", sessions[0]["session_id"], cwd=ours)

    assert tree_marks(theirs) == before
    told = json.loads(moved.out)
    assert json.loads(planned.out)["steps"] == told["steps"]
    assert told["conversations"] == 1
    left = "\n".join(told["left"])
    assert "the job odd: times of the kind 'moon' are not known" in left
    assert ("slack" in left) == (make is not hermes)
    assert "sk-ant-secret" not in moved.out + planned.out
    agent = yaml.safe_load((ours / "agents/assistant/agent.yaml").read_text())["spec"]
    assert agent["model"] == {"provider": "anthropic", "name": "claude-sonnet-5"}
    assert agent["access"]["dm"]["allowlist"] == ["77"]
    files = {
        "SOUL.md": "You are Clawdia.\n",
        "INSTRUCTIONS.md": "Be brief.\n",
        "directives/about-the-user.md": "The user is Ann.",
        "memory/MEMORY.md": "Ann likes tea.",
        "skills/weather/SKILL.md": SKILL,
    }
    for name, text in files.items():
        assert (ours / "agents/assistant" / name).read_text().startswith(text)
    env = (ours / ".env").read_text()
    assert "ANTHROPIC_API_KEY=sk-ant-secret\n" in env
    assert "TELEGRAM_BOT_TOKEN=1:abc\n" in env
    assert (ours / ".env").stat().st_mode & 0o777 == 0o600
    assert checked.code == 0, checked.err
    found = json.loads(listed.out)
    assert {job["id"] for job in found["schedules"]} == {"tea-time", "look", "once"}
    assert found["faults"] == []
    assert {job["to"]["chat"] for job in found["schedules"]} == {"77"}
    assert (sessions[0]["key"]["channel"], sessions[0]["key"]["chat"]) == ("telegram", "77")
    assert "I am Ann." in said.out
    assert "Hi Ann!" in said.out
    second = json.loads(again.out)
    assert [
        each for each in second["steps"] if each["what"].startswith(("agent", "job", "key"))
    ] == []
    assert second["conversations"] == 0


async def test_agents_of_duragent_move_in_as_they_are(tmp_path: Path) -> None:
    """Their format is read here; their configuration becomes ours where there is none."""
    theirs = tmp_path / "theirs"
    agent = (
        "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: helper}\n"
        "spec: {model: {provider: builtin, name: builtin}, soul: ./SOUL.md}\n"
    )
    put(
        theirs,
        {
            ".duragent/agents/helper/agent.yaml": agent,
            ".duragent/agents/helper/SOUL.md": "A soul.",
            ".duragent/sessions/x/events.jsonl": "",
            "duragent.yaml": "server: {port: 8099}\nworkspace: .everturn\nagents_dir: agents\n",
        },
    )
    ours = tmp_path / "ours"
    moved = await everturn("import", "duragent", str(theirs), "--to", str(ours), cwd=tmp_path)
    checked = await everturn("agent", "validate", cwd=ours)

    assert (moved.code, checked.code) == (0, 0)
    assert "conversations of Duragent stay where they are" in moved.out
    assert (ours / "agents/helper/agent.yaml").read_text() == agent
    assert (ours / "everturn.yaml").read_text().startswith("server: {port: 8099}")

    put(theirs, {".duragent/agents/helper/agent.yaml": "kind: 5\n", "duragent.yaml": "server: 5"})
    broken = await everturn("import", "duragent", str(theirs), "--to", "late", cwd=tmp_path)
    assert broken.code == 0, broken.err
    assert "duragent.yaml:1: server: must be a section" in broken.out
    assert "agents/helper/agent.yaml:1: kind: must be Agent" in broken.out
    assert "port" not in (tmp_path / "late" / "everturn.yaml").read_text()


@table("make", [nanobot, hermes])
def test_cut_off_anywhere_the_same_command_goes_on(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """No half of an agent, and of no file; what was there is not begun again."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    make(theirs)
    ours.mkdir()

    def move_in(folder: Path) -> None:
        found = read(make.__name__, theirs)  # type: ignore[arg-type]
        places = Places(folder=folder, agents=folder / "agents", workspace=folder / ".everturn")
        plan(found, places)
        write(found, places)

    recorder = Recorder(ours)
    with recorder.installed():
        move_in(ours)
    whole = picture_of(ours)
    replays = [*recorder.trace.walk()]
    disks: list[Picture] = []
    for number, (_, replay) in enumerate(recorder.trace.walk()):
        if number % 10 == 0:
            disks += [replay.disk.after_kill(), replay.disk.after_some_writeback(number)]
    for number, disk in enumerate(disks):
        cut = tmp_path / str(number)
        lay_out(cut, disk)
        move_in(cut)
        left = {name: data for name, data in picture_of(cut).items() if not name.endswith(".new")}
        assert left == whole, number
    assert replays[-1][1].disk.after_power_loss() == whole, "it was told that all of it moved in"


@table(
    ("source", "file", "holds"),
    [
        (nanobot, "config.json", {"channels": {"telegram": {"token": [1]}}, "providers": [1]}),
        (nanobot, "cron/jobs.json", {"jobs": True}),
        (nanobot, "cron/jobs.json", {"jobs": [{"payload": {"channel": ["x"], "to": 1}}]}),
        (openclaw, "openclaw.json", {"agents": {"list": 1.5}}),
        (openclaw, "cron/jobs.json", {"jobs": [{"delivery": {"channel": {}, "to": 1}}]}),
        (hermes, "cron/jobs.json", {"jobs": [{"origin": {"platform": [], "chat_id": 1}}]}),
        (picoclaw, "workspace/sessions/telegram_77.json", {"messages": [{"role": ["user"]}]}),
    ],
)
def test_values_of_other_kinds_are_passed_over(
    tmp_path: Path, source: Callable[[Path], None], file: str, holds: dict[str, object]
) -> None:
    """Each of them ended in an error that nobody expected."""
    source(tmp_path)
    put(tmp_path, {file: holds})

    assert read(source.__name__, tmp_path).agents  # type: ignore[arg-type]


async def test_a_folder_that_is_something_else_or_half_broken_is_told(tmp_path: Path) -> None:
    """In a line with what to do; what can be read of a broken one moves in."""
    put(tmp_path / "bad", {"config.json": "{", "workspace/SOUL.md": "x"})
    (tmp_path / "bad/workspace/AGENTS.md").write_bytes(b"\xff\xfe")
    (tmp_path / "bad/workspace/USER.md").symlink_to("/etc/passwd")
    none = await everturn("import", "nanobot", "nowhere", cwd=tmp_path)
    other = await everturn("import", "hermes", "bad", cwd=tmp_path)
    wrong = await everturn("import", "emacs", "bad", cwd=tmp_path)
    half = await everturn("import", "nanobot", "bad", "--to", "ours", cwd=tmp_path)

    assert [each.code for each in (none, other, wrong, half)] == [2, 2, 2, 0]
    assert "nowhere is no folder" in none.err
    assert "does not look like a folder of hermes-agent" in other.err
    for why in ("config.json: it cannot be read", "it is not UTF-8", "which is not followed"):
        assert why in half.out
    agent = tmp_path / "ours/agents/assistant"
    assert (agent / "SOUL.md").read_text() == "x\n"
    assert not (agent / "directives").exists()
