"""Reads single files of other programs. A file that is damaged is named, and the rest moves in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, cast

import orjson
import yaml

from everturn_actors.json_values import Json, as_list, as_object, is_object
from everturn_gateway.commands.moving_in.found import (
    Found,
    FoundAgent,
    FoundConversation,
    FoundJob,
    FoundModel,
)
from everturn_gateway.config.settings import load_config
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.private_environ import process_environ

FILE_MAX: Final = 4 * 1024 * 1024
_SKILL_FILES: Final = 500
_COMMENT: Final = re.compile(
    r'("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')|//[^\n]*|/\*.*?\*/', re.DOTALL
)
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9-]+")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d\.md")
_OURS: Final = ("anthropic", "openai", "openrouter", "gemini", "ollama")
_ALIASES: Final = {"google": "gemini", "claude": "anthropic", "openai-codex": "openai"}


def text_of(path: Path, found: Found) -> str:
    """Return the text of a file; empty where there is none, or it cannot be read, which is told."""
    data = bytes_of(path, found)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        found.left.append(f"{path}: it is not UTF-8 at byte {error.start}")
        return ""


def bytes_of(path: Path, found: Found) -> bytes:
    """Return what a file holds; see `text_of`. No symbolic link is followed."""
    try:
        if path.is_symlink():
            found.left.append(f"{path}: it is a symbolic link, which is not followed")
            return b""
        if not path.is_file():
            return b""
        if path.stat().st_size > FILE_MAX:
            found.left.append(f"{path}: it has more than {FILE_MAX // 1024 // 1024} MB")
            return b""
        return path.read_bytes()
    except OSError as error:
        found.left.append(f"{path}: it cannot be read: {error.strerror or error}")
        return b""


def mapping_of(path: Path, found: Found) -> dict[str, Any]:
    """Return the object of a JSON, JSON5 or YAML file; empty as for `text_of`."""
    text = text_of(path, found)
    if not text.strip():
        return {}
    try:
        if path.suffix in {".yaml", ".yml"}:
            data: object = yaml.safe_load(text)
        else:
            try:
                data = orjson.loads(text)
            except orjson.JSONDecodeError:
                # JSON5: what stands in quotes stays, comments go; YAML reads the rest.
                plain = _COMMENT.sub(lambda match: match[1] or "", text).replace("\t", " ")
                data = yaml.safe_load(plain)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        found.left.append(f"{path}: it cannot be read: {str(error).splitlines()[0]}")
        return {}
    # A list or a word where settings should be is another program's file, or a broken one.
    if not isinstance(data, dict):
        found.left.append(f"{path}: it holds no settings")
        return {}
    return cast("dict[str, Any]", data)


def config_of(path: Path, found: Found) -> bytes:
    """Return a configuration that is one of ours as well; empty as for `text_of`.

    So it is where it has a fault, which is told: with it nothing here could be opened.
    """
    text = text_of(path, found)
    if text:
        try:
            load_config(path, environ=process_environ())
        except ConfigError as error:
            found.left += [f"{fault}; it stays there" for fault in error.faults or (error,)]
            return b""
    return text.encode()


def jobs_in(path: Path, found: Found) -> list[Json]:
    """Return the jobs of a file; none where it cannot be read, which is told."""
    return [each for each in as_list(mapping_of(path, found).get("jobs")) if is_object(each)]


def chat_of(channel: object, chat: object) -> tuple[str, str] | None:
    """Return a chat of a platform that there is here; None where it is none."""
    return (str(channel), str(chat)) if channel in ("telegram", "discord") and chat else None


def at(data: object, *path: str) -> Any:  # noqa: ANN401 - what the file has there
    """Return what stands at a path of an object; None where nothing does."""
    for name in path:
        data = as_object(data).get(name)
    return data


def words_at(data: object, *path: str) -> list[str]:
    """Return the words of a list at a path."""
    value = at(data, *path)
    if isinstance(value, str):
        return [each.strip() for each in value.split(",") if each.strip()]
    return [str(each) for each in as_list(value)]


def name_of(text: str, otherwise: str = "assistant") -> str:
    """Return a name that an agent or a job may have."""
    return _NO_NAME.sub("-", text).strip("-")[:64].strip("-") or otherwise


def prompt_files(folder: Path, agent: FoundAgent, found: Found) -> None:
    """Take the Markdown files of a workspace that make up an agent's prompt, and its memory."""
    for target, names in (
        ("SOUL.md", ("SOUL.md", "IDENTITY.md")),
        ("INSTRUCTIONS.md", ("AGENTS.md", "AGENT.md", "TOOLS.md")),
        ("directives/about-the-user.md", ("USER.md",)),
        ("HEARTBEAT.md", ("HEARTBEAT.md",)),
    ):
        texts = [text_of(folder / name, found).strip() for name in names]
        text = "\n\n".join(each for each in texts if each)
        if text:
            agent.files[target] = text.encode() + b"\n"
    memory = [text_of(folder / name, found) for name in ("MEMORY.md", "memory/MEMORY.md")]
    if text := "\n\n".join(each.strip() for each in memory if each.strip()):
        agent.files["memory/MEMORY.md"] = text.encode() + b"\n"
    for path in entries(folder / "memory", found):
        if _DAY.fullmatch(path.name):
            agent.files[f"memory/daily/{path.name}"] = bytes_of(path, found)
        elif path.is_file() and path.name != "MEMORY.md":
            found.left.append(f"{path}: memory here is MEMORY.md and a file for each day")


