"""Agents whose tools have a folder, and channels of one process, on two gateways."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import dedent
from uuid import uuid4

import anyio
import pytest
from anyio import to_thread
from support.answers import Answer
from support.database import Server, needs_database
from support.matrix_world import open_world
from support.model_api import Received, open_model_api
from support.patience import WAIT_S
from support.plugins import PRELUDE
from support.talking import OPEN, write_talking

from everturn_actors.errors import HomeElsewhereError
from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_actors.service.stateless import History
from everturn_gateway.app import Gateway, homes, open_gateway
from everturn_gateway.cli import run
from everturn_gateway.config.settings import Config, load_config

pytestmark = needs_database

KEY = ConversationKey(channel="http", chat="one", agent="helper")
HOME = "agent:helper"
PROGRAM = """
    connect()
    with open("heard", "a") as heard:
        heard.write("began\\n")
        message(1, text="from outside")
        while True:
            told = hear()
            if told["type"] in ("send", "stream"):
                heard.write(told.get("text", "") + "\\n")
                heard.flush()
            if "request" in told:
                done(told, message_id="m9")
"""


def echo(request: Received) -> Answer:
    """Answer with what was said last."""
    return Answer(text=f"re: {request.json()['messages'][-1]['content'].rpartition(' ')[2]}")


def make_node(
    folder: Path, name: str, model: str, store: dict[str, object], **more: object
) -> Config:
    """Return the configuration of a node whose agent runs commands."""
    (folder / name).mkdir()
    write_talking(folder / name, model, channels={}, agents={"helper": OPEN})
    cluster = {"node": name, "listen": str(folder / name / "link"), "secret": "0123456789abcdef"}
    file = folder / name / "everturn.yaml"
    config = {**json.loads(file.read_text()), "store": store, "cluster": cluster, **more}
    file.write_text(json.dumps(config))
    return load_config(file, environ={})


@pytest.fixture
def store(database_server: Server) -> dict[str, object]:
    """Return the section of a store of this test's own."""
    return {
        "type": "postgres",
        "url": database_server.url(),
        "schema": f"t{uuid4().hex}",
        "connections": 2,
    }


async def until(is_so: Callable[[], bool], *gateways: Gateway) -> None:
    """Wait until something is so."""
    with anyio.fail_after(WAIT_S):
        while not is_so():
            for each in gateways:
                assert each.ownership is not None
                with anyio.move_on_after(0.1):
                    await each.ownership.changed()


def holder(gateway: Gateway, seat: str) -> str:
    """Return the name of the node that has a seat, as a node knows it."""
    assert gateway.ownership is not None
    node = gateway.ownership.seat_holder(seat)
    return node.name if node is not None else ""


async def say(gateway: Gateway, text: str) -> str:
    """Write in the conversation at a node; return the answer."""
    sent = await gateway.service.submit(IncomingMessage(text=text, key=KEY))
    with anyio.fail_after(WAIT_S):
        return (await sent.result()).text


async def test_an_agent_with_a_folder_works_where_that_is_and_moves_by_an_operators_word(
    store: dict[str, object], tmp_path: Path
) -> None:
    """Its home is where its files are; if that node is gone its sessions wait, until it is told."""
    async with open_model_api(default=echo) as model:
        configs = [
            await to_thread.run_sync(make_node, tmp_path, name, model.url, store) for name in "ab"
        ]
        files = configs[1].workspace / "files" / "helper"
        await to_thread.run_sync(lambda: files.mkdir(parents=True))
        await to_thread.run_sync((files / "notes.txt").write_text, "kept")
        async with open_gateway(configs[0], environ={}) as a:
            async with open_gateway(configs[1], environ={}) as b:
                await until(lambda: {holder(a, HOME), holder(b, HOME)} == {"b"}, a, b)
                assert await say(a, "one") == "re: one"
                assert await say(b, "two") == "re: two"
                session = await a.service.conversations.current(KEY)
                assert b.service.activity.present(session) is not None
                assert a.service.activity.present(session) is None
                with pytest.raises(HomeElsewhereError, match="works with files on another node"):
                    await a.service.stateless.submit(
                        IncomingMessage(text="once"), History(), agent="helper"
                    )
                with pytest.raises(HomeElsewhereError):
                    a.checkpoints("helper")
            await until(lambda: bool(a.node_differences()), a)
            assert holder(a, HOME) == ""
            assert "agent:helper: its folder is on node b" in a.node_differences()[0]
            place = ["--config", str(tmp_path / "a" / "everturn.yaml")]
            assert await to_thread.run_sync(run, ["seat", "list", *place]) == 1
            moving = ["seat", "move", HOME, "a", *place]
            assert await to_thread.run_sync(run, moving) == 2  # nobody said what becomes of it
            assert await to_thread.run_sync(run, [*moving, "--yes", "--json"]) == 0
            await until(lambda: holder(a, HOME) == "a", a)
            assert await say(a, "three") == "re: three"
            assert a.node_differences() == ()


