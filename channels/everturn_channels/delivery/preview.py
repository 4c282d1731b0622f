"""Shows a reply while it comes, and which tools run: as a draft, or as a message that is edited.

A preview is never waited for and never owed. What fails only ends the preview; the reply itself
arrives by the ordinary way, and takes the place of the preview's message where there is one.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Final

import anyio

from everturn_actors.delivery.port import Outgoing
from everturn_actors.events import PreviewSent
from everturn_actors.model import OpenTurn, OutboxItem
from everturn_actors.ports import Clock
from everturn_actors.service import TextDelta
from everturn_channels.adapter import Adapter, ChatType, Outbound
from everturn_channels.delivery.rate_limiter import RateLimiter
from everturn_channels.delivery.rendering import line, preview_nonce
from everturn_channels.delivery.words import ran_text, running_text
from everturn_channels.errors import NotSentError, RefusedError, SendError
from everturn_channels.health import mask_token
from everturn_channels.settings import ChannelSettings

logger = logging.getLogger(__name__)

FIRST_CHARACTERS: Final = 40  # a preview begins with so many, or after the time between two states
FINISH_S: Final = 2.0  # what is under way at the end may take so long
_PAGE_MIN: Final = 20  # characters, whatever a platform says of itself
_DRAFTS: Final = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class _Intent:
    """What should be shown now."""

    turn: int
    step: int
    "The step whose reply it announces."
    text: str
    running: tuple[str, ...] = ()
    "The tools that it tells of; empty = it is the text of a reply, or tells of none any more."
    is_status: bool = False
    "It tells of tools, and is no part of a reply."


@dataclass(slots=True)
class _Coming:
    """The text of a reply as far as it came."""

    turn: int = 0
    step: int = 0
    length: int = 0
    since: datetime | None = None
    "When its first piece came."
    is_blank: bool = True


@dataclass(slots=True)
class _Status:
    """The message that tells of tools."""

    platform_id: str = ""
    "Empty = there is none."
    names: list[str] = field(default_factory=list[str])
    "All that it told of."
    is_running: bool = False
    "Whether it says that they still run."
    is_old: bool = False
    "Whether other messages stand below it: for the next tool there will be a new one."


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
        self._drafts = capabilities.has_drafts(chat_type)
        self._is_possible = self._every_s > 0 and (capabilities.edits or self._drafts)
        self._news = anyio.Event()
        self._calling = anyio.Lock()
        "Held while the platform is called: what comes later must not arrive sooner."
        self._coming = _Coming()
        self._pieces: list[str] = []
        self._last: datetime | None = None
        "When something was last shown, or tried to be."
        self._shown = _Intent(turn=0, step=0, text="")
        self._given_up = (0, 0, False)
        "The turn, the step, and whether its tools: they are not shown any more."
        self._status = _Status()

    @property
    def _streams(self) -> bool:
        return self._settings.streaming

    async def run(self) -> None:
        """Show what there is to show, until cancelled."""
        if not self._is_possible or not (self._streams or self._settings.tool_activity):
            return
        async with anyio.create_task_group() as tasks:
            if self._streams:
                tasks.start_soon(self._read)
            tasks.start_soon(self._watch)
            while True:
                await self._until_wished()
                await self._until_due()
                async with self._calling:
                    await self._show()

    async def finish(self) -> None:
        """Let what is under way end, and leave no line behind that says a tool runs."""
        with anyio.move_on_after(FINISH_S):
            async with self._calling:
                if self._status.is_running and self._limiter.acquire_nowait():
                    try:
                        await self._end_status()
                    except SendError as error:
                        self._note(error)
                    finally:
                        self._limiter.release()

    async def hand_over(self, item: OutboxItem) -> OutboxItem:
        """Wait for what is under way, and return the outbox item of a reply as it stands then."""
        async with self._calling:
            pass  # its step is complete: from here on nothing more is shown of it
        outbox = self._session.state.outbox
        return next((each for each in outbox if each.seq == item.seq), item)

    def pass_message(self) -> None:
        """Note that another message stands below what is shown."""
        self._status.is_old = True

    # --- what there is to show ---

    async def _read(self) -> None:
        async with aclosing(self._session.updates()) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    self._add(update)

    def _add(self, delta: TextDelta) -> None:
        coming = self._coming
        if delta.offset == 0 or (delta.turn, delta.step) != (coming.turn, coming.step):
            now = self._clock.now()
            coming = self._coming = _Coming(turn=delta.turn, step=delta.step, since=now)
            self._pieces.clear()
        self._pieces.append(delta.text)
        coming.length += len(delta.text)
        coming.is_blank = coming.is_blank and not delta.text.strip()
        self._news.set()

    async def _watch(self) -> None:
        while True:
            await self._session.until_changed()
            self._news.set()

    def _wish(self) -> _Intent | None:
        """Return what should be shown; None where that is nothing, or shown already."""
        wish = self._wish_text() or self._wish_status()
        return None if wish == self._shown else wish

    def _wish_text(self) -> _Intent | None:
        turn, coming = self._awaited(), self._coming
        if turn is None or (turn.number, len(turn.steps) + 1) != (coming.turn, coming.step):
            return None
        if coming.is_blank or self._given_up == (coming.turn, coming.step, False):
            return None
        text = "".join(self._pieces)
        self._pieces[:] = [text]
        return _Intent(turn=coming.turn, step=coming.step, text=text)

    def _wish_status(self) -> _Intent | None:
        turn, names = self._running()
        if turn is not None and names:
            number, step = turn.number, len(turn.steps) + 2  # where the next reply will stand
            if self._given_up == (number, step, True):
                return None
            text = running_text(names)
            return _Intent(turn=number, step=step, text=text, running=names, is_status=True)
        if self._status.is_running:
            return _Intent(turn=0, step=0, text=ran_text(self._status.names), is_status=True)
        return None

    def _running(self) -> tuple[OpenTurn | None, tuple[str, ...]]:
        """Return the open turn, and the tools of it that run and should be told of."""
        turn = self._session.state.open_turn
        if not self._settings.tool_activity or turn is None or not turn.delivers:
            return None, ()
        if turn.step is None or turn.step.reply is None or self._owes_before():
            return None, ()
        step, calls = turn.step, turn.step.reply.calls
        runs = (call for call in calls if call.call_id in step.started)
        return turn, tuple(call.name for call in runs if call.call_id not in step.results)

    def _awaited(self) -> OpenTurn | None:
        """Return the open turn, if a reply is awaited and nothing older has to be sent first."""
        turn = self._session.state.open_turn
        awaits = turn is not None and turn.delivers and turn.step and turn.step.reply is None
        return turn if awaits and not self._owes_before() else None

    def _owes_before(self) -> bool:
        return any(not item.is_delivered for item in self._session.state.outbox)

    # --- when it is shown ---

    async def _until_wished(self) -> None:
        while self._wish() is None:
            self._news = anyio.Event()
            await self._news.wait()

    async def _until_due(self) -> None:
        """Wait until the platform may be called, and the first words are more than a few."""
        coming = self._coming
        shown = (self._shown.turn, self._shown.step)
        is_first = self._wish_text() is not None and shown != (coming.turn, coming.step)
        if is_first and coming.length < FIRST_CHARACTERS and coming.since is not None:
            age_s = (self._clock.now() - coming.since).total_seconds()
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._until_longer, coming, scope)
                    await self._clock.sleep(max(self._every_s - age_s, 0))
                    scope.cancel()
        while (wait_s := max(self._rest_s(), self._limiter.paused_s)) > 0:
            await self._clock.sleep(wait_s)

    async def _until_longer(self, coming: _Coming, scope: anyio.CancelScope) -> None:
        while coming is self._coming and coming.length < FIRST_CHARACTERS and self._wish():
            self._news = anyio.Event()
            await self._news.wait()
        scope.cancel()

    def _rest_s(self) -> float:
        if self._last is None:
            return 0.0
        return self._every_s - (self._clock.now() - self._last).total_seconds()

    # --- how it is shown ---

    async def _show(self) -> None:
        wish = self._wish()  # it may have changed while it was waited for
        if wish is None or not self._limiter.acquire_nowait():
            self._last = self._last if wish is None else self._clock.now()
            return
        try:
            if self._drafts:
                await self._show_draft(wish)
            elif wish.is_status:
                await self._show_status(wish)
            else:
                await self._show_message(wish)
        except NotSentError as error:
            self._note(error)
            if error.retry_after_s is None:
                self._given_up = (wish.turn, wish.step, wish.is_status)
        except SendError as error:
            self._note(error)
            self._given_up = (wish.turn, wish.step, wish.is_status)
        else:
            self._shown = wish
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

    async def _show_draft(self, wish: _Intent) -> None:
        key = self._session.state.key
        name = f"{self._session.session_id}\n{wish.turn}\n{wish.step}".encode()
        number = int.from_bytes(sha256(name).digest()[:4], "big") & _DRAFTS or 1
        await self._adapter.show_draft(key.chat, key.topic, number, wish.text)

    async def _show_message(self, wish: _Intent) -> None:
        """Show the text so far in the step's message, which is sent with the first of it."""
        key = self._session.state.key
        payload = self._page(wish.text)
        turn = self._session.state.open_turn
        if not payload or turn is None:
            return
        begun = turn.preview_step == wish.step
        if begun and turn.preview_id:
            await self._adapter.edit(key.chat, key.topic, turn.preview_id, payload)
            return
        if begun and not self._adapter.capabilities.nonces:
            return  # there may be one, of which only the platform knows
        sent = PreviewSent(turn=wish.turn, step=wish.step)
        await self._session.tell(replace(sent, mark="sending"))
        if self._awaited() is None:  # the reply is complete: it comes by itself
            await self._session.tell(replace(sent, mark="unsent"))
            return
        message = Outbound(
            chat_id=key.chat,
            topic=key.topic,
            payload=payload,
            reply_to=turn.reply_to,
            nonce=preview_nonce(self._session.session_id, wish.turn, wish.step),
        )
        try:
            platform_id = await self._adapter.send(message)
        except (NotSentError, RefusedError):
            await self._session.tell(replace(sent, mark="unsent"))
            raise
        self.pass_message()
        await self._session.tell(replace(sent, platform_id=platform_id))

    async def _show_status(self, wish: _Intent) -> None:
        """Tell of tools, in a message that goes on telling until others stand below it."""
        if not wish.running:
            await self._end_status()
            return
        key, status = self._session.state.key, self._status
        if status.is_old and status.is_running:
            await self._end_status()
        payload = line(self._adapter, wish.text)
        if status.platform_id and not status.is_old:
            await self._adapter.edit(key.chat, key.topic, status.platform_id, payload)
        else:
            message = Outbound(chat_id=key.chat, topic=key.topic, payload=payload)
            status = self._status = _Status(platform_id=await self._adapter.send(message))
        status.is_running = True
        status.names += wish.running

    async def _end_status(self) -> None:
        """Let the message say that the tools ran."""
        key, status = self._session.state.key, self._status
        status.is_running = False  # once: a line that is wrong in the end does no harm
        payload = line(self._adapter, ran_text(status.names))
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
