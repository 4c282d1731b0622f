"""Supervision of long tasks: a fault ends the task that has it, and nothing else.

A `Supervisor` keeps one status for each of its children. `Supervisor.run` is a child's life: it
runs the body, and where that fails, logs, waits and runs it again as its `RestartPolicy` says. A
child that failed too often in a row stays down and says so. `contain` is the boundary of a
short-lived task in a group that others share; it is neither restarted nor listed.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import Struct, field

from everturn_actors.errors import CoreError
from everturn_actors.faults import first_cause, is_cancelled
from everturn_actors.ports import Clock

logger = logging.getLogger(__name__)

Restart: TypeAlias = Literal["permanent", "transient", "temporary"]
"""permanent: again whenever it ends; transient: again where it fails; temporary: never again."""

ChildState: TypeAlias = Literal["running", "backing_off", "failed", "finished"]
"""failed: it stays down until the process is started anew."""

Body: TypeAlias = Callable[[], Awaitable[object]]

_TEXT_CHARACTERS = 300  # of an error in a status; the log has the whole


class Backoff(Struct, frozen=True, kw_only=True):
    """How long to wait before the next try: twice as long after each failure, up to a bound."""

    first_s: float = 1.0
    longest_s: float = 60.0
    jitter: float = 0.5
    "The share of a pause that is left to chance, so that many children do not try at once."

    def pause_s(self, failures: int, chance: float) -> float:
        """Return the pause after so many failures in a row.

        Args:
            failures: At least 1.
            chance: From 0 to 1; 1 gives the whole pause.
        """
        whole_s = min(self.first_s * 2.0 ** min(failures - 1, 32), self.longest_s)
        return whole_s * (1 - self.jitter * (1 - chance))


class RestartPolicy(Struct, frozen=True, kw_only=True):
    """What becomes of a child that ends."""

    restart: Restart = "permanent"
    backoff: Backoff = field(default_factory=Backoff)
    failures_max: int = 10
    "After so many failures in a row it stays down."
    steady_s: float = 60.0
    "A run that lasted so long ends the row: the next failure is the first of another."


PERMANENT = RestartPolicy()
TRANSIENT = RestartPolicy(restart="transient")
TEMPORARY = RestartPolicy(restart="temporary")


class ChildError(Struct, frozen=True, kw_only=True):
    """Why a child failed the last time."""

    kind: str
    "The class of the exception."
    text: str
    "What it says, without secrets, shortened."


class ChildStatus(Struct, frozen=True, kw_only=True):
    """The status of a child."""

    name: str
    "`part`, or `part:which` where it is one of several of a kind."
    state: ChildState
    since: datetime
    "When it came into this state, UTC."
    restarts: int = 0
    failures: int = 0
    "In a row, up to now."
    error: ChildError | None = None
    "None where it never failed."
    is_needed: bool = False
    "Whether no message can be taken or answered without it."

    @property
    def is_down(self) -> bool:
        """Whether it should run and does not."""
        return self.state in {"backing_off", "failed"}


class UnexpectedEndError(Exception):
    """A child ended, or was cancelled, although nobody asked it to."""


class _Row(Struct, kw_only=True):
    """What is kept of a child; `status` makes a value of it."""

    name: str
    since: datetime
    is_needed: bool
    state: ChildState = "running"
    restarts: int = 0
    failures: int = 0
    error: ChildError | None = None

    def status(self) -> ChildStatus:
        return ChildStatus(
            name=self.name,
            state=self.state,
            since=self.since,
            restarts=self.restarts,
            failures=self.failures,
            error=self.error,
            is_needed=self.is_needed,
        )


class Supervisor:
    """Knows every long task of a process, and runs each until it is cancelled or given up.

    Where a child lives is its owner's business: it is started in the owner's task group, so that
    children end in the order in which their owners close.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        jitter: Callable[[], float] = random.random,
        mask: Callable[[str], str] = str,
    ) -> None:
        """Begin without children.

        Args:
            clock: The time, and the pauses.
            jitter: Gives numbers from 0 to 1.
            mask: Takes secrets out of a text.
        """
        self._clock = clock
        self._jitter = jitter
        self._mask = mask
        self._rows: dict[str, _Row] = {}
        self._restarts: Counter[str] = Counter()

    def children(self) -> tuple[ChildStatus, ...]:
        """Return the status of every child, by name."""
        return tuple(self._rows[name].status() for name in sorted(self._rows))

    def down(self) -> tuple[ChildStatus, ...]:
        """Return the children that should run and do not, by name."""
        return tuple(status for status in self.children() if status.is_down)

    def restarts(self) -> Mapping[str, int]:
        """Return how often children were started again, by part; children that are gone count."""
        return dict(self._restarts)

    def start(
        self,
        tasks: TaskGroup,
        name: str,
        body: Body,
        *,
        policy: RestartPolicy = PERMANENT,
        is_needed: bool = False,
    ) -> None:
        """Start a child in a task group; see `run`."""
        life = partial(self.run, name, body, policy=policy, is_needed=is_needed)
        tasks.start_soon(life, name=name)

    async def run(
        self,
        name: str,
        body: Body,
        *,
        policy: RestartPolicy = PERMANENT,
        is_needed: bool = False,
        on_failed: Callable[[], None] | None = None,
    ) -> None:
        """Run a child until it is finished, given up, or the scope of the caller is cancelled.

        Only that cancellation leaves this method as an exception; of the body's, nothing does but
        what is no `Exception` (`KeyboardInterrupt`, `SystemExit`).

        Args:
            name: `part`, or `part:which` where it is one of several of a kind. A child of this
                name that is no more is forgotten.
            body: Makes one run of it. What it leaves behind when it fails must let it run again.
            policy: What becomes of it when it ends.
            is_needed: Whether no message can be taken or answered without it.
            on_failed: Called when it is given up; must not raise.
        """
        row = self._rows[name] = _Row(name=name, since=self._clock.now(), is_needed=is_needed)
        try:
            while True:
                began = self._clock.now()
                # As `attempt` does it, without its frame: each wake of a child passes through here.
                failure: Exception | None = None
                try:
                    await body()
                except Exception as error:  # noqa: BLE001 - the boundary around a child; logged below
                    failure = error
                except anyio.get_cancelled_exc_class() as error:
                    failure = _cancelled_from_elsewhere(error)
                if failure is None and policy.restart == "permanent":
                    failure = UnexpectedEndError("it ended, and should not have")
                if failure is None:
                    self._enter(row, "finished")
                    return
                if is_cancelled():  # it failed while it was stopped
                    logger.warning(
                        "a task failed at its end",
                        extra={"task": name, "error": str(failure)},
                        exc_info=_traceback_of(failure),
                    )
                    await checkpoint_if_cancelled()
                lasted = self._clock.now() - began
                if not self._take_failure(row, failure, policy, lasted=lasted):
                    if on_failed is not None:
                        on_failed()
                    return
                await self._clock.sleep(policy.backoff.pause_s(row.failures, self._jitter()))
                row.restarts += 1
                self._restarts[part_of(name)] += 1
                self._enter(row, "running")
        finally:
            is_one_of_many = row.state == "finished" and part_of(name) != name
            is_ended = row.state in {"running", "backing_off"} or is_one_of_many
            if is_ended and self._rows.get(name) is row:
                del self._rows[name]

    def _take_failure(
        self, row: _Row, failure: Exception, policy: RestartPolicy, *, lasted: timedelta
    ) -> bool:
        """Note and log a failure; return whether there is another try."""
        if lasted >= timedelta(seconds=policy.steady_s):
            row.failures = 0
        row.failures += 1
        before, row.error = row.error, self._error_of(failure)
        has_next = policy.restart != "temporary" and row.failures < policy.failures_max
        fields = {
            "task": row.name,
            "failures": row.failures,
            "error": f"{row.error.kind}: {row.error.text}",
        }
        # A failure that repeats has shown where it comes from.
        is_known = row.failures > 1 and row.error == before
        traceback = None if is_known else _traceback_of(failure)
        if has_next:
            self._enter(row, "backing_off")
            logger.warning(
                "a task failed and is started again",
                extra=fields,
                exc_info=traceback,
            )
        else:
            self._enter(row, "failed")
            logger.error(
                "a task failed and stays down until the gateway is started anew",
                extra=fields,
                exc_info=traceback,
            )
        return has_next

    def _enter(self, row: _Row, state: ChildState) -> None:
        row.state, row.since = state, self._clock.now()

    def _error_of(self, failure: Exception) -> ChildError:
        cause = first_cause(failure)
        text = self._mask(str(cause)).encode("utf-8", "replace").decode()
        return ChildError(kind=type(cause).__name__, text=" ".join(text.split())[:_TEXT_CHARACTERS])


