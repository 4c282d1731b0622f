"""What systemd is told: ready, stopping, alive; and that nothing of it can stop the gateway."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from support.patience import WAIT_S
from support.tables import table

from everturn_gateway.commands.serving.supervision import READY, STOPPING, ServiceManager


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[socket.socket]:
    """Listen as systemd does."""
    monkeypatch.chdir(tmp_path)  # the name of a socket has at most 107 bytes
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("notify")
        listener.settimeout(0)
        yield listener


def test_it_tells_what_systemd_understands(manager: socket.socket) -> None:
    """`Type=notify` waits for exactly this; a unit that never gets it is killed."""
    systemd = ServiceManager({"NOTIFY_SOCKET": manager.getsockname()})
    systemd.notify(READY, "STATUS=listens on http://127.0.0.1:8080")
    systemd.notify(STOPPING)

    assert manager.recv(1000) == b"READY=1\nSTATUS=listens on http://127.0.0.1:8080"
    assert manager.recv(1000) == b"STOPPING=1"


def test_an_abstract_socket_is_found() -> None:
    """Containers pass one where no path is shared."""
    name = f"everturn-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).notify(READY)

        assert listener.recv(1000) == b"READY=1"


def test_a_socket_that_is_not_there_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway's own work matters more than the news of it."""
    caplog.set_level(logging.WARNING)
    # In a terminal there is no supervisor, and nothing to warn about.
    ServiceManager({}).notify(READY)
    ServiceManager({"NOTIFY_SOCKET": ""}).notify(READY)
    assert caplog.messages == []

    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).notify(READY)
    assert caplog.messages == ["systemd cannot be told the status of the gateway"]


async def test_it_says_that_it_lives_twice_as_often_as_it_must(manager: socket.socket) -> None:
    """A loop that hangs says nothing, and is started anew; one that is merely busy is not."""
    environ = {
        "NOTIFY_SOCKET": manager.getsockname(),
        "WATCHDOG_USEC": "20000",
        "WATCHDOG_PID": str(os.getpid()),
    }
    heard: list[bytes] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ServiceManager(environ).keep_alive)
        with anyio.fail_after(WAIT_S):
            while len(heard) < 3:
                await anyio.wait_readable(manager)
                heard.append(manager.recv(1000))
        tasks.cancel_scope.cancel()

    assert heard == [b"WATCHDOG=1"] * 3


@table(
    "watchdog",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "often"},
        {"WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"},
    ],
)
async def test_without_a_watchdog_it_says_nothing(
    manager: socket.socket, watchdog: dict[str, str]
) -> None:
    """Another process's watchdog, or none, is not ours to feed."""
    with anyio.fail_after(WAIT_S):
        await ServiceManager({"NOTIFY_SOCKET": manager.getsockname(), **watchdog}).keep_alive()

    with pytest.raises(BlockingIOError):
        manager.recv(1000)
