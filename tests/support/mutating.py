"""Channels over a real service in memory, told odd things and good ones in turns.

After each odd event somebody writes a good message in the same chat: that one has to be taken,
whatever became of the odd one.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import orjson
from support.discord_api import TOKEN as DISCORD_TOKEN
from support.discord_api import DiscordApi, serve_discord_api
from support.feeding_adapter import OPEN
from support.fixed_models import fixed_models, named_model, set_no_model
from support.inbox import QuickClock
from support.mutations import as_json
from support.odd_events import WORLD
from support.patience import WAIT_S
from support.plugins import write_plugin
from support.telegram_api import ANN, BOT, TOKEN, TelegramApi, open_telegram_api

from everturn_actors.events import Received, TurnFinished
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.testing import open_test_service
from everturn_channels.access.pairing import Pairing
from everturn_channels.adapter import Adapter
from everturn_channels.channel_context import ChannelContext
from everturn_channels.chats.aliases import ChatAliases
from everturn_channels.chats.cursors import CURSORS_KEY, open_cursors
from everturn_channels.delivery.rate_limiter import RateLimiter
from everturn_channels.discord import DiscordAdapter, DiscordServers
from everturn_channels.health import Health
from everturn_channels.inbound.running_channel import Limits, RunningChannel
from everturn_channels.runner import run_channel
from everturn_channels.settings import ChannelSettings, Route
from everturn_channels.telegram.adapter import TelegramAdapter

_LOOK_S = 0.005

Odd: TypeAlias = tuple[str, Any]
"What kind of event, where its platform has kinds, and the damaged value."


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a channel took."""

    disk: MemoryDisk
    health: Health
    clock: QuickClock

    def texts(self) -> str:
        """Return all that people were heard to say."""
        return "\n".join(e.text for e in self._bodies() if isinstance(e, Received))

    def is_answered(self, text: str) -> bool:
        """Whether a turn was finished after somebody said so."""
        was_said = False
        for body in self._bodies():
            was_said |= isinstance(body, Received) and text in body.text
            if was_said and isinstance(body, TurnFinished) and body.outcome == "answered":
                return True
        return False

    def _bodies(self) -> Iterator[object]:
        for stored in self.disk.sessions.values():
            for event in (*stored.archive, *stored.log):
                yield event.body

    async def until_taken(self, texts: Sequence[str]) -> None:
        """Wait until all was said, and the last of it answered; else say what is missing."""
        with anyio.move_on_after(WAIT_S):
            while any(text not in self.texts() for text in texts) or not self.is_answered(
                texts[-1]
            ):
                await anyio.sleep(_LOOK_S)
                self.clock.advance(_LOOK_S)  # a message of an album is held for a second
            return
        heard = self.texts()
        missing = [text for text in texts if text not in heard]
        status = self.health.status()
        raise AssertionError(f"lost: {missing}, unanswered: {texts[-1]}; {status}")  # noqa: EM102, TRY003 - for a reader of tests


@asynccontextmanager
async def taking(adapter: Adapter, folder: Path, clock: QuickClock) -> AsyncGenerator[Taken]:
    """Run a channel that everybody may write to; what it takes is answered by a script."""
    keyed = FileKeyedStore(folder)
    disk, health = MemoryDisk(), Health("test", "test", clock, adapter.capabilities.idle_s)

    async def save_file(_agent: str, name: str, _data: bytes) -> str | None:
        return f"inbox/{name}"

    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_test_service(disk=disk, clock=clock))
        cursors = await stack.enter_async_context(open_cursors(keyed, "test", clock))
        context = ChannelContext(
            service=opened.service,
            clock=clock,
            routes=lambda: (Route(agent="test"),),
            rules={"test": OPEN}.get,
            describe_agent=str,
            models=fixed_models,
            named_model=named_model,
            set_model=set_no_model,
            save_file=save_file,
            pairing=Pairing(keyed, clock),
        )

        async def run() -> None:
            channel = RunningChannel(
                adapter=adapter,
                context=context,
                settings=ChannelSettings(),
                health=health,
                cursors=cursors,
                limiter=RateLimiter(clock, lambda: 0.0),
                aliases=ChatAliases(adapter.name),
                limits=Limits(flood_messages=1_000_000, fetch_retry_s=0),
            )
            await run_channel(channel, jitter=lambda: 0.0)

        async with anyio.create_task_group() as running:
            running.start_soon(run)
            try:
                yield Taken(disk=disk, health=health, clock=clock)
            finally:
                running.cancel_scope.cancel()


# --- Telegram ---


async def tell_telegram(odds: Sequence[Odd]) -> None:
    """Have Telegram tell of odd updates, each followed by a good message in its chat."""
    clock = QuickClock()
    with tempfile.TemporaryDirectory() as name:
        async with open_telegram_api() as api:
            api.chat(ANN)
            adapter = TelegramAdapter(name="test", token=TOKEN, clock=clock, api_base=api.url)
            async with taking(adapter, Path(name), clock) as taken:
                await api.until(lambda: api.has_poll)
                good = [_tell_update(api, number, odd) for number, (_, odd) in enumerate(odds)]
                await taken.until_taken(good)


