"""What one gateway asks of the one that runs the jobs, by values in the store that both share.

A question is a value that the other one answers with a second value, and takes away. Who asked
waits for the answer, and takes that away in turn.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, NoReturn, TypeAlias

import anyio
import msgspec
from msgspec import Struct

from everturn_actors.errors import ConflictError, JournalError
from everturn_actors.ports import ABSENT, Clock, KeyedStore
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.errors import JobFixedError, JobRefusedError, UnknownJobError
from everturn_gateway.scheduler.jobs import Made

logger = logging.getLogger(__name__)

QUESTIONS: Final = "schedules/asked/"
ANSWERS: Final = "schedules/answered/"
LOOK_S: Final = 1.5  # how often who runs the jobs looks for questions
WAIT_S: Final = 20.0  # for an answer: the jobs may be on their way to another gateway
_ANSWER_LOOK_S: Final = 0.2
_KEPT_S: Final = 600.0  # answers, where nobody comes for them
_NAME_BYTES: Final = 8

Change: TypeAlias = Literal["add", "cancel", "pause", "resume", "run"]


class Question(Struct, frozen=True, kw_only=True):
    """A change of a job that another gateway is to make."""

    change: Change
    job_id: str
    section: str = ""
    "add: what the job is to be, as JSON."
    made: Made | None = None
    max_jobs: int | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """What became of it."""

    failure: Literal["", "unknown", "fixed", "refused", "not written"] = ""
    text: str = ""
    faults: tuple[tuple[str, str], ...] = ()
    "Fields, and what is wrong with each."
    scheduled_at: datetime | None = None
    "run: the name of the run."


class Questions:
    """The way to the gateway that runs the jobs."""

    def __init__(self, store: KeyedStore, clock: Clock) -> None:
        """Ask by values of a store that all share."""
        self._store, self._clock = store, clock

    async def ask(self, question: Question) -> Answer:
        """Have a change made; return when it is durable.

        Raises:
            UnknownJobError, JobFixedError, JobRefusedError: It cannot be.
            OSError: Nobody answers, or it cannot be written. It may be done all the same.
        """
        asked_at = int(self._clock.now().timestamp())
        name = f"{asked_at}-{secrets.token_hex(_NAME_BYTES)}.json"
        try:
            await self._store.put(QUESTIONS + name, msgspec.json.encode(question), expected=ABSENT)
            answer: Answer | None = None
            with anyio.move_on_after(WAIT_S):
                while answer is None:
                    await self._clock.sleep(_ANSWER_LOOK_S)
                    found = await self._store.get(ANSWERS + name)
                    if found is not None:
                        answer = msgspec.json.decode(found.data, type=Answer)
            for folder in (QUESTIONS, ANSWERS):
                await self._store.delete(folder + name)
        except JournalError as error:
            raise OSError(str(error)) from error
        if answer is None:
            msg = "no gateway runs the scheduled jobs at the moment; try again"
            raise OSError(msg)
        _raise(question, answer)
        return answer

    async def answer(self, change: Callable[[Question], Awaitable[Answer]]) -> NoReturn:
        """Make the changes that others ask for, until cancelled."""
        await self._tidy()
        while True:
            try:
                for key in await self._store.list(QUESTIONS):
                    await self._answer_one(key, change)
            except JournalError as error:
                logger.warning("changes of jobs cannot be read", extra={"error": str(error)})
            await self._clock.sleep(LOOK_S)

    async def _tidy(self) -> None:
        """Remove answers that nobody came for: who asked was killed."""
        now = self._clock.now().timestamp()
        try:
            for key in await self._store.list(ANSWERS):
                asked_at = key.removeprefix(ANSWERS).partition("-")[0]
                if not asked_at.isdecimal() or now - int(asked_at) > _KEPT_S:
                    await self._store.delete(key)
        except JournalError as error:
            logger.warning("old answers stay", extra={"error": str(error)})

    async def _answer_one(self, key: str, change: Callable[[Question], Awaitable[Answer]]) -> None:
        found = await self._store.get(key)
        if found is None:
            return
        try:
            answer = await change(msgspec.json.decode(found.data, type=Question))
        except JournalError:
            raise  # it is asked again
        except Exception as error:  # a boundary: one that cannot be answered keeps no other waiting
            logger.exception("a change of a job that another gateway asks for failed")
            text = f"the gateway that runs the jobs cannot do it: {type(error).__name__}"
            answer = Answer(failure="refused", text=text)
        with suppress(ConflictError):  # another one answered meanwhile
            name = key.removeprefix(QUESTIONS)
            await self._store.put(ANSWERS + name, msgspec.json.encode(answer), expected=ABSENT)
        await self._store.delete(key)


async def answer_of(work: Awaitable[datetime | None]) -> Answer:
    """Do something to a job; return what became of it, for another gateway."""
    try:
        return Answer(scheduled_at=await work)
    except UnknownJobError as error:
        return Answer(failure="unknown", text=str(error))
    except JobFixedError as error:
        return Answer(failure="fixed", text=str(error))
    except JobRefusedError as error:
        faults = tuple((fault.field, fault.message) for fault in error.faults)
        return Answer(failure="refused", text=str(error), faults=faults)
    except OSError as error:
        return Answer(failure="not written", text=error.strerror or str(error))


def _raise(question: Question, answer: Answer) -> None:
    """Fail as the other gateway did."""
    match answer.failure:
        case "unknown":
            raise UnknownJobError(question.job_id)
        case "fixed":
            raise JobFixedError(answer.text)
        case "refused":
            faults = [
                Fault(file=Path(), field=field, message=message) for field, message in answer.faults
            ]
            raise JobRefusedError("" if faults else answer.text, faults=faults)
        case "not written":
            raise OSError(answer.text)
        case "":
            return
