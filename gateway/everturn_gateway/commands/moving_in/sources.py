"""The folders of five programs, by what each of them documents or writes.

Source: nanobot-ai 0.3.5 and hermes-agent 0.19.0 from PyPI; https://github.com/sipeed/picoclaw,
https://docs.openclaw.ai/automation/cron-jobs and the pages under docs/concepts of
https://github.com/openclaw/openclaw; all read 2026-11-26.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from everturn_actors.json_values import Json, as_list, as_object, is_object
from everturn_gateway.commands.moving_in.found import Found, FoundAgent, Source
from everturn_gateway.commands.moving_in.reading import (
    at,
    bytes_of,
    chat_of,
    config_of,
    conversation_of,
    entries,
    job_of,
    jobs_in,
    lines_of,
    mapping_of,
    model_of,
    name_of,
    need,
    prompt_files,
    said_in,
    take_bots,
    take_key,
    take_skills,
    words_at,
)
from everturn_gateway.config.env_file import read_env_file
from everturn_gateway.errors import GatewayError

_MESSAGES: Final = "SELECT role, content FROM messages WHERE session_id = ? ORDER BY timestamp, id"
_SESSIONS: Final = "SELECT id, source, coalesce(chat_id, '') FROM sessions ORDER BY started_at"


def read(source: Source, path: Path) -> Found:
    """Return all that a folder holds.

    Raises:
        GatewayError: It is not what it is said to be.
    """
    return _READERS[source](path)


def _duragent(path: Path) -> Found:
    found = Found()
    folder = path / ".duragent" if (path / ".duragent").is_dir() else path
    need(folder, "Duragent", lambda each: (each / "agents").is_dir())
    for agent_folder in entries(folder / "agents", found):
        if not (agent_folder / "agent.yaml").is_file():
            continue
        agent = FoundAgent(name=agent_folder.name, is_whole=True)
        for file in sorted(agent_folder.rglob("*")):
            if file.is_file() and not file.is_symlink():
                agent.files[str(file.relative_to(agent_folder))] = bytes_of(file, found)
        found.agents.append(agent)
    for name in ("duragent.yaml", "duragent.yml"):
        found.config = found.config or config_of(path / name, found)
    if (folder / "sessions").is_dir():
        found.left.append(f"{folder / 'sessions'}: conversations of Duragent stay where they are")
    if (folder / "schedules").is_dir():
        found.left.append(f"{folder / 'schedules'}: add its jobs with `everturn schedule add`")
    return found


def _claw(path: Path, config: Mapping[str, Any], found: Found, workspace: Path) -> FoundAgent:
    """Read what nanobot and PicoClaw have in common: one workspace, and a configuration."""
    agent = FoundAgent(name="assistant")
    found.agents.append(agent)
    prompt_files(workspace, agent, found)
    take_skills(workspace / "skills", agent, found)
    providers = config.get("providers")
    for name, section in (providers if is_object(providers) else {}).items():
        take_key(str(name), at(section, "apiKey") or at(section, "api_key"), found)
    channels = config.get("channels")
    take_bots(channels if is_object(channels) else {}, agent, found)
    for store in (path / "cron" / "jobs.json", workspace / "cron" / "jobs.json"):
        for job in jobs_in(store, found):
            _claw_job(job, agent.name, found)
    return agent


def _claw_job(job: Mapping[str, Any], agent: str, found: Found) -> None:
    channel = at(job, "payload", "channel") or at(job, "payload", "originChannel")
    chat = at(job, "payload", "to") or at(job, "payload", "originChatId")
    to = chat_of(channel, chat)
    if at(job, "payload", "command"):
        found.left.append(f"the job {job.get('name')}: it ran a command, which jobs here do not")
        return
    job_of(job, agent, found, task=str(at(job, "payload", "message") or ""), to=to)


def _nanobot(path: Path) -> Found:
    """Read the folder of a nanobot."""
    found = Found()
    need(path, "nanobot", lambda each: (each / "config.json").is_file())
    config = mapping_of(path / "config.json", found)
    named = at(config, "agents", "defaults", "workspace")
    workspace = Path(named).expanduser() if isinstance(named, str) and named else Path()
    workspace = workspace if workspace.is_absolute() and workspace.is_dir() else path / "workspace"
    agent = _claw(path, config, found, workspace)
    name = str(at(config, "agents", "defaults", "model") or "")
    provider = str(at(config, "agents", "defaults", "provider") or "")
    base = at(config, "providers", provider or name.partition("/")[0], "apiBase")
    agent.model = model_of(name, provider, str(base or ""), found)
    for file in (*entries(workspace / "sessions", found), *entries(path / "sessions", found)):
        if file.suffix == ".jsonl":
            rows = [each for each in lines_of(file, found) if "_type" not in each]
            heads = (each for each in lines_of(file, Found()) if "_type" in each)
            key = str(next(heads, Json()).get("key") or file.stem.replace("_", ":", 1))
            found.conversations.append(conversation_of(key, agent.name, said_in(iter(rows))))
    return found


def _picoclaw(path: Path) -> Found:
    """Read the folder of a PicoClaw."""
    found = Found()
    need(path, "PicoClaw", lambda each: (each / "config.json").is_file())
    config = mapping_of(path / "config.json", found)
    workspace = path / "workspace"
    agent = _claw(path, config, found, workspace)
    name = str(
        at(config, "agents", "defaults", "model_name")
        or at(config, "agents", "defaults", "model")
        or ""
    )
    models = [each for each in as_list(config.get("model_list")) if is_object(each)]
    entry = next((each for each in models if each.get("model_name") == name), Json())
    base = str(entry.get("api_base") or "")
    agent.model = model_of(str(entry.get("model") or name), "", base, found)
    if entry:
        key = entry.get("api_key") or next(iter(as_list(entry.get("api_keys"))), "")
        take_key(agent.model.provider, key, found)
    for file in entries(workspace / "sessions", found):
        if file.suffix == ".json" and not file.name.endswith(".meta.json"):
            data = mapping_of(file, found)
            rows = as_list(data.get("messages"))
            messages = said_in(each for each in rows if is_object(each))
            found.conversations.append(
                conversation_of(str(data.get("key") or file.stem), agent.name, messages)
            )
        elif file.suffix == ".jsonl":
            head = mapping_of(file.with_suffix(".meta.json"), found)
            key = str(head.get("key") or file.stem.replace("_", ":"))
            found.conversations.append(
                conversation_of(key, agent.name, said_in(lines_of(file, found)))
            )
    return found


def _openclaw(path: Path) -> Found:
    """Read the folder of an OpenClaw."""
    found = Found()
    need(path, "OpenClaw", lambda each: (each / "openclaw.json").is_file())
    config = mapping_of(path / "openclaw.json", found)
    listed = at(config, "agents", "list")
    wanted = [each for each in as_list(listed) if is_object(each)] or [{"id": "main"}]
    for section in wanted:
        agent_id = str(section.get("id") or "main")
        agent = FoundAgent(name="assistant" if agent_id == "main" else name_of(agent_id))
        found.agents.append(agent)
        named = section.get("workspace") or at(config, "agents", "defaults", "workspace")
        given = Path(str(named)).expanduser() if named else path / "workspace"
        beside = path / given.name
        workspace = given if given.is_dir() and given.is_absolute() else beside
        prompt_files(workspace, agent, found)
        take_skills(workspace / "skills", agent, found)
        take_skills(path / "skills", agent, found)
        model = section.get("model") or at(config, "agents", "defaults", "model")
        name = str(model if isinstance(model, str) else at(model, "primary") or "")
        base = at(config, "models", "providers", name.partition("/")[0], "baseUrl")
        agent.model = model_of(name, "", str(base or ""), found)
        for file in entries(path / "agents" / agent_id / "sessions", found):
            if file.suffix == ".jsonl":
                rows = (each.get("message") for each in lines_of(file, found))
                conversation = said_in(each for each in rows if is_object(each))
                found.conversations.append(conversation_of(file.stem, agent.name, conversation))
    first = found.agents[0]
    channels = config.get("channels")
    take_bots(channels if is_object(channels) else {}, first, found)
    for name, value in as_object(at(config, "env")).items():
        if name.endswith("_API_KEY"):
            take_key(name.removesuffix("_API_KEY").lower(), value, found)
    for job in jobs_in(path / "cron" / "jobs.json", found):
        to = chat_of(at(job, "delivery", "channel"), at(job, "delivery", "to"))
        said = at(job, "payload", "message") or at(job, "payload", "text") or ""
        agent_id = str(job.get("agentId") or "main")
        name = "assistant" if agent_id == "main" else name_of(agent_id)
        job_of(job, name, found, task=str(said), to=to)
    if (path / "credentials").is_dir():
        found.left.append(
            f"{path / 'credentials'}: logins stay there; `everturn setup` asks for keys"
        )
    return found


def _hermes(path: Path) -> Found:
    """Read the folder of a hermes-agent."""
    found = Found()
    need(
        path,
        "hermes-agent",
        lambda each: (each / "config.yaml").is_file() or (each / "memories").is_dir(),
    )
    config = mapping_of(path / "config.yaml", found)
    agent = FoundAgent(name="assistant")
    found.agents.append(agent)
    prompt_files(path, agent, found)
    for name, target in (
        ("MEMORY.md", "memory/MEMORY.md"),
        ("USER.md", "directives/about-the-user.md"),
    ):
        if data := bytes_of(path / "memories" / name, found):
            agent.files[target] = data
    take_skills(path / "skills", agent, found)
    model = config.get("model")
    name = str(model if isinstance(model, str) else at(model, "default") or "")
    provider = str(at(model, "provider") or "")
    agent.model = model_of(name, provider, str(at(model, "base_url") or ""), found)
    _hermes_env(path / ".env", agent, found)
    for job in jobs_in(path / "cron" / "jobs.json", found):
        to = chat_of(at(job, "origin", "platform"), at(job, "origin", "chat_id"))
        job_of(job, agent.name, found, task=str(job.get("prompt") or ""), to=to)
    _hermes_conversations(path / "state.db", agent.name, found)
    return found


def _hermes_env(path: Path, agent: FoundAgent, found: Found) -> None:
    try:
        variables = read_env_file(path) if path.is_file() else {}
    except GatewayError as error:
        found.left.append(f"{path}: {error}")
        return
    for name, value in variables.items():
        if name.endswith("_API_KEY") and value:
            take_key(name.removesuffix("_API_KEY").lower(), value, found)
    for platform in ("telegram", "discord"):
        if token := variables.get(f"{platform.upper()}_BOT_TOKEN"):
            found.bots[platform] = token
        agent.people += words_at(dict(variables), f"{platform.upper()}_ALLOWED_USERS")


def _hermes_conversations(path: Path, agent: str, found: Found) -> None:
    if not path.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            for session_id, source, chat in database.execute(_SESSIONS).fetchall():
                rows = database.execute(_MESSAGES, (session_id,)).fetchall()
                messages = said_in({"role": role, "content": text} for role, text in rows)
                key = f"{source}:{chat}" if chat else str(session_id)
                found.conversations.append(conversation_of(key, agent, messages))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        found.left.append(f"{path}: it cannot be read: {error}")


_READERS: Final[Mapping[Source, Callable[[Path], Found]]] = {
    "duragent": _duragent,
    "nanobot": _nanobot,
    "openclaw": _openclaw,
    "hermes": _hermes,
    "picoclaw": _picoclaw,
}
