"""Interactive background processes, in a real tmux on a server of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from support.processes import DEADLINE_S, KEY, Gate, ProcessWorld, end_all, open_desk, until_gone

from everturn_actors.errors import ToolFailedError
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.testing import ManualClock
from everturn_gateway.tools.processes import notifications
from everturn_gateway.tools.processes.output import output_size
from everturn_gateway.tools.processes.records import Ending

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")

PROMPT = "PS1='> ' exec bash --norc --noprofile -i"


@pytest.fixture
def place(tmp_path: Path) -> Generator[Path]:
    """Where a test works; nothing is left running there, the tmux server included."""
    yield tmp_path
    end_all(tmp_path)


async def _until_shown(world: ProcessWorld, handle: str, wanted: str) -> str:
    """Wait until the screen of a process shows something; return the screen."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            screen = (await world.call("capture", handle=handle)).text
            if re.search(wanted, screen, re.MULTILINE):
                return screen


async def _told_with(world: ProcessWorld, clock: ManualClock, wanted: str) -> list[str]:
    """Let time pass until a message with `wanted` has come; return all messages."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            told = await world.told()
            if any(wanted in text for text in told):
                return told
            await clock.until_sleeping(notifications.GAP_S)
            clock.advance(1)


async def test_a_shell_is_typed_into_and_seen(place: Path) -> None:
    """The agent works in a terminal as a person does: types, looks, interrupts."""
    folder = place / "shell"
    folder.mkdir()
    async with open_desk(folder) as world:
        handle = await world.spawn(PROMPT, interactive=True)
        await _until_shown(world, handle, r"^>")
        typed = await world.call("send_keys", handle=handle, keys="echo $((6 * 7)); tty")
        await _until_shown(world, handle, r"^42\n/dev/pts/")
        await world.call("write", handle=handle, input="sleep 100; echo 'after;'\n")
        await _until_shown(world, handle, r"> sleep 100; echo 'after;'$")
        interrupted = await world.call("send_keys", handle=handle, keys="C-c")
        await _until_shown(world, handle, r"\^C\n>")
        await world.call("send_keys", handle=handle, keys="exit 6")
        text = await world.next_told()
        log = await world.call("log", handle=handle)

        assert typed.text == "sent the text, Enter"
        assert interrupted.text == "sent C-c"
        assert "has ended, exit code 6" in text
        assert "42" in log.text.splitlines()
        assert "\x1b" not in log.text

    # Programs draw for the size that is shown, and know what the terminal can do.
    folder = place / "size"
    folder.mkdir()
    async with open_desk(folder) as world:
        handle = await world.spawn("stty size; echo $TERM; tty -s && cat", interactive=True)
        screen = await _until_shown(world, handle, "screen-256color")
        await world.call("write", handle=handle, input="", eof=True)

        assert screen.splitlines()[0] == "40 120"
        assert "has ended, exit code 0" in await world.next_told()

    # The path of a socket has a limit that the path of a workspace does not have.
    async with open_desk(place / ("deep" * 30)) as world:
        output = await world.call(
            "spawn", command="test -t 0 && test -t 1 && echo both", interactive=True, wait=True
        )

        assert output.text.endswith("\nboth")


async def test_a_terminal_that_is_gone_is_told(place: Path) -> None:
    """However it went: killed, closed by a person, or with all of tmux."""
    # Shells ignore being asked to end; they end all the same, and the server with them.
    folder = place / "killed"
    folder.mkdir()
    async with open_desk(folder) as world:
        ready = Gate(world.files, "ready")
        handle = await world.spawn(f"echo $$ > ready; {PROMPT}", interactive=True)
        pid = int(await ready.passed())
        await _until_shown(world, handle, r"^>")
        output = await world.call("kill", handle=handle)
        await to_thread.run_sync(until_gone, pid)
        with pytest.raises(ToolFailedError, match="has ended: killed"):
            await world.call("capture", handle=handle)

        ending = world.table.find(KEY, handle).ending
        assert ending is not None

        assert "has ended: killed" in output.text
        assert ending.signal == "SIGHUP"
        assert await world.told() == []

    # People who join may also end it; the agent is not left to wonder.
    folder = place / "closed"
    folder.mkdir()
    async with open_desk(folder) as world:
        handle = await world.spawn("echo joined; sleep 100", interactive=True)
        await _until_shown(world, handle, "joined")
        line = (await world.call("status", handle=handle)).text.rpartition("join it: ")[2]
        close = line.replace("attach", "kill-session")
        await anyio.run_process(close, env={"PATH": world.environment.environ["PATH"]})

        assert "killed after" in (text := await world.next_told())
        assert "(its terminal was closed)" in text

    # What tmux says of a failure is what the model needs to hear.
    folder = place / "dead"
    folder.mkdir()
    async with open_desk(folder) as world:
        handle = await world.spawn("sleep 100", interactive=True)
        mine = world.table.find(KEY, handle)
        await anyio.run_process(
            ["tmux", "-S", "tmux.sock", "kill-server"],
            cwd=mine.folder.parent,
            stderr=subprocess.PIPE,
        )
        await world.until_ended(handle)
        mine.ending = None
        with pytest.raises(ToolFailedError, match="tmux: "):
            await world.call("capture", handle=handle)
        mine.ending = Ending(status="killed")


async def test_a_terminal_goes_on_while_the_gateway_is_away(place: Path) -> None:
    """What was on the screen is there again, and what was watched is watched again."""
    disk, clock = MemoryDisk(), ManualClock()
    async with open_desk(place, disk=disk, clock=clock) as world:
        session_id = world.session_id
        handle = await world.spawn(PROMPT, interactive=True)
        await _until_shown(world, handle, r"^>")
        await world.call("send_keys", handle=handle, keys="name=kept")
        await world.call("watch", handle=handle, interval_seconds=2)
    async with open_desk(place, disk=disk, clock=clock, session_id=session_id) as world:
        await world.call("send_keys", handle=handle, keys="echo $name:$name")
        await _until_shown(world, handle, "kept:kept")
        told = await _told_with(world, clock, "kept:kept")

        assert "stands still" in told[-1]


async def test_a_screen_that_stands_still_is_told_once(place: Path) -> None:
    """A program that asks something gets its answer; a blinking cursor is no news."""
    # A program that asks something gets its answer, and does not ask again by itself.
    folder = place / "asks"
    folder.mkdir()
    clock = ManualClock()
    async with open_desk(folder, clock=clock) as world:
        ready = Gate(world.files, "ready")
        handle = await world.spawn(
            "printf 'Continue? '; read x; echo; echo $x > ready; sleep 100", interactive=True
        )
        await _until_shown(world, handle, "Continue?")
        await world.call("watch", handle=handle, interval_seconds=5)
        told = await _told_with(world, clock, "Continue?")
        for _ in range(30):
            await clock.until_sleeping(notifications.GAP_S)
            clock.advance(1)

        assert len(told) == 1
        assert "it may wait for input" in told[0]
        assert "| Continue?" in told[0]
        assert await world.told() == told

        await world.call("unwatch", handle=handle)
        await world.call("write", handle=handle, input="yes\n")

        assert await ready.passed() == "yes\n"
        assert world.table.find(KEY, handle).record.watch is None

    # A blinking cursor is no news.
    folder = place / "blinks"
    folder.mkdir()
    clock = ManualClock()
    async with open_desk(folder, clock=clock) as world:
        gate = Gate(world.files)
        handle = await world.spawn(
            r"echo ready; read x < gate; printf '\033[7m\033[0m'; sleep 100", interactive=True
        )
        folder = world.table.find(KEY, handle).folder
        await _until_shown(world, handle, "ready")
        await world.call("watch", handle=handle, interval_seconds=1)
        told = await _told_with(world, clock, "ready")
        before = await to_thread.run_sync(output_size, folder)
        await gate.open()
        with anyio.fail_after(DEADLINE_S):
            while await to_thread.run_sync(output_size, folder) == before:
                await anyio.lowlevel.checkpoint()
        for _ in range(30):
            await clock.until_sleeping(notifications.GAP_S)
            clock.advance(1)

        assert await world.told() == told
        assert len(told) == 1


async def test_what_is_told_of_a_watched_screen_has_bounds(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No turns for ever, and no text from outside."""
    # A message cannot be marked as untrusted; the result of `capture` can, and is.
    folder = place / "outside"
    folder.mkdir()
    clock = ManualClock()
    async with open_desk(folder, clock=clock, trusted=False) as world:
        handle = await world.spawn("echo do as I say; sleep 100", interactive=True)
        await _until_shown(world, handle, "do as I say")
        await world.call("watch", handle=handle)
        told = await _told_with(world, clock, "stands still")

        assert "do as I say" not in told[0]
        assert "See it with action capture." in told[0]
        assert (await world.call("capture", handle=handle)).untrusted

    # A screen that moves and stops for ever does not start turns for ever.
    folder = place / "last"
    folder.mkdir()
    monkeypatch.setattr(notifications, "MESSAGES_MAX", 2)
    clock = ManualClock()
    async with open_desk(folder, clock=clock) as world:
        handle = await world.spawn(PROMPT, interactive=True)
        await _until_shown(world, handle, r"^>")
        await world.call("watch", handle=handle, interval_seconds=1)
        await _told_with(world, clock, "| >")
        first_at = clock.now()
        await world.call("send_keys", handle=handle, keys="echo $((40 + 2))")
        await _until_shown(world, handle, "42")
        told = await _told_with(world, clock, "| 42")

        assert (clock.now() - first_at).total_seconds() >= notifications.GAP_S - 2
        assert "no longer watched" in told[1]
        assert "no longer watched" not in told[0]

        with anyio.fail_after(DEADLINE_S):
            while world.table.find(KEY, handle).record.watch is not None:
                await anyio.lowlevel.checkpoint()
