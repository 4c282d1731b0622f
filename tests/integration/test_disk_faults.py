"""Disks that fail or are slow under a gateway that lives on.

Whole runs of the full scenario, with an operation that is refused or held: a spread of them here,
every operation in `benchmarks/crash_disk.py`. Then what such runs have found, one by one.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import anyio
import pytest
from support.disk_trace import Operation, Recorder
from support.full_faults import TROUBLES, Trouble, fail_at, hold_at
from support.full_proof import Proof
from support.patience import WAIT_S
from support.tables import table
from support.ticking import World, at

from everturn_actors.errors import JournalWriteError
from everturn_actors.events import Received, TurnFinished
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import IncomingMessage, Queueing
from everturn_actors.service import ServiceSettings
from everturn_actors.testing import ManualClock, open_test_service
from everturn_gateway.channels.running import LaterDeliveryPort
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.scheduler.dispatcher import DISK_RETRY_S
from everturn_gateway.tools.environment import ServiceLink
from everturn_gateway.tools.processes.table import open_processes

FAIL_AT = (60, 131)  # one while people talk, one in the middle of a scheduled task
HOLD_AT = (33, 120, 200)


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    """The run in which no disk failed."""
    return Proof(tmp_path_factory.mktemp("proof"))


@table("trouble", TROUBLES, ids=lambda trouble: trouble.name)
def test_a_run_comes_to_the_same_end_after_the_disk_failed(
    proof: Proof, trouble: Trouble, tmp_path: Path
) -> None:
    """What is refused says why, nothing is half done, and what was accepted is answered."""
    outcomes = [fail_at(proof, trouble, number, tmp_path) for number in FAIL_AT]

    assert None not in outcomes
    wrong = [f"{o.point}: {o.why}" for o in outcomes if o is not None and o.verdict == "failed"]
    assert not wrong, "\n".join(wrong)


def test_nothing_is_said_before_it_is_durable_however_slow_the_disk(
    proof: Proof, tmp_path: Path
) -> None:
    """While an operation is held: others are served, and a loss of power costs nobody anything."""
    found = [hold_at(proof, number, tmp_path) for number in HOLD_AT]

    assert None not in found
    wrong = [f"{o.point}: {o.why}" for each in found for o in each or () if o.verdict == "failed"]
    assert not wrong, "\n".join(wrong)


# --- what was found ------------------------------------------------------------------------------


class _Broken:
    """A disk that, while it is told to, syncs nothing and takes nothing back."""

    def __init__(self) -> None:
        self.is_broken = False

    def before(self, operation: Operation) -> None:
        """Refuse it."""
        if self.is_broken and operation.kind in ("sync", "truncate"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), operation.path)


async def test_who_asks_a_session_that_cannot_be_written_is_told_so() -> None:
    """It was begun anew for whoever asked, without end and a thousand times a second."""
    disk = MemoryDisk()
    waits = Queueing(debounce_s=60)
    async with open_test_service(disk=disk) as test:
        said = await test.service.submit(
            IncomingMessage(text="one", key=test.key(), queueing=waits)
        )
    settings = ServiceSettings(leave_grace_s=0, drain_s=0, resume=False)
    async with open_test_service(disk=disk, settings=settings) as test:
        before = disk.appends
        for nth in range(1, 300):  # its first append begins the turn that was waited with
            disk.fail_append(errno.ENOSPC, nth=nth)

        with anyio.fail_after(WAIT_S), pytest.raises(JournalWriteError, match="disk is full"):
            await test.service.resume(said.session_id)
        assert disk.appends - before < 5


async def test_an_append_that_failed_and_stands_there_all_the_same_hides_no_later_event(
    tmp_path: Path,
) -> None:
    """Its events are in the log and were never shown; who waited for the next answer hung."""
    disk = _Broken()
    with Recorder(tmp_path, before=disk.before).installed():
        async with open_file_store(tmp_path) as store, open_test_service(store=store) as test:
            first = await test.service.submit(IncomingMessage(text="one", key=test.key()))
            await first.result()
            test.provider.hold()
            second = await test.service.submit(IncomingMessage(text="two", key=test.key()))
            await test.provider.until_called(2)
            disk.is_broken = True
            test.provider.release()
            with anyio.fail_after(WAIT_S), pytest.raises(JournalWriteError, match="EIO"):
                await second.result()
            disk.is_broken = False
            with anyio.fail_after(WAIT_S):
                third = await test.service.submit(IncomingMessage(text="three", key=test.key()))
                answer = await third.result()

            assert answer.outcome == "answered"
            log = await test.service.history(third.session_id, after=0, limit=100)
            assert [type(event.body) for event in log].count(TurnFinished) == 3


async def test_a_task_whose_session_failed_under_it_is_not_given_to_it_anew(
    tmp_path: Path,
) -> None:
    """The turn goes on when the disk works; a second try beside it did everything twice."""
    clock = ManualClock(at("2026-11-23T08:59:59+00:00"))
    world = World(
        folder=tmp_path / "schedules", clock=clock, delivery_ports={"test": LaterDeliveryPort()}
    )
    world.write("digest", task="Think.", cron="0 9 * * *", timezone="UTC")
    async with world.opened() as live:
        world.provider.hold()
        await clock.until_sleeping(30)
        clock.advance(1)
        with anyio.fail_after(WAIT_S):
            await world.provider.until_called()
        world.disk.fail_append(errno.ENOSPC)
        failing = world.disk.appends + 1
        world.provider.release()
        with anyio.fail_after(WAIT_S):
            while world.disk.appends < failing:
                await anyio.lowlevel.checkpoint()
            while not live.scheduler.job("digest").job_state.recent:
                await anyio.wait_all_tasks_blocked()
                clock.advance(DISK_RETRY_S)
        (run,) = await live.runs("digest", 1)
        log = await live.service.history(run.session_id, after=0, limit=100)

        assert (run.outcome, run.attempt) == ("answered", 1)
        assert [type(event.body) for event in log].count(Received) == 1


async def test_the_folder_of_background_processes_survives_a_loss_of_power(
    tmp_path: Path,
) -> None:
    """Without its name all records in it are gone, and nobody is told of what was running."""
    recorder = Recorder(tmp_path)
    registry = SecretRegistry()
    with recorder.installed():
        async with open_processes(
            tmp_path, ManualClock(), ServiceLink(), environ={}, secrets=registry
        ):
            pass

    *_, (_, replay) = recorder.trace.walk()
    assert replay.disk.after_power_loss() == {"processes": None}
