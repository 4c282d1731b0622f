"""The soak's outside world on loopback: the tests' platforms and model, made unreliable.

A fault is planted where the platform would fail: before or after a request has had its effect.
None is planted that ends a turn or gives a message up by design: an answer is lost at most once for
the same text, a model fails at most twice in a row, and no reply breaks off that a client has begun
to read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
from aiohttp import web
from soak_ledger import AGENT, ASKED, CLOCK, LABEL, MARKER, WITNESS, Ledger, reply_to
from support.answers import Answer
from support.discord_api import TOKEN as DISCORD_TOKEN
from support.discord_api import DiscordApi, serve_discord_api
from support.discord_rest import ApiError as DiscordError
from support.discord_rest import Call as DiscordCall
from support.discord_world import Payload
from support.model_api import Received, open_model_api, rate_limited, server_error
from support.telegram_api import TOKEN as TELEGRAM_TOKEN
from support.telegram_api import ApiError, Call, TelegramApi, serve_telegram_api

from everturn_actors.model import ToolCall

_SYSTEM: Final = "You are the agent of a soak."
_CONFLICT: Final = "Conflict: terminated by other getUpdates request"
_SLOW_DOWN: Final = "You are being rate limited."
_POSTS: Final = re.compile(r"/channels/(\d+)/messages")
_SHOWING_FAULTS: Final = {"429": 2, "502": 1, "502, carried out": 2, "cut": 3}
_TELEGRAM_FAULTS: Final[Mapping[str, tuple[float, Mapping[str, int]]]] = {
    "getUpdates": (0.02, {"429": 2, "409": 1, "502": 3, "cut": 4}),
    "sendMessage": (0.04, _SHOWING_FAULTS),
    "editMessageText": (0.04, _SHOWING_FAULTS),
}
"By method: the share of requests that fail, and how, with weights."
_OTHER_FAULTS: Final = (0.03, {"429": 1, "502": 3, "cut": 3})
_MODEL_FAULTS: Final = 2  # in a row at most: after the third a turn ends as failed
_READERS: Final = frozenset({"http async", "http stream", "openai", "everturn run"})
_PEOPLE: Final = {"policy": "open"}
_ONE_BY_ONE: Final = {"mode": "sequential", "max_pending": 100, "debounce": {"enabled": False}}


class SoakTelegram(TelegramApi):
    """A Bot API that fails."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger
        self._struck: set[tuple[str, str]] = set()
        self._cuts: set[int] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, or lose the answer."""
        response = await super().handle(request)
        task = anyio.get_current_task().id
        if task in self._cuts:
            self._cuts.discard(task)
            if request.transport is not None:
                request.transport.close()
        return response

    async def _carry_out(self, call: Call) -> object:
        fault = self._fault_of(call)
        if fault == "429":
            raise ApiError(429, "Too Many Requests: retry after 1", retry_after=1)
        if fault == "409":
            raise ApiError(409, _CONFLICT)
        if fault == "502":
            raise ApiError(502, "Bad Gateway")
        result = await super()._carry_out(call)
        if call.method == "sendMessage" and isinstance(result, dict):
            self._ledger.shown_at["telegram", str(result["message_id"])] = CLOCK.now()
        if call.method in {"sendMessage", "editMessageText"}:
            self._ledger.note_shown(str(call.params.get("text", "")))
        if fault == "502, carried out":
            raise ApiError(502, "Bad Gateway")
        if fault == "cut":
            self._cuts.add(anyio.get_current_task().id)
        return result

    def _fault_of(self, call: Call) -> str:
        share, kinds = _TELEGRAM_FAULTS.get(call.method, _OTHER_FAULTS)
        if not self._ledger.strikes(share):
            return ""
        fault = self._ledger.dice.choices([*kinds], [*kinds.values()])[0]
        if call.method in {"sendMessage", "editMessageText"} and fault != "429":
            chat, text = str(call.params.get("chat_id")), str(call.params.get("text", ""))
            if text.startswith(LABEL) or (chat, text) in self._struck:
                return ""
            self._struck.add((chat, text))
            self._ledger.lost_answers.append((CLOCK.now(), chat))
        self._ledger.faults[f"telegram {call.method}: {fault}"] += 1
        return fault


class SoakDiscord(DiscordApi):
    """A Discord that fails."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger
        self._struck: set[tuple[str, str, str]] = set()

    async def _answer(
        self, request: web.Request, call: DiscordCall, headers: dict[str, str]
    ) -> Payload | list[Payload] | None:
        fault = self._fault_of(call)
        if fault == "429":
            headers |= {"Via": "1.1 google", "X-RateLimit-Scope": "user", "Retry-After": "1"}
            raise DiscordError(429, 0, _SLOW_DOWN, retry_after=0.5)
        if fault == "502":
            raise DiscordError(502, 0, "Bad Gateway")
        answer = await super()._answer(request, call, headers)
        if _POSTS.fullmatch(call.path) and call.method == "POST" and isinstance(answer, dict):
            self._ledger.shown_at.setdefault(("discord", str(answer["id"])), CLOCK.now())
        if "/messages" in call.path and call.method in {"POST", "PATCH"}:
            self._ledger.note_shown(str(call.body.get("content") or ""))
        if fault == "502, carried out":
            raise DiscordError(502, 0, "Bad Gateway")
        if fault == "cut" and request.transport is not None:
            request.transport.abort()
        return answer

    def _fault_of(self, call: DiscordCall) -> str:
        kinds, weights = ("429", "502", "502, carried out", "cut"), (3, 2, 2, 3)
        if not self._ledger.strikes(0.04 if call.method in {"POST", "PATCH"} else 0.01):
            return ""
        fault = str(self._ledger.dice.choices(kinds, weights)[0])
        if fault != "429":
            content = str(call.body.get("content")) if isinstance(call.body, dict) else ""
            key = (call.method, call.path, content)
            if key in self._struck:
                return ""
            self._struck.add(key)
            if found := _POSTS.match(call.path):
                self._ledger.lost_answers.append((CLOCK.now(), found[1]))
        self._ledger.faults[f"discord {call.method}: {fault}"] += 1
        return fault

    async def shake(self) -> None:
        """Disturb the connection to the gateway now and then."""
        while True:
            await anyio.sleep(self._ledger.dice.uniform(2, 10))
            if not (self._ledger.strikes(1) and self.lines):
                continue
            kind = self._ledger.dice.choice(
                ("invalid session", "invalid, resumable", "4000", "4009", "cut", "reconnect", "503")
            )
            self._ledger.faults[f"discord gateway: {kind}"] += 1
            with anyio.move_on_after(2):  # a peer that was killed closes nothing in order
                await self._disturb(kind)

    async def _disturb(self, kind: str) -> None:
        try:
            match kind:
                case "invalid session" | "invalid, resumable":
                    await self.invalidate(resumable=kind != "invalid session")
                case "4000" | "4009":
                    await self.close(int(kind))
                case "reconnect":
                    await self.ask_to_reconnect()
                case "503":
                    self.refuses_handshakes = 1
                    self.cut()
                case _:
                    self.cut()
        except ConnectionError:
            self._ledger.faults["discord gateway: was gone already"] += 1


