"""A whole gateway in this process, with two channels and two agents, in which any part can fail.

Everything in it is what `everturn serve` runs, but for the outermost edges: the model echoes, the
bots are fed by a test, and the clock goes faster.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import anyio.to_thread
import httpx2
from support.arrivals import ANN
from support.feeding_adapter import FeedingAdapter
from support.scripted_adapter import traits

from everturn_actors.events import Discarded, Received, Steered, TurnFinished, TurnStarted
from everturn_actors.model import (
    ConversationKey,
    Inbound,
    ModelRequest,
    Reply,
    ToolCall,
    Usage,
    UserMessage,
)
from everturn_actors.service import TurnResult
from everturn_channels.adapter import Message, Place
from everturn_gateway import app
from everturn_gateway.app import Gateway, open_gateway
from everturn_gateway.channel_config import ChannelConfig
from everturn_gateway.channels import bots
from everturn_gateway.config import load_config
from everturn_gateway.http import create_app
from everturn_gateway.providers.catalog import Providers

WAIT_S = 12  # for what takes milliseconds, or a few pauses
NUMBERS = count(1)
ABLE = traits(chunk_units=4000, typing_s=4)
RATE = 50  # seconds of the gateway's clock in one second
CONFIG = """\
workspace: workspace
agents_dir: agents
sessions: {idle_rest_seconds: 0.02}
schedules: {timezone: UTC, allow_private: ["127.0.0.1"]}
channels:
  external:
    - {name: one, command: python3}
    - {name: two, command: python3}
routes:
  - {match: {channel: one}, agent: victim}
  - {match: {}, agent: other}
"""
AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {{name: {name}, description: x, version: "1"}}
spec:
  model: {{provider: builtin, name: builtin}}
  memory: {{backend: filesystem}}
  usage: {{daily_tokens: 100000000}}
  access:
    dm: {{policy: open, queue: {{debounce: {{enabled: false}}}}}}
"""


VICTIMS = set[str]()
"The sessions to which faults belong."


class QuickClock:
    """A clock that goes faster than the machine's."""

    began = datetime.now(UTC)  # noqa: TID251 - this is the clock

    def now(self) -> datetime:
        """Return the present instant."""
        real = datetime.now(UTC)  # noqa: TID251 - this is the clock
        return self.began + (real - self.began) * RATE

    async def sleep(self, delay_s: float) -> None:
        """Wait."""
        await anyio.sleep(delay_s / RATE)


class Echo:
    """A model that repeats what it was told, and makes a note where it is asked to."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Answer."""
        users = [m for m in request.messages if isinstance(m, UserMessage)]
        text = users[-1].text
        if "note" in text and request.messages[-1] is users[-1]:
            call = ToolCall(call_id="c1", name="remember", arguments='{"content": "it"}')
            return Reply(calls=(call,), stop_reason="tool_calls")
        on_text(f"re {text}")
        usage = Usage(input_tokens=1000 + len(request.messages) * 100, output_tokens=10)
        return Reply(text=f"re {text}", stop_reason="stop", usage=usage)


