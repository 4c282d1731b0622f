"""The parts of the scenario: what a gateway does to the disk, each in as short a run as can be."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from support.answers import Answer
from support.discord_api import TOKEN as DISCORD_TOKEN
from support.killing.lives import Part, World
from support.planned import outcomes, write_job
from support.talking import ANN, in_parts, write
from support.telegram_api import TOKEN

from everturn_actors.model import ToolCall
from everturn_gateway.clock import SystemClock

_AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {{name: helper}}
spec:
  model: {{provider: openai, name: fake-1, base_url: "{url}"{model}}}
  system_prompt: You help.
  access: {access}
  session: {{on_disconnect: continue, compaction: archive}}
  tools:
    - {{type: builtin, name: bash}}
    - {{type: builtin, name: background_process}}
    - {{type: builtin, name: files}}
"""
_SMALL: Final = ", context_window: 8000, max_output_tokens: 500"
_LONG: Final = "word " * 400
_SOON_S: Final = 0.7
_HOME: Final = ".everturn/files/helper"
REACHED: Final = 2001
"A chat that scheduled jobs speak in."


def _write(world: World, *, mode: str = "dangerous", debounce_ms: int = 0, model: str = "") -> None:
    """Write one agent, `helper`, and the channels that the part is on."""
    home = world.folder / "agents" / "helper"
    home.mkdir(parents=True)
    debounce: Mapping[str, object] = {"enabled": bool(debounce_ms), "window_ms": debounce_ms or 1}
    rules = {"policy": "open", "queue": {"debounce": debounce}}
    text = _AGENT.format(
        url=world.model.url, access=json.dumps({"dm": rules, "groups": rules}), model=model
    )
    (home / "agent.yaml").write_text(text)
    (home / "policy.yaml").write_text(f"mode: {mode}\n")
    channels: dict[str, object] = {}
    if world.telegram is not None:
        channels["telegram"] = {"bot_token": TOKEN, "api_base": world.telegram.url}
    if world.discord is not None:
        guild = world.discord
        address = {"api_base": guild.base, "gateway_url": guild.gateway}
        channels["discord"] = {"bot_token": DISCORD_TOKEN, **address}
    file = world.folder / "everturn.yaml"
    file.write_text(json.dumps({"server": {"port": 0}, "channels": channels}))
    file.chmod(0o600)  # it holds tokens


def _calls(*calls: tuple[str, Mapping[str, Any]], name: str) -> Answer:
    made = tuple(
        ToolCall(call_id=f"call-{name}-{n}", name=tool, arguments=json.dumps(arguments))
        for n, (tool, arguments) in enumerate(calls)
    )
    return Answer(calls=made)


def _said(world: World, chat: int = ANN) -> list[str]:
    """Return what the bot wrote to somebody, as it stands now."""
    me = world.bot.me["id"]
    return [
        str(message.get("text", ""))
        for (where, _), message in world.bot.messages.items()
        if where == chat and message["from"]["id"] == me
    ]


async def _until_said(world: World, text: str, chat: int = ANN) -> None:
    await world.until(
        lambda: any(said.endswith(text) for said in _said(world, chat)), f"{text!r} in {chat}"
    )


async def _greet(world: World) -> None:
    """Have a gateway that has listened before, and has talked to Ann."""
    await _listened(world)
    write(world.bot, "good morning")
    await _until_said(world, "re: good morning")


async def _listened(world: World) -> None:
    """Have a gateway that has listened before, and keeps how far it has read."""

    def listens() -> bool:
        polls = [call for call in world.bot.calls if call.method == "getUpdates"]
        return bool(polls) and int(polls[-1].params.get("timeout", 0)) > 0 and world.bot.has_poll

    await world.until(listens, "a bot that listens")


# --- burst ---


async def _burst(world: World) -> None:
    for text in ("one", "two", "three"):
        write(world.bot, text)
    await _until_said(world, "re: three")


async def _first(world: World) -> None:
    await _listened(world)
    await _burst(world)


# --- tools ---


_THREE: Final = _calls(
    ("read_file", {"path": "notes.txt"}),
    ("list_files", {}),
    ("bash", {"command": "echo ran >> ran; seq 1 12000"}),
    name="work",
)


