"""A group of Telegram becomes a supergroup: to its people it stays the same conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from support.answers import Answer
from support.command import everturn
from support.model_api import open_model_api
from support.process import TELEGRAM, gateway_process
from support.talking import (
    ANN,
    GROUP,
    SOON,
    Brain,
    log_of,
    read,
    until,
    until_listening,
    until_said,
    write,
    write_talking,
)
from support.telegram_api import BOT, TOKEN, open_telegram_api

SUPER = -1005005
LISTED = {
    "groups": {"policy": "allowlist", "allowlist": [f"telegram:{GROUP}"], "queue": SOON},
}


def write_group(folder: Path, model_url: str, telegram_url: str) -> None:
    """Write a workspace with one bot, which answers in one group alone."""
    write_talking(
        folder,
        model_url,
        channels={"telegram": {"bot_token": TOKEN, "api_base": telegram_url, "streaming": False}},
        agents={"helper": LISTED, "other": {}},
        routes=(
            {"match": {"chat_id": str(GROUP)}, "agent": "helper"},
            {"match": {}, "agent": "other"},
        ),
    )


@pytest.mark.parametrize(
    "says",
    [(GROUP, SUPER), (SUPER, GROUP), (GROUP,), (SUPER,), ()],
    ids=["both", "the other way round", "the old one alone", "the new one alone", "neither"],
)
async def test_a_group_becomes_a_supergroup_in_the_middle_of_a_turn(
    tmp_path: Path, says: Sequence[int]
) -> None:
    """It keeps its conversation, access, route and the reply that is under way."""
    brain, gate = Brain(), anyio.Event()
    brain.plan("think", Answer(text="Well thought.", hold={0: gate}))
    async with open_model_api(default=brain) as model, open_telegram_api() as telegram:
        write_group(tmp_path, model.url, telegram.url)
        async with gateway_process(tmp_path, imported=TELEGRAM):
            await until_listening(telegram)
            write(telegram, f"@{BOT} my pin is 4711", chat=GROUP)
            await until(lambda: len(read(telegram, GROUP)) == 1)
            write(telegram, f"@{BOT} think", chat=GROUP)
            await until(lambda: brain.about("think"))
            telegram.migrate(GROUP, SUPER, says=says)
            gate.set()
            await until(lambda: read(telegram, SUPER) == ["Well thought."])
            write(telegram, f"@{BOT} what is it", chat=SUPER)
            await until(lambda: len(read(telegram, SUPER)) == 2)
            await until_said(tmp_path, GROUP)
        async with gateway_process(tmp_path, imported=TELEGRAM):
            await until_listening(telegram)
            write(telegram, f"@{BOT} and now", chat=SUPER)
            await until(lambda: len(read(telegram, SUPER)) == 3)

        looked = await everturn("doctor", cwd=tmp_path)
        assert f"names telegram:{GROUP}, which is telegram:{SUPER} now" in looked.out
        assert f"routes[0].match.chat_id names {GROUP}, which is {SUPER} now" in looked.out
        for word in ("what is it", "and now"):
            assert "4711" in json.dumps(brain.about(word)[0]), "another conversation"
        assert read(telegram, SUPER)[1:] == ["re: [Ann] what is it", "re: [Ann] and now"]
        assert not log_of(tmp_path, SUPER)
        assert len(list((tmp_path / ".everturn" / "sessions").glob("*"))) == 1
        kept = json.loads((tmp_path / ".everturn/channels/telegram.aliases.json").read_text())
        assert kept["moves"] == {str(GROUP): str(SUPER)}
        assert not read(telegram, ANN)


@pytest.mark.parametrize("says", [(SUPER, GROUP), ()], ids=["both", "neither"])
async def test_a_group_that_moves_while_the_gateway_is_dead_loses_nothing(
    tmp_path: Path, says: Sequence[int]
) -> None:
    """The turn that was under way goes on, and its reply finds the group where it is now."""
    brain, gate = Brain(), anyio.Event()
    brain.plan("think", Answer(text="never", hold={0: gate}), Answer(text="Well thought."))
    async with open_model_api(default=brain) as model, open_telegram_api() as telegram:
        write_group(tmp_path, model.url, telegram.url)
        async with gateway_process(tmp_path, imported=TELEGRAM) as gateway:
            await until_listening(telegram)
            write(telegram, f"@{BOT} think", chat=GROUP)
            await until(lambda: brain.about("think"))
            await gateway.kill()
        telegram.migrate(GROUP, SUPER, says=says)
        write(telegram, f"@{BOT} still there?", chat=SUPER)
        async with gateway_process(tmp_path, imported=TELEGRAM):
            await until(lambda: "Well thought." in read(telegram, SUPER))
            if says:
                await until(lambda: len(read(telegram, SUPER)) == 2)
            write(telegram, f"@{BOT} and now", chat=SUPER)
            await until(lambda: "re: [Ann] and now" in read(telegram, SUPER))

        assert read(telegram, SUPER).count("Well thought.") == 1
        assert "re: [Ann] still there?" in read(telegram, SUPER) or not says
        assert len(list((tmp_path / ".everturn" / "sessions").glob("*"))) == 1
