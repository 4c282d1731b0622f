"""What people leave in the folders of agents: loops of links, pipes, devices, odd names.

Each is a fault of that agent or file, named with its place; other agents go on working, `doctor`
says so, and nothing waits for ever.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import orjson
import pytest
from support.agents import write_agent
from support.in_process import running_here
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_gateway.app import open_gateway
from everturn_gateway.commands.shared.running import read_note
from everturn_gateway.config.settings import Config
from everturn_gateway.http.schemas.agents import FaultBody
from everturn_gateway.logs import SecretRegistry

GOOD: Final = ConversationKey(channel="api", chat="one", agent="good")
ADDED: Final = {
    "HEARTBEAT.md": "  heartbeat: {every: 1h, to: {channel: api, chat: one}}\n",
    "work": "  workspace: work\n",
}
"What an agent says of a file that is not read by itself."


def loop(path: Path) -> None:
    """Make a link that leads to itself."""
    path.symlink_to(path.name)


def long_loop(path: Path) -> None:
    """Make two links that lead to each other."""
    other = path.with_name(f"{path.name}-2")
    path.symlink_to(other.name)
    other.symlink_to(path.name)


def dangling(path: Path) -> None:
    """Make a link that leads nowhere."""
    path.symlink_to("nowhere")


def pipe(path: Path) -> None:
    """Make a pipe: whoever opens it waits for somebody to write."""
    os.mkfifo(path)


def device(path: Path) -> None:
    """Make a link to a device that never ends."""
    path.symlink_to("/dev/zero")


def unix_socket(path: Path) -> None:
    """Make a socket, which cannot be opened."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            # The name of a socket has at most 107 bytes.
            listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def folder(path: Path) -> None:
    """Make a folder where a file belongs."""
    path.mkdir()


def file(path: Path) -> None:
    """Make a file where a folder belongs."""
    path.write_text("no folder")


def no_text(path: Path) -> None:
    """Write a file that is no text."""
    path.write_bytes(b"\xff\xfe\x00binary")


ODDITIES: Final = (loop, long_loop, dangling, pipe, device, unix_socket, folder, no_text)
FOLDER_ODDITIES: Final = (loop, long_loop, dangling, pipe, device, unix_socket, file)
FILES: Final = (
    "agent.yaml",
    "SOUL.md",
    "SYSTEM_PROMPT.md",
    "INSTRUCTIONS.md",
    "HEARTBEAT.md",
    "directives/one.md",
    "policy.yaml",
    "policy.local.yaml",
    "skills/knit/SKILL.md",
    "tools/knit/run.sh",
    "tools/knit/README.md",
)
FOLDERS: Final = (
    *("", "directives", "skills", "skills/knit", "tools", "tools/knit", "memory", "work"),
)
IS_READ: Final = {("tools/knit/README.md", no_text)}
"What is no fault: a manual is read as well as it can be."
ODD_NAMES: Final = (b"bad\xff.md", b"two\nlines.md", b"tab\t.md", "\u202eevil.md".encode())


def configured(root: Path) -> Config:
    """Write an agent that works; return the configuration."""
    write_agent(root / "agents", "good")
    (root / ".everturn").mkdir(mode=0o700)
    return Config(workspace=root / ".everturn", agents_dir=root / "agents")


def odd_agent(config: Config, name: str, place: str) -> Path:
    """Write an agent that has a tool, and needs what is at `place`; return its folder."""
    tools = "  tools: [{type: builtin, name: files}]\n"
    return write_agent(config.agents_dir, name, tools + ADDED.get(place, ""))