def _held(world: World) -> Answer:
    """Ask for a call, which is not run: the message that steers the turn has come by then."""
    answer = _calls(("bash", {"command": "echo never >> never"}), name="more")
    return replace(answer, hold={0: world.gate})


async def _before_tools(world: World) -> None:
    await _greet(world)
    world.home.mkdir(parents=True, exist_ok=True)
    (world.home / "notes.txt").write_text("Buy milk.\n")


def _is_told_of_results(world: World) -> bool:
    told = [each.json()["messages"] for each in world.model.requests]
    return any(sum(each["role"] == "tool" for each in messages) == 3 for messages in told)


async def _tools(world: World) -> None:
    write(world.bot, "work")
    # Before that it might be read with the results, and a call less would be made.
    await world.until(partial(_is_told_of_results, world), "the model to be told of three results")
    write(world.bot, "and also this")
    await world.until(
        lambda: any("also" in e["text"] for e in world.events(ANN, "received")), "also"
    )
    world.gate.set()
    await _until_said(world, "Both are done.")


# --- approvals ---


_QUESTIONS: Final = {"make it": ("echo made >> made", 0), "touch it": ("touch always", 1)}
"What is asked for, with the button that is pressed: once, always."


async def _approval(world: World) -> None:
    for word, (command, button) in _QUESTIONS.items():
        write(world.bot, word)
        find = partial(_buttons, world, command, button)
        await world.until(find, f"a question about {word!r}")
        world.bot.click(*find()[0])
        await _until_said(world, f"Done: {word}.")


def _buttons(world: World, command: str, position: int) -> list[tuple[Any, str]]:
    """Return messages that ask about a command, each with the data of one of its buttons."""
    found: list[tuple[Any, str]] = []
    for message in world.bot.messages.values():
        keyboard = (message.get("reply_markup") or {}).get("inline_keyboard", [])
        buttons = [button for row in keyboard for button in row]
        if command in str(message.get("text", "")) and len(buttons) > position:
            found.append((message, str(buttons[position]["callback_data"])))
    return found


# --- summary ---


async def _before_summary(world: World) -> None:
    await _listened(world)
    for number in range(6):
        write(world.bot, f"{number}: {_LONG}")
        await _until_said(world, f"re: {number}: {_LONG}"[:44].strip())


async def _summary(world: World) -> None:
    for number in range(6, 10):
        write(world.bot, f"{number}: {_LONG}")
        await _until_said(world, f"re: {number}: {_LONG}"[:44].strip())
    await world.until(lambda: world.events(ANN, "summarised"), "a summary")


# --- long answers ---


async def _long_telegram(world: World) -> None:
    write(world.bot, "a long one")
    await world.until(lambda: any("part 3" in text for text in _said(world)), "all chunks")


async def _before_discord(world: World) -> None:
    ann = world.guild.world.add_user("ann")
    world.notes["ann"], world.notes["dm"] = str(ann["id"]), world.guild.world.dm(ann)
    await world.until(lambda: world.guild.sessions and world.guild.commands, "a bot on Discord")
    await _says(world, "good morning", "re: good morning")


async def _says(world: World, text: str, end: str) -> None:
    ann, channel = world.guild.world.users[world.notes["ann"]], world.notes["dm"]
    await world.guild.says(text, author=ann, channel=channel)
    await world.until(
        lambda: any(end in str(m["content"]) for m in world.guild.said(channel)), f"{end!r}"
    )


async def _long_discord(world: World) -> None:
    await world.until(lambda: world.guild.sessions, "a bot on Discord")
    await _says(world, "a long one", "part 3")


# --- schedules ---


def _write_jobs(world: World) -> None:
    _write(world)
    if not (world.workspace / "channels").exists():
        return  # before: nothing is due
    world.bot.chat(REACHED)
    at = (SystemClock().now() + timedelta(seconds=_SOON_S)).isoformat()
    to = {"channel": "telegram", "chat": str(REACHED)}
    write_job(world.folder, "said", at=at, message="Tea is ready.", to=to)
    write_job(world.folder, "asked", at=at, task="Look for tea.", to={**to, "chat": str(ANN)})


