"""A world that goes on through a kill: pretended platforms and model, one workspace, its gateway.

People write, press and wait; they do not know of the kill. When the gateway was ended it is
started again, without a kill point, and when the world is at rest it is asked to stop.
"""

from __future__ import annotations

import copy
import json
import shutil
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import httpx2
from support.answers import Answer
from support.discord_api import DiscordApi, open_discord_api
from support.discord_world import World as DiscordWorld
from support.killing.accounts import Account, Rule, account, audit
from support.killing.hook.kill_points import KillPoint
from support.killing.looking import (
    chats_of,
    complaints,
    has_nothing_pending,
    lines_of,
    read_logs,
    runs_of,
)
from support.killing.starting import Launcher, Life
from support.model_api import ModelApi, Received, open_model_api
from support.telegram_api import Json, TelegramApi, open_telegram_api

from everturn_actors.journal import doctor

NOWHERE: Final = KillPoint(number=0)
WAIT_S: Final = 90.0  # for what has to happen; several worlds share a small machine
BY_ITSELF: Final = "it is cut off by itself"
_LOOK_AGAIN_S: Final = 0.02
_FAR: Final = 5000  # update and message numbers of a second run begin so much higher

Plan: TypeAlias = Callable[["World"], Answer]


class StuckError(Exception):
    """What had to happen did not."""


class Brain:
    """A model without a memory: the newest message of a person and what followed it say all.

    `plans` maps a word to the replies to a message with it: the first until a call has its result,
    then the second, and so on. A message that holds none of the words is repeated.
    """

    def __init__(self, plans: Mapping[str, tuple[Answer | Plan, ...]]) -> None:
        self._plans = plans
        self.world: World | None = None

    def __call__(self, request: Received) -> Answer:
        """Answer one request."""
        body = request.json()
        if "tools" not in body:  # only a request for a summary has none
            return Answer(text="This is what was said before.", input_tokens=100)
        tokens = len(request.body) // 4
        messages: list[Json] = body["messages"]
        at = max(n for n, each in enumerate(messages) if each["role"] == "user")
        newest = _text_of(messages[at])
        done = sum(bool(each.get("tool_calls")) for each in messages[at:])
        for word, answers in self._plans.items():
            if word in newest:
                answer = answers[min(done, len(answers) - 1)]
                assert self.world is not None
                return answer if isinstance(answer, Answer) else answer(self.world)
        return Answer(text=f"re: {newest[:40]}", input_tokens=tokens)


