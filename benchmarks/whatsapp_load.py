"""A busy WhatsApp number beside a busy Telegram bot, and one that is killed while it is busy.

.venv/bin/python benchmarks/whatsapp_load.py [--messages 1000] [--chats 200] [--kills 5]

The Cloud API and the Bot API are the loopback ones of the tests; the model repeats what it is told.
Every message is a turn of its own. `twice` are those that came again without saying so; Meta
delivers in no order what it could not deliver, so that of a killed gateway is not that of writing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import channels
import httpx2
from channels import ACCESS, in_thread, until
from harness import AGENT, ROOT, gateway, workspace
from matrix_load import compare, read_arguments

sys.path.insert(0, str(ROOT / "tests"))

from support.process import gateway_process
from support.whatsapp_api import (
    APP_SECRET,
    NUMBER_ID,
    TOKEN,
    VERIFY_TOKEN,
    WhatsAppApi,
    open_whatsapp_api,
)

CHANNEL = """\
server: {{port: 0}}
sessions: {{passivate_after_seconds: 1}}
channels:
  whatsapp:
    phone_number_id: "{number}"
    token: {token}
    app_secret: {secret}
    verify_token: {verify}
    api_base: "{url}/v25.0"
"""
REPEAT = "(This may be a repeat.)\n"


@asynccontextmanager
async def delivering(api: WhatsAppApi, url: str) -> AsyncGenerator[None]:
    """Let Meta deliver to a gateway while the block runs."""
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:

        async def deliver(headers: Mapping[str, str], body: bytes) -> int:
            path = "/channels/whatsapp/webhook"
            try:
                answer = await client.post(path, content=body, headers=dict(headers))
            except httpx2.HTTPError:
                return 0
            return answer.status_code

        api.deliver = deliver
        try:
            yield
        finally:
            api.deliver = None


def people(chats: int) -> list[str]:
    """Return the numbers of those who write."""
    return [f"4915{number:08d}" for number in range(chats)]


def count(api: WhatsAppApi) -> int:
    """Return how many answers there are, each counted once."""
    return len({(each["to"], each["text"]["body"].removeprefix(REPEAT)) for each in api.sent})


def faults(api: WhatsAppApi, chats: int, messages: int) -> list[object]:
    """Return how many answers are lost, came twice unsaid, and how many chats are out of order."""
    expected = [f"message {number}" for number in range(messages // chats)]
    told: dict[str, list[str]] = {chat: [] for chat in people(chats)}
    for each in api.sent:
        told[each["to"]].append(each["text"]["body"])
    lost = doubled = unordered = 0
    for texts in told.values():
        plain = [text for text in texts if not text.startswith(REPEAT)]
        order = list(dict.fromkeys(text.removeprefix(REPEAT) for text in texts))
        lost += len(set(expected) - set(order))
        doubled += len(plain) - len(set(plain))
        unordered += order != expected
    return [lost, doubled, unordered]


def prepare(folder: Path, model_url: str, api: WhatsAppApi) -> None:
    """Write the workspace."""
    agent = folder / "agents" / "bench" / "agent.yaml"
    agent.write_text(AGENT.format(url=model_url, compaction="archive") + ACCESS)
    text = CHANNEL.format(
        url=api.url, number=NUMBER_ID, token=TOKEN, secret=APP_SECRET, verify=VERIFY_TOKEN
    )
    (folder / "everturn.yaml").write_text(text)


async def write(api: WhatsAppApi, chats: int, begin: int, end: int) -> None:
    """Have people write those of the messages."""
    who = people(chats)
    for number in range(begin, end):
        await api.say(f"message {number // chats}", who[number % chats])


async def load(arguments: argparse.Namespace, model_url: str) -> list[object]:
    """Run a gateway under load; return a row of the table."""
    async with open_whatsapp_api() as api:
        chats, messages = arguments.chats, arguments.messages
        with workspace(model_url) as folder:
            prepare(folder, model_url, api)
            async with in_thread(gateway(folder)) as running, delivering(api, running.url):
                await until(lambda: api.calls, "the login")
                await asyncio.sleep(channels.QUIET_S)
                before, began = running.cpu_s(), time.perf_counter()
                await write(api, chats, 0, messages)
                await until(lambda: count(api) >= messages, "answers")
                took = time.perf_counter() - began
                await asyncio.sleep(channels.QUIET_S)
                cpu = (running.cpu_s() - before) * 1000 / messages
        return ["whatsapp", messages / took, cpu, *faults(api, chats, messages)]


async def killed(arguments: argparse.Namespace, model_url: str) -> list[object]:
    """Kill the gateway again and again while messages come; return a row of the table."""
    async with open_whatsapp_api() as api:
        chats, messages = arguments.chats, arguments.messages
        with workspace(model_url) as folder:
            prepare(folder, model_url, api)
            began, sent = time.perf_counter(), 0
            for life in range(arguments.kills):
                end = messages * (life + 1) // arguments.kills
                async with gateway_process(folder, imported=None) as running:
                    async with delivering(api, running.url):
                        goal = count(api) + (end - sent) // 2
                        await write(api, chats, sent, end)
                        sent = end
                        await until(lambda goal=goal: count(api) >= goal, "half of the answers")
                    await running.kill()
            async with (
                gateway_process(folder, imported=None) as running,
                delivering(api, running.url),
            ):
                await until(lambda: count(api) >= messages, "answers")
                await asyncio.sleep(channels.QUIET_S)
            took = time.perf_counter() - began
        name = f"whatsapp, {arguments.kills} kills"
        return [name, sent / took, 0.0, *faults(api, chats, messages)]


if __name__ == "__main__":
    asyncio.run(compare(read_arguments(__doc__), load, killed))