async def _schedule(world: World) -> None:
    await _until_said(world, "Tea is ready.", REACHED)
    await _until_said(world, "There is tea.")
    await world.until(
        lambda: all(outcomes(world.folder, name) for name in ("said", "asked")), "the end of jobs"
    )


# --- processes ---


async def _process(world: World) -> None:
    write(world.bot, "begin it")
    await _until_said(world, "It has begun.")
    (world.home / "go").write_text("")
    await world.until(lambda: _is_told(world), "the end of the process")


def _is_told(world: World) -> bool:
    """Whether the end of the process was said, or its start was cut short and nothing is left."""
    if any(text.endswith("It is over.") for text in _said(world)):
        return True
    begun = world.events(ANN, "call_finished")
    is_cut = any("outcome unknown" in each["text"] for each in begun)
    return is_cut and not list((world.workspace / "processes").glob("*/record.json"))


_SPAWN: Final = "until [ -e go ]; do sleep 0.05; done; echo over >> over"


# --- HTTP ---


async def _before_http(world: World) -> None:
    body = json.loads(await world.post("/api/v1/sessions", {"agent": "helper"}, "made"))
    world.notes["session"] = str(body["id"])


async def _http(world: World) -> None:
    path = f"/api/v1/sessions/{world.notes['session']}/messages"
    for number in (1, 2):
        answer = await world.post(path, {"content": f"say {number}"}, f"key-{number}")
        world.answers.append(answer)


_CHUNKS: Final = "a long one"
PARTS: Final = (
    Part(
        name="first start, burst, Telegram",
        write=lambda world: _write(world, debounce_ms=300),
        people=_first,
        allowed=frozenset({"repeated", "regrouped"}),
    ),
    Part(
        name="steered turn with parallel calls",
        write=_write,
        before=_before_tools,
        people=_tools,
        plans={
            "also": (Answer(text="Both are done."),),
            "work": (_THREE, _held, Answer(text="Done.")),
        },
        allowed=frozenset({"repeated", "interrupted", "regrouped"}),
        files=(f"{_HOME}/ran", f"{_HOME}/never"),
    ),
    Part(
        name="approvals: once, always",
        write=lambda world: _write(world, mode="ask"),
        before=_greet,
        people=_approval,
        plans={
            word: (_calls(("bash", {"command": command}), name=word), Answer(text=f"Done: {word}."))
            for word, (command, _) in _QUESTIONS.items()
        },
        allowed=frozenset({"repeated", "interrupted", "closed"}),
        files=(f"{_HOME}/made", "agents/helper/policy.local.yaml"),
    ),
    Part(
        name="summary, compaction, snapshot",
        write=lambda world: _write(world, model=_SMALL),
        before=_before_summary,
        people=_summary,
        allowed=frozenset({"repeated", "summary"}),
        ends_before=signal.SIGKILL,
    ),
    Part(
        name="long answer, Telegram",
        write=_write,
        before=_greet,
        people=_long_telegram,
        plans={_CHUNKS: (Answer(text=in_parts("part", 3, 3000)),)},
    ),
    Part(
        name="long answer, Discord",
        write=_write,
        before=_before_discord,
        people=_long_discord,
        plans={_CHUNKS: (Answer(text=in_parts("part", 3, 1500)),)},
        platforms=frozenset({"discord"}),
    ),
    Part(
        name="scheduled message and task",
        write=_write_jobs,
        before=_greet,
        people=_schedule,
        plans={"Look for tea": (Answer(text="There is tea."),)},
    ),
    Part(
        name="background process that calls back",
        write=_write,
        before=_before_tools,
        people=_process,
        plans={
            "begin it": (
                _calls(("background_process", {"action": "spawn", "command": _SPAWN}), name="it"),
                Answer(text="It has begun."),
            ),
            "background process": (Answer(text="It is over."),),
        },
        allowed=frozenset({"repeated", "interrupted", "lost process"}),
        files=(f"{_HOME}/over",),
    ),
    Part(
        name="HTTP with Idempotency-Key",
        write=_write,
        before=_before_http,
        people=_http,
        plans={"say": (Answer(text="Said."),)},
        platforms=frozenset(),
    ),
)
