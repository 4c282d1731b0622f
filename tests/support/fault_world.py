"""A whole gateway in this process, with two channels and two agents, in which any part can fail.

Everything in it is what `everturn serve` runs, but for the outermost edges: the model echoes, the
bots are fed by a test, and the clock goes faster.
"""

from __future__ import annotations

import inspect
import json
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import anyio.to_thread
import httpx2
from support.feeding_adapter import FeedingAdapter
from support.inbound_events import ANN
from support.patience import WAIT_S
from support.scripted_adapter import capabilities

from everturn_actors.events import Discarded, Received, Steered, TurnFinished, TurnStarted
from everturn_actors.model import (
    ConversationKey,
    IncomingMessage,
    ModelRequest,
    Reply,
    ToolCall,
    Usage,
    UserMessage,
)
from everturn_actors.service import TurnResult
from everturn_channels.adapter import ChatRef, Message
from everturn_gateway.app import Gateway, composition, open_gateway
from everturn_gateway.channels import bots
from everturn_gateway.config.channels import ChannelConfig
from everturn_gateway.config.settings import load_config
from everturn_gateway.http.asgi import create_app
from everturn_gateway.providers.catalog import Providers
from everturn_gateway.tools.mcp import connection
from everturn_gateway.tools.mcp.listing import Listing, RemoteDefinition
from everturn_gateway.tools.mcp.results import Answer

NUMBERS = count(1)
ABLE = capabilities(chunk_units=4000, typing_s=4)
RATE = 50  # seconds of the gateway's clock in one second
CONFIG = """\
workspace: workspace
agents_dir: agents
sessions: {passivate_after_seconds: 0.02}
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
  tools: [{tools}]
  access:
    dm: {{policy: open, queue: {{debounce: {{enabled: false}}}}}}
"""


POLICY = "apiVersion: duragent/v1alpha1\nkind: Policy\nmode: dangerous\n"
TOOLS = """\
{type: builtin, name: background_process},
{type: mcp, name: wiki, url: "http://127.0.0.1:9/"}"""
"What the victim has besides its memory."
CALLS = {
    "note it": ("remember", '{"content": "it"}'),
    "spawn it": ("background_process", '{"action": "spawn", "command": "sleep 0.5"}'),
    "run it": ("background_process", '{"action": "spawn", "command": "true"}'),
    "look it up": ("wiki_look_up", "{}"),
}
"What the model calls where it is asked to."

HELD = set[str]()
"Messages that the model does not answer the first time."

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
    """A model that repeats what it was told, and calls a tool where it is asked to."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Answer."""
        users = [m for m in request.messages if isinstance(m, UserMessage)]
        text = users[-1].text
        if text in CALLS and request.messages[-1] is users[-1]:
            name, arguments = CALLS[text]
            call = ToolCall(call_id="c1", name=name, arguments=arguments)
            return Reply(calls=(call,), stop_reason="tool_calls")
        if text in HELD:
            HELD.discard(text)
            await anyio.sleep_forever()
        if text.startswith("slowly"):
            for word in ("re ", "slowly", " and"):
                on_text(word)
                await QuickClock().sleep(2 * (ABLE.preview_s or 1))
        on_text(f"re {text}".removeprefix("re slowly and"))
        usage = Usage(input_tokens=1000 + len(request.messages) * 100, output_tokens=10)
        return Reply(text=f"re {text}", stop_reason="stop", usage=usage)


class Wiki:
    """A connection to an MCP server whose one tool returns a long text."""

    protocol, why, words = "1", "", ""

    async def listing(self) -> Listing:
        """Return its tool."""
        await anyio.lowlevel.checkpoint()
        return Listing(tools=(RemoteDefinition(name="look_up"),))

    async def call(self, _name: str, _arguments: dict[str, Any], **_more: object) -> Answer:
        """Return the text."""
        await anyio.lowlevel.checkpoint()
        return Answer(text="a long entry\n" * 20_000)

    async def ping(self) -> None:
        """Be there."""
        await anyio.lowlevel.checkpoint()

    async def watch(self, _on_change: Callable[[], None]) -> None:
        """Tell of no change."""
        await anyio.sleep_forever()

    def cut(self) -> None:
        """Have nothing to send."""


@asynccontextmanager
async def open_wiki(*_settings: object, **_callbacks: object) -> AsyncGenerator[Wiki]:
    """Connect to the server."""
    await anyio.lowlevel.checkpoint()
    yield Wiki()


async def find_wiki() -> Any:
    """Return what opens a connection to the server."""
    await anyio.lowlevel.checkpoint()
    return open_wiki


