"""The model is away for minutes and the gateway is killed meanwhile: is everybody answered, once?

.venv/bin/python benchmarks/outage.py [--seconds 600] [--conversations 50] [--patience 240]

Half of the conversations are chats on Telegram, the other half clients that post and wait, with an
idempotency key, as often as it takes. All have an answer first. Then nothing listens any more where
the model was, everybody writes, the gateway is killed (SIGKILL) in the middle of the outage and
started again, and the model comes back at its end. The exit code is 1 where somebody was not
answered, or twice, or was not told of the outage exactly once.

The Bot API is the loopback one of the tests; the model repeats what it is told.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import anyio
from aiohttp import web
from anyio import to_thread
from channels import ACCESS, echo, in_thread, until
from harness import AGENT, Running, gateway, show, workspace
from soak_gateway import free_port
from support.telegram_api import TOKEN, TelegramApi, serve_telegram_api

from everturn_actors.events import OUTAGE_LINE

CONFIG: Final = """\
server: {{port: {port}}}
channels:
  telegram: {{bot_token: "${{BENCH_TOKEN}}", api_base: "{url}", streaming: false}}
"""
FIRST, SECOND = "message one", "message two"
FIRST_CHAT: Final = 3000
SPREAD_S: Final = 3.0  # in which everybody writes
QUIET_S: Final = 5.0
LABEL: Final = "(This may be a repeat.)\n"
_GONE: Final = (aiohttp.ClientError, TimeoutError, ConnectionError)


@dataclass(slots=True, kw_only=True)
class Client:
    """A client over HTTP, which knows its conversation by its name."""

    name: str
    url: str
    http: aiohttp.ClientSession
    session_id: str = ""
    answers: dict[str, str] = field(default_factory=dict[str, str])

    async def begin(self) -> None:
        """Find the conversation."""
        body = {"agent": "bench", "chat": self.name}
        async with self.http.post(f"{self.url}/api/v1/sessions", json=body) as response:
            self.session_id = (await response.json())["id"]

    async def say(self, text: str) -> None:
        """Post a message, and again with its key, until there is an answer."""
        path = f"{self.url}/api/v1/sessions/{self.session_id}/messages"
        while True:
            try:
                async with self.http.post(
                    path, json={"content": text}, headers={"Idempotency-Key": text}
                ) as response:
                    told = await response.json()
                    if response.status not in {503, 504}:
                        self.answers[text] = str(told.get("content", told))
                        return
            except _GONE:
                pass  # the gateway is away
            await anyio.sleep(0.5)


@asynccontextmanager
async def model_at(port: int) -> AsyncGenerator[None]:
    """Serve the model while the block runs; nothing listens there before and after."""
    runner = web.AppRunner(echo(0.05), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
    try:
        yield
    finally:
        await runner.cleanup()


def said(telegram: TelegramApi) -> dict[int, Counter[str]]:
    """Return what each chat was told, labels left out."""
    told: dict[int, Counter[str]] = {}
    for (chat, _), message in telegram.messages.items():
        if message["from"]["is_bot"]:
            text = str(message.get("text", "")).removeprefix(LABEL)
            told.setdefault(chat, Counter())[text] += 1
    return told


def logs(folder: Path) -> list[list[dict[str, Any]]]:
    """Return the events of every session, archived ones included."""
    found: list[list[dict[str, Any]]] = []
    for session in sorted((folder / ".everturn" / "sessions").iterdir()):
        lines = [
            line
            for name in ("events.archive.jsonl", "events.jsonl")
            if (session / name).exists()
            for line in (session / name).read_text().splitlines()
        ]
        found.append([*{each["seq"]: each for each in map(json.loads, lines)}.values()])
    return found


def audit(folder: Path, telegram: TelegramApi, chats: int, clients: list[Client]) -> Counter[str]:
    """Return how often what went wrong."""
    faults: Counter[str] = Counter()
    told = said(telegram)
    for chat in range(FIRST_CHAT, FIRST_CHAT + chats):
        texts = told.get(chat, Counter())
        faults["not answered"] += sum(not texts[text] for text in (FIRST, SECOND))
        faults["answered twice"] += sum(texts[text] > 1 for text in (FIRST, SECOND))
        faults["not told of the outage"] += not texts[OUTAGE_LINE]
        faults["told more than once"] += texts[OUTAGE_LINE] > 1
        faults["told something else"] += len(texts.keys() - {FIRST, SECOND, OUTAGE_LINE})
    for client in clients:
        faults["not answered"] += sum(text not in client.answers for text in (FIRST, SECOND))
        faults["told something else"] += sum(t != a for t, a in client.answers.items())
    sessions = logs(folder)
    faults["conversations missing or doubled"] += abs(len(sessions) - chats - len(clients))
    for events in sessions:
        kinds = Counter(event["type"] for event in events)
        ends = [event["outcome"] for event in events if event["type"] == "turn_finished"]
        notices = sum(bool(event.get("tells")) for event in events)
        faults["turns that were not answered"] += sum(end != "answered" for end in ends)
        faults["messages read twice or never"] += abs(kinds["received"] - 2)
        faults["replies in a log, not two"] += abs(kinds["model_replied"] - 2)
        faults["notices in a log, not one"] += abs(notices - 1)
    return +faults


async def everybody_says(
    text: str, telegram: TelegramApi, chats: int, clients: list[Client]
) -> None:
    """Let all write, one after the other; return when all clients over HTTP have their answer."""
    pause_s = SPREAD_S / max(chats, len(clients))
    async with anyio.create_task_group() as posts:
        for number in range(max(chats, len(clients))):
            if number < chats:
                telegram.say(text, chat=FIRST_CHAT + number)
            if number < len(clients):
                posts.start_soon(clients[number].say, text)
            await anyio.sleep(pause_s)


async def until_answered(
    text: str, telegram: TelegramApi, chats: int, clients: list[Client], patience_s: float
) -> float:
    """Wait until everybody has an answer, or too long; return how long that took."""
    began = time.perf_counter()
    with anyio.move_on_after(patience_s):
        while True:
            told = sum(texts[text] > 0 for texts in said(telegram).values())
            if told == chats and all(text in client.answers for client in clients):
                break
            await anyio.sleep(0.2)
    return time.perf_counter() - began


def kill(running: Running) -> None:
    """End a gateway at once, whatever it does."""
    running.process.kill()
    running.process.wait()


def write_workspace(folder: Path, model_url: str, telegram_url: str, port: int) -> None:
    """Set a gateway up with one bot, at a port that it keeps."""
    agent = folder / "agents" / "bench" / "agent.yaml"
    agent.write_text(AGENT.format(url=model_url, compaction="archive") + ACCESS)
    (folder / "everturn.yaml").write_text(CONFIG.format(port=port, url=telegram_url))
    os.environ["BENCH_TOKEN"] = TOKEN


async def go_through(
    folder: Path,
    model_port: int,
    telegram: TelegramApi,
    clients: list[Client],
    arguments: argparse.Namespace,
) -> float:
    """Talk, lose the model and the gateway, get both back; return when the last was answered."""
    chats, patience_s = arguments.conversations // 2, arguments.patience
    async with anyio.create_task_group() as people:

        def write(text: str) -> None:
            people.start_soon(everybody_says, text, telegram, chats, clients)

        async with in_thread(gateway(folder)) as running:
            await until(lambda: telegram.has_poll, "the first poll")
            async with model_at(model_port):
                for client in clients:
                    await client.begin()
                write(FIRST)
                await until_answered(FIRST, telegram, chats, clients, patience_s)
            began = time.perf_counter()
            write(SECOND)
            await anyio.sleep(arguments.seconds / 2)
            await to_thread.run_sync(kill, running)
        async with in_thread(gateway(folder)):
            await anyio.sleep(max(began + arguments.seconds - time.perf_counter(), 0))
            async with model_at(model_port):
                last_s = await until_answered(SECOND, telegram, chats, clients, patience_s)
                await anyio.sleep(QUIET_S)  # what should not come would come now
        people.cancel_scope.cancel()
    return last_s


async def measure(arguments: argparse.Namespace) -> tuple[list[object], Counter[str]]:
    """Run all of it; return the row of the table, and what went wrong."""
    chats = arguments.conversations // 2
    model_port, port = free_port(), free_port()
    model_url = f"http://127.0.0.1:{model_port}/v1"
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        serve_telegram_api(TelegramApi()) as telegram,
        aiohttp.ClientSession(connector=connector, timeout=timeout) as http,
    ):
        with workspace(model_url) as folder:
            write_workspace(folder, model_url, telegram.url, port)
            names = [f"client-{number}" for number in range(arguments.conversations - chats)]
            url = f"http://127.0.0.1:{port}"
            clients = [Client(name=name, url=url, http=http) for name in names]
            last_s = await go_through(folder, model_port, telegram, clients, arguments)
            faults = await to_thread.run_sync(audit, folder, telegram, chats, clients)
            tries = [sum(e["type"] == "model_call_failed" for e in log) for log in logs(folder)]
    row: list[object] = [
        arguments.conversations,
        f"{arguments.seconds:g} s",
        max(tries, default=0),
        last_s,
        sum(faults.values()),
    ]
    return row, faults


def main() -> int:
    """Print the table and the faults; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600, help="of the outage")
    parser.add_argument("--conversations", type=int, default=50)
    parser.add_argument("--patience", type=float, default=240, help="seconds after the outage")
    row, faults = anyio.run(measure, parser.parse_args())
    show(
        "A model that is away, and a gateway that is killed meanwhile",
        ("conversations", "outage", "most tries logged", "last answer after s", "faults"),
        [row],
    )
    for what, times in sorted(faults.items()):
        print(f"{what}: {times}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
