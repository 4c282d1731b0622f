"""A busy Matrix bot beside a busy Telegram bot, and one that is killed while it is busy.

.venv/bin/python benchmarks/matrix_load.py [--messages 1000] [--chats 200] [--kills 5]

The homeserver and the Bot API are the loopback ones of the tests, in plain rooms; the model repeats
what it is told. Every message is a turn of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import channels
from channels import ACCESS, in_thread, run_model, until
from harness import AGENT, ROOT, Running, gateway, show, workspace

sys.path.insert(0, str(ROOT / "tests"))

from support.matrix_api import MatrixApi, Room
from support.matrix_routes import open_matrix_api
from support.process import gateway_process

CHANNEL = """\
server: {{port: 0}}
sessions: {{passivate_after_seconds: 1}}
channels:
  matrix:
    {{access_token: "${{BENCH_TOKEN}}", homeserver: "{url}", streaming: false, encryption: false}}
"""


def fill(api: MatrixApi, chats: int) -> tuple[str, list[str]]:
    """Make a bot and its rooms, each with one person; return the bot and the rooms."""
    bot, token = api.add_user("bot", device="BENCH")
    os.environ["BENCH_TOKEN"] = token
    rooms = [f"!chat{number}:everturn.test" for number in range(chats)]
    for number, room_id in enumerate(rooms):
        person, _ = api.add_user(f"person{number}")
        api.rooms[room_id] = Room()
        for user in (person, bot):
            api.member(room_id, user, "join")
    return bot, rooms


def write(api: MatrixApi, rooms: list[str], number: int) -> None:
    """Have somebody write the next message."""
    place = number % len(rooms)
    content = {"msgtype": "m.text", "body": f"message {number // len(rooms)}"}
    api.say(rooms[place], f"@person{place}:everturn.test", "m.room.message", content)


def answers(api: MatrixApi, bot: str) -> dict[str, list[str]]:
    """Return what each room was told, in order."""
    told: dict[str, list[str]] = defaultdict(list)
    for room_id, event in api.events():
        if event["sender"] == bot and event["type"] == "m.room.message":
            told[room_id].append(event["content"]["body"])
    return told


def count(api: MatrixApi, bot: str) -> int:
    """Return how many answers there are."""
    return sum(map(len, answers(api, bot).values()))


def faults(api: MatrixApi, bot: str, rooms: list[str], messages: int) -> list[object]:
    """Return how many answers are lost, doubled, and how many rooms are out of order."""
    told = answers(api, bot)
    expected = [f"message {number}" for number in range(messages // len(rooms))]
    lost = sum(len(set(expected) - set(told[room_id])) for room_id in rooms)
    doubled = sum(len(texts) - len(set(texts)) for texts in told.values())
    return [lost, doubled, sum(told[room_id] != expected for room_id in rooms)]


def prepare(folder: Path, model_url: str, api: MatrixApi) -> None:
    """Write the workspace."""
    agent = folder / "agents" / "bench" / "agent.yaml"
    agent.write_text(AGENT.format(url=model_url, compaction="archive") + ACCESS)
    (folder / "everturn.yaml").write_text(CHANNEL.format(url=api.url))


async def load(arguments: argparse.Namespace, model_url: str) -> list[object]:
    """Run a gateway under load; return a row of the table."""
    async with open_matrix_api() as api:
        bot, rooms = fill(api, arguments.chats)
        with workspace(model_url) as folder:
            prepare(folder, model_url, api)
            async with in_thread(gateway(folder)) as running:
                await until(api.has_poll.is_set, "the first poll")
                took, cpu = await _answered(api, bot, rooms, running, arguments.messages)
        return [
            "matrix",
            arguments.messages / took,
            cpu,
            *faults(api, bot, rooms, arguments.messages),
        ]


async def _answered(
    api: MatrixApi, bot: str, rooms: list[str], running: Running, messages: int
) -> tuple[float, float]:
    before, began = running.cpu_s(), time.perf_counter()
    for number in range(messages):
        write(api, rooms, number)
    await until(lambda: count(api, bot) >= messages, "answers")
    took = time.perf_counter() - began
    await asyncio.sleep(channels.QUIET_S)
    return took, (running.cpu_s() - before) * 1000 / messages


async def telegram(arguments: argparse.Namespace) -> list[object]:
    """Run the same on Telegram; return a row of the table."""
    row = await channels.measure(arguments, streaming=False)
    return ["telegram", row[1], row[2], row[4], row[5], row[6]]


async def killed(arguments: argparse.Namespace, model_url: str) -> list[object]:
    """Kill the gateway again and again while messages come; return a row of the table."""
    async with open_matrix_api() as api:
        bot, rooms = fill(api, arguments.chats)
        with workspace(model_url) as folder:
            prepare(folder, model_url, api)
            began, sent = time.perf_counter(), 0
            async with gateway_process(folder, imported=None):
                await until(api.has_poll.is_set, "the first poll")
            for life in range(arguments.kills):
                end = arguments.messages * (life + 1) // arguments.kills
                async with gateway_process(folder, imported=None) as running:
                    goal = count(api, bot) + (end - sent) // 2
                    while sent < end:
                        write(api, rooms, sent)
                        sent += 1
                    await until(lambda goal=goal: count(api, bot) >= goal, "half of the answers")
                    await running.kill()
            async with gateway_process(folder, imported=None):
                await until(lambda: count(api, bot) >= arguments.messages, "answers")
                await asyncio.sleep(channels.QUIET_S)
            took = time.perf_counter() - began
        name = f"matrix, {arguments.kills} kills"
        return [name, sent / took, 0.0, *faults(api, bot, rooms, arguments.messages)]


Measure: TypeAlias = Callable[[argparse.Namespace, str], Awaitable[list[object]]]


async def compare(arguments: argparse.Namespace, load: Measure, killed: Measure) -> None:
    """Print the table of a platform beside Telegram."""
    model, model_url = await run_model(arguments.delay_ms / 1000)
    rows = [
        await telegram(arguments),
        await load(arguments, model_url),
        await killed(arguments, model_url),
    ]
    await model.cleanup()
    show(
        f"{arguments.messages:,} messages over {arguments.chats} chats",
        ("channel", "a second", "CPU ms", "lost", "twice", "unordered"),
        rows,
    )


def read_arguments(description: str | None) -> argparse.Namespace:
    """Return how many messages, chats and kills there are to be."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--chats", type=int, default=200)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--delay-ms", type=float, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(compare(read_arguments(__doc__), load, killed))
