"""Disks that fail, and disks that are slow, under a gateway that lives on.

`FailingDisk` refuses an operation, once or until space is freed; `SlowDisk` keeps one waiting until
it is let go. Both are told of each operation before it is done, in the worker thread that does it.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from support.disk_model import picture_of
from support.disk_trace import Kind, Operation, Recorder, Replay
from support.full_checks import Left, Outcome, Point, read_left
from support.full_proof import Proof, scratch, words
from support.full_scenario import (
    SCRIPT,
    Gateway,
    Threads,
    live,
    live_through,
    open_gateway,
    prepare,
)
from support.full_world import IN_SUPERVISOR, KEYS, World
from support.patience import WAIT_S

from everturn_actors.errors import CoreError
from everturn_gateway.errors import GatewayError

TAKES_SPACE: tuple[Kind, ...] = ("create", "write", "mkdir", "pipe", "link")
ANY: tuple[Kind, ...] = (*TAKES_SPACE, "truncate", "sync", "rename", "remove", "rmdir")
SERVED_S = 10  # for a look at a session, which takes less than a millisecond
FOLDERS = ("active", "sessions")  # each name in them is that of a session
TRIES = 4  # of a step: what is refused is tried again when the disk works


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A way in which a disk fails."""

    name: str
    error: int
    "The errno."
    kinds: tuple[Kind, ...]
    lasts: bool = False
    "Whether it goes on until somebody frees space, and not only once."


TROUBLES = (
    Trouble(name="full once", error=errno.ENOSPC, kinds=TAKES_SPACE),
    Trouble(name="full until freed", error=errno.ENOSPC, kinds=TAKES_SPACE, lasts=True),
    Trouble(name="quota once", error=errno.EDQUOT, kinds=(*TAKES_SPACE, "sync")),
    Trouble(name="EIO once", error=errno.EIO, kinds=ANY),
    Trouble(name="EIO until mended", error=errno.EIO, kinds=ANY, lasts=True),
)


class FailingDisk:
    """Refuses the operation of a number."""

    def __init__(self, trouble: Trouble, number: int) -> None:
        """Begin with a disk that works.

        Args:
            trouble: How it fails.
            number: At which operation, counted from 1, those left out that it cannot concern.
        """
        self._trouble, self._number = trouble, number
        self.seen = 0
        self.failed: Operation | None = None
        "The first operation that it refused."
        self.is_mended = False

    def before(self, operation: Operation) -> None:
        """Refuse an operation, or let it be done."""
        if operation.kind not in self._trouble.kinds or IN_SUPERVISOR.get():
            return  # a supervisor tries again for itself
        self.seen += 1
        due = self.seen >= self._number if self._trouble.lasts else self.seen == self._number
        if due and not self.is_mended:
            self.failed = self.failed or operation
            error = self._trouble.error
            raise OSError(error, os.strerror(error), operation.path)

    def mend(self) -> None:
        """Let it work from now on."""
        self.is_mended = self.is_mended or self.failed is not None


class SlowDisk:
    """Keeps the operation of a number waiting."""

    def __init__(self, threads: Threads, number: int) -> None:
        """Begin with a disk that is quick; `number` counts all operations from 1."""
        self._threads, self._number = threads, number
        self._go = threading.Event()
        self._seen = 0
        self.held: Operation | None = None

    def before(self, operation: Operation) -> None:
        """Wait, where it is this one."""
        self._seen += 1
        if self._seen != self._number or threading.current_thread() is threading.main_thread():
            return
        self._threads.held += 1
        self.held = operation
        assert self._go.wait(WAIT_S), "nobody let it go"

    def let_go(self) -> None:
        """Let it be done."""
        if self.held is not None and not self._go.is_set():
            self._threads.held -= 1
        self._go.set()


# --- a disk that fails ---------------------------------------------------------------------------


