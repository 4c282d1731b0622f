"""Encrypted rooms: keys that are missing, lost, and signed for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.matrix_world import open_world
from support.patience import WAIT_S

from everturn_channels.errors import SetupError
from everturn_channels.matrix import reading


async def test_a_message_without_its_key_is_told_of_and_read_when_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sender is told once; what they take back meanwhile is not read."""
    monkeypatch.setattr(reading, "KEY_WAIT_S", 0.05)
    async with (
        open_world(tmp_path, is_encrypted=True) as world,
        world.serving(world.adapter(keys=True)),
    ):
        held = world.api.deliver
        kept: list[tuple[str, str, dict[str, Any]]] = []
        world.api.deliver = lambda *given: kept.append(given)  # type: ignore[method-assign]
        gone = await world.ann.write(world.room, "never mind")
        await world.ann.write(world.room, "secret")
        await world.ann.redact(world.room, gone)
        await world.handler.until(lambda: world.handler.deletions)
        world.api.deliver = held  # type: ignore[method-assign]
        for given in kept:
            held(*given)
        await world.heard("secret")
        assert world.handler.texts() == ["secret"]
        events = await world.ann.events(world.room)

    assert "its key was not given" in world.handler.passed_over[0]
    (notice,) = [
        e["content"]
        for e in events
        if e["sender"] == world.bot.user and e["type"] != "m.room.member"
    ]
    assert notice["msgtype"] == "m.notice"
    assert "I cannot read what you wrote" in notice["body"]


async def test_one_time_keys_that_were_used_up_are_made_anew(tmp_path: Path) -> None:
    """Without any, nobody new could write to the bot."""
    async with (
        open_world(tmp_path, is_encrypted=True) as world,
        world.serving(world.adapter(keys=True)),
    ):
        await world.ann.write(world.room, "before")
        await world.heard("before")
        device = world.api.devices[world.bot.token]
        first = set(device.one_time_keys)
        device.one_time_keys.clear()
        await world.ann.write(world.room, "after")
        await world.heard("after")
        with anyio.fail_after(WAIT_S):
            while not device.one_time_keys:  # noqa: ASYNC110 - the homeserver does not tell
                await anyio.sleep(0.01)

    assert first
    assert not first & set(device.one_time_keys)


async def test_lost_keys_are_not_hidden(tmp_path: Path) -> None:
    """With a token the owner has to act; with a password the bot logs in as a new device."""
    async with open_world(tmp_path, is_encrypted=True) as world:
        by_password: dict[str, Any] = {"user": world.bot.user, "password": "secret"}
        by_token: dict[str, Any] = {"access_token": world.bot.token}
        for account in (by_token, by_password):
            async with world.serving(world.adapter(keys=True, **account)):
                await world.ann.write(world.room, f"for {len(account)}")
                await world.heard(f"for {len(account)}")
            device = world.handler.cursor("device")
            (tmp_path / "bot").rename(tmp_path / f"lost {len(account)}")
            (tmp_path / "bot").mkdir()
            if "password" in account:
                async with world.serving(world.adapter(keys=True, **account)):
                    await world.ann.write(world.room, "anew")
                    await world.heard("anew")
                assert world.handler.cursor("device") not in {"", device}
            else:
                with pytest.raises(SetupError, match="other keys"):
                    await world.adapter(keys=True, **account).serve(world.handler)


async def test_the_account_vouches_for_its_device(tmp_path: Path) -> None:
    """Clients that ask for it give no keys to a device that nobody signed."""
    async with open_world(tmp_path, is_encrypted=True) as world:
        for _ in range(2):  # the second time there is nothing to do
            async with world.serving(world.adapter(keys=True)):
                pass
    keys = world.api.signing[world.bot.user]
    device = world.api.devices[world.bot.token]
    (signing_key,) = keys["self_signing"]["keys"]
    assert {*device.keys["signatures"][world.bot.user]} == {f"ed25519:{device.id}", signing_key}
    assert len(world.api.sent("/device_signing/upload")) == 1
    assert oct((tmp_path / "bot" / f"{device.id}.db").stat().st_mode)[-3:] == "600"
    assert json.loads((tmp_path / "bot" / "cross-signing.keys").read_text()).keys() == {
        "master",
        "self_signing",
        "user_signing",
    }