def take_skills(folder: Path, agent: FoundAgent, found: Found) -> None:
    """Take skills: folders with a SKILL.md, however deep."""
    taken = 0
    for path in sorted(folder.rglob("SKILL.md")) if folder.is_dir() else ():
        for each in sorted(path.parent.rglob("*")):
            # A link may lead out of the folder, to what nobody meant to copy.
            if not each.is_file() or each.is_symlink():
                continue
            taken += 1
            # A folder that holds a repository is no skill.
            if taken > _SKILL_FILES:
                found.left.append(f"{folder}: it has more than {_SKILL_FILES} files")
                return
            target = f"skills/{name_of(path.parent.name, 'skill')}"
            agent.files[f"{target}/{each.relative_to(path.parent)}"] = bytes_of(each, found)


def entries(folder: Path, found: Found) -> list[Path]:
    """Return what stands in a folder, sorted; nothing where there is none."""
    try:
        return sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        found.left.append(f"{folder}: it cannot be read: {error.strerror or error}")
        return []


def model_of(name: str, provider: str, base_url: str, found: Found) -> FoundModel:
    """Return a model as an agent here names it; the built-in one, and a word, where none can be."""
    first, slash, rest = name.partition("/")
    provider = provider if provider not in {"", "auto"} else (first if slash else "")
    provider = _ALIASES.get(provider, provider)
    if provider in _OURS:
        is_prefix = slash and _ALIASES.get(first, first) == provider and provider != "openrouter"
        plain = rest if is_prefix else name
        plain = plain.removeprefix("openrouter/")
        return FoundModel(provider=provider, name=plain, base_url=base_url)
    # Whatever it is called there, an address with an OpenAI API can be asked by it.
    if base_url:
        return FoundModel(provider="openai", name=rest if slash else name, base_url=base_url)
    if name:
        found.left.append(
            f"the model {name} of {provider or 'an unnamed provider'}: `everturn model use` names"
            " one that there is; until then the built-in responder answers"
        )
    return FoundModel()


def take_key(provider: str, key: object, found: Found) -> None:
    """Take the key of a provider."""
    provider = _ALIASES.get(provider, provider)
    # A variable of theirs: its value stands somewhere else, and is not copied unseen.
    if not isinstance(key, str) or not key or key.startswith("${"):
        return
    if provider in _OURS:
        found.keys[f"{provider.upper()}_API_KEY"] = key
    else:
        found.left.append(f"the key of {provider}: no provider of this name is built in")


def take_bots(channels: Mapping[str, Any], agent: FoundAgent, found: Found) -> None:
    """Take the bots of platforms that there are here, and who may write to them."""
    for platform, section in channels.items():
        # What was switched off there stays off here.
        if not is_object(section) or section.get("enabled") is False:
            continue
        token = next(
            (section[each] for each in ("token", "botToken", "bot_token") if section.get(each)), ""
        )
        if platform in {"telegram", "discord"}:
            if isinstance(token, str) and token and not token.startswith("${"):
                found.bots[platform] = token
            for name in ("allowFrom", "allow_from"):
                # Some keep `id|name`.
                agent.people += [each.split("|")[0] for each in words_at(section, name)]
        elif section.get("enabled") or token:
            found.left.append(f"the channel {platform}: there is none of this name here yet")


