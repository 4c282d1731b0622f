"""The folder that commands use where nothing is set up, and the process that serves it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from support.command import everturn, start, write_agent

from everturn_gateway.config.home import home_folder


async def test_commands_work_from_anywhere(tmp_path: Path) -> None:
    """What was set up once is found in any folder; where something is set up, that is meant."""
    home, elsewhere, own = (tmp_path / name for name in ("home", "elsewhere", "own"))
    env = {"EVERTURN_HOME": str(home)}
    for folder, agent in ((home, "homely"), (own, "local")):
        write_agent(folder, agent)
        (folder / "everturn.yaml").write_text("server: {port: 0}\n")
    elsewhere.mkdir()
    async with start("serve", cwd=elsewhere, env=env) as gateway:
        await gateway.until("Ctrl-C stops it.")
        note = json.loads((home / ".everturn" / "gateway.json").read_text())
        pid = await everturn("pid", cwd=elsewhere, env=env)
        answer = await everturn("run", "hello", cwd=elsewhere, env=env)
        there = await everturn("agent", "list", "--json", cwd=own, env=env)
        os.kill(int(pid.out), signal.SIGKILL)
        await gateway.process.wait()
        gone = await everturn("pid", cwd=elsewhere, env=env)

    assert int(pid.out) == note["pid"] == gateway.process.pid
    assert answer.out.startswith("You said: “hello”.")
    assert [each["name"] for each in json.loads(there.out)] == ["local"]
    assert (gone.code, gone.out) == (1, "")
    assert f"no gateway runs on {home / '.everturn'}" in gone.err
    assert list(elsewhere.iterdir()) == []


async def test_a_wrong_folder_stays_empty(tmp_path: Path) -> None:
    """Whoever starts in a folder where nothing is gets a word, and no empty workspace."""
    here = tmp_path / "here"
    here.mkdir()
    env = {"EVERTURN_HOME": str(tmp_path / "none")}
    for arguments in (["serve"], ["chat"], ["run", "hi"], ["agent", "list"], ["sessions", "list"]):
        done = await everturn(*arguments, cwd=here, env=env)
        if arguments[0] != "sessions":
            assert done.code == 2, arguments
            assert "everturn init" in done.err
    for folder in (here, tmp_path):
        assert [each.name for each in folder.iterdir()] == (["here"] if folder == tmp_path else [])


@pytest.mark.skipif(sys.platform == "darwin", reason="it has a folder of its own")
def test_the_home_is_in_the_users_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rules of the desktop, which ignore a relative path."""
    monkeypatch.setenv("HOME", "/home/ann")
    usual = Path("/home/ann/.local/share/everturn")

    assert home_folder({}) == home_folder({"XDG_DATA_HOME": "data"}) == usual
    assert home_folder({"XDG_DATA_HOME": "/data"}) == Path("/data/everturn")
    assert home_folder({"XDG_DATA_HOME": "/data", "EVERTURN_HOME": "~/bot"}) == Path(
        "/home/ann/bot"
    )
