"""Shows below a question how it ended, and takes its buttons away."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import anyio

from everturn_actors.delivery.port import Outgoing
from everturn_actors.model import OutboxItem, ToolCall
from everturn_channels.adapter import Adapter
from everturn_channels.delivery.questions import Questions, question_of
from everturn_channels.delivery.rate_limiter import RateLimiter, unless
from everturn_channels.delivery.words import call_text, inquiry_text, resolved_text
from everturn_channels.errors import NotSentError, SendError, UnknownOutcomeError
from everturn_channels.health import mask_token

logger = logging.getLogger(__name__)

TRIES: Final = 3  # it is a courtesy: who clicks a button too late is told so in any case
LAST_S: Final = 4.0  # for those of a session that ended; its actor waits a little longer


class QuestionCloser:
    """The ends of the questions of one session."""

    def __init__(
        self, session: Outgoing, adapter: Adapter, limiter: RateLimiter, questions: Questions
    ) -> None:
        self._session, self._adapter = session, adapter
        self._limiter, self._questions = limiter, questions

    async def show(self, item: OutboxItem, platform_id: str) -> None:
        """Change the message with the buttons, if that can be done; return early at a stop."""
        payload = self._payload(item, question_of(self._session.state, item).call)
        for failures in range(1, TRIES + 1):
            if not await unless(self._session, self._is_stopping, self._limiter.acquire):
                return
            try:
                if await self._try(platform_id, payload):
                    return
            finally:
                self._limiter.release()
            if failures < TRIES and not self._limiter.paused_s:
                again = partial(self._limiter.back_off, failures)
                await unless(self._session, self._is_stopping, again)

    async def show_all(self) -> None:
        """Change the messages of all questions that the end of the session left open.

        Each is tried once, and not for long: whoever carries an ended session is soon called off.
        """
        if self._adapter.capabilities.edits:
            with anyio.move_on_after(LAST_S):
                await unless(self._session, self._is_stopping, self._show_all)

    async def _show_all(self) -> None:
        for shown in self._questions.shown:
            payload = self._payload(shown.item, shown.call)
            await self._limiter.acquire()
            try:
                await self._try(shown.platform_id, payload)
            finally:
                self._limiter.release()

    def _payload(self, item: OutboxItem, call: ToolCall | None) -> str:
        resolved = self._questions.outcome(item)
        text = resolved_text(resolved.resolution, resolved.by, resolved.answer)
        if item.inquiry is not None:
            text = f"{inquiry_text(item.inquiry)}\n\n{text}"
        elif call is not None:
            text = f"{call_text(call)}\n\n{text}"
        return self._adapter.render(text, is_plain=True)[-1]

    async def _try(self, platform_id: str, payload: str) -> bool:
        """Change the message once; return whether there is nothing left to try."""
        key = self._session.state.key
        try:
            await self._adapter.edit(key.chat, key.topic, platform_id, payload)
        except SendError as error:
            if isinstance(error, NotSentError) and error.retry_after_s is not None:
                self._limiter.pause_for(error.retry_after_s)
            logger.info(
                "the end of a question could not be shown",
                extra={
                    "channel": key.channel,
                    "chat": key.chat,
                    "session_id": self._session.session_id,
                    "error": mask_token(str(error)),
                },
            )
            return not isinstance(error, NotSentError | UnknownOutcomeError)
        self._limiter.heard()
        return True

    def _is_stopping(self) -> bool:
        return self._session.is_stopping
