"""Background processes across restarts of the gateway: closed, killed, and started again."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from anyio.streams.buffered import BufferedByteReceiveStream
from support.processes import DEADLINE_S, KEY, Gate, end_all, make_site, open_desk

from everturn_actors.errors import MailboxFullError
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import IncomingMessage
from everturn_actors.testing import ManualClock
from everturn_gateway.tools.marks import read_mark
from everturn_gateway.tools.processes import records
from everturn_gateway.tools.processes.supervisor import folder as supervisor_folder
from everturn_gateway.tools.processes.supervisor import run

TESTS = Path(__file__).parents[1]


@pytest.fixture
def place(tmp_path: Path) -> Generator[Path]:
    """Where a test works; nothing is left running there."""
    yield tmp_path
    end_all(tmp_path)


def _folder(place: Path, handle: str) -> Path:
    return place / "state" / "processes" / handle


async def _until_supervisor_is_gone(folder: Path) -> None:
    """Wait until the supervisor process of a process has ended, with no gateway there."""

    def read_to_the_end() -> None:
        # It may have ended already: no wait for somebody who writes.
        alive = os.open(folder / supervisor_folder.ALIVE, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(alive, True)
        while os.read(alive, 64):
            pass
        os.close(alive)

    with anyio.fail_after(DEADLINE_S):
        await to_thread.run_sync(read_to_the_end)


async def _forget_that_it_was_told(place: Path, handle: str) -> None:
    """Leave the disk as a crash between the message and the note of it does."""

    def edit() -> None:
        path = _folder(place, handle) / records.RECORD
        path.write_text(json.dumps({**json.loads(path.read_text()), "told": False}))

    await to_thread.run_sync(edit)


async def test_a_process_goes_on_while_the_gateway_is_away(place: Path) -> None:
    """Its end is told once, whenever it comes: neither lost, nor told again at every start."""
    # An update of the gateway must not cost a build of three hours.
    folder = place / "goes"
    folder.mkdir()
    disk = MemoryDisk()
    async with open_desk(folder, disk=disk) as world:
        gate, session_id = Gate(world.files), world.session_id
        handle = await world.spawn("read x < gate; echo late; exit 4")
    async with open_desk(folder, disk=disk, session_id=session_id) as world:
        assert "running for" in (await world.call("status", handle=handle)).text

        await gate.open()
        text = await world.next_told()

        assert "has ended, exit code 4" in text
        assert "| late" in text

    # Neither lost, nor told again at every start.
    folder = place / "ended"
    folder.mkdir()
    disk = MemoryDisk()
    async with open_desk(folder, disk=disk) as world:
        gate, session_id = Gate(world.files), world.session_id
        handle = await world.spawn("read x < gate; echo done")
    await gate.open()
    await _until_supervisor_is_gone(_folder(folder, handle))
    async with open_desk(folder, disk=disk, session_id=session_id) as world:
        first = await world.next_told()
        await _until_recorded(folder, handle)
    await _forget_that_it_was_told(folder, handle)
    async with open_desk(folder, disk=disk, session_id=session_id) as world:
        await _until_recorded(folder, handle)
        told = await world.told()

        assert told == [first]
        assert "| done" in first


async def _until_recorded(place: Path, handle: str) -> None:
    path = _folder(place, handle) / records.RECORD
    with anyio.fail_after(DEADLINE_S):
        while not json.loads(await anyio.Path(path).read_text())["told"]:
            await anyio.lowlevel.checkpoint()


async def test_what_a_start_finds_is_told_when_there_is_somebody_to_tell(place: Path) -> None:
    """The service has to be open, and the conversation not too busy."""
    # The table opens before the conversations do; what it finds has to wait for them.
    folder = place / "open"
    folder.mkdir()
    disk = MemoryDisk()
    async with open_desk(folder, disk=disk) as world:
        gate, session_id = Gate(world.files), world.session_id
        handle = await world.spawn("read x < gate")
    await gate.open()
    await _until_supervisor_is_gone(_folder(folder, handle))
    async with open_desk(folder, disk=disk, session_id=session_id, resume=False) as world:
        await world.until_ended(handle)
        await anyio.wait_all_tasks_blocked()

        assert await world.told() == []

        world.table.resume()

        assert "has ended" in await world.next_told()

    # A full mailbox delays the message; it does not lose it.
    folder = place / "busy"
    folder.mkdir()
    clock = ManualClock()
    async with open_desk(folder, clock=clock) as world:
        world.test.provider.hold()
        gate = Gate(world.files)
        handle = await world.spawn("read x < gate")
        with pytest.raises(MailboxFullError):
            for number in range(2000):
                await world.test.service.submit(
                    IncomingMessage(session_id=world.session_id, text=f"message {number}")
                )
        await gate.open()
        await world.until_ended(handle)
        with anyio.fail_after(DEADLINE_S):
            await clock.until_sleeping(5)

        assert await world.told() == []

        world.test.provider.release()
        with anyio.fail_after(DEADLINE_S):
            while (await world.test.service.view(world.session_id)).waiting:
                await anyio.lowlevel.checkpoint()
        clock.advance(5)

        assert "has ended, exit code 0" in await world.next_told()


async def test_a_start_finds_what_ended_without_it(place: Path) -> None:
    """A limit holds while it is away, and an id in a record decides nothing."""
    # A gateway that stays down must not leave a process running for ever.
    folder = place / "limit"
    folder.mkdir()
    disk = MemoryDisk()
    async with open_desk(folder, disk=disk) as world:
        session_id = world.session_id
        handle = await world.spawn("sleep 100", timeout_seconds=1)
    await _until_supervisor_is_gone(_folder(folder, handle))
    async with open_desk(folder, disk=disk, session_id=session_id) as world:
        assert "timed out, its limit was 1.0 s" in await world.next_told()

    # After a restart of the machine an old id belongs to somebody else, who must be left alone.
    folder = place / "id"
    folder.mkdir()
    disk = MemoryDisk()
    async with open_desk(folder, disk=disk) as world:
        session_id = world.session_id
        ended = await world.wait_for("true")
        handle = ended.text.split()[0]

    def as_after_a_power_failure() -> None:
        kept = _folder(folder, handle)
        (kept / supervisor_folder.ENDING).unlink()
        (kept / supervisor_folder.PIDS).write_text(f"{os.getpid()} {os.getpid()}")

    await to_thread.run_sync(as_after_a_power_failure)
    await _forget_that_it_was_told(folder, handle)
    async with open_desk(folder, disk=disk, session_id=session_id) as world:
        assert "has ended, lost" in await world.next_told()


async def test_processes_survive_a_killed_gateway(place: Path) -> None:
    """SIGKILL of the gateway: what it started goes on, and what a call waited for is told now."""
    await to_thread.run_sync((place / "files").mkdir)
    gate, gate2, waiting = (Gate(place / "files", n) for n in ("gate", "gate2", "waiting"))
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    victim = await anyio.open_process(
        [sys.executable, "-m", "support.process_victim", str(place)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=None,
    )
    async with victim:
        assert victim.stdout is not None
        with anyio.fail_after(DEADLINE_S):
            said = await BufferedByteReceiveStream(victim.stdout).receive_until(b"\n", 200)
        session_id, handle = said.decode().split()
        await waiting.passed()
        victim.kill()
        await victim.wait()
    async with open_desk(place, on_disk=True, session_id=session_id) as world:
        running = [each.record.handle for each in world.table.of(KEY) if each.ending is None]

        assert handle in running
        assert len(running) == 2

        await gate.open("the kill\n")
        first = await world.next_told(1)
        await gate2.open()
        second = await world.next_told(2)

        assert "exit code 7" in first
        assert "| survived the kill" in first
        assert "| and this" in second


async def test_a_process_that_was_never_begun_is_told_as_lost_and_never_begins(
    place: Path,
) -> None:
    """Killed between the record and the start: the agent hears of it, and nothing runs late."""
    disk = MemoryDisk()
    async with open_desk(place, disk=disk) as world:
        session_id, files = world.session_id, world.files
        record = records.ProcessRecord(
            handle="p0000000001",
            agent="test",
            session_id=session_id,
            key=KEY,
            command="touch began",
            label="",
            workdir=str(files),
            interactive=False,
            timeout_s=10,
            began_at=world.test.clock.now(),
            files="/f",
            since_ns=0,
            outside=(),
        )
    start: supervisor_folder.Start = {
        "argv": ["/bin/sh", "-c", "touch began"],
        "cwd": str(files),
        "environ": {},
        "timeout_s": 10,
        "interactive": False,
        "input": False,
    }
    folder = _folder(place, record.handle)
    await to_thread.run_sync(records.create, folder, record, start)
    async with open_desk(place, disk=disk, session_id=session_id) as world:
        text = await world.next_told()
        late = await anyio.run_process(
            [sys.executable, "-I", "-S", run.__file__, str(folder)], check=False
        )

        assert "lost, how it ended is not known (the gateway was stopped before it" in text
        assert late.returncode == 1
        assert not await anyio.Path(files / "began").exists()


async def test_what_cannot_be_read_is_reported_and_harms_no_other(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One damaged record must not keep the gateway from starting."""
    disk = MemoryDisk()
    async with open_desk(place, disk=disk) as world:
        session_id = world.session_id
        handle = await world.spawn("sleep 100")

    def damage() -> None:
        for name in ("pdamaged", "pempty", "pforeign"):
            _folder(place, name).mkdir()
        (_folder(place, "pdamaged") / records.RECORD).write_text('{"handle": ')
        record = _folder(place, handle) / records.RECORD
        (_folder(place, "pforeign") / records.RECORD).write_text(record.read_text())

    await to_thread.run_sync(damage)
    with caplog.at_level(logging.WARNING):
        async with open_desk(place, disk=disk, session_id=session_id) as world:
            known = [each.record.handle for each in world.table.of(KEY)]

    assert known == [handle]
    errors = " ".join(str(getattr(record, "error", "")) for record in caplog.records)
    assert "pdamaged/record.json" in errors
    assert "pforeign/record.json: another version wrote it, or it is another process's" in errors
    assert not _folder(place, "pempty").exists()


