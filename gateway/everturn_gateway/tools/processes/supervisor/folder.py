"""The folder of one background process: what stands in it, and how it is written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypedDict

START: Final = "start.json"
CLAIMED: Final = "claimed.json"
ALIVE: Final = "alive"
CONTROL: Final = "control"
INPUT: Final = "input"
PIDS: Final = "pids"
ERRORS: Final = "supervisor.err"
ENDING: Final = "exit.json"
OUTPUT: Final = "output."
COOKIE: Final = "EVERTURN_PROCESS"
"In the environment of everything that a process starts: its handle."

STARTED: Final = b"s"
KILL: Final = b"k"
CLOSE_INPUT: Final = b"e"
GRACE_S: Final = 3.0  # between asking to end, and ending


class Start(TypedDict):
    """What `start.json` says. It is removed before the command runs: it holds its environment."""

    argv: list[str]
    cwd: str
    environ: dict[str, str]
    timeout_s: float
    interactive: bool
    input: bool
    "Whether there is an input; without it the command reads an empty one."


class Ending(TypedDict):
    """What `exit.json` says."""

    status: str
    "completed, failed, timed_out, killed or lost."
    exit_code: int | None
    "None where a signal ended it, or where it is not known."
    signal: str
    "The signal that ended it, by name; empty = none."
    duration_s: float | None
    note: str
    "What there is to add, in words."


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` in the place of a file: durable, and either the old one or all of the new one."""
    temporary = path.with_name(f"{path.name}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_fifo(folder: Path, name: str) -> int:
    """Open a FIFO so that it neither waits for another end nor ever comes to an end."""
    return os.open(folder / name, os.O_RDWR | os.O_NONBLOCK)
