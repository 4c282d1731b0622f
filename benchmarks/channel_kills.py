"""Busy bots on each platform beside one on Telegram, and bots that are killed while they are busy.

.venv/bin/python benchmarks/channel_kills.py [CHANNEL ...] [--messages 1000] [--chats 200]
    [--kills 5] [--rounds 3] [--seed 1]

CHANNEL is one of telegram, discord, slack, matrix, synapse, whatsapp, email, dovecot; by default
all but the real servers. The model repeats what it is told, and each message is its own turn.
`--rounds 0` leaves the CPU out, `--kills 0` the kills.

CPU is that of the gateway's process, user and system: Telegram and the channel are asked in turns,
and a round's two figures are divided. A life of the gateway is ended by SIGKILL once a part of what
was written in it is answered, which part by chance. In the end each chat has to have each answer
once and in order; where a platform knows no nonces, a repeat has to say that it may be one. The
first message of each chat is answered before the kills: of a stranger's first one, written while
nobody listens, Discord tells a bot nothing afterwards (`docs/discord.md`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import channels
from channel_worlds import REPEAT, WORLDS, Answers, World, text_of
from channels import ACCESS, run_model
from harness import AGENT, Running, p50, running, show, workspace
from support.process import gateway_process
from support.talking import until_state

LOOK_S = 0.2
PATIENCE_S = 600


async def until_answered(world: World, count: int) -> None:
    """Wait until so many different messages were answered."""
    end = time.perf_counter() + PATIENCE_S
    while (have := answered(await world.answers())) < count:
        if time.perf_counter() > end:
            message = f"waited in vain: {have} of {count} answered"
            raise SystemExit(message)
        await asyncio.sleep(LOOK_S)


def answered(told: Answers) -> int:
    """Return how many different messages were answered."""
    return sum(len({each.removeprefix(f"{REPEAT}\n") for each in texts}) for texts in told.values())


def faults(world: World, told: Answers, messages: int) -> list[object]:
    """Return how many answers are lost, doubled, repeated with a label, and chats out of order."""
    lost = doubled = labelled = disordered = 0
    expected = [text_of(number) for number in range(messages // len(world.chats))]
    for chat in world.chats:
        seen: list[str] = []
        for text in told.get(chat, ()):
            bare = text.removeprefix(f"{REPEAT}\n")
            if bare not in seen:
                seen.append(bare)
            elif bare == text:
                doubled += 1
            else:
                labelled += 1
        lost += len(set(expected) - set(seen))
        disordered += [each for each in expected if each in seen] != seen
    return [lost, doubled, labelled, disordered]


def prepare(folder: Path, model_url: str, world: World) -> None:
    """Write the workspace."""
    agent = folder / "agents" / "bench" / "agent.yaml"
    agent.write_text(AGENT.format(url=model_url, compaction="archive") + ACCESS)
    section = {"streaming": False, "backlog": {"max_messages": 10_000}, **world.section}
    config = {
        "server": {"port": 0},
        "sessions": {"passivate_after_seconds": 1},
        "channels": {world.channel: section},
    }
    file = folder / "everturn.yaml"
    file.write_text(json.dumps(config))
    file.chmod(0o600)


@asynccontextmanager
async def connected(folder: Path, world: World) -> AsyncGenerator[Running]:
    """Run a gateway that has logged in on its platform."""
    began = time.perf_counter()
    async with gateway_process(folder, imported=None) as gateway:
        async with gateway.client() as client:
            await until_state(client, "connected")
        async with world.deliveries(gateway.url):
            yield running(gateway.url, gateway.process.pid, began)


async def write(world: World, begin: int, end: int) -> None:
    """Have people write those of the messages."""
    for number in range(begin, end):
        place, turn = number % len(world.chats), number // len(world.chats)
        await world.write(world.chats[place], turn)


async def load(name: str, arguments: argparse.Namespace, model_url: str) -> tuple[float, float]:
    """Run a busy bot; return its messages a second, and the milliseconds of CPU of one."""
    messages = arguments.messages
    async with WORLDS[name](arguments.chats) as world:
        with workspace(model_url) as folder:
            prepare(folder, model_url, world)
            async with connected(folder, world) as gateway:
                await asyncio.sleep(channels.QUIET_S)
                before, began = gateway.cpu_s(), time.perf_counter()
                await write(world, 0, messages)
                await until_answered(world, messages)
                took = time.perf_counter() - began
                await asyncio.sleep(channels.QUIET_S)
                return messages / took, (gateway.cpu_s() - before) * 1000 / messages


async def killed(name: str, arguments: argparse.Namespace, model_url: str) -> list[object]:
    """Kill the gateway again and again while messages come; return a row of the table."""
    messages, chance = arguments.messages, random.Random(arguments.seed)  # noqa: S311 - no secret
    async with WORLDS[name](arguments.chats) as world:
        with workspace(model_url) as folder:
            prepare(folder, model_url, world)
            began, sent = time.perf_counter(), len(world.chats)
            async with connected(folder, world):
                await asyncio.sleep(channels.QUIET_S)
                await write(world, 0, sent)
                await until_answered(world, sent)
            part = (messages - sent) // arguments.kills
            for life in range(arguments.kills):
                end = messages if life == arguments.kills - 1 else sent + part
                async with connected(folder, world) as gateway:
                    have = answered(await world.answers())
                    goal = have + int((end - have) * chance.uniform(0.1, 0.9))
                    await write(world, sent, end)
                    sent = end
                    await until_answered(world, goal)
                    gateway.process.kill()
            async with connected(folder, world):
                await until_answered(world, messages)
                await asyncio.sleep(channels.QUIET_S)
            took = time.perf_counter() - began
        return [name, arguments.kills, took, *faults(world, await world.answers(), messages)]


async def compare(arguments: argparse.Namespace) -> None:
    """Print a table of CPU and one of kills, as they come."""
    model, model_url = await run_model(arguments.delay_ms / 1000)
    what = f"{arguments.messages:,} messages over {arguments.chats} chats"
    for name in arguments.channel if arguments.rounds else ():
        rows: list[list[object]] = []
        ratios: list[float] = []
        for number in range(arguments.rounds):
            _, beside = await load("telegram", arguments, model_url)
            rate, cpu = await load(name, arguments, model_url)
            ratios.append(cpu / beside)
            rows.append([name, number + 1, rate, cpu, beside, cpu / beside])
        rows.append([name, "median", "", "", "", p50(ratios)])
        columns = ("channel", "round", "a second", "CPU ms", "Telegram's", "x")
        show(what, columns, rows)
    for name in arguments.channel if arguments.kills else ():
        columns = ("channel", "kills", "seconds", "lost", "twice", "said to repeat", "unordered")
        show(what, columns, [await killed(name, arguments, model_url)])
    await model.cleanup()


def main() -> None:
    """Read the arguments, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everyday = [name for name in WORLDS if name not in {"synapse", "dovecot"}]
    parser.add_argument("channel", nargs="*", choices=[*WORLDS, []], default=everyday)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--chats", type=int, default=200)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--delay-ms", type=float, default=0)
    asyncio.run(compare(parser.parse_args()))


if __name__ == "__main__":
    main()