def _text_of(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the scenario, counted and killed on its own."""

    name: str
    write: Callable[[World], None]
    "Writes agents and configuration."
    people: Callable[[World], Any]
    "Does what people do, and returns when all was answered; a coroutine function."
    before: Callable[[World], Any] | None = None
    "Has happened before, in a run that is not killed; None = nothing, the folder is new."
    plans: Mapping[str, tuple[Answer | Plan, ...]] = field(
        default_factory=dict[str, tuple[Answer | Plan, ...]]
    )
    allowed: frozenset[Rule] = frozenset({"repeated"})
    "Documented differences that may come of a kill."
    platforms: frozenset[str] = frozenset({"telegram"})
    files: tuple[str, ...] = ()
    "Below the folder: a line in each says that a side effect happened."
    is_rested: Callable[[World], bool] = lambda _world: True
    "What has to be so besides, before the gateway is stopped."
    ends_before: int = signal.SIGTERM
    "How the run before ends."


@dataclass(slots=True, kw_only=True)
class World:
    """Everything around one workspace."""

    part: Part
    folder: Path
    model: ModelApi
    launcher: Launcher
    telegram: TelegramApi | None = None
    discord: DiscordApi | None = None
    gate: anyio.Event = field(default_factory=anyio.Event)
    "Holds a reply of the model, where a plan says so."
    notes: dict[str, str] = field(default_factory=dict[str, str])
    "What a part has to remember from before."
    answers: list[str] = field(default_factory=list[str])
    "What HTTP clients were answered."
    lives: list[Life] = field(default_factory=list[Life])
    is_stopping: bool = False
    faults: list[str] = field(default_factory=list[str])

    @property
    def workspace(self) -> Path:
        """Where the gateway keeps its state."""
        return self.folder / ".everturn"

    @property
    def home(self) -> Path:
        """Where the agent's tools work."""
        return self.workspace / "files" / "helper"

    @property
    def bot(self) -> TelegramApi:
        """Telegram."""
        assert self.telegram is not None
        return self.telegram

    @property
    def guild(self) -> DiscordApi:
        """Discord."""
        assert self.discord is not None
        return self.discord

    def events(self, chat: int | str, *types: str) -> list[Json]:
        """Return events of the conversations of a chat, of these types."""
        logs = read_logs(self.workspace)
        found = [log for name, log in logs.items() if str(chat) in name.split("/")]
        return [event for log in found for event in log if not types or event["type"] in types]

    async def until(self, is_so: Callable[[], object], what: str) -> None:
        """Wait until something is so.

        Raises:
            StuckError: It did not become so.
        """
        with anyio.move_on_after(WAIT_S):
            while not is_so():  # noqa: ASYNC110 - of files and of another process
                await anyio.sleep(_LOOK_AGAIN_S)
            return
        msg = f"waited in vain: {what}"
        raise StuckError(msg)

    @property
    def address(self) -> str:
        """Where the gateway listens that runs now; empty = it does not yet."""
        try:
            about = json.loads((self.workspace / "gateway.json").read_text())
        except (OSError, ValueError):
            return ""
        is_its = bool(self.lives) and about["pid"] == self.lives[-1].pid
        return str(about["url"]) if is_its and self.lives[-1].code is None else ""

    async def url(self) -> str:
        """Wait for the address of the gateway that runs."""
        await self.until(lambda: self.address, "an address")
        return self.address

    async def post(self, path: str, body: object, key: str) -> str:
        """Ask over HTTP, again with the same key for as long as no answer comes; return it."""
        with anyio.move_on_after(WAIT_S):
            while True:
                async with httpx2.AsyncClient(base_url=await self.url(), timeout=WAIT_S) as client:
                    try:
                        answer = await client.post(
                            path, json=body, headers={"Idempotency-Key": key}
                        )
                    except httpx2.TransportError:
                        await anyio.sleep(_LOOK_AGAIN_S)
                        continue
                if answer.status_code < 500:
                    return str(answer.raise_for_status().json().get("content", answer.text))
                await anyio.sleep(_LOOK_AGAIN_S)
        msg = f"waited in vain: an answer of {path}"
        raise StuckError(msg)


# --- a run ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of one run of a part."""

    account: Account
    trace: tuple[str, ...]
    "The operations of the first life, numbered from 1: `write .everturn/x`."
    was_killed: bool
    "Whether the kill point was reached."
    faults: tuple[str, ...] = ()
    "What must never be so."


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """How the world stood before the part began."""

    folder: Path
    telegram: Mapping[str, Any] = field(default_factory=dict[str, Any])
    discord: DiscordWorld | None = None
    notes: Mapping[str, str] = field(default_factory=dict[str, str])


@asynccontextmanager
async def _open_world(
    part: Part, folder: Path, launcher: Launcher, past: Past | None
) -> AsyncGenerator[World]:
    brain = Brain(part.plans)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(open_model_api(default=brain, kept=50))
        world = World(part=part, folder=folder, model=model, launcher=launcher)
        brain.world = world
        if "telegram" in part.platforms:
            world.telegram = await stack.enter_async_context(open_telegram_api())
        if "discord" in part.platforms:
            world.discord = await stack.enter_async_context(open_discord_api())
        if past is not None:
            world.notes = dict(past.notes)
            if world.telegram is not None:
                world.telegram.chats = copy.deepcopy(past.telegram["chats"])
                world.telegram._next_update = past.telegram["update"] + _FAR
                world.telegram._next_message = past.telegram["message"] + _FAR
            if world.discord is not None:
                assert past.discord is not None
                world.discord.world = copy.deepcopy(past.discord)
            await anyio.to_thread.run_sync(shutil.copytree, past.folder, world.workspace)
        await anyio.to_thread.run_sync(part.write, world)
        yield world


async def make_past(part: Part, folder: Path, launcher: Launcher) -> Past | None:
    """Let happen what was before a part; return how the world stands then."""
    if part.before is None:
        return None
    async with (
        _open_world(part, folder, launcher, None) as world,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_keep_alive, world, NOWHERE)
        await part.before(world)
        await _until_rested(world)
        world.is_stopping = True
        await launcher.signal(world.lives[-1], part.ends_before)
        await world.lives[-1].ended.wait()
        tasks.cancel_scope.cancel()
    assert not world.faults, world.faults
    telegram: dict[str, Any] = {}
    if world.telegram is not None:
        telegram = {
            "chats": world.telegram.chats,
            "update": world.telegram._next_update,
            "message": world.telegram._next_message,
        }
    guild = world.discord.world if world.discord is not None else None
    return Past(folder=world.workspace, telegram=telegram, discord=guild, notes=world.notes)


async def run_part(
    part: Part, folder: Path, launcher: Launcher, past: Past | None, at: KillPoint = NOWHERE
) -> Ran:
    """Run a part with a kill point, or none; return what came of it.

    `folder` is new, and is left for whoever wants to look.
    """
    faults: list[str] = []
    async with _open_world(part, folder, launcher, past) as world:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_keep_alive, world, at)
            try:
                await part.people(world)
                await _until_rested(world)
                world.is_stopping = True
                await launcher.signal(world.lives[-1], signal.SIGTERM)
                await _until_stopped(world)
            except StuckError as error:
                faults.append(str(error))
                for life in world.lives:
                    await launcher.signal(life, signal.SIGKILL)
            world.gate.set()
            tasks.cancel_scope.cancel()
        faults += world.faults
        account_, found = await anyio.to_thread.run_sync(_look, world)
        faults += found
        for session_id in await doctor.session_ids(world.workspace):
            findings = await doctor.check(world.workspace, session_id)
            faults += [f"doctor: {f.path}: {f.text}" for f in findings if BY_ITSELF not in f.text]
    return Ran(
        account=account_,
        trace=read_trace(folder),
        was_killed=bool(at.number) and world.lives[0].code == -signal.SIGKILL,
        faults=tuple(faults),
    )