@dataclass
class World:
    """The gateway, and what people of it see."""

    gateway: Gateway
    adapters: dict[str, FeedingAdapter]
    http: httpx2.AsyncClient
    numbers: Iterator[int]
    "Ids of messages, over restarts."
    victim: str = ""
    "The session that the victim has on no channel."

    def key(self, agent: str, chat: str = "direct") -> ConversationKey:
        """Return a conversation that is on no channel."""
        return ConversationKey(channel="test", chat=chat, agent=agent)

    async def say(self, agent: str, text: str, *, chat: str = "direct") -> TurnResult:
        """Say something in a conversation on no channel, and return the answer."""
        with anyio.fail_after(WAIT_S):
            inbound = Inbound(text=text, key=self.key(agent, chat))
            return await (await self.gateway.service.submit(inbound)).result()

    async def post(self, text: str) -> object:
        """Say something to the victim over HTTP, and return the answer or the problem."""
        path = f"/api/v1/sessions/{self.victim}/messages"
        answer = await self.http.post(path, json={"content": text})
        document = answer.json()
        assert answer.is_success or document["detail"], document
        return document

    async def write(self, channel: str, text: str) -> None:
        """Let somebody write on a channel; return when the adapter may confirm it."""
        adapter = self.adapters[channel]
        with anyio.fail_after(WAIT_S):
            await adapter.feed(
                Message(
                    id=str(next(self.numbers)),
                    place=Place(chat="7"),
                    sender=ANN,
                    text=text,
                    at=self.gateway.started_at + timedelta(days=1),
                )
            )

    async def until_read(self, channel: str, text: str) -> None:
        """Wait until people of a channel read a text."""
        adapter = self.adapters[channel]
        with anyio.fail_after(WAIT_S):
            await until(lambda: any(text in each for each in adapter.world.texts))

    async def status(self, path: str) -> int:
        """Return the status of a GET."""
        with anyio.fail_after(WAIT_S):
            return (await self.http.get(path)).status_code

    async def unanswered(self) -> list[str]:
        """Return the texts of accepted messages that no turn answers, or several do."""
        found: list[str] = []
        for row in await self.gateway.service.sessions(limit=200):
            log = await self.gateway.service.history(row.session_id, after=0, limit=2000)
            begun: Counter[int] = Counter()
            turn_of: dict[int, int] = {}
            finished = {e.body.turn for e in log if isinstance(e.body, TurnFinished)}
            for event in log:
                match event.body:
                    case TurnStarted(turn=turn, received=seqs) | Steered(turn=turn, received=seqs):
                        begun.update(seqs)
                        turn_of.update(dict.fromkeys(seqs, turn))
                    case Discarded(received=seqs):
                        begun.update(seqs)
                        turn_of.update(dict.fromkeys(seqs, 0))
                        finished.add(0)
                    case _:
                        pass
            found += [
                event.body.text
                for event in log
                if isinstance(event.body, Received)
                and not (begun[event.seq] == 1 and turn_of[event.seq] in finished)
            ]
        return found

    async def prepare(self, what: str) -> None:
        """Begin all conversations, and let their sessions rest."""
        before = await self.say("victim", f"before {what}")
        await self.say("other", f"other before {what}")
        self.victim = before.session_id
        VICTIMS.add(before.session_id)
        job = {"id": "standup", "agent": "victim", "message": "Stand up", "every": "1d"}
        to = {"session": before.session_id}
        await self.http.post("/api/v1/schedules", json={**job, "to": to})
        hook = {**job, "id": "hook", "to": {"webhook": "http://127.0.0.1:9/"}}
        await self.http.post("/api/v1/schedules", json=hook)
        await self.until_resting()

    async def until_resting(self) -> None:
        """Wait until no session is in memory."""
        with anyio.fail_after(WAIT_S):
            while (await self.gateway.service.load()).awake:
                await pause()

    async def until_answered(self) -> None:
        """Wait until every message that was accepted is answered, once."""
        with anyio.fail_after(WAIT_S):
            while await self.unanswered():
                await pause()


async def pause() -> None:
    """Give the others time."""
    await anyio.sleep(0.01)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    while not is_so():
        await pause()


def write_folder(folder: Path) -> None:
    """Write the configuration and the agents."""
    (folder / "everturn.yaml").write_text(CONFIG)
    for name in ("victim", "other"):
        file = folder / "agents" / name / "agent.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(AGENT.format(name=name))


@asynccontextmanager
async def open_world(
    folder: Path, adapters: dict[str, FeedingAdapter] | None = None
) -> AsyncGenerator[World]:
    """Open the gateway of a folder; opened again on it, with its adapters, it is a restart."""
    bots_here = adapters if adapters is not None else {}

    async def make_adapter(channel: ChannelConfig, _clock: object) -> FeedingAdapter:
        await anyio.lowlevel.checkpoint()
        adapter = bots_here.setdefault(channel.name, FeedingAdapter(able=ABLE))
        adapter.name = channel.name
        return adapter

    def read() -> Any:  # noqa: ANN401 - a configuration
        return load_config(folder / "everturn.yaml", environ={})

    with (
        mock.patch.object(bots, "make_adapter", make_adapter),
        mock.patch.object(app, "SystemClock", QuickClock),
        mock.patch.object(Providers, "make", return_value=Echo()),
    ):
        config = await anyio.to_thread.run_sync(read)
        async with open_gateway(config, environ={}) as gateway:
            transport = httpx2.ASGITransport(app=create_app(gateway), raise_app_exceptions=False)
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                with anyio.fail_after(WAIT_S):
                    await until(lambda: len(bots_here) == 2)
                yield World(gateway, bots_here, http, NUMBERS)


class Fault:
    """A part that fails whenever it is called for what the fault belongs to."""

    def __init__(self, error: Callable[[], BaseException]) -> None:
        self._error = error
        self.met = 0
        "How often it failed."
        self.armed = False

    @contextmanager
    def at(
        self, owner: object, name: str, belongs: Callable[[tuple[Any, ...]], bool]
    ) -> Generator[None]:
        """Let a method fail for a block, while `armed`.

        Args:
            owner: The class.
            name: The method.
            belongs: Whether a call of it is one that fails, by its positional arguments.
        """
        function: Callable[..., Any] = inspect.getattr_static(owner, name)

        def fail(arguments: tuple[Any, ...]) -> None:
            if self.armed and belongs(arguments):
                self.met += 1
                raise self._error()

        async def call_later(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            await anyio.lowlevel.checkpoint()
            fail(arguments)
            return await function(*arguments, **named)

        def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            fail(arguments)
            return function(*arguments, **named)

        is_async = inspect.iscoroutinefunction(function)
        with mock.patch.object(owner, name, call_later if is_async else call):
            yield
