"""Small parts of the command line that need no gateway."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from support.tables import table
from typer.main import get_command

from everturn_actors.errors import InvalidInputError, UnknownAgentError
from everturn_channels.terminal.prompt import PipeReader
from everturn_channels.terminal.screen import wants_colour
from everturn_gateway import cli
from everturn_gateway.cli.program import app
from everturn_gateway.commands.clients import choose_agent
from everturn_gateway.commands.shared.finding import is_alive
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.running import (
    Running,
    from_here,
    noted,
    read_note,
    remove_note,
)
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import GatewayError


@table(
    ("listens_on", "reached_at"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("http://[::]:80", "http://[::1]:80"),
        ("http://[::1]:80", "http://[::1]:80"),
        ("http://192.0.2.7:8080", "http://192.0.2.7:8080"),
        ("http://localhost:8080", "http://localhost:8080"),
    ],
)
def test_a_gateway_is_reached_from_its_own_machine(listens_on: str, reached_at: str) -> None:
    """Nobody can connect to 0.0.0.0; the note has to name an address that works."""
    assert from_here(listens_on) == reached_at


@table(
    ("name", "known", "chosen"),
    [
        ("a", ["a", "b"], "a"),
        ("", ["b"], "b"),
        ("", ["a", "assistant"], "assistant"),
    ],
)
def test_an_agent_is_chosen(name: str, known: list[str], chosen: str, tmp_path: Path) -> None:
    """The usual case needs no argument."""
    config = Config(workspace=tmp_path / "w", agents_dir=tmp_path)

    assert choose_agent(name, known, config) == chosen


def test_no_agent_is_guessed(tmp_path: Path) -> None:
    """A message to the wrong agent cannot be taken back."""
    config = Config(workspace=tmp_path / "w", agents_dir=tmp_path)
    with pytest.raises(GatewayError, match="which agent"):
        choose_agent("", ["a", "b"], config)
    with pytest.raises(UnknownAgentError, match="'c'"):
        choose_agent("c", ["a", "b"], config)


def test_options_are_repeated_as_they_have_to_be_typed() -> None:
    """The next command that is printed is copied by a person into a shell."""
    options = Options(config=Path("my files/e.yaml"), workspace=Path("/w"))

    assert options.again() == " --config 'my files/e.yaml' --workspace /w"
    assert Options().again() == ""


async def test_the_note_is_private_and_goes_with_its_gateway(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Which serves without one as well."""
    # It names where the gateway listens; and a note that stays would lead nowhere.
    mine = Running(pid=os.getpid(), url="http://127.0.0.1:1")
    async with noted(tmp_path, mine):
        mode = (tmp_path / "gateway.json").stat().st_mode & 0o777
        found = await to_thread.run_sync(read_note, tmp_path)
        await to_thread.run_sync(remove_note, tmp_path, mine.pid + 1)  # that of another process
        kept = await to_thread.run_sync(read_note, tmp_path)

    assert mode == 0o600
    assert found == kept == mine
    assert await to_thread.run_sync(read_note, tmp_path) is None

    # A gateway whose note cannot be written serves all the same. A full disk stops what is written,
    # not what is read.
    served = False
    async with noted(tmp_path / "none", Running(pid=os.getpid(), url="http://127.0.0.1:1")):
        served = True

    assert served
    assert "cannot be written" in caplog.text


def test_processes_are_told_alive_from_gone() -> None:
    """A number from a file may be anything."""
    assert is_alive(os.getpid())
    assert not is_alive(0)
    assert not is_alive(-1)
    assert not is_alive(10**30)


async def test_a_pipe_gives_its_lines_and_refuses_the_bad_ones() -> None:
    """A file of messages may hold anything; each line is judged for itself."""
    reader = PipeReader(BytesIO("größe\n".encode() + b"\xff\nlast"))

    assert await reader.read() == "größe\n"
    with pytest.raises(InvalidInputError, match="line 2"):
        await reader.read()
    assert await reader.read() == "last"
    with pytest.raises(EOFError):
        await reader.read()


class _Tty(BytesIO):
    def isatty(self) -> bool:
        return True


@table(
    ("environ", "colour"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colours_follow_the_terminals_wishes(environ: dict[str, str], colour: bool) -> None:
    """NO_COLOR is a promise to people who cannot read colours."""
    assert wants_colour(_Tty(), environ) is colour  # type: ignore[arg-type]
    assert not wants_colour(BytesIO(), environ)  # type: ignore[arg-type]


def test_what_a_command_has_done_is_to_be_had_as_json() -> None:
    """But of those that talk, serve, or print what is a format of its own."""
    cli.declare_groups(cli.GROUPS)

    def lacking(command: Any, path: str = "") -> Iterator[str]:
        groups: dict[str, Any] = getattr(command, "commands", {})
        for name, each in groups.items():
            yield from lacking(each, f"{path} {name}".strip())
        if not groups and not any("--json" in option.opts for option in command.params):
            yield path

    assert set(lacking(get_command(app))) == {
        *("chat", "attach", "acp", "serve", "docs", "help", "completions"),
        *("agent schema", "context apply", "sessions export"),
    }
