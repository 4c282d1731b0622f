"""Gateways that share a database, as processes: written to at any of them, and killed.

`World` has the nodes, `Talk` the people. `audit` holds what people were told against the logs.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
import httpx2
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec import Struct, field
from support.database import Server
from support.patience import WAIT_S
from support.ports import free_port
from support.process import AGENT, GatewayProcess, gateway_process

PATIENCE_S: Final = WAIT_S
"How long a person tries one message, at one node after the other."
_SECRET: Final = "a secret of all the nodes"


class Node(Struct, kw_only=True):
    """One gateway; its process comes and goes, its address stays."""

    name: str
    folder: Path
    url: str
    process: GatewayProcess | None = None
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start(self) -> None:
        """Start it; ready when this returns."""
        self.stack = AsyncExitStack()
        running = gateway_process(self.folder)
        self.process = await self.stack.enter_async_context(running)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.process is not None
        self.process.process.send_signal(number)

    async def end(self, number: signal.Signals) -> int:
        """Send it a signal that ends it; return its exit code."""
        self.send(number)
        assert self.process is not None
        code = await self.process.process.wait()
        self.process = None
        await self.stack.aclose()
        return code


class Places(Struct, frozen=True, kw_only=True):
    """How a node is reached, and reaches the database."""

    database: str
    listen: str
    advertise: str = ""
    "What others are told; empty = `listen`."


class World(Struct, kw_only=True):
    """Nodes that share a database."""

    nodes: dict[str, Node]
    server: Server


@asynccontextmanager
async def open_world(
    folder: Path,
    server: Server,
    model_url: str,
    *names: str,
    more: str = "",
    places: Mapping[str, Places] | None = None,
) -> AsyncGenerator[World]:
    """Start nodes on one database; they are gone when the block ends.

    Args:
        folder: For their files.
        server: The database.
        model_url: Of the model that all agents ask.
        names: Of the nodes.
        more: Lines for each `everturn.yaml`.
        places: By node: how it reaches the database, and others reach it; by default directly.
    """
    direct = {name: Places(database=server.url(), listen=f"{folder / name}/link") for name in names}
    found = {**direct, **(places or {})}
    nodes = {name: _write(folder, found[name], model_url, name, more) for name in names}
    try:
        async with anyio.create_task_group() as tasks:
            for node in nodes.values():
                tasks.start_soon(node.start)
        yield World(nodes=nodes, server=server)
    finally:
        for node in nodes.values():
            if node.process is not None:
                node.process.process.kill()
                await node.stack.aclose()


def _write(folder: Path, places: Places, model_url: str, name: str, more: str) -> Node:
    own = folder / name
    agent = own / "agents" / "helper"
    agent.mkdir(parents=True)
    (agent / "agent.yaml").write_text(AGENT.format(url=model_url))
    port = free_port()
    (own / "everturn.yaml").write_text(
        f"server: {{port: {port}, stop_timeout_seconds: 20}}\n"
        f'store: {{type: postgres, url: "{places.database}", connections: 3}}\n'
        f"cluster: {{node: {name}, listen: {places.listen},"
        f" advertise: {places.advertise or places.listen}, secret: {_SECRET}}}\n{more}"
    )
    return Node(name=name, folder=own, url=f"http://127.0.0.1:{port}")


class Told(Struct, frozen=True, kw_only=True):
    """A message that was answered."""

    session: str
    key: str
    text: str
    answer: str
    took_s: float
    ended_at_s: float
    tries: int


class Talk(Struct, kw_only=True):
    """People who write to any node, and to another one where it does not answer."""

    world: World
    chance: random.Random
    told: list[Told] = field(default_factory=list[Told])
    is_over: bool = False
    "Whether those who write without end stop."
    news: anyio.Event = field(default_factory=anyio.Event)
    errors: dict[str, int] = field(default_factory=dict[str, int])
    "By what was answered in place of an answer."
    unforeseen: list[str] = field(default_factory=list[str])
    "Answers with a 500, which nobody may get for what happens to nodes: the node, and the text."
    asked: dict[str, tuple[str, str, float]] = field(
        default_factory=dict[str, tuple[str, str, float]]
    )
    "By key, of those who wait: the path, the node that is asked, and since when."
    on_unanswered: Callable[[str, str], Awaitable[None]] | None = None
    "Is told the path and the key of what nobody answered; it is tried again then. None = it fails."

    async def until_told(self, count: int) -> None:
        """Wait until so many more messages were answered."""
        goal = len(self.told) + count
        while len(self.told) < goal:
            await self.news.wait()

    async def converse(self, number: int, messages: int | None, twice: float = 0.05) -> None:
        """Say so many things in a session of its own, one by one; None = until it is over."""
        async with AsyncExitStack() as stack:
            clients = {
                name: await stack.enter_async_context(
                    httpx2.AsyncClient(base_url=node.url, timeout=PATIENCE_S, verify=False)
                )
                for name, node in self.world.nodes.items()
            }
            begun = await self._post(
                clients, "/api/v1/sessions", {"agent": "helper"}, f"begin-{number}"
            )
            session = str(begun.json()["id"])
            for place in count() if messages is None else range(messages):
                if self.is_over:
                    break
                await self._say(clients, session, f"{number}-{place}", twice=twice)

    async def _say(
        self, clients: dict[str, httpx2.AsyncClient], session: str, key: str, *, twice: float
    ) -> None:
        began_s, text = anyio.current_time(), f"message {key}"
        path, body = f"/api/v1/sessions/{session}/messages", {"content": text}
        answers: list[str] = []
        tries = 0

        async def post() -> None:
            nonlocal tries
            response = await self._post(clients, path, body, key)
            tries += int(response.headers.get("x-tries", "1"))
            answers.append(str(response.json()["content"]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post)
            if self.chance.random() < twice:  # a client that does not wait for its own answer
                tasks.start_soon(post)
        assert len(set(answers)) == 1, answers
        now_s = anyio.current_time()
        self.told.append(
            Told(
                session=session,
                key=key,
                text=text,
                answer=answers[0],
                took_s=now_s - began_s,
                ended_at_s=now_s,
                tries=tries,
            )
        )
        news, self.news = self.news, anyio.Event()
        news.set()

    async def _post(
        self, clients: dict[str, httpx2.AsyncClient], path: str, body: object, key: str
    ) -> httpx2.Response:
        """Post at one node after the other until one answers as it should."""
        try:
            while True:
                try:
                    with anyio.fail_after(PATIENCE_S):
                        return await self._try(clients, path, body, key)
                except TimeoutError:
                    if self.on_unanswered is None:
                        raise
                    self._count(f"nothing within {PATIENCE_S:g} s")
                    await self.on_unanswered(path, key)
        finally:
            self.asked.pop(key, None)

    async def _try(
        self, clients: dict[str, httpx2.AsyncClient], path: str, body: object, key: str
    ) -> httpx2.Response:
        while True:
            name = self.chance.choice(list(clients))
            self.asked[key] = (path, name, anyio.current_time())
            try:
                response = await clients[name].post(
                    path, json=body, headers={"Idempotency-Key": key}
                )
            except httpx2.TransportError as error:
                self._count(f"{type(error).__name__}")
            else:
                if response.is_success:
                    return response
                self._count(f"{response.status_code} {response.json().get('type', '')}")
                if response.status_code == httpx2.codes.INTERNAL_SERVER_ERROR:
                    self.unforeseen.append(f"{name}: {response.text}")
            await anyio.sleep(0.05)

    def _count(self, what: str) -> None:
        self.errors[what] = self.errors.get(what, 0) + 1


class Audit(Struct, frozen=True, kw_only=True):
    """What the logs say of what people were told."""

    turns: int
    sessions: int
    faults: tuple[str, ...]


async def audit(talk: Talk) -> Audit:
    """Hold all that was told against the database.

    Each message stands in its log once and in order, is answered once, with what its sender was
    told; no log has a hole.
    """
    lines = await to_thread.run_sync(
        talk.world.server.psql,
        "SELECT session || ' ' || convert_from(line, 'UTF8') FROM everturn.event"
        " ORDER BY session, seq",
    )
    logs: dict[str, list[dict[str, Any]]] = {}
    for line in lines.splitlines():
        session, _, record = line.partition(" ")
        if record:
            logs.setdefault(session, []).append(json.loads(record))
    faults: list[str] = []
    told: dict[str, list[Told]] = {}
    for each in talk.told:
        told.setdefault(each.session, []).append(each)
    for session, messages in told.items():
        faults += [f"{session}: {each}" for each in _wrong(logs.get(session, []), messages)]
    return Audit(turns=len(talk.told), sessions=len(told), faults=tuple(faults))


def _wrong(log: Sequence[dict[str, Any]], told: Sequence[Told]) -> list[str]:
    found: list[str] = []
    if [event["seq"] for event in log] != [*range(1, len(log) + 1)]:
        found.append("a hole in the numbers")
    keys = [event["idempotency_key"] for event in log if event["type"] == "received"]
    if keys != [each.key for each in told]:
        found.append(f"keys {keys} in the log, {[each.key for each in told]} were acknowledged")
    ends = [event for event in log if event["type"] == "turn_finished"]
    if len(ends) != len(told) or any(end["outcome"] != "answered" for end in ends):
        found.append(f"{len(told)} messages, and ends {ends}")
    replies = [event["text"] for event in log if event["type"] == "model_replied"]
    if replies != [each.answer for each in told]:
        found.append(f"replies {replies} in the log, {[each.answer for each in told]} were told")
    return found


async def talking(talk: Talk, tasks: TaskGroup, people: int, messages: int | None) -> None:
    """Let people begin to write; see `Talk.converse`."""
    for number in range(people):
        tasks.start_soon(talk.converse, number, messages)