def fail_at(proof: Proof, trouble: Trouble, number: int, place: Path) -> Outcome | None:
    """Let the disk fail at an operation of a whole run; None where there is no such. Blocking.

    People try again what was refused. The gateway is started once more at the end: what a session
    owes that failed goes on with its next message, or with the next start.
    """
    world = World()
    disk = FailingDisk(trouble, number)
    at_fault: list[bytes] = []

    def note(_what: str, packed: bytes) -> None:
        if disk.failed is None:
            at_fault[:] = [packed]

    try:
        with scratch(place) as folder:
            prepare(folder)
            recorder = Recorder(folder, before=disk.before)
            with recorder.installed():
                anyio.run(_live_with, folder, world, note, disk)
                if disk.failed is None:
                    return None
                disk.mend()
                world.step = 0  # all is looked at once more; what is done is not done again
                anyio.run(live_through, folder, world, note)
                left: Left = anyio.run(read_left, folder)
            point = _point(trouble.name, disk.failed, number, at_fault)
            why = proof.compare(left, world, point)
    except AssertionError as error:
        return _failed(trouble.name, disk.failed, number, at_fault, str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
        return _failed(trouble.name, disk.failed, number, at_fault, words(error))
    return Outcome(point=point, verdict="closing" if why else "equal", why=why)


def _point(name: str, operation: Operation | None, number: int, world: list[bytes]) -> Point:
    assert operation is not None
    what = f" (number {number} that this concerns)"
    packed = world[0] if world else b""
    return Point(model=name, operation=operation, what=what, picture={}, world=packed)


def _failed(
    name: str, operation: Operation | None, number: int, world: list[bytes], why: str
) -> Outcome:
    none = Operation(number=0, kind="mark", path="no fault yet")
    point = _point(name, operation or none, number, world)
    return Outcome(point=point, verdict="failed", why=why)


async def _live_with(
    folder: Path, world: World, note: Callable[[str, bytes], None], disk: FailingDisk
) -> None:
    """Live to the end of the script on a disk that fails."""
    with anyio.fail_after(WAIT_S):
        for _ in range(2):
            is_open = False
            try:
                async with open_gateway(folder, world, note) as gateway:
                    is_open = True
                    gateway.patience = 2
                    await _go_through(gateway, disk)
            except (CoreError, GatewayError, OSError, BaseExceptionGroup) as error:
                if is_open:
                    message = f"the gateway died of it: {words(error)}"
                    raise AssertionError(message) from error
                _check_refusal(error, disk)
                disk.mend()
            else:
                return


async def _go_through(gateway: Gateway, disk: FailingDisk) -> None:
    await gateway.settle()
    while gateway.world.step < len(SCRIPT):
        await _try(SCRIPT[gateway.world.step][1], gateway, disk)
        await gateway.settle()
        gateway.world.step += 1
        gateway.mark("a step is done")
        disk.mend()


async def _try(
    step: Callable[[Gateway], Awaitable[None]], gateway: Gateway, disk: FailingDisk
) -> None:
    for _ in range(TRIES):
        try:
            await step(gateway)
        except CoreError as error:
            _check_refusal(error, disk)
            gateway.world.faults.append(str(error))
            disk.mend()
        else:
            return
    message = f"it still fails after the disk works: {gateway.world.faults[-1]}"
    raise AssertionError(message)


def _check_refusal(error: BaseException, disk: FailingDisk) -> None:
    """Check that the disk is why, and that the error says something to somebody who reads it."""
    text = words(error)
    assert disk.failed is not None, f"nothing failed, and yet: {text}"
    assert len(text.partition(": ")[2]) > 10, f"this says nothing: {text!r}"


# --- a disk that is slow -------------------------------------------------------------------------


def hold_at(proof: Proof, number: int, place: Path) -> tuple[Outcome, ...] | None:
    """Keep an operation of a whole run waiting; None where there is no such. Blocking.

    Returns:
        What comes of a machine that loses power while it waits, with the world as it is then: what
        was said meanwhile must be durable. And what comes of the run when it is let go.
    """
    world, threads = World(), Threads()
    disk = SlowDisk(threads, number)
    taken: list[Point] = []
    with scratch(place) as folder:
        prepare(folder)
        recorder = Recorder(folder, before=disk.before)
        recorder.trace.base = picture_of(folder)
        name = "slow disk"
        try:
            with recorder.installed():
                anyio.run(_live_slowly, folder, world, recorder, threads, disk, taken)
                if disk.held is None:
                    return None
                left: Left = anyio.run(read_left, folder)
            why = proof.compare(left, world, taken[0])
            assert not why, f"it was only slow, and yet: {why}"
        except AssertionError as error:
            return (_failed(name, disk.held, number, [], str(error)),)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            return (_failed(name, disk.held, number, [], words(error)),)
    lost = proof.prove(taken[0])
    point = _point(name, disk.held, number, [taken[0].world])
    return lost, Outcome(point=point, verdict="equal")


async def _live_slowly(
    folder: Path,
    world: World,
    recorder: Recorder,
    threads: Threads,
    disk: SlowDisk,
    taken: list[Point],
) -> None:
    async def look() -> None:
        """Wait until the operation is held and all else is done; look, and let it go."""
        while disk.held is None:  # noqa: ASYNC110 - it is set in another thread
            await anyio.sleep(0.001)
        try:
            await threads.settle()
            for gateway in here:
                await _check_served(gateway, disk.held, recorder.trace.operations)
            taken.append(_as_of_now(recorder, disk.held))
        finally:
            disk.let_go()

    here: list[Gateway] = []
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            try:
                async with open_gateway(folder, world, recorder.mark, threads=threads) as gateway:
                    here.append(gateway)
                    gateway.is_slow = lambda: disk.held is not None and not taken
                    await live(gateway)
                    here.clear()
            finally:
                if disk.held is None:
                    tasks.cancel_scope.cancel()


async def _check_served(gateway: Gateway, held: Operation, before: Sequence[Operation]) -> None:
    """Check that conversations that write nothing are served while an operation is held."""
    writes = held.path
    if writes in FOLDERS:  # the session that was named last waits for its name
        names = (each.path for each in reversed(before) if each.path.startswith(f"{writes}/"))
        writes = next(names, writes)
    for name, key in KEYS.items():
        session_id = gateway.service.conversations._bindings.session_of(key)
        if not session_id or session_id in writes:
            continue
        with anyio.move_on_after(SERVED_S) as scope, suppress(CoreError):
            await gateway.service.view(session_id)
        assert not scope.cancelled_caught, f"{name} is not served while {held} is held"


def _as_of_now(recorder: Recorder, held: Operation) -> Point:
    replay = Replay(recorder.trace.base)
    for operation in [*recorder.trace.operations]:
        replay.apply(operation)
    return Point(
        model="power lost",
        operation=held,
        what=", which was held",
        picture=replay.disk.after_power_loss(),
        world=replay.world,
    )
