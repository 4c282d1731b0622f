"""Two gateways on one database behind one bot: one hears, both answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread
from support.answers import Answer
from support.database import Server, needs_database
from support.model_api import Received, open_model_api
from support.patience import WAIT_S
from support.talking import OPEN, write_talking
from support.telegram_api import ANN, TOKEN, TelegramApi, open_telegram_api

from everturn_gateway.app import Gateway, open_gateway
from everturn_gateway.config.settings import Config, load_config

pytestmark = needs_database

Json = dict[str, Any]
CHATS = range(ANN, ANN + 8)


def echo(request: Received) -> Answer:
    """Answer with what was said last."""
    said = str(request.json()["messages"][-1]["content"])
    return Answer(text=f"you said {said.rpartition(' ')[2]}")


def answers(telegram: TelegramApi, text: str) -> int:
    """Return how often anybody was told a text."""
    return sum(text in call.params["text"] for call in telegram.sent("sendMessage"))


def make_node(folder: Path, name: str, model: str, telegram: str, store: Json) -> Config:
    """Return the configuration of a node that has the bot."""
    (folder / name).mkdir()
    bot = {"bot_token": TOKEN, "api_base": telegram}
    write_talking(folder / name, model, channels={"telegram": bot}, agents={"helper": OPEN})
    with (folder / name / "agents" / "helper" / "agent.yaml").open("a") as agent:
        agent.write("  placement: anywhere\n")
    file = folder / name / "everturn.yaml"
    cluster = {"node": name, "listen": str(folder / name / "link"), "secret": "0123456789abcdef"}
    config = {**json.loads(file.read_text()), "store": store, "cluster": cluster}
    file.write_text(json.dumps(config))
    return load_config(file, environ={})


def seat(gateway: Gateway) -> bool:
    """Say whether a node is the one that hears."""
    ownership = gateway.ownership
    return ownership is not None and ownership.seat_epoch("channel:telegram") is not None


async def test_each_chat_is_answered_once_whichever_node_has_its_conversation(
    database_server: Server, tmp_path: Path
) -> None:
    """A reply is sent by the owner of its session; two that poll would be a conflict."""
    store = {
        "type": "postgres",
        "url": database_server.url(),
        "schema": f"t{uuid4().hex}",
        "connections": 2,
    }
    async with open_model_api(default=echo) as model, open_telegram_api() as telegram:
        configs = [
            await anyio.to_thread.run_sync(
                make_node, tmp_path, name, model.url, telegram.url, store
            )
            for name in ("a", "b")
        ]
        async with open_gateway(configs[0], environ={}) as first:
            await telegram.until(lambda: len(telegram.sent("getUpdates")) > 1)
            for chat in CHATS:
                telegram.say("one", chat=chat)
            await telegram.until(lambda: answers(telegram, "you said one") == len(CHATS))
            async with open_gateway(configs[1], environ={}) as second:
                await _shared(second)
                for chat in CHATS:
                    telegram.say("two", chat=chat)
                await telegram.until(lambda: answers(telegram, "you said two") == len(CHATS))
                assert seat(first) != seat(second)
            for chat in CHATS:
                telegram.say("three", chat=chat)
            await telegram.until(lambda: answers(telegram, "you said three") == len(CHATS))
    said = [
        (int(each.params["chat_id"]), each.params["text"]) for each in telegram.sent("sendMessage")
    ]
    wanted = [(chat, f"you said {text}") for chat in CHATS for text in ("one", "three", "two")]
    assert sorted(said) == wanted


async def _one_hears(first: Gateway, second: Gateway) -> None:
    """Wait until one of them has the seat, which may be on its way."""
    with anyio.fail_after(WAIT_S):
        while seat(first) == seat(second):
            assert first.ownership is not None
            with anyio.move_on_after(0.1):
                await first.ownership.changed()


async def _shared(gateway: Gateway) -> None:
    """Wait until each has a part of the sessions."""
    with anyio.fail_after(WAIT_S):
        while not all(each.partitions > 10 for each in gateway.nodes()):
            assert gateway.ownership is not None
            with anyio.move_on_after(0.1):
                await gateway.ownership.changed()
