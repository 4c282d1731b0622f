"""The installed gateway between people on pretended platforms and a pretended model.

async with open_model_api(default=(brain := Brain())) as model:
write_talking(folder, model.url, channels={"telegram": {...}})
async with gateway_process(folder) as gateway: ...
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
from support.answers import Answer
from support.discord_api import DiscordApi
from support.model_api import Received
from support.patience import WAIT_S
from support.process import GatewayProcess
from support.telegram_api import Call, Json, TelegramApi

from everturn_actors.model import ToolCall
from everturn_gateway.clock import SystemClock

DEADLINE_S = WAIT_S
ANN, BOB = 1001, 1002
GROUP = -5005

_AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {{name: {name}}}
spec:
  model: {{provider: openai, name: fake-1, base_url: "{url}"}}
  system_prompt: You help.
  access: {access}
  tools:
    - {{type: builtin, name: bash}}
    - {{type: builtin, name: send_file}}
"""
SOON = {"debounce": {"enabled": False}}
OPEN = {
    "dm": {"policy": "open", "queue": SOON},
    "groups": {"policy": "open", "queue": SOON},
}


class Brain:
    """A model that answers by a word of the newest message; without a plan it repeats it."""

    def __init__(self) -> None:
        self._plans: dict[str, list[Answer]] = {}
        self.asked: list[list[dict[str, Any]]] = []
        "The messages of each request, oldest first."

    def plan(self, word: str, *answers: Answer) -> None:
        """Give these answers, in this order, while the newest message holds `word`."""
        self._plans.setdefault(word, []).extend(answers)

    def __call__(self, request: Received) -> Answer:
        """Answer one request."""
        messages: list[dict[str, Any]] = request.json()["messages"]
        self.asked.append(messages)
        newest = text_of(next(m for m in reversed(messages) if m["role"] == "user"))
        for word, answers in self._plans.items():
            if word in newest and answers:
                return answers.pop(0)
        return Answer(text=f"re: {newest}")

    def about(self, word: str) -> list[list[dict[str, Any]]]:
        """Return the requests whose newest message holds `word`."""
        return [
            messages
            for messages in self.asked
            if word in text_of(next(m for m in reversed(messages) if m["role"] == "user"))
        ]


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message of a request."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def write_talking(
    folder: Path,
    model_url: str,
    *,
    channels: Mapping[str, object],
    agents: Mapping[str, Mapping[str, object]],
    routes: tuple[Mapping[str, object], ...] = (),
    policy: str = "",
) -> None:
    """Write a workspace: agents with their access rules, channels and routes."""
    for name, access in agents.items():
        home = folder / "agents" / name
        home.mkdir(parents=True)
        text = _AGENT.format(name=name, url=model_url, access=json.dumps(access))
        (home / "agent.yaml").write_text(text)
        if policy:
            (home / "policy.yaml").write_text(policy)
    config = {"server": {"port": 0}, "channels": channels, "routes": [*routes]}
    file = folder / "everturn.yaml"
    file.write_text(json.dumps(config))
    file.chmod(0o600)  # it holds tokens


def in_parts(name: str, count: int, size: int) -> str:
    """Return a reply that is as many messages where one holds a little more than `size`."""
    return "\n\n".join(f"{name} {n} {'x' * size}" for n in range(1, count + 1))


def starts(texts: list[str]) -> list[str]:
    """Return the first two words of each text, after the label of a repeat."""
    return [" ".join(text.split("\n")[-1].split()[:2]) for text in texts]


def calling(name: str, **arguments: str) -> Answer:
    """Return a reply that calls a tool."""
    call = ToolCall(call_id=f"call-{name}", name=name, arguments=json.dumps(arguments))
    return Answer(calls=(call,))


# --- Telegram ---


def write(telegram: TelegramApi, text: str = "", *, who: int = ANN, **fields: object) -> Json:
    """Have somebody write to the bot alone, or with `chat` in a group, now."""
    fields.setdefault("chat", who)
    sender = {"id": who, "is_bot": False, "first_name": {ANN: "Ann", BOB: "Bob"}.get(who, "Al")}
    at = int(SystemClock().now().timestamp())
    return telegram.say(text, **{"date": at, "from": sender, **fields})  # type: ignore[arg-type]


def read(telegram: TelegramApi, chat: int) -> list[str]:
    """Return what the bot wrote in a chat, as it stands now, oldest first."""
    return [
        str(message.get("text", ""))
        for (where, _), message in telegram.messages.items()
        if where == chat and message["from"]["id"] == telegram.me["id"]
    ]