async def attempt(body: Body) -> Exception | None:
    """Run `body`; return why it failed, None where it did not. The caller logs it.

    A cancellation is passed on where a scope around the task was cancelled. Any other comes from
    elsewhere - a library that cancels a task, or waits for a future that was cancelled - and is a
    failure like another: in a task group it would end all siblings without a word.
    """
    try:
        await body()
    except Exception as error:  # noqa: BLE001 - the boundary around one task; the caller logs it
        return error
    except anyio.get_cancelled_exc_class() as error:
        return _cancelled_from_elsewhere(error)
    return None


def _cancelled_from_elsewhere(error: BaseException) -> Exception:
    """Return the failure that a cancellation is which no scope around the task asked for.

    Raises:
        BaseException: `error` itself, where one did.
    """
    if is_cancelled():
        raise error
    failure = UnexpectedEndError("it was cancelled from elsewhere")
    failure.__cause__ = error
    return failure


async def contain(
    what: str, body: Body, *, on_error: Callable[[Exception], None] | None = None
) -> bool:
    """Run something in a task group that others share, so that its fault cancels none of them.

    Args:
        what: For the log.
        body: What to run.
        on_error: Called with the fault, after it was logged; must not raise.

    Returns:
        Whether it ended without a fault.
    """
    failure = await attempt(body)
    if failure is None:
        return True
    logger.error("a task failed", extra={"task": what}, exc_info=failure)
    if on_error is not None:
        on_error(failure)
    return False


def _traceback_of(failure: Exception) -> Exception | None:
    """Return what to log the traceback of; None where the text says all there is to say."""
    return None if isinstance(first_cause(failure), CoreError) else failure


def part_of(name: str) -> str:
    """Return the part that a child belongs to: what stands before the colon in its name."""
    return name.partition(":")[0]


@asynccontextmanager
async def cancelled_at_end() -> AsyncGenerator[TaskGroup]:
    """Open a group of tasks that are cancelled when the block ends."""
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        finally:
            tasks.cancel_scope.cancel()
