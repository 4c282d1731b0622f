"""Runs one run of a job: says its message, or lets the agent work on its task.

Everything it does is named by (job, instant) and done once however often it is begun: after a kill
the step that was open is simply done again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final, Protocol, assert_never

import anyio
from msgspec import Struct, structs

from everturn_actors.errors import (
    ActorFailedError,
    ActorStoppedError,
    CoreError,
    JournalError,
    JournalWriteError,
    MailboxFullError,
    SessionEndedError,
    StoreAwayError,
    UnknownSessionError,
)
from everturn_actors.model import ConversationKey, IncomingMessage, Queueing
from everturn_actors.service import Submission, TurnResult, TurnService
from everturn_actors.session.refusals import with_refusals
from everturn_actors.state.serialization import utc_text
from everturn_gateway.scheduler.errors import NotWrittenError
from everturn_gateway.scheduler.jobs import (
    ISOLATED,
    SENDER,
    Job,
    Run,
    RunOutcome,
    RunTask,
    SendMessage,
    ToChat,
    ToSession,
    ToWebhook,
)
from everturn_gateway.time_zones import check_zone

logger = logging.getLogger(__name__)

RESULT_S: Final = 86_400.0  # a turn has deadlines of its own; this one is for what they overlook
BESIDE_CHARACTERS: Final = 80  # that still say nothing, beside the word that says so
_WRAPPING: Final = " \t\r\n*_`\"'.!"
"What models put around an answer that is to be one word."


class WebhookError(Exception):
    """An address did not take what it was sent.

    Attributes:
        is_final: Whether another try is in vain.
    """

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        self.is_final = is_final
        super().__init__(message)


class Poster(Protocol):
    """Sends results to addresses."""

    async def post(self, url: str, data: Mapping[str, object], *, key: str) -> None:
        """Send `data` as JSON, once; `key` is the same each time the same thing is sent.

        Raises:
            WebhookError: It was not taken; the text names no more than the host.
        """
        ...


class Ended(Struct, frozen=True, kw_only=True):
    """How one try came out."""

    outcome: RunOutcome
    turn: int = 0
    error: str = ""
    may_retry: bool = False
    "failed: whether another try may help."
    is_answered: bool = False
    "failed: the task is done, and only its answer could not be passed on."
    is_open: bool = False
    "failed: its session failed under it, and what it was given goes on: it is not given it anew."


class _Answer(Struct, frozen=True, kw_only=True):
    """What is to be passed on."""

    text: str
    untrusted: bool = False
    turn: int = 0


class JobRunner:
    """Does what jobs say."""

    def __init__(self, service: TurnService, poster: Poster) -> None:
        self.service, self.poster = service, poster

    async def perform(
        self, job: Job, run: Run, accepted: Callable[[str, int], Awaitable[None]]
    ) -> Ended:
        """Try once, or go on with a try that was cut short; return how it came out.

        Args:
            job: What to do.
            run: Which run, and which try.
            accepted: Told the session and the event of a task or message, when they are durable.

        Raises:
            ActorStoppedError: The gateway stops; the next start goes on.
            NotWrittenError: `accepted` raised it, or the session cannot be read or written now.
                Nothing is lost: what was accepted is open, and the same try goes on with it.
        """
        try:
            match job.payload:
                case SendMessage(text=text):
                    told = await self._say(job, run, _Answer(text=text))
                    if told is not None and not run.seq:
                        await accepted(told.session_id, told.seq)
                    return Ended(outcome="sent")
                case RunTask():
                    with anyio.fail_after(RESULT_S):
                        return await self._work(job, job.payload, run, accepted)
                case _:
                    assert_never(job.payload)
        except ActorStoppedError:
            raise
        except (JournalWriteError, StoreAwayError) as error:
            raise NotWrittenError(str(error)) from error
        except (CoreError, WebhookError) as error:
            return _failed(error, was_accepted=bool(run.seq))
        except TimeoutError:
            return Ended(outcome="failed", error="it did not come to an end within a day")

    async def report(self, job: Job, run: Run, error: str, *, turn: int = 0) -> None:
        """Tell whoever the job is for that a run failed, or was not run; once.

        What cannot be told is logged.

        Raises:
            ActorStoppedError: The gateway stops; the next start goes on.
        """
        fields = {"job": job.job_id, "scheduled_at": utc_text(run.scheduled_at)}
        said = _Answer(
            text=f"**{job.title}**, due {_due_text(job, run.scheduled_at)}: {error}", turn=turn
        )
        key = f"{name_of(job, run.scheduled_at)}:failed"
        try:
            match job.to:
                case None:
                    return
                case ToWebhook(url=url):
                    await self.poster.post(url, _body(job, run, said, error=error), key=key)
                case _:
                    await self._announce(job, said, key)
        except ActorStoppedError:
            raise
        except (CoreError, WebhookError) as failure:
            logger.warning(
                "nobody can be told of a job that failed", extra={**fields, "error": str(failure)}
            )

    # --- tasks ---

    async def _work(
        self,
        job: Job,
        task: RunTask,
        run: Run,
        accepted: Callable[[str, int], Awaitable[None]],
    ) -> Ended:
        submission = await self.service.submit(_inbound(job, task, run))
        if not run.seq:
            await accepted(submission.session_id, submission.seq)
            # As it is read back after a kill: the same thing is said in the same words.
            run = structs.replace(run, session_id=submission.session_id, seq=submission.seq)
        result = await submission.result()
        if result.outcome == "cancelled":
            return Ended(outcome="cancelled", turn=result.turn, error=result.error)
        if result.outcome != "answered":
            error = result.error or f"its turn was {result.outcome}"
            return Ended(outcome="failed", turn=result.turn, error=error, may_retry=True)
        answer = _answer(result, task, job)
        if answer is None:
            return Ended(outcome="silent", turn=result.turn)
        if job.where == "isolated" and job.to is not None:
            try:
                await self._say(job, run, answer)
            except (ActorStoppedError, JournalWriteError, StoreAwayError):
                raise
            except (CoreError, WebhookError) as error:
                return structs.replace(_failed(error), turn=result.turn, is_answered=True)
        return Ended(outcome="answered", turn=result.turn)

    # --- saying ---

    async def _say(self, job: Job, run: Run, answer: _Answer) -> Submission | None:
        """Tell whom the job is for; return where that stands, None for a webhook."""
        key = f"{name_of(job, run.scheduled_at)}:said"
        match job.to:
            case ToWebhook(url=url):
                await self.poster.post(url, _body(job, run, answer), key=key)
                return None
            case _:
                return await self._announce(job, answer, key)

    async def _announce(self, job: Job, answer: _Answer, key: str) -> Submission:
        return await self.service.submit(
            IncomingMessage(
                text=answer.text,
                kind="announcement",
                key=_conversation(job),
                session_id=job.to.session_id if isinstance(job.to, ToSession) else "",
                principal=job.made.principal,
                sender=SENDER,
                idempotency_key=key,
                title=job.title,
                untrusted=answer.untrusted or job.made.untrusted,
            )
        )


def _failed(error: CoreError | WebhookError, *, was_accepted: bool = False) -> Ended:
    """Return how a try ended that met an error.

    Args:
        error: What it met.
        was_accepted: The task stood in a session before this try.
    """
    match error:
        case WebhookError(is_final=is_final):
            return Ended(outcome="failed", error=str(error), may_retry=not is_final)
        case SessionEndedError() | UnknownSessionError():  # somebody ended it under the task
            return Ended(outcome="cancelled" if was_accepted else "failed", error=str(error))
        case ActorFailedError() | JournalError():
            return Ended(outcome="failed", error=str(error), may_retry=True, is_open=True)
        case MailboxFullError():
            return Ended(outcome="failed", error=str(error), may_retry=True)
        case _:
            return Ended(outcome="failed", error=str(error))


def name_of(job: Job, scheduled_at: datetime) -> str:
    """Return the name of a run; no other one has it."""
    return f"schedule:{job.job_id}:{utc_text(scheduled_at)}"


def isolated_key(job: Job, scheduled_at: datetime) -> ConversationKey:
    """Return the conversation of a run that runs in a session of its own."""
    return ConversationKey(
        channel=ISOLATED, chat=job.job_id, topic=utc_text(scheduled_at), agent=job.agent
    )


def _conversation(job: Job) -> ConversationKey | None:
    """Return the conversation that a job is for; None where it names a session."""
    if not isinstance(job.to, ToChat):
        return None
    return ConversationKey(
        channel=job.to.channel, chat=job.to.chat, topic=job.to.topic, agent=job.agent
    )


def _inbound(job: Job, task: RunTask, run: Run) -> IncomingMessage:
    """Return the message that begins a try; the same one each time."""
    key = isolated_key(job, run.scheduled_at) if job.where == "isolated" else _conversation(job)
    session_id = job.to.session_id if key is None and isinstance(job.to, ToSession) else ""
    if run.seq:  # where it was accepted before, its conversation may be in another session by now
        key, session_id = None, run.session_id
    again = f", try {run.attempt}" if run.attempt > 1 else ""
    head = f"[Scheduled task {job.title!r}, due {_due_text(job, run.scheduled_at)}{again}]"
    return IncomingMessage(
        text=f"{head}\n{task.text}",
        key=key,
        session_id=session_id,
        principal=job.made.principal,
        sender=SENDER,
        idempotency_key=f"{name_of(job, run.scheduled_at)}:{run.attempt}",
        untrusted=job.made.untrusted,
        queueing=Queueing(joins="own"),
    )


def _answer(result: TurnResult, task: RunTask, job: Job) -> _Answer | None:
    """Return what is to be passed on; None where there is nothing to say.

    A task that runs apart has nobody to be asked: what it was refused is told with its answer.
    """
    text = _without_marker(result.text.strip(), task.silent_answer)
    if job.where == "isolated":
        text = with_refusals(text, result.refused)
    return _Answer(text=text, untrusted=result.untrusted, turn=result.turn) if text else None


def _without_marker(text: str, marker: str) -> str:
    """Return what there is to say beside the word that means that there is nothing.

    Models put that word in bold, in lower case, or on a line of its own beside a few others.
    """
    if not marker:
        return text
    lines = text.splitlines()
    rest = [line for line in lines if not _is_marker(line, marker)]
    if len(rest) == len(lines):
        return text
    said = "\n".join(rest).strip()
    return "" if len(said) <= BESIDE_CHARACTERS else said


def _is_marker(line: str, marker: str) -> bool:
    return line.strip(_WRAPPING).casefold() == marker.strip(_WRAPPING).casefold()


def _due_text(job: Job, scheduled_at: datetime) -> str:
    return f"{scheduled_at.astimezone(check_zone(job.timezone)):%Y-%m-%d %H:%M:%S} {job.timezone}"


def _body(job: Job, run: Run, answer: _Answer, *, error: str = "") -> dict[str, object]:
    return {
        "job": job.job_id,
        "label": job.label,
        "agent": job.agent,
        "scheduled_at": utc_text(run.scheduled_at),
        "outcome": "failed" if error else "done",
        "text": "" if error else answer.text,
        "error": error,
        "session_id": run.session_id,
        "turn": answer.turn,
    }
