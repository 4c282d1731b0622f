"""A busy Slack bot beside a busy Telegram bot, and one that is killed while it is busy.

.venv/bin/python benchmarks/slack_load.py [--messages 1000] [--chats 200] [--kills 5]

The workspace and the Bot API are the loopback ones of the tests, by Socket Mode, in direct
messages; the model repeats what it is told. Every message is a turn of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

import channels
from channels import ACCESS, in_thread, until
from harness import AGENT, ROOT, gateway, workspace
from matrix_load import compare, read_arguments

sys.path.insert(0, str(ROOT / "tests"))

from support.process import gateway_process
from support.slack_api import ANN, APP_TOKEN, BOT_TOKEN, SlackApi
from support.slack_methods import open_slack_api

CHANNEL = """\
server: {{port: 0}}
sessions: {{passivate_after_seconds: 1}}
channels:
  slack: {{bot_token: {bot}, app_token: {app}, api_base: "{url}/api", streaming: false}}
"""


def fill(api: SlackApi, chats: int) -> list[str]:
    """Make the chats."""
    return [api.add_channel(f"D{number:08d}", ANN, name="") for number in range(chats)]


def count(api: SlackApi) -> int:
    """Return how many answers there are."""
    return sum(len(api.shown(chat)) for chat in api.channels)


def faults(api: SlackApi, messages: int) -> list[object]:
    """Return how many answers are lost, doubled, and how many chats are out of order."""
    told = {chat: api.shown(chat) for chat in api.channels}
    expected = [f"message {number}" for number in range(messages // len(told))]
    lost = sum(len(set(expected) - set(texts)) for texts in told.values())
    doubled = sum(len(texts) - len(set(texts)) for texts in told.values())
    return [lost, doubled, sum(texts != expected for texts in told.values())]


def prepare(folder: Path, model_url: str, api: SlackApi) -> None:
    """Write the workspace."""
    agent = folder / "agents" / "bench" / "agent.yaml"
    agent.write_text(AGENT.format(url=model_url, compaction="archive") + ACCESS)
    text = CHANNEL.format(url=api.url, bot=BOT_TOKEN, app=APP_TOKEN)
    (folder / "everturn.yaml").write_text(text)


async def write(api: SlackApi, chats: list[str], begin: int, end: int) -> None:
    """Have people write those of the messages."""
    for number in range(begin, end):
        await api.say(chats[number % len(chats)], f"message {number // len(chats)}")


async def load(arguments: argparse.Namespace, model_url: str) -> list[object]:
    """Run a gateway under load; return a row of the table."""
    async with open_slack_api() as api:
        chats, messages = fill(api, arguments.chats), arguments.messages
        with workspace(model_url) as folder:
            prepare(folder, model_url, api)
            async with in_thread(gateway(folder)) as running:
                await until(lambda: api.sockets, "the socket")
                await asyncio.sleep(channels.QUIET_S)
                before, began = running.cpu_s(), time.perf_counter()
                await write(api, chats, 0, messages)
                await until(lambda: count(api) >= messages, "answers")
                took = time.perf_counter() - began
                await asyncio.sleep(channels.QUIET_S)
                cpu = (running.cpu_s() - before) * 1000 / messages
        return ["slack", messages / took, cpu, *faults(api, messages)]


async def killed(arguments: argparse.Namespace, model_url: str) -> list[object]:
    """Kill the gateway again and again while messages come; return a row of the table."""
    async with open_slack_api() as api:
        chats, messages = fill(api, arguments.chats), arguments.messages
        with workspace(model_url) as folder:
            prepare(folder, model_url, api)
            began, sent = time.perf_counter(), 0
            async with gateway_process(folder, imported=None):
                await until(lambda: api.sockets, "the socket")
                await asyncio.sleep(channels.QUIET_S)
            for life in range(arguments.kills):
                end = messages * (life + 1) // arguments.kills
                async with gateway_process(folder, imported=None) as running:
                    goal = count(api) + (end - sent) // 2
                    await write(api, chats, sent, end)
                    sent = end
                    await until(lambda goal=goal: count(api) >= goal, "half of the answers")
                    await running.kill()
            async with gateway_process(folder, imported=None):
                await until(lambda: count(api) >= messages, "answers")
                await asyncio.sleep(channels.QUIET_S)
            took = time.perf_counter() - began
        name = f"slack, {arguments.kills} kills"
        return [name, sent / took, 0.0, *faults(api, messages)]


if __name__ == "__main__":
    asyncio.run(compare(read_arguments(__doc__), load, killed))
