"""A gateway as a household and a small team have it, to be looked at: agents, chats, jobs, a bot.

Everything in it is real but the model and Telegram, which stand on loopback.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import httpx2
import yaml
from channels import in_thread, until
from harness import ROOT, gateway, workspace

sys.path.insert(0, str(ROOT / "tests"))

from support.answers import Answer
from support.model_api import Received, open_model_api
from support.telegram_api import TOKEN, TelegramApi, open_telegram_api

from everturn_actors.model import ToolCall
from everturn_gateway.clock import SystemClock

_CLOCK: Final = SystemClock()
_PLAN: Final = """\
Here is a plan for four days in Lisbon in May:

1. Friday: arrive at 18:40, check in near Príncipe Real, dinner at a tasca.
2. Saturday: Alfama on foot before ten, the tile museum, tram 28 after the crowds.
3. Sunday: train to Sintra at 8:41; the palace first, it fills up by noon.
4. Monday: Belém, and back by 16:05.

The cheapest direct flight is TP 583 for 178 euros, see https://example.org/flights/tp583.
Shall I hold it until tomorrow evening?"""
_REPLIES: Final[Mapping[str, str]] = {
    "Lisbon": _PLAN,
    "4711": "The export fails since Tuesday's deploy: `orders.csv` is opened before it is written."
    " I have attached the trace, and a fix that waits for review.",
    "minutes": "Three decisions, two open questions. Nobody has taken on the migration yet.",
    "tea": "Green tea keeps about a year if it is dry, dark and closed.",
    "Who": "Ana takes over on Thursday; Ben is away until Monday.",
}
_COMMANDS: Final[Mapping[str, str]] = {
    "tidy": "rm -r build dist *.egg-info",
    "disk": "df -h / | tail -1",
    "tests": 'for n in $(seq 1 40); do echo "test_$n passed"; done',
}
ASKED: Final = "Can you tidy up the checkout before the release?"
_PEOPLE: Final = ((700, "Ana"), (701, "Ben"), (702, "Chloé"), (703, "Deniz"))


def _answer(request: Received) -> Answer:
    """Return what the model says to a request."""
    messages = request.json()["messages"]
    last = messages[-1]
    tokens = len(request.body) // 4
    used = {"input_tokens": tokens, "cached_tokens": tokens * 3 // 5, "model": "gpt-5-mini"}
    if last["role"] == "tool":
        text = str(last["content"]).strip().splitlines()
        return Answer(text=f"Done. {text[-1] if text else 'It said nothing.'}", **used)
    said = str(last["content"])
    for word, command in _COMMANDS.items():
        if word in said:
            arguments = json.dumps({"command": command})
            call = ToolCall(call_id=f"c{len(messages)}", name="bash", arguments=arguments)
            return Answer(text="Let me look.", calls=(call,), output_tokens=40, **used)
    text = next((reply for word, reply in _REPLIES.items() if word in said), "")
    return Answer(text=text or "I have noted it.", output_tokens=len(text) // 4 + 5, **used)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A gateway that runs, and what stands in it."""

    url: str
    folder: Path
    sessions: Mapping[str, str]
    "By title: the ids of those that were begun."


@asynccontextmanager
async def open_world(amount: str) -> AsyncGenerator[World]:
    """Run a gateway with nothing in it (`none`), with one of each (`one`), or with `many`."""
    async with (
        open_model_api(default=_answer) as model,
        open_telegram_api() as telegram,
    ):
        for chat, name in _PEOPLE:
            telegram.chat(chat, first_name=name)
        with workspace(model.url) as folder:
            await anyio.to_thread.run_sync(_write, folder, model.url, telegram.url, amount)
            environ = {"BENCH_TOKEN": TOKEN}
            async with in_thread(gateway(folder, environ=environ)) as running:
                sessions = await _live(running.url, telegram, amount)
                yield World(url=running.url, folder=folder, sessions=sessions)


