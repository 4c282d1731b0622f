"""A gateway whose store is in memory: nothing that is durable elsewhere is left in its folder."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from support.in_process import Run, running_here

from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_gateway.app import open_gateway
from everturn_gateway.commands.shared.errors import EXIT_BAD_INPUT, EXIT_OK
from everturn_gateway.config.settings import load_config
from everturn_gateway.logs import SecretRegistry

AGENT = """apiVersion: duragent/v1alpha1
kind: Agent
metadata: {name: helper}
spec: {model: {provider: builtin, name: builtin}}
"""
KEY = ConversationKey(channel="http", chat="1", agent="helper")
MACHINE = {"workspace.lock", "processes"}  # of this machine: they mean nothing elsewhere


def write(folder: Path) -> None:
    """Write an agent, and the configuration."""
    (folder / "agents" / "helper").mkdir(parents=True)
    (folder / "agents" / "helper" / "agent.yaml").write_text(AGENT)
    (folder / "everturn.yaml").write_text("store: {type: memory}\n")


async def test_a_gateway_in_memory_leaves_nothing(tmp_path: Path) -> None:
    """Whoever chose memory did not mean most of it: usage, models and tokens are in it, too."""
    await anyio.to_thread.run_sync(write, tmp_path)
    config = await anyio.to_thread.run_sync(
        lambda: load_config(tmp_path / "everturn.yaml", environ={})
    )
    async with open_gateway(config, environ={}, secrets=SecretRegistry()) as gateway:
        answer = await gateway.service.submit(IncomingMessage(text="2+3", key=KEY))
        await answer.result()
        await gateway.usage.flush()
        counted = gateway.usage.today("helper").calls

    assert counted == 1
    assert {path.name for path in config.workspace.iterdir()} <= MACHINE


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Generator[Run]:
    """Run commands in the folder of the test."""
    with running_here(tmp_path, capsys, monkeypatch) as run:
        yield run


def test_a_command_beside_it_says_that_it_can_change_nothing(tmp_path: Path, run: Run) -> None:
    """A token that is printed and opens nothing would be looked into for an hour."""
    write(tmp_path)
    made = run("token", "create", "ann", "--scope", "talk")
    listed = run("token", "list")

    assert (made.code, made.out) == (EXIT_BAD_INPUT, "")
    assert "the store 'memory' belongs to the process of the gateway" in made.err
    assert (listed.code, "no tokens" in listed.out) == (EXIT_OK, True)