def spoil(path: Path, make: Callable[[Path], None]) -> Path:
    """Put something odd in the place of a file or folder; return its path."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if path.parent.name == "knit" and path.name == "README.md":
        program = path.with_name("run.sh")
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    make(path)
    return path


async def faults_of(config: Config) -> tuple[str, ...]:
    """Start a gateway, ask the good agent something, and return what is said to be wrong."""
    with anyio.fail_after(WAIT_S):
        async with open_gateway(config, environ={}, secrets=SecretRegistry()) as gateway:
            answer = await gateway.service.submit(IncomingMessage(text="2+3", key=GOOD))
            assert (await answer.result()).text.startswith("You said: “2+3”.")
            assert gateway.supervisor.down() == ()
            with suppress(OSError):  # what is odd is their folder
                await gateway.schedules.load()
            faults = (*gateway.library.faults(), *gateway.schedules.faults())
            # Whoever asks over HTTP is told, whatever the name is.
            orjson.dumps([FaultBody.of(each).model_dump() for each in faults])
            return tuple(map(str, faults))


def names(lines: tuple[str, ...] | list[str], path: Path) -> bool:
    """Return whether one of the lines says which file is at fault."""
    inside = "/".join(path.parts[-2:])
    return any(
        inside in line or f"{path.name} " in line or f"{path.name}," in line for line in lines
    )


@table("oddity", ODDITIES, ids=lambda each: each.__name__)
async def test_an_odd_file_is_a_fault_of_its_agent(
    tmp_path: Path, oddity: Callable[[Path], None]
) -> None:
    """Its place is told, and nobody else notices."""
    config = configured(tmp_path)
    paths = [
        spoil(odd_agent(config, f"odd-{number}", name) / name, oddity)
        for number, name in enumerate(FILES)
        if (name, oddity) not in IS_READ
    ]

    told = await faults_of(config)

    assert not [path for path in paths if not names([*_of(told, path)], path)], told


def _of(told: tuple[str, ...], path: Path) -> list[str]:
    agent = next(part for part in path.parts if part.startswith("odd-"))
    return [line for line in told if f"/{agent}/" in line]


@table("oddity", FOLDER_ODDITIES, ids=lambda each: each.__name__)
async def test_an_odd_folder_stops_no_other_agent(
    tmp_path: Path, oddity: Callable[[Path], None]
) -> None:
    """Also where the folder of the agent itself is odd, and is then none."""
    config = configured(tmp_path)
    for number, name in enumerate(FOLDERS):
        odd = odd_agent(config, f"odd-{number}", name)
        spoil(odd / name if name else odd, oddity)
    spoil(config.workspace / "tools", oddity)

    told = await faults_of(config)

    # What is shared and cannot be read is told at each agent; nothing else is, at the good one.
    assert not [line for line in told if "/good/" in line], told


@table("oddity", ODDITIES, ids=lambda each: each.__name__)
async def test_an_odd_job_file_is_set_aside(tmp_path: Path, oddity: Callable[[Path], None]) -> None:
    """The jobs beside it run, and so does the gateway with an odd run log."""
    config = configured(tmp_path)
    path = spoil(config.workspace / "schedules" / "one.yaml", oddity)
    spoil(config.workspace / "schedules" / "runs" / "gone.jsonl", oddity)
    good = {"agent": "good", "message": "Hello.", "cron": "0 9 * * *", "timezone": "UTC"}
    job = orjson.dumps({**good, "to": {"channel": "api", "chat": "one"}})
    (config.workspace / "schedules" / "two.yaml").write_bytes(job)

    told = await faults_of(config)

    assert names(told, path), told


@table("name", ODD_NAMES, ids=["bytes", "line-end", "tab", "right-to-left"])
async def test_an_odd_name_is_told_and_stops_nobody(tmp_path: Path, name: bytes) -> None:
    """A name need not be text, nor one line; what is said of it is."""
    config = configured(tmp_path)
    odd, called = odd_agent(config, "odd-0", ""), os.fsdecode(name)
    jobs = config.workspace / "schedules"
    for path in (
        odd / "directives" / called,
        odd / "skills" / called / "SKILL.md",
        odd / "tools" / called / "run.sh",
        jobs / f"{called}.yaml",
        config.agents_dir / called / "agent.yaml",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff")

    told = await faults_of(config)

    shown = str(config.agents_dir)
    assert len([line for line in told if "/odd-0/" in line]) == 1  # its other faults come after
    assert len([line for line in told if line.startswith(shown) and "/odd-0/" not in line]) == 1
    assert len([line for line in told if line.startswith(str(jobs))]) == 1
    assert all(line.isprintable() for line in told), told


@table("oddity", [loop, pipe, no_text], ids=lambda each: each.__name__)
@table("name", ["SOUL.md", "agent.yaml", "policy.yaml"])
async def test_a_running_gateway_lives_on(
    tmp_path: Path, name: str, oddity: Callable[[Path], None]
) -> None:
    """The agent keeps its last good version until the file is set right."""
    config = configured(tmp_path)
    odd = odd_agent(config, "odd-0", name)
    with anyio.fail_after(WAIT_S):
        async with open_gateway(config, environ={}, secrets=SecretRegistry()) as gateway:
            version = gateway.library.version
            path = spoil(odd / name, oddity)
            await gateway.library.wait_beyond(version)
            told = [str(each) for each in gateway.library.faults()]
            assert gateway.library.names() == ("good", "odd-0")
            assert gateway.supervisor.down() == ()

    assert names(told, path), told


@table("oddity", [loop, pipe, device, folder], ids=lambda each: each.__name__)
async def test_doctor_names_the_file(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    oddity: Callable[[Path], None],
) -> None:
    """It is asked when something is wrong, and must not fail on it."""
    config = configured(tmp_path)
    paths = [
        spoil(odd_agent(config, f"odd-{number}", name) / name, oddity)
        for number, name in enumerate(("SOUL.md", "agent.yaml", "skills/knit/SKILL.md"))
    ]
    with running_here(tmp_path, capsys, monkeypatch) as run, anyio.fail_after(WAIT_S):
        done = await anyio.to_thread.run_sync(partial(run, "doctor"))

    lines = [line for line in done.out.splitlines() if line.startswith("problem")]
    assert not [path for path in paths if not names(lines, path)], done.out
    assert "good: builtin" in done.out


@table("oddity", FOLDER_ODDITIES, ids=lambda each: each.__name__)
async def test_what_is_odd_in_the_workspace_stops_no_conversation(
    tmp_path: Path, oddity: Callable[[Path], None]
) -> None:
    """Jobs and background processes can be had when it is set right; messages are answered."""
    config = configured(tmp_path)
    for name in ("schedules", "processes", "models.json", "gateway.json", "usage", "pairing"):
        spoil(config.workspace / name, oddity)

    await faults_of(config)
    assert await anyio.to_thread.run_sync(read_note, config.workspace) is None