class Brain:
    """The model: repeats the markers of the newest messages, calls the tool where one asks."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._failed: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        "How many requests showed a marker as new."

    def __call__(self, request: Received) -> Answer:
        """Answer one request."""
        messages: list[dict[str, Any]] = request.json()["messages"]
        if _SYSTEM not in str(messages[0]["content"]):
            return Answer(text="They counted markers.")
        newest = _newest(messages)
        asked = [found for m in newest if m["role"] == "user" for found in ASKED.findall(_text(m))]
        self.read.update(marker for marker, *_ in asked)
        key = " ".join([*(marker for marker, *_ in asked), str(len(newest))])
        if fault := self._fault(key):
            return fault
        called = {c["id"] for m in newest for c in m.get("tool_calls") or ()}
        for marker, _, _, does in asked:
            if does == "tool" and f"call-{marker}" not in called:
                return Answer(calls=(self._call(marker),), delay_s=self._delay_s())
        text = reply_to(asked) or "There is nothing to count."
        is_slow = any(does == "slow" for *_, does in asked)
        pieces = tuple(text[at : at + 400] for at in range(0, len(text), 400))
        if not is_slow:
            return Answer(pieces=pieces, delay_s=self._delay_s())
        pace_s = self._ledger.dice.uniform(0.3, 1.2)
        words = tuple(text[at : at + 30] for at in range(0, min(len(text), 150), 30))
        return Answer(pieces=(*words, text[150:]) if text[150:] else words, piece_delay_s=pace_s)

    def _delay_s(self) -> float:
        return self._ledger.dice.uniform(0.02, 0.3)

    def _call(self, marker: str) -> ToolCall:
        pause = self._ledger.dice.choice(("", "sleep 0.5; "))
        command = f"{pause}echo {marker} >> {WITNESS}; {pause}echo done"
        arguments = json.dumps({"command": command})
        return ToolCall(call_id=f"call-{marker}", name="bash", arguments=arguments)

    def _is_followed(self, key: str) -> bool:
        """Whether a client reads the reply as it comes: what was read is not taken back."""
        kinds = {self._ledger.messages[marker].kind for marker in MARKER.findall(key)}
        return bool(kinds & _READERS)

    def _fault(self, key: str) -> Answer | None:
        if self._failed[key] >= _MODEL_FAULTS or not self._ledger.strikes(0.12):
            self._failed.pop(key, None)
            return None
        self._failed[key] += 1
        kinds = ["429", "500", "503", "cut"]
        if not self._is_followed(key):
            kinds += ["cut in a reply", "garbage"]
        kind = self._ledger.dice.choice(kinds)
        self._ledger.faults[f"model: {kind}"] += 1
        text = "This will never be finished, whatever comes of it."
        match kind:
            case "429":
                return rate_limited(retry_after="1")
            case "500" | "503":
                return server_error(int(kind))
            case "cut":
                return Answer(text=text, cut_after=0)
            case "garbage":
                return Answer(text=text, garbage_after=2)
            case _:
                return Answer(text=text, cut_after=3)


def _newest(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of the current turn: those after the last reply without calls."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at]["role"] == "assistant" and not messages[at].get("tool_calls"):
            return messages[at + 1 :]
    return messages


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or ())


class World:
    """All of it."""

    def __init__(
        self, ledger: Ledger, telegram: SoakTelegram, discord: SoakDiscord, brain: Brain, url: str
    ) -> None:
        self.ledger, self.telegram, self.discord, self.brain = ledger, telegram, discord, brain
        self.model_url = url

    def write_workspace(self, folder: Path, port: int) -> None:
        """Write configuration, agent and policy."""
        home = folder / "agents" / AGENT
        home.mkdir(parents=True)
        spec = {
            "model": {"provider": "openai", "name": "fake-1", "base_url": self.model_url},
            "system_prompt": _SYSTEM,
            "session": {"on_disconnect": "continue", "compaction": "archive"},
            "access": {"dm": _PEOPLE, "groups": _PEOPLE | {"queue": _ONE_BY_ONE}},
            "tools": [{"type": "builtin", "name": "bash"}],
        }
        agent = {
            "apiVersion": "duragent/v1alpha1",
            "kind": "Agent",
            "metadata": {"name": AGENT},
            "spec": spec,
        }
        (home / "agent.yaml").write_text(json.dumps(agent))
        (home / "policy.yaml").write_text("mode: dangerous\n")
        backlog = {"max_messages": 10_000}
        config = {
            "server": {"port": port},
            "sessions": {"passivate_after_seconds": 20},
            "providers": {"openai": {"max_concurrent": 64}},
            "channels": {
                "telegram": {
                    "bot_token": TELEGRAM_TOKEN,
                    "api_base": self.telegram.url,
                    "backlog": backlog,
                },
                "discord": {
                    "bot_token": DISCORD_TOKEN,
                    "api_base": self.discord.base,
                    "gateway_url": self.discord.gateway,
                    "backlog": backlog,
                },
            },
            "routes": [{"match": {}, "agent": AGENT}],
        }
        file = folder / "everturn.yaml"
        file.write_text(json.dumps(config))
        file.chmod(0o600)  # it holds tokens


@asynccontextmanager
async def open_world(ledger: Ledger) -> AsyncGenerator[World]:
    """Serve the platforms and the model while the block runs."""
    brain = Brain(ledger)
    async with (
        open_model_api(default=brain, kept=1) as model,
        serve_telegram_api(SoakTelegram(ledger)) as telegram,
        serve_discord_api(SoakDiscord(ledger)) as discord,
    ):
        yield World(ledger, telegram, discord, brain, model.url)
