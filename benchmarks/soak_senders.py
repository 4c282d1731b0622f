"""People and clients of the soak. Each behaves as a real one does when the other side is gone.

A client repeats its request, with the same key, until it has the answer. People write to a platform
and wait; sometimes they write again before the answer is there.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import anyio
from harness import EVERTURN
from soak_ledger import AGENT, CLOCK, Kind, Ledger, Message
from soak_world import World
from support.discord_world import Payload
from support.telegram_api import BOT

API: Final = "/api/v1/sessions"
PATIENCE_S: Final = 120.0  # a client asks again when an answer takes longer
_AGAIN: Final = frozenset({429, 500, 503, 504})
"A 500 is in the book as a problem besides."
_UNANSWERED_MAX: Final = 3  # nobody writes more than that without an answer
_GONE: Final = (aiohttp.ClientError, TimeoutError, ConnectionError)


@dataclass(slots=True, kw_only=True)
class Talk:
    """One conversation: how its messages are sent, and what is not answered yet."""

    kind: Kind
    chat: str
    send: Callable[[Talk], Awaitable[None]]
    "Sends a message and returns, or waits for its answer."
    ledger: Ledger
    open: list[Message] = field(default_factory=list[Message])
    sent: int = 0
    is_over: bool = False
    "Nothing more is sent."

    @property
    def has_begun(self) -> bool:
        """Whether its first message was answered."""
        return self.sent > 1 or any(message.answered.is_set() for message in self.open)

    def message(self, *, long_part: int = 0, prefix: str = "") -> Message:
        """Make up the next message."""
        made = self.ledger.message(self.kind, self.chat, long_part=long_part, prefix=prefix)
        self.sent += 1
        self.open.append(made)
        return made

    async def go_on(self, *, first_after_s: float, pause_s: float) -> None:
        """Talk until it is over; what was sent last is not waited for."""
        await anyio.sleep(first_after_s)
        while not self.is_over:
            if self.ledger.is_paused:
                while self.ledger.is_paused:  # noqa: ASYNC110 - a flag for hundreds
                    await anyio.sleep(0.2)
                await anyio.sleep(self.ledger.dice.uniform(0, pause_s))
                if self.is_over:  # nobody would wait for its answer
                    return
            self.open = [m for m in self.open if not m.answered.is_set()]
            await self.send(self)
            in_a_breath = self.ledger.phase != "warm-up" and self.ledger.dice.random() < 0.15
            if in_a_breath and len(self.open) < _UNANSWERED_MAX:
                await anyio.sleep(self.ledger.dice.uniform(0.05, 2))
                continue
            for message in self.open:
                await message.answered.wait()
            await anyio.sleep(self.ledger.dice.expovariate(1 / pause_s))


# --- platforms ---


def telegram_talk(world: World, number: int, *, is_group: bool) -> Talk:
    """Return a conversation on Telegram."""
    who = 10_000 + number
    chat = -500_000 - number if is_group else who
    telegram = world.telegram

    async def send(talk: Talk) -> None:
        prefix = f"@{BOT} " if is_group else ""
        message = talk.message(long_part=3000, prefix=prefix)
        writer = who + (100_000 * world.ledger.dice.randrange(2) if is_group else 0)
        sender = {"id": writer, "is_bot": False, "first_name": f"Person {writer}"}
        at = int(CLOCK.now().timestamp())
        telegram.say(message.text, chat=chat, date=at, **{"from": sender})

    kind: Kind = "telegram group" if is_group else "telegram chat"
    return Talk(kind=kind, chat=str(chat), send=send, ledger=world.ledger)


def discord_talk(world: World, number: int, *, is_group: bool) -> Talk:
    """Return a conversation on Discord; its channel and people exist from now on."""
    platform = world.discord.world
    people = [platform.add_user(f"person {number}-{n}") for n in range(2 if is_group else 1)]
    channel = platform.add_channel(f"room-{number}") if is_group else platform.dm(people[0])
    prefix = f"<@{platform.bot['id']}> " if is_group else ""

    async def send(talk: Talk) -> None:
        message = talk.message(long_part=1500, prefix=prefix)
        author: Payload = world.ledger.dice.choice(people)
        platform.now = max(platform.now, CLOCK.now())
        await world.discord.says(message.text, author=author, channel=channel)

    kind: Kind = "discord channel" if is_group else "discord dm"
    return Talk(kind=kind, chat=channel, send=send, ledger=world.ledger)


# --- HTTP ---


class Client:
    """An HTTP client of the gateway, wherever that is just now."""

    def __init__(self, ledger: Ledger, session: aiohttp.ClientSession) -> None:
        self.ledger, self._session = ledger, session
        self.ids: dict[str, str] = {}
        "Sessions by the client's own name for them."
        self._seen: dict[str, int] = {}
        "The last event that was followed to, by session."

    async def pause(self) -> None:
        """Wait before the next try."""
        await anyio.sleep(self.ledger.dice.uniform(0.3, 1.2))

    @asynccontextmanager
    async def _ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
        async with self._session.request(
            method, path, json=body, headers=named, timeout=timeout
        ) as response:
            yield response

    async def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, Any]:
        """Ask until there is an answer that says something; return status and body."""
        while True:
            with suppress(*_GONE), anyio.move_on_after(self._leaves_after_s()):
                async with self._ask(method, path, body, **headers) as response:
                    answer = await response.read()
                    if response.status < 400:
                        return response.status, json.loads(answer or b"null")
                    self._check(response.status, path, answer)
                    if response.status not in _AGAIN:
                        return response.status, answer
            await self.pause()

    def _leaves_after_s(self) -> float:
        """Return when a client loses patience, or its connection."""
        if not self.ledger.strikes(0.05):
            return PATIENCE_S
        self.ledger.faults["client: left"] += 1
        return self.ledger.dice.uniform(0.01, 1)

    def _check(self, status: int, path: str, answer: bytes) -> None:
        if status not in {429, 503, 504}:
            self.ledger.problems.append(f"{status} from {path}: {answer[:300].decode()}")

    async def session_of(self, chat: str) -> str:
        """Return the session of a conversation of this client's, begun at its first use."""
        if chat not in self.ids:
            _, body = await self.ask("POST", API, {"agent": AGENT, "chat": chat})
            self.ids[chat] = str(body["id"])
        return self.ids[chat]

    async def post(self, message: Message) -> str:
        """Send a message, and again, until its answer is there; return that."""
        path = f"{API}/{await self.session_of(message.chat)}/messages"
        body = {"content": message.text}
        status, answer = await self.ask("POST", path, body, Idempotency_Key=message.marker)
        return str(answer["content"]) if status == 200 else f"status {status}"

    async def wait(self, talk: Talk) -> None:
        """Send a message and wait for its answer."""
        message = talk.message()
        message.note_answer(await self.post(message))

    async def follow(self, talk: Talk) -> None:
        """Send a message without waiting; read its answer from the events."""
        message = talk.message()
        session = await self.session_of(message.chat)
        path = f"{API}/{session}/messages"
        headers = {"Idempotency_Key": message.marker, "Prefer": "respond-async"}
        await self.ask("POST", path, {"content": message.text}, **headers)
        reading = _Reading(message.marker)
        while not reading.is_over:
            with suppress(*_GONE):
                after = self._seen.get(session, 0)
                events = self._events("GET", f"{API}/{session}/events", Last_Event_ID=str(after))
                async with aclosing(events):
                    async for seq, kind, data in events:
                        if seq and seq != self._seen.get(session, 0) + 1:
                            self._gap(message, seq)
                        self._seen[session] = seq or self._seen.get(session, 0)
                        if reading.take(kind, data):
                            break
            if not reading.is_over:
                await self.pause()
        message.note_answer(reading.text)

    async def stream(self, talk: Talk) -> None:
        """Send a message and read its answer as it comes, resumed after each lost connection."""
        message = talk.message()
        path = f"{API}/{await self.session_of(message.chat)}/stream"
        last, answer, is_first = 0, "", True
        while not answer:
            said = ""
            headers = {"Last_Event_ID": str(last)} if last else {}
            with suppress(*_GONE), anyio.move_on_after(self._leaves_after_s()):
                async for seq, kind, data in self._events(
                    "POST", path, {"content": message.text}, message.marker, **headers
                ):
                    if seq and seq <= last:
                        self._gap(message, seq)
                    last = seq or last
                    if kind == "token":
                        said = said[: data["offset"]] + data["text"]
                    elif kind == "done":
                        answer = str(data["content"])
                        if is_first and said.strip() != answer.strip():
                            self.ledger.problems.append(f"{message.marker}: streamed text differs")
                    elif kind == "error" and seq:
                        answer = f"error {data}"
            is_first = False
            if not answer:
                await self.pause()
        message.note_answer(answer)

    async def openai(self, talk: Talk) -> None:
        """Send a message as a client of OpenAI's API does, now and then as a stream."""
        message = talk.message()
        message.note_answer(await self.complete(message, streams=self.ledger.dice.random() < 0.3))

    async def complete(self, message: Message, *, streams: bool = False) -> str:
        """Ask for a completion until it is there; return its text."""
        said = [{"role": "user", "content": message.text}]
        body = {"model": AGENT, "messages": said, "stream": streams}
        headers = {"X_Everturn_Session": message.chat, "Idempotency_Key": message.marker}
        path = "/v1/chat/completions"
        while streams:
            text, is_whole = "", False
            with suppress(*_GONE):
                async for _, _, data in self._events("POST", path, body, **headers):
                    is_whole = data == "[DONE]"
                    for choice in () if is_whole else data.get("choices", ()):
                        text += choice["delta"].get("content") or ""
            if is_whole:
                return text
            await self.pause()
        status, answer = await self.ask("POST", path, body, **headers)
        return str(answer["choices"][0]["message"]["content"]) if status == 200 else f"{status}"

    def _gap(self, message: Message, seq: int) -> None:
        self.ledger.problems.append(f"{message.marker}: event {seq} came out of its order")

    async def _events(
        self, method: str, path: str, body: object = None, key: str = "", **headers: str
    ) -> AsyncGenerator[tuple[int, str, Any]]:
        """Yield number, name and data of server-sent events until the stream ends."""
        if key:
            headers["Idempotency_Key"] = key
        async with self._ask(method, path, body, **headers) as response:
            if response.status != 200:
                self._check(response.status, path, await response.read())
                return
            seq, kind, data = 0, "message", ""
            async for raw in response.content:
                name, _, value = raw.decode().rstrip("\n").partition(": ")
                if name == "id":
                    seq = int(value)
                elif name == "event":
                    kind = value
                elif name == "data":
                    data = value
                elif not name and data:
                    yield seq, kind, data if data == "[DONE]" else json.loads(data)
                    seq, kind, data = 0, "message", ""


