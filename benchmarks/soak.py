"""A soak with real kills: nothing that was accepted is lost or doubled, and nothing grows.

.venv/bin/python benchmarks/soak.py [--minutes 10] [--conversations 500] [--kill-every-s 8]
                                    [--rate 10] [--seed 7] [--quiet-s 35] [--keep]

The installed gateway talks to pretended platforms and a pretended model, all on loopback, and is
killed again and again. The first message of every conversation comes undisturbed. Then, until seven
tenths of the time are over, everything fails: the process is killed, the model and the platforms
refuse, are slow or cut connections, clients leave. The rest has no faults: it comes in four parts,
and memory and descriptors at rest after the last are held against those after the one before. Last
each request over HTTP is repeated with its key, and the audit holds every message against every
log, request, reply and witness.

A full disk is not part of it: that needs a file system of its own, and so root; the tests do it.

Exit code 1 if anything is lost, doubled or not flat; the folder is then kept.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import aiohttp
import anyio
from harness import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from soak_audit import Audit, Shown, audit
from soak_gateway import START_S, Gateway, free_port, schedule
from soak_ledger import AGENT, Kind, Ledger, Message
from soak_senders import Client, Talk, command_talk, discord_talk, http_talk, telegram_talk
from soak_tables import flatness, show_all, show_findings
from soak_world import World, open_world
from support.discord_world import Payload

SHARES: Sequence[tuple[Kind, float]] = (
    ("telegram chat", 0.28),
    ("telegram group", 0.10),
    ("discord dm", 0.18),
    ("discord channel", 0.10),
    ("http waiting", 0.10),
    ("http async", 0.08),
    ("http stream", 0.08),
    ("openai", 0.08),
)
FAULTS_UNTIL = 0.7  # of the time
REST_S = 180  # until everything has come to rest
CALM_PARTS = 4  # of the time without faults; after each the process is looked at, at rest
COMMANDS_EVERY_S = 15.0


def make_talks(world: World, client: Client, count: int) -> list[Talk]:
    """Return all conversations."""
    talks: list[Talk] = []
    for kind, share in SHARES:
        for number in range(max(1, round(count * share))):
            if kind.startswith("telegram"):
                is_group = kind == "telegram group"
                talks.append(telegram_talk(world, number, is_group=is_group))
            elif kind.startswith("discord"):
                is_group = kind == "discord channel"
                talks.append(discord_talk(world, number, is_group=is_group))
            else:
                talks.append(http_talk(client, kind, number))
    return talks


async def run(options: argparse.Namespace, folder: Path) -> tuple[Ledger, Audit]:
    """Run all of it in a folder; return what was noted and what was found."""
    ledger = Ledger(random.Random(options.seed))  # noqa: S311 - faults that can be had again
    port = free_port()
    gateway = Gateway(folder, port, ledger)
    async with open_world(ledger) as world, anyio.create_task_group() as tasks:
        world.write_workspace(folder, port)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(gateway.url, connector=connector) as session:
            client = Client(ledger, session)
            talks = make_talks(world, client, options.conversations)
            tasks.start_soon(gateway.watch)
            tasks.start_soon(world.discord.shake)
            try:
                jobs = await prepare(world, gateway, session, options)
                await talk(talks, client, gateway, options)
                for job in jobs:
                    await client.ask("POST", f"/api/v1/schedules/{job}/pause")
                await settle(ledger, options.quiet_s)
                await rest(ledger, gateway)
                await repeat(ledger, client)
                await gateway.stop()
            finally:
                await gateway.end()
        code, said = await gateway.doctor()
        texts = shown(world)
        keep(texts, folder)
        found = await anyio.to_thread.run_sync(audit, ledger, texts, folder)
        if code:
            found.fault("doctor is not content", detail=said)
        tasks.cancel_scope.cancel()
    for name, problem in flatness(ledger):
        found.fault(f"not flat: {name}", detail=problem)
    return ledger, found


async def prepare(
    world: World, gateway: Gateway, session: aiohttp.ClientSession, options: argparse.Namespace
) -> list[str]:
    """Start the gateway for the first time; give it jobs and wait until both platforms know it."""
    await gateway.start()
    with anyio.fail_after(START_S):
        while not (world.telegram.has_poll and world.discord.sessions and world.discord.commands):  # noqa: ASYNC110 - of servers that say nothing
            await anyio.sleep(0.05)
    person = world.discord.world.add_user("who has jobs")
    dm = world.discord.world.dm(person)
    for chat in (20_001, 20_002):
        world.telegram.chat(chat)
    job = partial(schedule, session, world.ledger, agent=AGENT)
    every = f"{max(5, round(options.minutes * 2))}s"
    telegram: Payload = {"channel": "telegram", "chat": "20001"}
    await job(id="says-telegram", every=every, message="soak: so it goes", to=telegram)
    tasks: Payload = {"channel": "telegram", "chat": "20002"}
    await job(id="asks-telegram", every=every, task="Count.", to=tasks, session="isolated")
    await job(
        id="says-discord",
        every=every,
        message="soak: so it goes",
        to={"channel": "discord", "chat": dm},
    )
    await job(id="asks-http", every=every, task="Count.", to={"channel": "http", "chat": "jobs"})
    return ["says-telegram", "asks-telegram", "says-discord", "asks-http"]


async def talk(
    talks: list[Talk], client: Client, gateway: Gateway, options: argparse.Namespace
) -> None:
    """Have everybody talk, through all phases."""
    ledger, dice = client.ledger, client.ledger.dice
    began, seconds = anyio.current_time(), options.minutes * 60
    pause_s = len(talks) / options.rate
    command = command_talk(client, gateway.folder)
    async with anyio.create_task_group() as people:
        for each in talks:
            first = dice.uniform(0, min(seconds / 6, 1.5 * pause_s))
            go_on = partial(each.go_on, first_after_s=first, pause_s=pause_s)
            people.start_soon(go_on, name=each.chat)
        with anyio.move_on_after(seconds / 6 + REST_S):
            while not all(each.has_begun for each in talks):  # noqa: ASYNC110 - of so many
                await anyio.sleep(0.1)
        if silent := [each.chat for each in talks if not each.has_begun]:
            msg = f"the first message was not answered in {len(silent)} talks: {silent[:5]}"
            raise SystemExit(msg)
        ledger.phase = "faults"
        go_on = partial(command.go_on, first_after_s=5, pause_s=COMMANDS_EVERY_S)
        people.start_soon(go_on)
        await gateway.torment(began + seconds * FAULTS_UNTIL, options.kill_every_s)
        ledger.phase = "calm"
        part_s = max(began + seconds - anyio.current_time(), seconds * 0.2) / CALM_PARTS
        for _ in range(CALM_PARTS - 1):
            await anyio.sleep(part_s)
            ledger.is_paused = True
            await wait_all(ledger)
            await settle(ledger, options.quiet_s)
            ledger.is_paused = False
        await anyio.sleep(part_s)
        ledger.phase = "rest"
        for each in [*talks, command]:
            each.is_over = True
        await wait_all(ledger)
        people.cancel_scope.cancel()


async def settle(ledger: Ledger, quiet_s: float) -> None:
    """Let sessions leave memory, and keep what the process is like then."""
    await anyio.sleep(quiet_s)
    ledger.rests.append(ledger.samples[-1])


async def wait_all(ledger: Ledger) -> None:
    """Wait until every message is answered, or too long; the audit tells which were not."""
    with anyio.move_on_after(REST_S):
        for message in [*ledger.messages.values()]:
            await message.answered.wait()


async def rest(ledger: Ledger, gateway: Gateway) -> None:
    """Wait until the gateway has nothing left to do."""
    names = ("turns_running", "messages_waiting", "deliveries_pending")
    gauges: dict[str, float] = {}
    with anyio.move_on_after(REST_S):
        while True:
            gauges = await gateway.metrics()
            if not any(gauges[f"everturn_{name}"] for name in names):
                return
            await anyio.sleep(0.2)
    left = {name: gauges.get(f"everturn_{name}") for name in names}
    ledger.problems.append(f"after {REST_S} s there is still something to do: {left}")


async def repeat(ledger: Ledger, client: Client) -> None:
    """Send each request over HTTP once more: it gets the answer that it got."""
    limit = anyio.CapacityLimiter(16)

    async with anyio.create_task_group() as tasks:
        for message in [*ledger.messages.values()]:
            if message.kind.startswith(("http", "openai")) and message.answers:
                tasks.start_soon(_repeat, message, client, limit)


async def _repeat(message: Message, client: Client, limit: anyio.CapacityLimiter) -> None:
    async with limit:
        again = client.complete if message.kind == "openai" else client.post
        message.note_answer(await again(message))


def shown(world: World) -> dict[tuple[str, str], list[Shown]]:
    """Return what the bot wrote on both platforms, by platform and chat."""
    found: dict[tuple[str, str], list[Shown]] = {}
    for (chat, number), message in world.telegram.messages.items():
        if message["from"]["id"] == world.telegram.me["id"]:
            text = str(message.get("text", ""))
            found.setdefault(("telegram", str(chat)), []).append(Shown(number=number, text=text))
    for channel in world.discord.world.channels:
        found["discord", channel] = [
            Shown(number=int(m["id"]), text=str(m["content"])) for m in world.discord.said(channel)
        ]
    return found


def keep(texts: Mapping[tuple[str, str], Sequence[Shown]], folder: Path) -> None:
    """Write down what the platforms show, for whoever looks into a finding."""
    lines = [
        json.dumps([channel, chat, each.number, each.text])
        for (channel, chat), said in texts.items()
        for each in said
    ]
    (folder / "soak-shown.jsonl").write_text("\n".join(lines))


def main() -> None:
    """Run it, print the tables, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--conversations", type=int, default=500)
    parser.add_argument("--kill-every-s", type=float, default=8, help="on average")
    parser.add_argument("--rate", type=float, default=10, help="messages a second, at most")
    parser.add_argument("--seed", type=int, default=7)
    quiet = "how long nobody writes after each half; after 20 s sessions leave memory"
    parser.add_argument("--quiet-s", type=float, default=35, help=quiet)
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=ROOT.parent, prefix=".everturn-soak-"))
    ledger, found = anyio.run(run, options, folder, backend_options={"use_uvloop": True})
    show_all(ledger, found)
    show_findings(found, folder)
    if found.findings or options.keep:
        print(f"kept: {folder}")
    else:
        shutil.rmtree(folder)
    sys.exit(1 if found.findings else 0)


if __name__ == "__main__":
    main()