def read_trace(folder: Path) -> tuple[str, ...]:
    """Return the operations of the first life in a folder, without their numbers."""
    lines = (folder / "trace-1").read_text().splitlines()
    return tuple(line.partition(" ")[2] for line in lines)


async def _keep_alive(world: World, at: KillPoint) -> None:
    """Start the gateway, and again when it was killed; note it where it ends otherwise."""
    while True:
        number = len(world.lives) + 1
        trace = world.folder / f"trace-{number}"
        point = at if number == 1 else NOWHERE
        life = await world.launcher.start(world.folder, trace, point)
        world.lives.append(life)
        await life.ended.wait()
        is_killed = life.code == -signal.SIGKILL and number == 1 and at.number
        if world.is_stopping and not is_killed:
            return
        if not is_killed:
            world.faults.append(f"life {number} ended by itself with {life.code}")
            return
        world.is_stopping = False


async def _until_stopped(world: World) -> None:
    """Wait for the stop; where that was cut short by the kill, let the next life rest, and stop."""
    with anyio.move_on_after(WAIT_S):
        life = world.lives[-1]
        await life.ended.wait()
        if life.code == 0:
            return
        if life.code == -signal.SIGKILL and len(world.lives) == 1:
            await world.until(lambda: len(world.lives) > 1, "a second life")
            await _until_rested(world)
            world.is_stopping = True
            await world.launcher.signal(world.lives[-1], signal.SIGTERM)
            await world.lives[-1].ended.wait()
        if world.lives[-1].code == 0:
            return
    msg = f"it was asked to stop: {[life.code for life in world.lives]}"
    raise StuckError(msg)


async def _until_rested(world: World) -> None:
    def rests() -> bool:
        if not world.address:  # before that, it may not know what a signal means
            return False
        if world.telegram is not None and world.telegram.updates:
            return False
        is_at_rest = all(has_nothing_pending(log) for log in read_logs(world.workspace).values())
        return is_at_rest and world.part.is_rested(world)

    await world.until(rests, "rest")


def _look(world: World) -> tuple[Account, list[str]]:
    """Return what came of a world, and what of it must never be so."""
    logs = read_logs(world.workspace)
    chats = chats_of(world.telegram, world.discord)
    witness = {name: lines_of(world.folder / name) for name in world.part.files}
    made = account(
        logs, chats, witness=witness, answers=tuple(world.answers), runs=runs_of(world.workspace)
    )
    return made, audit(logs, chats) + complaints(world.folder / "serve.log")
