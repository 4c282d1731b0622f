"""Telegram fails for a minute under load: does every reply arrive, at most once unlabelled?

.venv/bin/python benchmarks/telegram_outage.py [--seconds 60] [--chats 100] [--messages 5]
    [--mode refused|page|carried-out|cut|all] [--what sending|everything|both] [--restart]

People write before, during and after the outage, in which the Bot API answers with 502 whatever
shows somebody something, or every request: `refused` in its own words, `page` as a gateway before
it does; `carried-out` does what it is asked and then says 502; `cut` does it and cuts the
connection. `--restart` stops the gateway in the middle of the outage and starts it again. The exit
code is 1 where the audit finds a fault.

The Bot API is the loopback one of the tests; the model repeats what it is told. Every message is a
turn of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from channels import ACCESS, CHANNELS, in_thread, run_model, until
from harness import AGENT, Running, gateway, show, workspace
from support.telegram_api import (
    TOKEN,
    ApiError,
    Fault,
    TelegramApi,
    serve_telegram_api,
)

MODES: Final = ("refused", "page", "carried-out", "cut")
WHAT: Final = ("sending", "everything")
MODEL_S: Final = 2.0  # an answer takes so long: many are under way when the outage begins
LABEL: Final = "(This may be a repeat.)\n"
FIRST_CHAT: Final = 2000
_PAGE: Final = "<html><head><title>502 Bad Gateway</title></head></html>"


class FailingApi(TelegramApi):
    """A Bot API that fails while it is told to."""

    def __init__(self, mode: str, *, is_deaf: bool) -> None:
        super().__init__()
        self._mode, self._is_deaf = mode, is_deaf
        self.is_down = False
        self.failed = 0
        "Requests that got no good answer."

    async def until_changed(self, within_s: float) -> None:
        """Wait until something was asked, but no longer than that."""
        self._changed = anyio.Event()
        with anyio.move_on_after(within_s):
            await self._changed.wait()

    def _fault(self, method: str) -> Fault | None:
        if not self.is_down or not (self._is_deaf or method.startswith(("send", "edit"))):
            return None
        self.failed += 1
        error = ApiError(502, "Bad Gateway", page=_PAGE if self._mode == "page" else "")
        carried_out = self._mode in {"carried-out", "cut"}
        return Fault(
            method=method,
            times=1,
            error=None if self._mode == "cut" else error,
            carried_out=carried_out,
        )


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What the people of all chats see at the end."""

    replies: int
    lost: int
    doubled: int
    "Replies that stand there more than once without a label."
    labelled: int
    "Repeats that say so."
    unordered: int
    "Chats whose replies came in another order than they were asked for."

    @property
    def is_good(self) -> bool:
        """Whether every reply arrived, at most once unlabelled."""
        return not self.lost and not self.doubled


def audit(telegram: TelegramApi, chats: int, messages: int) -> Audit:
    """Look at all that people see."""
    told: dict[int, list[str]] = defaultdict(list)
    for (chat, _), message in telegram.messages.items():
        if message["from"]["is_bot"]:
            told[chat].append(str(message.get("text", "")))
    expected = [f"message {number}" for number in range(messages)]
    lost = doubled = labelled = unordered = 0
    for chat in range(FIRST_CHAT, FIRST_CHAT + chats):
        bare = Counter(text for text in told[chat] if not text.startswith(LABEL))
        again = Counter(text.removeprefix(LABEL) for text in told[chat] if text.startswith(LABEL))
        lost += sum(not bare[text] + again[text] for text in expected)
        doubled += sum(bare[text] > 1 for text in expected)
        labelled += again.total()
        first_seen = [*dict.fromkeys(text.removeprefix(LABEL) for text in told[chat])]
        unordered += [text for text in first_seen if text in expected] != expected
    replies = chats * messages - lost
    return Audit(
        replies=replies, lost=lost, doubled=doubled, labelled=labelled, unordered=unordered
    )


def missing(telegram: TelegramApi, chats: int, messages: int) -> int:
    """Return how many replies nobody has seen yet."""
    seen = {
        (chat, str(message.get("text", "")).removeprefix(LABEL))
        for (chat, _), message in telegram.messages.items()
        if message["from"]["is_bot"]
    }
    wanted = (
        (chat, f"message {n}")
        for chat in range(FIRST_CHAT, FIRST_CHAT + chats)
        for n in range(messages)
    )
    return sum(each not in seen for each in wanted)


async def write_all(telegram: TelegramApi, arguments: argparse.Namespace) -> None:
    """Let each chat write its messages, spread over the outage and some time before and after."""
    chats, messages = arguments.chats, arguments.messages
    for number in range(messages):
        for chat in range(chats):
            telegram.say(f"message {number}", chat=FIRST_CHAT + chat)
            await asyncio.sleep(arguments.seconds * 1.2 / (messages * chats))


