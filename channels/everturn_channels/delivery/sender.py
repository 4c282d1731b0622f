"""Sends what is pending in a session: item after item, chunk after chunk, marked before and after.

A chunk that is marked as sending when nobody sends it was cut short: whether it arrived is not
known, so it is sent again and says so. What did not arrive, or may not have, is tried again until
the platform says yes or no, or until it was pending for too long; then people are told of it.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import Final

from anyio import to_thread
from msgspec import Struct

from everturn_actors.delivery.port import Outgoing
from everturn_actors.events import Body, ChunkMarked, DeliveryPlanned
from everturn_actors.model import Chunk, OutboxItem
from everturn_actors.ports import Clock
from everturn_channels.adapter import Adapter
from everturn_channels.delivery.chunk_sender import ERROR_MAX, ChunkSender, DeliveryJob
from everturn_channels.delivery.preview import Preview
from everturn_channels.delivery.question_closer import QuestionCloser
from everturn_channels.delivery.questions import Questions, question_of
from everturn_channels.delivery.rate_limiter import RateLimiter, unless
from everturn_channels.delivery.rendering import (
    is_whole_reply,
    render,
)
from everturn_channels.delivery.retries import LAST_TRIES, Retries
from everturn_channels.delivery.stopping import leaves
from everturn_channels.delivery.tally import Tally
from everturn_channels.delivery.typing_indicator import TypingIndicator
from everturn_channels.errors import NotSentError, RefusedError, SendError
from everturn_channels.health import mask_token
from everturn_channels.settings import ChannelSettings

logger = logging.getLogger(__name__)

IN_PLACE_CHARS: Final = 2_000  # a longer text is rendered in a thread: 8 KB may take 20 ms
UNDELIVERED_S: Final = 30 * 86_400.0  # so long people are to be told that something did not arrive


class Platform(Struct, frozen=True, kw_only=True):
    """What all sessions of a channel share where they send."""

    settings: ChannelSettings
    clock: Clock
    limiter: RateLimiter
    "When the bot may speak."
    tally: Tally
    "Counts what was sent, and what was given up."


class Sender:
    """Delivers one session."""

    def __init__(
        self,
        session: Outgoing,
        adapter: Adapter,
        *,
        platform: Platform,
        preview: Preview,
        typing: TypingIndicator,
        questions: Questions,
    ) -> None:
        self._session, self._adapter, self._settings = session, adapter, platform.settings
        self._preview, self._typing, self._questions = preview, typing, questions
        limiter, clock = platform.limiter, platform.clock
        self._limiter, self._tally = limiter, platform.tally
        self._ends = QuestionCloser(session, adapter, limiter, questions)
        self._holds = False
        self._is_chat_gone = False
        self._chunks = ChunkSender(session, adapter, clock)
        self._retries = Retries(limiter, clock)
        self._jobs: dict[int, DeliveryJob] = {}
        "Outbox items under way that wait for their next try, by their event."

    async def run(self) -> None:
        """Deliver until nothing is pending and no turn is open, or the service stops.

        Raises:
            SessionEndedError: The session is over.
            JournalError: What was done could not be written down.
        """
        session = self._session
        while not leaves(session):
            # Noted while it is known: the state forgets an answer with its turn.
            self._questions.note(session.state)
            item, turn = self._next(), session.state.open_turn
            waiting = [each.seq for each in session.state.outbox]
            if item is not None:
                await self._deliver(item)
            # What fails waits for its time; something newer, or an end, comes before it.
            elif self._retries.is_waiting(waiting):
                await unless(session, self._has_news, partial(self._retries.wait, waiting))
            # Nothing is pending and nothing will be: the actor may be passivated.
            elif turn is None or not turn.delivers:
                return
            else:
                await session.until_changed()

    def _next(self) -> OutboxItem | None:
        """Return the oldest outbox item that something can be done about; a question may just wait.

        People read replies in their order. So one that waits for its next try holds up the others,
        but not for ever.
        """
        for item in self._session.state.outbox:
            if self._is_over(item):
                return item
            # It was asked, and stays pending until somebody answers; it holds up nobody.
            if item.kind == "approval" and item.is_delivered:
                continue
            if self._retries.is_due(item.seq):
                return item
            # Order before speed, until the wait is longer than people would believe in an order.
            if not self._retries.may_be_overtaken(item.seq, item.pending_since):
                return None
        return None

    def _has_news(self) -> bool:
        """Whether there is something to do before what waits is due; or nothing any more."""
        is_over = not self._session.state.outbox or leaves(self._session)
        return is_over or self._next() is not None

    def _is_over(self, item: OutboxItem) -> bool:
        """Whether an outbox item is a question that nobody can answer any more."""
        return item.kind == "approval" and question_of(self._session.state, item).is_over

    async def _deliver(self, item: OutboxItem) -> None:
        try:
            if self._is_over(item):
                await self._close(item)
                return
            # A job that waits for its next try keeps what it knows of its chunks.
            job = self._jobs.pop(item.seq, None) or await self._take_up(item)
            while job.left and await self._may_send(job):
                if not await self._send(job):
                    self._jobs[item.seq] = job
                    return
            if not job.left or any(isinstance(body, ChunkMarked) for body in job.records):
                await self._record(job)
        finally:
            self._let_go()

    # --- one outbox item ---

    async def _take_up(self, item: OutboxItem) -> DeliveryJob:
        """Render an outbox item where that was not done, and take up what is left of it."""
        payloads = None
        if item.chunks is None and len(item.text) > IN_PLACE_CHARS:
            payloads = await to_thread.run_sync(self._render, item)
        # The message that showed the reply as it came becomes its first chunk, by an edit.
        if item.kind == "reply":
            item = await self._preview.hand_over(item)
        return self._begin(item, payloads)

    def _render(self, item: OutboxItem) -> tuple[str, ...]:
        """Return the payloads of an outbox item. Changes nothing, so that a thread may do it."""
        session = self._session
        question = question_of(session.state, item)
        return render(item, question, session.session_id, self._adapter, self._settings)

    def _begin(self, item: OutboxItem, payloads: tuple[str, ...] | None = None) -> DeliveryJob:
        """Take up what is left of an outbox item; one without a plan has these payloads."""
        planned: list[Body] = []
        chunks = item.chunks
        if chunks is None:
            if payloads is None:
                payloads = self._render(item)
            planned.append(DeliveryPlanned(item=item.seq, chunks=payloads))
            chunks = tuple(Chunk(payload=payload) for payload in payloads)
        job = DeliveryJob(
            item=item,
            chunks=[*chunks],
            left=deque(n for n, chunk in enumerate(chunks) if not chunk.is_done),
            records=planned,
            preview=item.preview,
        )
        for index, chunk in enumerate(chunks):
            # Marked before it was sent, and nobody is sending it: a crash came in between.
            if chunk.mark != "sending":
                continue
            if index == 0 and job.preview:  # an edit does no harm when it is made once more
                job.was_cut_short = True
                job.mark(index, "unsent", error="cut short")
            else:
                job.mark(index, "unknown", error="cut short")
        return job

    async def _may_send(self, job: DeliveryJob) -> bool:
        """Wait for the right to send; False where there is nothing to be sent any more."""
        if self._is_to_leave(job.item):
            return False
        if not self._holds:
            # The marks are written first: others may wait for them while this one waits its turn.
            if not self._limiter.acquire_nowait():
                if any(isinstance(body, ChunkMarked) for body in job.records):
                    await self._record(job)
                is_to_leave = partial(self._is_to_leave, job.item)
                if not await unless(self._session, is_to_leave, self._limiter.acquire):
                    return False
            self._holds = True
        return True

    def _is_to_leave(self, item: OutboxItem) -> bool:
        return leaves(self._session) or self._is_over(item)

    async def _send(self, job: DeliveryJob) -> bool:
        """Send the next chunk and note what became of it; False where it has to be tried again."""
        index = job.left[0]
        chunk = job.chunks[index]
        # Durable before it is sent, or a crash would send it twice without a word.
        job.mark(index, "sending")
        await self._record(job)
        self._typing.hush()
        try:
            platform_id = await self._chunks.send(job, index)
        except NotSentError as error:
            job.mark(index, "unsent", error=str(error))
            # The platform speaks of the bot, and not of this chat alone.
            if error.retry_after_s is not None:
                self._limiter.pause_for(error.retry_after_s)
            is_asked = error.retry_after_s is not None
            return await self._failed(job, error, in_doubt=False, is_asked=is_asked)
        except RefusedError as error:
            self._limiter.heard(answer=True)
            self._refused(job, index, error)
        except SendError as error:
            job.mark(index, "unknown", error=str(error))
            return await self._failed(job, error, in_doubt=True, is_asked=False)
        else:
            self._limiter.heard(answer=True)
            job.mark(index, "sent", platform_id=platform_id)
            # A file holds all of the text: its other chunks have nothing to add.
            if is_whole_reply(chunk.payload):
                for rest in tuple(job.left):
                    job.mark(rest, "closed")
            self._preview.pass_message()
            self._tally.count_out()
            # One long reply must not keep all other chats of the bot waiting.
            if self._limiter.is_contended:
                self._let_go()
        self._retries.forget(job.item.seq)
        return True

    async def _failed(
        self, job: DeliveryJob, error: SendError, *, in_doubt: bool, is_asked: bool
    ) -> bool:
        """Record a failure, and give up what was pending for too long; return whether it was."""
        item = job.item
        self._retries.failed(
            item.seq,
            in_doubt=in_doubt,
            is_asked=is_asked,
            waits_for_person=isinstance(error, NotSentError) and error.waits_for_person,
        )
        limit_s = self._settings.give_up_after_s
        # What says that something got lost is tried for longer than what got lost.
        if item.kind == "undelivered":
            limit_s = max(limit_s, UNDELIVERED_S)
        is_given_up = self._retries.is_hopeless(item.seq, item.pending_since, limit_s)
        if is_given_up:
            for each in tuple(job.left):
                job.mark(each, "given_up", error=f"pending for too long; {error}")
                self._tally.count_given_up()
            self._retries.forget(item.seq)
            self._warn("a message is given up, it was pending for too long", item, error)
        # Once, and not with each try of a day.
        elif self._retries.failures(item.seq) == LAST_TRIES:
            self._warn("a message could not be delivered so far; it is tried again", item, error)
        await self._record(job)
        self._let_go()
        return is_given_up

    def _refused(self, job: DeliveryJob, index: int, error: RefusedError) -> None:
        """Note that a chunk never arrives; where the chat is gone, nothing else that is pending."""
        if not error.is_chat_gone:
            job.mark(index, "failed", error=str(error))
            self._warn("a message was refused", job.item, error)
            return
        for each in tuple(job.left):
            job.mark(each, "failed", error=str(error))
        for item in self._session.state.outbox:
            if item.seq == job.item.seq or item.is_delivered or self._is_over(item):
                continue
            other = self._begin(item)
            for each in tuple(other.left):
                other.mark(each, "failed", error=str(error))
            job.records += other.take_records()
        if not self._is_chat_gone:
            self._is_chat_gone = True
            self._warn("a chat is gone; what is pending for it is given up", job.item, error)

    def _warn(self, message: str, item: OutboxItem, error: SendError) -> None:
        key = self._session.state.key
        logger.warning(
            message,
            extra={
                "channel": key.channel,
                "chat": key.chat,
                "session_id": self._session.session_id,
                "item": item.seq,
                "error": mask_token(str(error))[:ERROR_MAX],
            },
        )

    async def _record(self, job: DeliveryJob) -> None:
        told = job.take_records()
        if told:
            await self._session.record(*told)

    def _let_go(self) -> None:
        if self._holds:
            self._holds = False
            self._limiter.release()

    # --- the end of a question ---

    async def _close(self, item: OutboxItem) -> None:
        """Show how a question was resolved, as well as that can be done; then it is done with."""
        if item.chunks is None:  # nobody was asked yet, and now there is nothing to ask
            await self._session.record(DeliveryPlanned(item=item.seq, chunks=()))
            return
        last = item.chunks[-1]
        # Buttons that do nothing any more would be clicked.
        if last.mark == "sent" and self._adapter.capabilities.edits:
            await self._ends.show(item, last.platform_id)
            if leaves(self._session):
                return  # it can be shown after the start
        job = self._begin(item)  # what was cut short is of unknown outcome first
        if job.chunks[0].mark != "closed":
            job.mark(0, "closed")
        await self._record(job)
