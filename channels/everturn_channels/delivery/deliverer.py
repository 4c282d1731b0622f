"""Delivers what sessions say to the people of one channel, whatever its platform."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

import anyio

from everturn_actors.delivery.port import Outgoing
from everturn_actors.errors import ActorStoppedError, CoreError, SessionEndedError
from everturn_actors.faults import first_cause
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock
from everturn_actors.state.session_state import SessionState
from everturn_actors.supervisor import attempt
from everturn_channels.adapter import Adapter, ChatType
from everturn_channels.delivery.preview import Preview
from everturn_channels.delivery.question_closer import QuestionCloser
from everturn_channels.delivery.questions import Questions
from everturn_channels.delivery.rate_limiter import RateLimiter
from everturn_channels.delivery.sender import Platform, Sender
from everturn_channels.delivery.stopping import leaves
from everturn_channels.delivery.tally import NoTally, Tally
from everturn_channels.delivery.typing_indicator import TypingIndicator
from everturn_channels.languages import Language, ready, speaking
from everturn_channels.settings import ChannelSettings

logger = logging.getLogger(__name__)


class Deliverer:
    """Implements `everturn_actors.delivery.port.DeliveryPort` over one adapter; see there."""

    def __init__(
        self,
        adapter: Adapter,
        *,
        settings: ChannelSettings,
        clock: Clock,
        chat_type_of: Callable[[ConversationKey], ChatType] | None = None,
        tally: Tally | None = None,
        limiter: RateLimiter | None = None,
        language_of: Callable[[ConversationKey], Language] | None = None,
    ) -> None:
        """Begin without anything under way.

        Args:
            adapter: Whose platform it is.
            settings: How the channel behaves.
            clock: The time.
            chat_type_of: Tells what kind of chat a conversation is in, because not every kind has
                drafts; without it each counts as a group.
            tally: Counts the messages that were sent, and those that were given up.
            limiter: When the bot may speak, where others speak with its voice as well.
            language_of: Tells in which language a conversation is spoken to; without it English.
        """
        self._adapter, self._settings, self._clock = adapter, settings, clock
        self._chat_type_of, self._tally = chat_type_of, tally or NoTally()
        self._limiter = limiter or RateLimiter(clock, random.random)
        self._language_of = language_of

    @property
    def takes_files(self) -> bool:
        """See `DeliveryPort.takes_files`."""
        return self._adapter.capabilities.files_max_bytes > 0

    async def deliver(self, session: Outgoing) -> None:
        """See `DeliveryPort.deliver`.

        Raises:
            SessionEndedError: The session is over.
            ActorStoppedError: Its actor is gone.
            JournalError: What was done could not be written down.
        """
        # Whatever task began this one may have spoken to somebody else.
        language = self._language_of(session.state.key) if self._language_of else "en"
        with speaking(await ready(language)):
            await self._deliver(session)

    async def _deliver(self, session: Outgoing) -> None:
        questions = Questions()
        try:
            while not leaves(session) and _has_work(session.state):
                await self._deliver_open(session, questions)
        except ExceptionGroup as group:
            raise _cause(group) from group
        finally:
            if session.state.status == "ended":
                await QuestionCloser(session, self._adapter, self._limiter, questions).show_all()

    async def _deliver_open(self, session: Outgoing, questions: Questions) -> None:
        key = session.state.key
        preview = Preview(
            session,
            self._adapter,
            settings=self._settings,
            limiter=self._limiter,
            clock=self._clock,
            chat_type=self._chat_type_of(key) if self._chat_type_of else "group",
        )
        typing = TypingIndicator(session, self._adapter, self._limiter, self._clock)
        sender = Sender(
            session,
            self._adapter,
            platform=Platform(
                settings=self._settings,
                clock=self._clock,
                limiter=self._limiter,
                tally=self._tally,
            ),
            preview=preview,
            typing=typing,
            questions=questions,
        )
        async with anyio.create_task_group() as tasks:
            for what, body in (
                ("preview", preview.run),
                ("typing indicator", typing.run),
                ("questions", partial(questions.watch, session)),
            ):
                tasks.start_soon(self._beside, what, body)
            await sender.run()
            typing.hush()
            await preview.finish()
            tasks.cancel_scope.cancel()

    async def _beside(self, what: str, body: Callable[[], Awaitable[None]]) -> None:
        """Run what accompanies a delivery; a fault of it keeps no reply from anybody.

        Raises:
            CoreError: The session is over, or its journal cannot be written.
        """
        failure = await attempt(body)
        cause = first_cause(failure) if failure is not None else None
        if isinstance(cause, CoreError):
            raise cause
        if cause is not None:
            fields = {"channel": self._adapter.name, "what": what}
            logger.error("a delivery goes on without", extra=fields, exc_info=failure)


def _has_work(state: SessionState) -> bool:
    turn = state.open_turn
    return bool(state.outbox) or (turn is not None and turn.delivers)


def _cause(group: ExceptionGroup[Exception]) -> Exception:
    """Return the one failure that tells the most: the end of the session explains all others."""
    cause: Exception = group.subgroup((SessionEndedError, ActorStoppedError)) or group
    while isinstance(cause, ExceptionGroup):
        cause = cast("ExceptionGroup[Exception]", cause).exceptions[0]
    return cause