def job_of(
    job: Mapping[str, Any], agent: str, found: Found, *, task: str, to: tuple[str, str] | None
) -> None:
    """Take a job with a schedule of the kinds `at`, `every` and `cron`."""
    name = str(job.get("name") or job.get("id") or "job")
    schedule = job.get("schedule")
    if not is_object(schedule):
        found.left.append(f"the job {name}: it names no times")
        return
    fields: dict[str, object] = {"agent": agent}
    match schedule.get("kind"):
        case "cron":
            fields["cron"] = str(schedule.get("expr", ""))
            fields["timezone"] = str(schedule.get("tz") or "UTC")
            # Theirs ran by the clock of the machine, which may be another one here.
            if not schedule.get("tz"):
                found.left.append(f"the job {name}: it names no time zone, and runs by UTC")
        case "every" | "interval":
            seconds = _number(schedule.get("everyMs"), 1000) or _number(
                schedule.get("minutes"), 1 / 60
            )
            fields["every"] = f"{seconds}s"
        case "at" | "once":
            moment = _moment(schedule)
            if moment is None:
                found.left.append(f"the job {name}: its time cannot be read")
                return
            fields["at"] = moment
        case kind:
            found.left.append(f"the job {name}: times of the kind {kind!r} are not known")
            return
    if not task.strip():
        found.left.append(f"the job {name}: it does not say what to do")
        return
    fields["task"] = task
    if to is None:
        found.left.append(f"the job {name}: it names no chat; its results stay in its session")
    fields["to"] = (
        {"channel": to[0], "chat": to[1]} if to else {"channel": "terminal", "chat": name}
    )
    # Told, not made: it would have to be paused by hand, and nobody would know why.
    if job.get("enabled") is False:
        found.left.append(f"the job {name}: it was switched off, and stays away")
        return
    found.jobs.append(FoundJob(job_id=name_of(name, "job").lower(), fields=fields))


def _number(value: object, per_second: float) -> int:
    return int(value / per_second) if isinstance(value, int | float) else 0


def _moment(schedule: Mapping[str, Any]) -> str | None:
    value = schedule.get("atMs") or schedule.get("at") or schedule.get("run_at")
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value / 1000, UTC).isoformat()
        moment = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def lines_of(path: Path, found: Found) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines; how many cannot be read is told."""
    bad = 0
    for line in bytes_of(path, found).splitlines():
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError:
            bad += 1
            continue
        if isinstance(data, dict):
            yield data
    if bad:
        found.left.append(f"{path}: {bad} lines cannot be read")


def said_in(
    rows: Iterator[Mapping[str, Any]],
) -> tuple[tuple[Literal["user", "assistant"], str], ...]:
    """Return what people and the agent said in rows with a role and a content."""
    said: list[tuple[Literal["user", "assistant"], str]] = []
    for row in rows:
        text = _words(row.get("content"))
        if text.strip() and row.get("role") in ("user", "assistant"):
            said.append((row["role"], text))
    return tuple(said)


def _words(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = as_list(content)
    texts = (part.get("text") for part in parts if is_object(part))
    return "\n".join(each for each in texts if isinstance(each, str))


def conversation_of(
    key: str, agent: str, messages: tuple[tuple[Literal["user", "assistant"], str], ...]
) -> FoundConversation:
    """Return a conversation by a key such as `telegram:123456` or `agent:main:telegram:123456`."""
    parts = [each for each in key.split(":") if each] or ["imported"]
    known = next((n for n, each in enumerate(parts) if each in {"telegram", "discord"}), None)
    if known is not None and len(parts) > known + 1:
        return FoundConversation(
            agent=agent, channel=parts[known], chat=parts[-1], messages=messages
        )
    return FoundConversation(
        agent=agent, channel="terminal", chat=name_of(key, "imported"), messages=messages
    )


def need(path: Path, what: str, is_there: Callable[[Path], bool]) -> None:
    """Make sure that a folder is what it is said to be.

    Raises:
        GatewayError: It is not.
    """
    if not path.is_dir():
        msg = f"{path} is no folder"
        raise GatewayError(msg)
    if not is_there(path):
        msg = f"{path} does not look like a folder of {what}"
        raise GatewayError(msg)