class _Reading:
    """The answer to one message, picked out of the events of its session."""

    def __init__(self, key: str) -> None:
        self._key, self._received, self._turn = key, 0, 0
        self.text = ""
        self.is_over = False

    def take(self, kind: str, data: Mapping[str, Any]) -> bool:
        """Read an event; return whether the answer is complete."""
        if kind == "received" and data.get("idempotency_key") == self._key:
            self._received = int(data["seq"])
        elif kind in {"turn_started", "steered"} and self._received in data["received"]:
            self._turn = int(data["turn"])
        elif kind == "model_replied" and self._turn:
            self.text = str(data.get("text", ""))
        elif kind == "turn_finished" and self._turn == data["turn"]:
            self.is_over = True
            if data["outcome"] != "answered":
                self.text = f"{data['outcome']}: {data.get('error')}"
        return self.is_over


def http_talk(client: Client, kind: Kind, number: int) -> Talk:
    """Return a conversation over HTTP."""
    ways: dict[Kind, Callable[[Talk], Awaitable[None]]] = {
        "http waiting": client.wait,
        "http async": client.follow,
        "http stream": client.stream,
        "openai": client.openai,
    }
    name = f"{kind.replace(' ', '-')} {number}"
    return Talk(kind=kind, chat=name, send=ways[kind], ledger=client.ledger)


def command_talk(client: Client, folder: Path) -> Talk:
    """Return the conversation of somebody who uses `everturn run`."""

    async def send(talk: Talk) -> None:
        session = await client.session_of(talk.chat)
        message = talk.message()
        message.is_certain = False
        options = ("--session", session, "--json", "--timeout", "60")
        done = await anyio.run_process(
            [str(EVERTURN), "run", *options, message.text], cwd=folder, check=False
        )
        output = done.stdout.decode()
        if "Traceback" in output + done.stderr.decode():
            client.ledger.problems.append(f"{message.marker}: everturn run: {done.stderr[-300:]!r}")
        if done.returncode == 0:
            message.is_certain = True
            message.note_answer(str(json.loads(output)["text"]))
        else:
            client.ledger.faults["everturn run: had no answer"] += 1
            message.answered.set()

    return Talk(kind="everturn run", chat="command", send=send, ledger=client.ledger)