def _write(folder: Path, model_url: str, telegram_url: str, amount: str) -> None:
    """Write the configuration, the agents, and jobs."""
    (folder / "agents" / "bench" / "agent.yaml").unlink()
    (folder / "agents" / "bench").rmdir()
    config: dict[str, object] = {
        "server": {"port": 0},
        "console": {"edit_agents": True},
        "prices": {"openai/*": {"input": 0.4, "cached": 0.1, "output": 1.6}},
    }
    if amount != "none":
        config["routes"] = [{"match": {}, "agent": "assistant"}]
        bot = {"bot_token": "${BENCH_TOKEN}", "api_base": telegram_url}
        config["channels"] = {"telegram": bot}
        _write_agent(folder, "assistant", model_url, about="Everyday questions, trips and dates.")
    if amount == "many":
        config["channels"] = {
            "telegram": bot,
            "external": [{"name": "irc", "command": "irc-bridge", "restart": "always"}],
        }
        _write_agent(
            folder,
            "workbench",
            model_url,
            about="Looks after the build, the tests and the release.",
            tools=[{"type": "builtin", "name": "bash"}],
        )
        _write_agent(folder, "research", model_url, about="Reads a lot, and says where it stood.")
        broken = folder / "agents" / "night-watch"
        broken.mkdir()
        (broken / "agent.yaml").write_text(
            "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: night-watch}\n"
            "spec:\n  model: {provider: openia, name: gpt-5}\n  sistem_prompt: Watch.\n"
        )
    (folder / "everturn.yaml").write_text(yaml.safe_dump(config))
    jobs: dict[str, dict[str, object]] = {}
    if amount != "none":
        jobs["standup"] = {
            "agent": "assistant",
            "label": "Stand-up",
            "cron": "30 8 * * mon-fri",
            "timezone": "Europe/Berlin",
            "task": "Sum up the minutes of yesterday.",
        }
    if amount == "many":
        jobs |= {
            "bins": {
                "agent": "assistant",
                "cron": "0 19 * * thu",
                "timezone": "Europe/Berlin",
                "message": "Put the bins out.",
                "to": {"channel": "telegram", "chat": "700"},
            },
            "disk": {"agent": "workbench", "every": "6h", "task": "How full is the disk?"},
            "release": {
                "agent": "gone",
                "label": "Release notes",
                "every": "1d",
                "task": "Write the notes of the release.",
            },
            "holiday": {
                "agent": "research",
                "label": "News of the field",
                "every": "1w",
                "task": "What was published?",
                "paused": True,
            },
        }
    schedules = folder / ".everturn" / "schedules"
    schedules.mkdir(parents=True)
    for name, job in jobs.items():
        (schedules / f"{name}.yaml").write_text(yaml.safe_dump(job))


def _write_agent(
    folder: Path,
    name: str,
    model_url: str,
    *,
    about: str,
    tools: list[dict[str, str]] | None = None,
) -> None:
    document = {
        "apiVersion": "duragent/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": name, "description": about, "version": "1.2.0"},
        "spec": {
            "model": {
                "provider": "openai",
                "name": "gpt-5-mini",
                "base_url": model_url,
                "max_input_tokens": 16_000,
            },
            "system_prompt": f"You are {name}. {about}",
            "memory": {"backend": "filesystem"},
            "skills_dir": "./skills/",
            "tools": tools or [],
            "access": {"dm": {"policy": "allowlist", "allowlist": [700]}},
            "usage": {"daily_cost_usd": 5},
        },
    }
    file = folder / "agents" / name / "agent.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    skill = file.parent / "skills" / "minutes" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(
        "---\nname: minutes\ndescription: Write the minutes of a meeting.\n---\n\n"
        "# Minutes\n\nDecisions first, then who does what until when.\n"
    )


async def _live(url: str, telegram: TelegramApi, amount: str) -> dict[str, str]:
    """Let people talk to it; return the ids of sessions by their title."""
    sessions: dict[str, str] = {}
    if amount == "none":
        return sessions
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:

        async def say(agent: str, title: str, *texts: str, waits: bool = True) -> None:
            made = (await client.post("/api/v1/sessions", json={"agent": agent})).json()
            sessions[title] = made["id"]
            for text in texts:
                answer = await client.post(
                    f"/api/v1/sessions/{made['id']}/messages",
                    json={"content": text},
                    headers={} if waits or text != texts[-1] else {"Prefer": "respond-async"},
                )
                assert answer.status_code in {200, 202}, answer.text
            if title[0] != "-":
                await client.patch(f"/api/v1/sessions/{made['id']}", json={"title": title})

        filler = [f"And what about day {n}? {'Tell me more. ' * 30}" for n in range(1, 13)]
        trip = ["Find me a flight to Lisbon in May, under 200 euros.", *filler]
        await say("assistant", "Trip to Lisbon", *(trip if amount == "many" else trip[:1]))
        if amount == "one":
            return sessions
        await client.post(f"/api/v1/sessions/{sessions['Trip to Lisbon']}/compact", json={})
        await say("assistant", "Trip to Lisbon, by train", trip[0], "And by train?")
        await say("research", "Minutes of Monday", "Sum up the minutes of Monday.")
        await say("workbench", "Ticket 4711", "What is ticket 4711 about?")
        for number in range(30):
            await say("assistant", f"-{number}", f"A note for later, number {number}: buy tea.")
        for chat, name in _PEOPLE[:2]:  # Ben has to be let in first
            sender = {"id": chat, "is_bot": False, "first_name": name}
            fields = {"chat": chat, "from": sender, "date": int(_CLOCK.now().timestamp())}
            telegram.say("Who is on duty this week?", **fields)
        await until(lambda: len(telegram.sent()) >= 2, "answers in chats")
        await client.post("/api/v1/schedules/standup/run", json={})
        await client.post("/api/v1/schedules/disk/run", json={})
        await say("workbench", "Nightly run", "Please run the tests.", waits=False)
        await say("workbench", "Release 2.4", "What is ticket 4711 about?", ASKED, waits=False)
        await _until_asked(client, 2)
    return sessions


async def _until_asked(client: httpx2.AsyncClient, count: int) -> None:
    """Wait until so many calls wait for a person."""
    with anyio.fail_after(60):
        async with client.stream("GET", "/api/v1/stream") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: ") and line.count('"call_id"') >= count:
                    return