async def test_a_channel_of_one_process_is_whole_on_one_node(
    store: dict[str, object], tmp_path: Path
) -> None:
    """Its program runs once; what is said in its chats elsewhere is sent by it as well."""
    (tmp_path / "program.py").write_text(PRELUDE + dedent(PROGRAM))
    channel = {
        "name": "mine",
        "command": sys.executable,
        "args": ["-IS", str(tmp_path / "program.py")],
    }
    async with open_model_api(default=echo) as model:
        configs = [
            await to_thread.run_sync(
                partial(
                    make_node, tmp_path, name, model.url, store, channels={"external": [channel]}
                )
            )
            for name in "ab"
        ]
        heard = [each.workspace.parent / "heard" for each in configs]

        def lines() -> list[str]:
            return [
                line for each in heard if each.exists() for line in each.read_text().split("\n")
            ]

        for config in configs:
            file = config.workspace.parent / "agents" / "helper" / "agent.yaml"
            await to_thread.run_sync(file.write_text, file.read_text() + "  placement: anywhere\n")
        async with (
            open_gateway(configs[0], environ={}) as a,
            open_gateway(configs[1], environ={}) as b,
        ):
            await until(lambda: "re: outside" in lines(), a, b)
            there = holder(a, "channel:mine")
            assert there in {"a", "b"}
            other = b if there == "a" else a
            states = other.channels.statuses
            await until(lambda: [each.state for each in states()] == ["standing by"], a, b)
            key = ConversationKey(channel="mine", chat="c", agent="helper")
            await other.service.submit(IncomingMessage(text="more", key=key))
            await until(lambda: "re: more" in lines(), a, b)
            assert lines().count("began") == 1


async def test_a_matrix_bot_stays_at_the_node_that_has_its_keys(
    store: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One node is the device; when that is gone the bot waits, until an operator moves it."""
    monkeypatch.setattr(homes, "LOOK_S", 0.1)
    async with (
        open_model_api(default=echo) as model,
        open_world(tmp_path / "people") as matrix,
    ):
        account = {
            "homeserver": matrix.api.url,
            "access_token": matrix.bot.token,
            "encryption": False,
            "streaming": False,
        }
        make = partial(
            make_node, tmp_path, model=model.url, store=store, channels={"matrix": account}
        )
        configs = [await to_thread.run_sync(partial(make, name)) for name in "ab"]
        for config in configs:
            file = config.workspace.parent / "agents" / "helper" / "agent.yaml"
            await to_thread.run_sync(file.write_text, file.read_text() + "  placement: anywhere\n")
        keys = configs[0].workspace / "channels" / "matrix"
        await to_thread.run_sync(partial(keys.mkdir, parents=True))
        await to_thread.run_sync((keys / "keys").write_text, "kept")

        async def told(text: str) -> int:
            return [each["body"] for each in await matrix.said()].count(text)

        async def ask(text: str) -> None:
            await matrix.ann.write(matrix.room, text)
            with anyio.fail_after(WAIT_S):
                while not await told(f"re: {text}"):
                    pass

        async with open_gateway(configs[0], environ={}) as a:
            await until(lambda: holder(a, "channel:matrix") == "a", a)
            async with open_gateway(configs[1], environ={}) as b:
                await until(lambda: holder(b, "channel:matrix") == "a", b)
                states = b.channels.statuses
                await until(lambda: [each.state for each in states()] == ["standing by"], a, b)
                await ask("one")
                moving = ["seat", "move", "channel:matrix", "b", "--yes"]
                place = ["--config", str(tmp_path / "a" / "everturn.yaml")]
                assert await to_thread.run_sync(run, [*moving, *place]) == 0
                await until(lambda: holder(a, "channel:matrix") == "b", a, b)
                await ask("two")
            assert [await told(f"re: {text}") for text in ("one", "two")] == [1, 1]
            await until(lambda: bool(a.node_differences()), a)
            assert holder(a, "channel:matrix") == ""
            assert "channel:matrix" in a.node_differences()[0]