@dataclass
class World:
    """The gateway, and what people of it see."""

    gateway: Gateway
    folder: Path
    adapters: dict[str, FeedingAdapter]
    http: httpx2.AsyncClient
    numbers: Iterator[int]
    "Ids of messages, over restarts."
    victim: str = ""
    "The session that the victim has on no channel."
    read: dict[str, str] = field(default_factory=dict)
    "By channel: what its adapter has read last."

    def key(self, agent: str, chat: str = "direct") -> ConversationKey:
        """Return a conversation that is on no channel."""
        return ConversationKey(channel="test", chat=chat, agent=agent)

    async def say(self, agent: str, text: str, *, chat: str = "direct") -> TurnResult:
        """Say something in a conversation on no channel, and return the answer."""
        with anyio.fail_after(WAIT_S):
            inbound = IncomingMessage(text=text, key=self.key(agent, chat))
            return await (await self.gateway.service.submit(inbound)).result()

    async def post(self, text: str, **more: object) -> object:
        """Say something to the victim over HTTP, and return the answer or the problem."""
        path = f"/api/v1/sessions/{self.victim}/messages"
        answer = await self.http.post(path, json={"content": text, **more})
        document = answer.json()
        assert answer.is_success or document["detail"], document
        return document

    async def write(self, channel: str, text: str) -> None:
        """Let somebody write on a channel; return when the adapter has confirmed it."""
        adapter, number = self.adapters[channel], str(next(self.numbers))
        with anyio.fail_after(WAIT_S):
            await adapter.feed(
                Message(
                    id=number,
                    chat=ChatRef(id="7"),
                    sender=ANN,
                    text=text,
                    at=self.gateway.started_at + timedelta(days=1),
                )
            )
            self.read[channel] = number
            await (await adapter.handler()).keep_cursor("read", number)

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
        for row in await self.gateway.service.reader.sessions(limit=200):
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
        await self.until_passive()

    async def leave_open(self, text: str) -> None:
        """Say something to the victim whose turn is open when the gateway stops."""
        HELD.add(text)
        await self.gateway.service.submit(IncomingMessage(text=text, key=self.key("victim")))
        with anyio.fail_after(WAIT_S):
            await until(lambda: text not in HELD)

    async def until_passive(self) -> None:
        """Wait until no session is in memory."""
        with anyio.fail_after(WAIT_S):
            while (await self.gateway.service.activity.load()).active:
                await pause()

    async def until_answered(self) -> None:
        """Wait until every message that was accepted is answered, once."""
        with anyio.fail_after(WAIT_S):
            while await self.unanswered():
                await pause()

    async def until_told(self) -> None:
        """Wait until the end of every process was told, and the disk knows it."""
        folder = self.folder / "workspace" / "processes"
        with anyio.fail_after(WAIT_S):
            await until(
                lambda: all(
                    json.loads(each.read_bytes())["told"] for each in folder.glob("*/record.json")
                )
            )

    async def until_kept(self, channel: str) -> None:
        """Wait until the disk knows how far a channel has read."""
        file = self.folder / "workspace" / "channels" / f"{channel}.json"
        with anyio.fail_after(WAIT_S):
            await until(
                lambda: (
                    file.exists()
                    and json.loads(file.read_bytes())["cursors"]["read"] == self.read[channel]
                )
            )


async def pause() -> None:
    """Give the others time."""
    await anyio.sleep(0.01)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    while not is_so():
        await pause()


def write_folder(folder: Path) -> None:
    """Write the configuration and the agents, of whom nothing is known yet."""
    VICTIMS.clear()
    (folder / "everturn.yaml").write_text(CONFIG)
    for name, tools in (("victim", TOOLS), ("other", "")):
        file = folder / "agents" / name / "agent.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(AGENT.format(name=name, tools=tools))
        file.with_name("policy.yaml").write_text(POLICY)


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

    def read() -> Any:
        return load_config(folder / "everturn.yaml", environ={})

    with (
        mock.patch.object(bots, "make_adapter", make_adapter),
        mock.patch.object(composition, "SystemClock", QuickClock),
        mock.patch.object(composition, "DRAIN_SHARE", 0.002),  # a turn that is held never ends
        mock.patch.object(connection, "protocol", find_wiki),
        mock.patch.object(Providers, "make", return_value=Echo()),
    ):
        config = await anyio.to_thread.run_sync(read)
        async with open_gateway(config, environ={"PATH": os.environ["PATH"]}) as gateway:
            transport = httpx2.ASGITransport(app=create_app(gateway), raise_app_exceptions=False)
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                with anyio.fail_after(WAIT_S):
                    await until(lambda: len(bots_here) == 2)
                yield World(gateway, folder, bots_here, http, NUMBERS)


class Fault:
    """A part that fails whenever it is called for what the fault belongs to."""

    def __init__(self) -> None:
        self._error: Callable[[], BaseException] | None = None
        self._met = 0

    def arm(self, error: Callable[[], BaseException]) -> None:
        """Let it fail from now on, in this way."""
        self._error, self._met = error, 0

    def disarm(self) -> None:
        """Let it work again."""
        self._error = None

    def was_met(self) -> bool:
        """Whether it failed since it was armed."""
        return self._met > 0

    @contextmanager
    def at(
        self, owner: object, name: str, belongs: Callable[[tuple[Any, ...]], bool]
    ) -> Generator[None]:
        """Let a method fail in a block, while it is armed.

        Args:
            owner: The class.
            name: The method.
            belongs: Whether a call of it is one that fails, by its positional arguments.
        """
        function: Callable[..., Any] = inspect.getattr_static(owner, name)

        def fail(arguments: tuple[Any, ...]) -> None:
            if self._error is not None and belongs(arguments):
                self._met += 1
                raise self._error()

        async def call_later(*arguments: Any, **named: Any) -> Any:
            await anyio.lowlevel.checkpoint()
            fail(arguments)
            return await function(*arguments, **named)

        def call(*arguments: Any, **named: Any) -> Any:
            fail(arguments)
            return function(*arguments, **named)

        is_async = inspect.iscoroutinefunction(function)
        with mock.patch.object(owner, name, call_later if is_async else call):
            yield