def _tell_update(api: TelegramApi, number: int, odd: Any) -> str:
    text, kind = f"good-{number}-", next(iter(odd), "message") if isinstance(odd, dict) else "x"
    said = odd.get(kind) if isinstance(odd, dict) else None
    if isinstance(said, dict) and isinstance(said.get("message_id"), int):
        odd = {**odd, kind: {**said, "message_id": said["message_id"] + 1_000 * (number + 1)}}
    mark = f"RAW-{number}-"
    told = as_json(odd)
    inside = told[1:-1] if isinstance(odd, dict) and told[:1] == b"{" else b'"odd":' + told
    update = api.push({mark: None})
    api.raw[update] = (f'"{mark}": null'.encode(), inside or b'"odd":0')
    chat = said.get("chat") if isinstance(said, dict) else None
    is_group = isinstance(chat, dict) and chat.get("id") == -100
    api.push(
        {
            "message": api.message(
                f"@{BOT} {text}", chat=-100 if is_group else ANN, message_id=700_000_000 + number
            )
        }
    )
    return text


# --- Discord ---


@asynccontextmanager
async def _discord() -> AsyncGenerator[tuple[DiscordApi, DiscordAdapter, QuickClock]]:
    clock, api = QuickClock(), DiscordApi()
    api.world = copy.deepcopy(WORLD)
    async with serve_discord_api(api):
        adapter = DiscordAdapter(
            name="test",
            token=DISCORD_TOKEN,
            clock=clock,
            servers=DiscordServers(api_base=api.base, gateway_url=api.gateway),
        )
        yield api, adapter, clock


async def tell_discord(odds: Sequence[Odd]) -> None:
    """Have Discord's gateway tell of odd events, each followed by a good message."""
    with tempfile.TemporaryDirectory() as name:
        async with _discord() as (api, adapter, clock):
            world, good = api.world, list[str]()
            ann = world.add_user("ann")
            world.add_message(ann, world.general, "first")
            async with taking(adapter, Path(name), clock) as taken:
                await api.until(lambda: taken.health.status().state == "connected", 30)
                await api.says(f"<@{world.bot['id']}> good-hello-", author=ann)
                await taken.until_taken(["good-hello-"])
                for number, (kind, odd) in enumerate(odds):
                    await api.emit_raw(kind, as_json(_anew(odd, world.new_id())))
                    good.append(f"good-{number}-")
                    await api.says(f"<@{world.bot['id']}> {good[-1]}", author=ann)
                await taken.until_taken(good)


async def tell_discord_history(odds: Sequence[Odd]) -> None:
    """Have Discord's history hold odd messages, each followed by a good one."""
    with tempfile.TemporaryDirectory() as name:
        async with _discord() as (api, adapter, clock):
            world, good = api.world, list[str]()
            ann = world.add_user("ann")
            first = world.add_message(ann, world.general, "first")
            written = world.messages[world.general]
            for number, (_, odd) in enumerate(odds):
                key = world.new_id()
                try:  # the answer as a whole is JSON
                    written[key] = orjson.loads(as_json(_anew(odd, key)))
                except ValueError:
                    written[key] = {"id": key}
                good.append(f"good-{number}-")
                world.add_message(ann, world.general, f"<@{world.bot['id']}> {good[-1]}")
            kept = {"version": 1, "cursors": {world.general: first["id"]}}
            file = anyio.Path(name, CURSORS_KEY.format(name="test"))
            await file.parent.mkdir()
            await file.write_text(json.dumps(kept))
            async with taking(adapter, Path(name), clock) as taken:
                await taken.until_taken(good)


def _anew(odd: Any, number: str) -> Any:
    """Return an event with an id that no other has, where it has one at all."""
    is_known = isinstance(odd, dict) and isinstance(odd.get("id"), str) and odd["id"].isdigit()
    return {**odd, "id": number} if is_known and "author" in odd else odd


# --- plug-ins ---


class SleepingClock(QuickClock):
    """A clock that stands still, and whose sleepers wait all the same."""

    async def sleep(self, delay_s: float) -> None:
        await anyio.sleep(delay_s)


_PLUGIN = """
connect()
with open("lines.jsonl", "rb") as lines:
    for line in lines:
        sys.stdout.buffer.write(line)
sys.stdout.flush()
while True:
    asked = hear()
    if "request" in asked:
        say(type="result", request=asked["request"], outcome="refused", why="not here")
"""


async def tell_plugin(odds: Sequence[Odd]) -> None:
    """Have a plug-in write odd lines, each followed by a good message in its chat."""
    clock = SleepingClock()
    with tempfile.TemporaryDirectory() as name:
        lines, good = list[bytes](), list[str]()
        for number, (_, odd) in enumerate(odds):
            good.append(f"good-{number}-")
            message = {
                "type": "message",
                "id": 10_000 + number,
                "message_id": f"g{number}",
                "chat": {"id": "c"},
                "sender": {"id": "u"},
                "text": good[-1],
            }
            lines += [as_json(odd).replace(b"\n", b" "), as_json(message)]
        await anyio.Path(name, "lines.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        adapter = write_plugin(Path(name), _PLUGIN, clock=clock)
        async with taking(adapter, Path(name), clock) as taken:
            await taken.until_taken(good)