def sends(chat: int, word: str = "", method: str = "sendMessage") -> Callable[[Call], bool]:
    """Return what picks a request that shows `word` in a chat."""

    def picks(call: Call) -> bool:
        params = call.params
        is_there = call.method == method and str(params.get("chat_id")) == str(chat)
        return is_there and word in str(params.get("text", ""))

    return picks


def confirms(number: int) -> Callable[[Call], bool]:
    """Return what picks the request for updates that confirms the one of this number."""
    return lambda call: call.method == "getUpdates" and int(call.params.get("offset", 0)) > number


# --- both ---


async def until(is_so: Callable[[], object], gateway: GatewayProcess | None = None) -> None:
    """Wait until something is so; of files and of counts there is no event."""
    with anyio.fail_after(DEADLINE_S):
        while not is_so():
            assert gateway is None or gateway.process.returncode is None
            await anyio.sleep(0.02)


async def until_said(folder: Path, *chats: int | str) -> None:
    """Wait until chats were told all that is pending for them, and that is on disk."""
    for chat in chats:
        with anyio.fail_after(DEADLINE_S):
            while not is_said(folder, chat):  # noqa: ASYNC110 - of another process' files
                await anyio.sleep(0.1)


async def until_listening(telegram: TelegramApi) -> None:
    """Wait until the bot asks for updates, and would wait for them."""

    def is_listening() -> bool:
        polls = [call for call in telegram.calls if call.method == "getUpdates"]
        return bool(polls) and int(polls[-1].params["timeout"]) > 0 and telegram.has_poll

    await until(is_listening)


async def until_state(client: httpx2.AsyncClient, state: str, name: str = "") -> None:
    """Wait until a channel, the first where none is named, is in a state."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            listed = (await client.get("/api/v1/channels")).raise_for_status().json()
            found = [each for each in listed["channels"] if name in {"", each["name"]}]
            if found[0]["state"] == state:
                return
            await anyio.sleep(0.02)


def log_of(folder: Path, chat: int | str) -> list[dict[str, Any]]:
    """Return the events of the conversations of a chat as they stand on disk, oldest first."""
    found: list[dict[str, Any]] = []
    for home in sorted((folder / ".everturn" / "sessions").glob("*")):
        lines: list[str] = []
        for name in ("events.archive.jsonl", "events.jsonl"):
            if (home / name).exists():
                lines += (home / name).read_text().splitlines(keepends=True)
        if lines and f'"chat":"{chat}"' in lines[0]:
            whole = [json.loads(line) for line in lines if line.endswith("\n")]
            # a kill may have left some of them in both files
            found += {event["seq"]: event for event in whole}.values()
    return found


def is_said(folder: Path, chat: int | str) -> bool:
    """Return whether a chat was answered, nothing is pending for it, and that is on disk."""
    by_type: dict[str, list[dict[str, Any]]] = {}
    for event in log_of(folder, chat):
        by_type.setdefault(event["type"], []).append(event)
    received = {e["seq"] for e in by_type.get("received", ())}
    dealt_with = [
        n
        for kind in ("turn_started", "steered", "discarded")
        for e in by_type.get(kind, ())
        for n in e["received"]
    ]
    turns = len(by_type.get("turn_started", ()))
    is_answered = received <= {*dealt_with} and turns == len(by_type.get("turn_finished", ()))
    replies = {e["seq"] for e in by_type.get("model_replied", ()) if e.get("text")}
    plans = {e["item"]: e["chunks"] for e in by_type.get("delivery_planned", ())}
    marks = {(e["item"], e["chunk"]): e["mark"] for e in by_type.get("chunk_marked", ())}
    chunks = {(item, n) for item, chunks in plans.items() for n in range(len(chunks))}
    is_told = all(marks.get(chunk) in {"sent", "failed", "given_up", "closed"} for chunk in chunks)
    return bool(received) and is_answered and replies <= plans.keys() and is_told


def check_secrets(folder: Path, *secrets: str) -> None:
    """Look for secrets in everything that was written, the configuration aside."""
    for file in folder.rglob("*"):
        if file.is_file() and file != folder / "everturn.yaml":
            data = file.read_bytes()
            assert not [s for s in secrets if s.encode() in data], file


def discord_texts(discord: DiscordApi, channel: str = "") -> list[str]:
    """Return what the bot wrote in a channel, oldest first."""
    return [str(message["content"]) for message in discord.said(channel)]
