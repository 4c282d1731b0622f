"""Writes what was found as files of ours. Overwrites nothing: what is there already is told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import yaml
from msgspec import Struct

from everturn_gateway.commands.first_steps.writing import explaining_faults, replace_file, write_key
from everturn_gateway.commands.moving_in.found import Found, FoundAgent, FoundJob
from everturn_gateway.commands.scaffold import CONFIG_NAME
from everturn_gateway.config.env_file import ENV_NAME, read_env_file
from everturn_gateway.errors import GatewayError
from everturn_gateway.folders import create_file, make_folder, sync_folder
from everturn_gateway.yaml_files.editing import EditError, with_section

_TOOLS: Final = ("files", "bash", "web", "schedule")
# Of agents' folders, beside them: renamed when it is whole, which no other file system takes.
_DRAFTS: Final = ".moving-in"


class Places(Struct, frozen=True, kw_only=True):
    """Where what moves in is written."""

    folder: Path
    "Of the configuration."
    agents: Path
    workspace: Path

    @property
    def schedules(self) -> Path:
        """The folder of jobs."""
        return self.workspace / "schedules"


def plan(found: Found, places: Places) -> list[tuple[str, Path]]:
    """Return what would be written, as what it is and where, and name what is there already."""
    folder = places.folder
    steps: list[tuple[str, Path]] = []
    taken = set[str]()
    agents = list(found.agents)
    for agent in agents:
        place = places.agents / agent.name
        if place.exists() or agent.name in taken:
            found.left.append(
                f"the agent {agent.name}: {place} is there already, and stays as it is"
            )
            found.agents.remove(agent)
            continue
        taken.add(agent.name)
        steps.append((f"agent, {len(agent.files)} files", place))
        if "HEARTBEAT.md" in agent.files and not agent.is_whole:
            found.left.append(
                f"HEARTBEAT.md of {agent.name} is taken along; spec.heartbeat in its agent.yaml"
                " switches heartbeats on"
            )
    for job in tuple(found.jobs):
        place = places.schedules / f"{job.job_id}.yaml"
        if place.exists() or place in [each for _, each in steps]:
            found.left.append(f"the job {job.job_id}: {place} is there already, and stays as it is")
            found.jobs.remove(job)
        else:
            steps.append(("job", place))
    steps += [("bot", folder / CONFIG_NAME) for _ in found.bots]
    if found.config and not (folder / CONFIG_NAME).exists():
        steps.append(("configuration", folder / CONFIG_NAME))
    elif found.config:
        found.left.append(f"{folder / CONFIG_NAME} is there already, and stays as it is")
        found.config = b""
    there = read_env_file(folder / ENV_NAME)
    for name in sorted(found.keys):
        if there.get(name):
            found.left.append(f"{name}: {folder / ENV_NAME} has one already, which stays")
            del found.keys[name]
        else:
            steps.append((f"key, {name}", folder / ENV_NAME))
    found.conversations = [
        conversation for conversation in found.conversations if conversation.messages
    ]
    steps += [
        (
            f"conversation, {len(conversation.messages)} messages",
            Path(conversation.channel) / conversation.chat,
        )
        for conversation in found.conversations
    ]
    return steps


def write(found: Found, places: Places) -> None:
    """Write all but conversations, durably. Cut off at any point, the same call goes on.

    Raises:
        GatewayError: Something cannot be written; what was written before stays.
    """
    folder = places.folder
    _write(folder / ".gitignore", b".everturn/\n.env\n", otherwise=True)
    drafts = places.agents / _DRAFTS
    with explaining_faults(drafts):
        if drafts.exists():  # of one that was cut
            shutil.rmtree(drafts)
    for agent in found.agents:
        _write_agent(agent, places.agents)
    for job in found.jobs:
        _write_job(job, places.schedules / f"{job.job_id}.yaml")
    file = folder / CONFIG_NAME
    _write(file, found.config or b"workspace: .everturn\nagents_dir: agents\n", otherwise=True)
    for platform, token in found.bots.items():
        variable = f"{platform.upper()}_BOT_TOKEN"
        with explaining_faults(file):
            text = file.read_text(encoding="utf-8")
        try:
            changed = with_section(text, "channels", platform, {"bot_token": f"${{{variable}}}"})
        except EditError as error:
            msg = f"{file}: {error}; set it by hand: channels: {{{platform}: …}}"
            raise GatewayError(msg) from error
        with explaining_faults(file):
            replace_file(file, changed, mode=file.stat().st_mode & 0o777)
        write_key(folder / ENV_NAME, variable, token)
    for name, key in found.keys.items():
        write_key(folder / ENV_NAME, name, key)


def _write_agent(agent: FoundAgent, agents: Path) -> None:
    """Write an agent's folder, whole or not at all."""
    folder, draft = agents / agent.name, agents / _DRAFTS / agent.name
    for name, data in {"agent.yaml": _definition(agent), **agent.files}.items():
        _write(draft / name, data)
    with explaining_faults(folder):
        draft.rename(folder)
        draft.parent.rmdir()
        sync_folder(agents)


def _definition(agent: FoundAgent) -> bytes:
    model = {"provider": agent.model.provider, "name": agent.model.name}
    if agent.model.base_url:
        model["base_url"] = agent.model.base_url
    spec: dict[str, object] = {"model": model}
    for field, name in (("soul", "SOUL.md"), ("instructions", "INSTRUCTIONS.md")):
        if name in agent.files:
            spec[field] = f"./{name}"
    spec["memory"] = {"backend": "filesystem"}
    spec["tools"] = [{"type": "builtin", "name": name} for name in _TOOLS]
    people = list(dict.fromkeys(each for each in agent.people if each != "*"))
    if people:
        spec["access"] = {"dm": {"policy": "allowlist", "allowlist": people}}
    document = {
        "apiVersion": "duragent/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": agent.name},
        "spec": spec,
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()


def _write_job(job: FoundJob, path: Path) -> None:
    _write(path, yaml.safe_dump(job.fields, sort_keys=False, allow_unicode=True).encode())


def _write(path: Path, data: bytes, *, otherwise: bool = False) -> None:
    """Write a new file that belongs to its owner alone, whole or not at all.

    `otherwise`: one that is there stays.

    Raises:
        GatewayError: It cannot be written.
    """
    try:
        make_folder(path.parent)
        create_file(path, data)
    except FileExistsError as error:
        if not otherwise:
            msg = f"{path} cannot be written: {error.strerror}"
            raise GatewayError(msg) from error
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror or error}"
        raise GatewayError(msg) from error
