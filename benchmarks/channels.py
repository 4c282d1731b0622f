"""A busy Telegram bot: many chats at once, each answered in its order, and the memory after.

.venv/bin/python benchmarks/channels.py [--messages 1000] [--chats 200] [--delay-ms 50]

The Bot API is the loopback one of the tests; the model repeats what it is told. Every message is a
turn of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager

from aiohttp import web
from harness import AGENT, ROOT, Running, gateway, show, workspace

sys.path.insert(0, str(ROOT / "tests"))

from support.telegram_api import TOKEN, TelegramApi, open_telegram_api

ACCESS = """\
  access:
    dm:
      policy: open
      queue: {mode: sequential, max_pending: 100, debounce: {enabled: false}}
"""
CHANNELS = """\
server: {{port: 0}}
sessions: {{passivate_after_seconds: 1}}
channels:
  telegram: {{bot_token: "${{BENCH_TOKEN}}", api_base: "{url}", streaming: {streaming}}}
"""
WAIT_S = 300
QUIET_S = 5.0  # memory is looked at so long after the last answer: then sessions rest


def echo(delay_s: float) -> web.Application:
    """Return a model API that repeats the newest message."""

    async def complete(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        said = [m["content"] for m in asked["messages"] if m["role"] == "user"][-1]
        text = said if isinstance(said, str) else said[-1]["text"]
        await asyncio.sleep(delay_s)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        base = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
        for delta, reason in (({"role": "assistant", "content": text}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            await response.write(
                b"data: %b\n\n" % json.dumps({**base, "choices": [choice]}).encode()
            )
        await response.write(b"data: [DONE]\n\n")
        return response

    application = web.Application()
    application.router.add_post("/v1/chat/completions", complete)
    return application


async def run_model(delay_s: float) -> tuple[web.AppRunner, str]:
    """Start the model API; return it and its URL."""
    runner = web.AppRunner(echo(delay_s), access_log=None)
    await runner.setup()
    environment = web.TCPSite(runner, "127.0.0.1", 0)
    await environment.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"


def answers(telegram: TelegramApi) -> dict[int, list[str]]:
    """Return what each chat was told, in order."""
    told: dict[int, list[str]] = defaultdict(list)
    for call in telegram.sent("sendMessage"):
        told[int(call.params["chat_id"])].append(call.result["text"])
    return told


@asynccontextmanager
async def in_thread(opened: AbstractContextManager[Running]) -> AsyncGenerator[Running]:
    """Open and close something slow while the loopback servers go on."""
    running = await asyncio.to_thread(opened.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(opened.__exit__, None, None, None)


async def until(is_so: Callable[[], object], what: str) -> None:
    """Wait until something is so."""
    end = time.perf_counter() + WAIT_S
    while not is_so():
        if time.perf_counter() > end:
            message = f"waited in vain for {what}"
            raise SystemExit(message)
        await asyncio.sleep(0.02)


async def load(
    telegram: TelegramApi, running: Running, messages: int, chats: int, first: int
) -> tuple[float, float]:
    """Send messages to all chats; return the seconds until all were answered, and of CPU."""
    told = len(telegram.sent("sendMessage"))
    cpu, began = running.cpu_s(), time.perf_counter()
    for number in range(messages):
        telegram.say(f"message {first + number // chats}", chat=2000 + number % chats)
    await until(lambda: len(telegram.sent("sendMessage")) >= told + messages, "answers")
    took = time.perf_counter() - began
    await asyncio.sleep(QUIET_S)
    return took, running.cpu_s() - cpu


async def measure(arguments: argparse.Namespace, *, streaming: bool) -> list[object]:
    """Run one gateway under load; return a row of the table."""
    model, model_url = await run_model(arguments.delay_ms / 1000)
    async with open_telegram_api() as telegram:
        with workspace(model_url) as folder:
            agent = folder / "agents" / "bench" / "agent.yaml"
            agent.write_text(AGENT.format(url=model_url, compaction="archive") + ACCESS)
            settings = CHANNELS.format(url=telegram.url, streaming=str(streaming).lower())
            (folder / "everturn.yaml").write_text(settings)
            os.environ["BENCH_TOKEN"] = TOKEN
            async with in_thread(gateway(folder)) as running:
                row = await under_load(telegram, running, arguments, streaming=streaming)
    await model.cleanup()
    return row


async def under_load(
    telegram: TelegramApi, running: Running, arguments: argparse.Namespace, *, streaming: bool
) -> list[object]:
    """Load the gateway twice; return a row of the table."""
    await until(lambda: telegram.asked("getUpdates") and telegram.has_poll, "the first poll")
    messages, chats = arguments.messages, arguments.chats
    idle = running.memory_mb()
    took, cpu = await load(telegram, running, messages, chats, 0)
    once = running.memory_mb()
    await load(telegram, running, messages, chats, messages // chats)
    twice = running.memory_mb()
    told = answers(telegram)
    per_chat = 2 * messages // chats
    expected = [f"message {number}" for number in range(per_chat)]
    lost = sum(len(set(expected) - set(texts)) for texts in told.values())
    repeated = sum(len(texts) - len(set(texts)) for texts in told.values())
    disordered = sum(texts != expected for texts in told.values()) if not lost + repeated else "-"
    return [
        "on" if streaming else "off",
        messages / took,
        cpu * 1000 / messages,
        len(told),
        lost,
        repeated,
        disordered,
        idle,
        once,
        twice,
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--chats", type=int, default=200)
    parser.add_argument("--delay-ms", type=float, default=50)
    arguments = parser.parse_args()
    rows = [asyncio.run(measure(arguments, streaming=each)) for each in (False, True)]
    show(
        f"{arguments.messages:,} messages over {arguments.chats} chats, twice;"
        f" model at {arguments.delay_ms:g} ms",
        (
            "streaming",
            "a second",
            "CPU ms",
            "chats",
            "lost",
            "twice",
            "unordered",
            "idle MB",
            "after",
            "after 2",
        ),
        rows,
    )


if __name__ == "__main__":
    main()