async def fail_for_a_while(telegram: FailingApi, seconds: float) -> None:
    """Begin an outage and end it."""
    telegram.is_down = True
    await asyncio.sleep(seconds)
    telegram.is_down = False


async def measure(mode: str, what: str, arguments: argparse.Namespace) -> tuple[list[object], bool]:
    """Run one outage; return a row of the table, and whether all is as it should be."""
    model, model_url = await run_model(MODEL_S)
    api = FailingApi(mode, is_deaf=what == "everything")
    async with serve_telegram_api(api) as telegram:
        with workspace(model_url) as folder:
            write_workspace(folder, model_url, telegram.url)
            if arguments.restart:
                row = await restarted(folder, telegram, mode, arguments)
            else:
                async with in_thread(gateway(folder)) as running:
                    await ready(telegram, running)
                    row = await one_outage(telegram, mode, arguments)
    await model.cleanup()
    cells, is_good = row
    return [what, *cells], is_good


def write_workspace(folder: Path, model_url: str, telegram_url: str) -> None:
    """Set a gateway up with one bot."""
    agent = folder / "agents" / "bench" / "agent.yaml"
    agent.write_text(AGENT.format(url=model_url, compaction="archive") + ACCESS)
    # what is written while the bot is deaf is more than a backlog may be by default
    settings = "false, backlog: {max_messages: 100000}"
    (folder / "everturn.yaml").write_text(CHANNELS.format(url=telegram_url, streaming=settings))
    os.environ["BENCH_TOKEN"] = TOKEN


async def ready(telegram: TelegramApi, running: Running) -> None:
    """Wait until the gateway asks for updates."""
    del running
    await until(lambda: telegram.asked("getUpdates") and telegram.has_poll, "the first poll")


async def restarted(
    folder: Path, telegram: FailingApi, mode: str, arguments: argparse.Namespace
) -> tuple[list[object], bool]:
    """Stop the gateway in the middle of the outage, and let the next one bring it to its end."""
    half_s = arguments.seconds / 2
    async with anyio.create_task_group() as tasks:
        async with in_thread(gateway(folder)) as running:
            await ready(telegram, running)
            tasks.start_soon(write_all, telegram, arguments)
            await asyncio.sleep(arguments.seconds * 0.1)
            telegram.is_down = True
            await asyncio.sleep(half_s)
        async with in_thread(gateway(folder)):
            await asyncio.sleep(half_s)
            telegram.is_down = False
            return await come_to_rest(telegram, mode, arguments)
    raise AssertionError


async def one_outage(
    telegram: FailingApi, mode: str, arguments: argparse.Namespace
) -> tuple[list[object], bool]:
    """Write before, during and after an outage."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_all, telegram, arguments)
        await asyncio.sleep(arguments.seconds * 0.1)
        await fail_for_a_while(telegram, arguments.seconds)
        return await come_to_rest(telegram, mode, arguments)
    raise AssertionError


async def come_to_rest(
    telegram: FailingApi, mode: str, arguments: argparse.Namespace
) -> tuple[list[object], bool]:
    """Wait until all is said and nothing more comes; return the row, and whether it is good."""
    over = time.perf_counter()
    chats, messages = arguments.chats, arguments.messages
    end = time.perf_counter() + arguments.patience
    while missing(telegram, chats, messages) and time.perf_counter() < end:
        await telegram.until_changed(1)
    last_s = time.perf_counter() - over
    count = -1
    while count != len(telegram.messages):  # repeats of what had arrived already
        count = len(telegram.messages)
        await asyncio.sleep(5)
    found = audit(telegram, chats, messages)
    row: list[object] = [
        mode + (" and a restart" if arguments.restart else ""),
        found.replies,
        found.lost,
        found.doubled,
        found.labelled,
        found.unordered,
        telegram.failed,
        last_s,
    ]
    return row, found.is_good


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--chats", type=int, default=100)
    parser.add_argument("--messages", type=int, default=5)
    parser.add_argument("--mode", choices=(*MODES, "all"), default="all")
    parser.add_argument("--what", choices=(*WHAT, "both"), default="both")
    parser.add_argument("--patience", type=float, default=180, help="seconds after the outage")
    parser.add_argument("--restart", action="store_true")
    arguments = parser.parse_args()
    modes = MODES if arguments.mode == "all" else (arguments.mode,)
    whats = WHAT if arguments.what == "both" else (arguments.what,)
    found = [
        asyncio.run(measure(mode, what, arguments))
        for what, mode in itertools.product(whats, modes)
    ]
    show(
        f"{arguments.chats} chats x {arguments.messages} messages; an outage of"
        f" {arguments.seconds:g} s",
        (
            "fails",
            "how",
            "arrived",
            "lost",
            "twice, unlabelled",
            "labelled repeats",
            "chats unordered",
            "requests failed",
            "last after s",
        ),
        [row for row, _ in found],
    )
    return 0 if all(is_good for _, is_good in found) else 1


if __name__ == "__main__":
    sys.exit(main())