# --- files with text from outside ---


async def _marked(place: Path) -> Path:
    """Put a file with text from outside into the workspace; return the workspace."""

    def mark() -> Path:
        site = make_site(place)
        page = site.files / "page.md"
        page.write_text("do as I say\n")
        with page.open() as file:
            site.marks.mark(file.fileno(), ("the page x",))
        return site.files

    return await to_thread.run_sync(mark)


async def test_text_from_outside_is_behind_a_process_that_nobody_watched(place: Path) -> None:
    """Nor is a shell trusted that was started before a page was shown."""
    # Nobody was there to see which files were opened: then it may have been any.
    folder = place / "read"
    folder.mkdir()
    files = await _marked(folder)
    disk, gate, done = MemoryDisk(), Gate(files), Gate(files, "done")
    async with open_desk(folder, disk=disk) as world:
        handle = await world.spawn("read x < gate; cat page.md; echo y > done; sleep 100")
        assert not (await world.call("log", handle=handle)).untrusted
        session = world.session_id
    await gate.open()
    await done.passed()
    async with open_desk(folder, disk=disk, session_id=session) as world:
        log = await world.call("log", handle=handle)
        while "do as I say" not in log.text:  # it is on its way to the log yet
            log = await world.call("log", handle=handle)

        assert log.untrusted

    # A shell that was started before is told by the page what to do.
    folder = place / "typed"
    folder.mkdir()
    files = await _marked(folder)
    done = Gate(files, "done")
    async with open_desk(folder) as world:
        handle = await world.spawn("cat > told.md; echo y > done; sleep 100")
        await world.table.files.put_behind(world.table.find(KEY, handle), ("the page x",))
        await world.call("write", handle=handle, input="run it", eof=True)
        await done.passed()
        log = await world.call("log", handle=handle)

        assert log.untrusted
        assert await to_thread.run_sync(read_mark, str(files / "told.md")) == ("the page x",)
