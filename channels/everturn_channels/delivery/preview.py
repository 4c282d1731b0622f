"""Shows a reply while it comes, and which tools run: as a draft, or as a message that is edited.

A preview is never waited for and never pending. What fails only ends the preview; the reply itself
arrives by the ordinary way, and takes the place of the preview's message where there is one.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from datetime import datetime
from hashlib import sha256
from typing import Final

import anyio
from msgspec.structs import replace

from everturn_actors.delivery.port import Outgoing
from everturn_actors.events import PreviewSent
from everturn_actors.model import OutboxItem
from everturn_actors.ports import Clock
from everturn_actors.service import TextDelta
from everturn_channels.adapter import Adapter, ChatType, Outbound
from everturn_channels.delivery.intents import Coming, Intent, Intents, Status
from everturn_channels.delivery.rate_limiter import RateLimiter
from everturn_channels.delivery.rendering import line, preview_nonce
from everturn_channels.errors import NotSentError, RefusedError, SendError
from everturn_channels.health import mask_token
from everturn_channels.settings import ChannelSettings

logger = logging.getLogger(__name__)

FIRST_CHARACTERS: Final = 40  # a preview begins with so many, or after the time between two states
FINISH_S: Final = 2.0  # what is under way at the end may take so long
_PAGE_MIN: Final = 20  # characters, whatever a platform says of itself
_DRAFTS: Final = 0x7FFF_FFFF


class Preview:
    """What one conversation is shown of a running turn."""

    def __init__(
        self,
        session: Outgoing,
        adapter: Adapter,
        *,
        settings: ChannelSettings,
        limiter: RateLimiter,
        clock: Clock,
        chat_type: ChatType,
    ) -> None:
        self._session, self._adapter, self._settings = session, adapter, settings
        self._limiter, self._clock = limiter, clock
        capabilities = adapter.capabilities
        self._every_s = capabilities.preview_s
        self._drafts = chat_type in capabilities.drafts
        self._is_possible = self._every_s > 0 and (capabilities.edits or self._drafts)
        self._news = anyio.Event()
        self._calling = anyio.Lock()
        "Held while the platform is called: what comes later must not arrive sooner."
        self._intents = Intents(session, settings=settings, clock=clock)
        self._last: datetime | None = None
        "When something was last shown, or tried to be."

    async def run(self) -> None:
        """Show what there is to show, until cancelled."""
        if not self._is_possible:
            return
        async with anyio.create_task_group() as tasks:
            if self._settings.streaming:
                tasks.start_soon(self._read)
            tasks.start_soon(self._watch)
            while True:
                await self._until_wanted()
                await self._until_due()
                async with self._calling:
                    await self._show()

    async def finish(self) -> None:
        """Let what is under way end, and leave no line behind that says a tool runs."""
        with anyio.move_on_after(FINISH_S):
            async with self._calling:
                if self._ends_late() and self._limiter.acquire_nowait():
                    try:
                        await self._end_status()
                    except SendError as error:
                        self._note(error)
                    finally:
                        self._limiter.release()

    def _ends_late(self) -> bool:
        """Whether the message of tools does not say yet how it ended."""
        status = self._intents.status
        is_behind = bool(status.platform_id) and self._intents.todo(status.turn) != status.todo
        return status.is_running or is_behind

    async def hand_over(self, item: OutboxItem) -> OutboxItem:
        """Wait for what is under way, and return the outbox item of a reply as it stands then."""
        async with self._calling:
            pass  # its step is complete: from here on nothing more is shown of it
        outbox = self._session.state.outbox
        return next((each for each in outbox if each.seq == item.seq), item)

    def pass_message(self) -> None:
        """Note that another message stands below what is shown."""
        self._intents.status.is_old = True

    async def _read(self) -> None:
        async with aclosing(self._session.updates(self._take)) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    self._take(update)

    def _take(self, delta: TextDelta) -> bool:
        # Where it comes: what is shown once a second need not wake a task for each token.
        self._intents.add(delta)
        self._news.set()
        return True

    async def _watch(self) -> None:
        while True:
            await self._session.until_changed()
            self._news.set()

    # --- when it is shown ---

    async def _until_wanted(self) -> None:
        while self._intents.now() is None:
            self._news = anyio.Event()
            await self._news.wait()

    async def _until_due(self) -> None:
        """Wait until the platform may be called, and the first words are more than a few."""
        coming = self._intents.coming
        shown = (self._intents.shown.turn, self._intents.shown.step)
        is_first = self._intents.of_text() is not None and shown != (coming.turn, coming.step)
        if is_first and coming.length < FIRST_CHARACTERS and coming.since is not None:
            age_s = (self._clock.now() - coming.since).total_seconds()
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._until_longer, coming, scope)
                    await self._clock.sleep(max(self._every_s - age_s, 0))
                    scope.cancel()
        while (wait_s := max(self._rest_s(), self._limiter.paused_s)) > 0:
            await self._clock.sleep(wait_s)

    async def _until_longer(self, coming: Coming, scope: anyio.CancelScope) -> None:
        while (
            coming is self._intents.coming
            and coming.length < FIRST_CHARACTERS
            and self._intents.now()
        ):
            self._news = anyio.Event()
            await self._news.wait()
        scope.cancel()

    def _rest_s(self) -> float:
        if self._last is None:
            return 0.0
        return self._every_s - (self._clock.now() - self._last).total_seconds()

    # --- how it is shown ---

    async def _show(self) -> None:
        """Show what is intended now, unless the bot has no call left."""
        intent = self._intents.now()  # it may have changed while it was waited for
        if intent is None or not self._limiter.acquire_nowait():
            self._last = self._last if intent is None else self._clock.now()
            return
        try:
            if self._drafts:
                await self._show_draft(intent)
            elif intent.is_status:
                await self._show_status(intent)
            else:
                await self._show_message(intent)
        except NotSentError as error:
            self._note(error)
            if error.retry_after_s is None:
                self._intents.give_up(intent)
        except SendError as error:
            self._note(error)
            self._intents.give_up(intent)
        else:
            self._intents.shown = intent
            self._limiter.heard()
        finally:
            self._limiter.release()
            self._last = self._clock.now()

    def _note(self, error: SendError) -> None:
        if isinstance(error, NotSentError) and error.retry_after_s is not None:
            self._limiter.pause_for(error.retry_after_s)
        key = self._session.state.key
        logger.debug(
            "a preview could not be shown",
            extra={"channel": key.channel, "chat": key.chat, "error": mask_token(str(error))},
        )

    async def _show_draft(self, intent: Intent) -> None:
        key = self._session.state.key
        name = f"{self._session.session_id}\n{intent.turn}\n{intent.step}".encode()
        number = int.from_bytes(sha256(name).digest()[:4], "big") & _DRAFTS or 1
        await self._adapter.show_draft(key.chat, key.topic, number, intent.text)

    async def _show_message(self, intent: Intent) -> None:
        """Show the text so far in the step's message, which is sent with the first of it."""
        key = self._session.state.key
        payload = self._page(intent.text)
        turn = self._session.state.open_turn
        if not payload or turn is None:
            return
        begun = turn.preview_step == intent.step
        if begun and turn.preview_id:
            await self._adapter.edit(key.chat, key.topic, turn.preview_id, payload)
            return
        if begun and not self._adapter.capabilities.nonces:
            return  # there may be one, of which only the platform knows
        sent = PreviewSent(turn=intent.turn, step=intent.step)
        await self._session.record(replace(sent, mark="sending"))
        if self._intents.awaited() is None:  # the reply is complete: it comes by itself
            await self._session.record(replace(sent, mark="unsent"))
            return
        message = Outbound(
            chat_id=key.chat,
            topic=key.topic,
            payload=payload,
            reply_to=turn.reply_to,
            nonce=preview_nonce(self._session.session_id, intent.turn, intent.step),
        )
        try:
            platform_id = await self._adapter.send(message)
        except (NotSentError, RefusedError):
            await self._session.record(replace(sent, mark="unsent"))
            raise
        self.pass_message()
        await self._session.record(replace(sent, platform_id=platform_id))

    async def _show_status(self, intent: Intent) -> None:
        """Tell of tools, in a message that goes on telling until others stand below it."""
        if not intent.turn:
            await self._end_status()
            return
        key, status = self._session.state.key, self._intents.status
        if status.is_old and status.is_running:
            await self._end_status()
        payload = line(self._adapter, intent.text)
        if status.platform_id and not status.is_old:
            await self._adapter.edit(key.chat, key.topic, status.platform_id, payload)
        else:
            message = Outbound(chat_id=key.chat, topic=key.topic, payload=payload)
            status = self._intents.status = Status(platform_id=await self._adapter.send(message))
        status.is_running = bool(intent.running)
        status.names += intent.running
        status.todo, status.turn = intent.todo, intent.turn

    async def _end_status(self) -> None:
        """Let the message say that the tools ran."""
        key, status = self._session.state.key, self._intents.status
        status.is_running = False  # once: a line that is wrong in the end does no harm
        status.todo = self._intents.todo(status.turn)
        payload = line(self._adapter, self._intents.ended())
        await self._adapter.edit(key.chat, key.topic, status.platform_id, payload)

    def _page(self, text: str) -> str:
        """Return a payload of the text so far: where it is too long for one, of its end.

        The page begins at the same place for a while, so that what is read does not move.
        """
        page = max((self._adapter.capabilities.chunk_units - 1) // 2, _PAGE_MIN)
        if len(text) > 2 * page:
            begins = (len(text) // page - 1) * page
            text = f"…{text[begins:]}"
        payloads = self._adapter.render(text, is_plain=True)
        return payloads[-1] if payloads else ""
