"""Follows one session after the other, and has what happens there shown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from everturn_actors.errors import CoreError
from everturn_actors.events import CallFinished, Event, Received, SessionEnded, TurnFinished
from everturn_actors.model import Attachment
from everturn_actors.service import TextDelta, Update
from everturn_channels.errors import ChannelError, GatewayAwayError
from everturn_channels.terminal.client import Client
from everturn_channels.terminal.conversation import Conversation
from everturn_channels.terminal.live.images import IMAGE_BYTES_MAX, Protocol, picture
from everturn_channels.terminal.live.questions import OpenQuestions
from everturn_channels.terminal.live.status_line import Facts
from everturn_channels.terminal.live.turns import OpenTurns
from everturn_channels.terminal.live.view import View

_LOST = "the gateway is gone; what was accepted is kept, and is answered when it runs again"


class Following:
    """What is known of the session that is shown, from its events."""

    def __init__(
        self,
        conversation: Conversation,
        client: Client,
        view: View,
        *,
        pictures: Protocol,
        changed: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            conversation: Whose session is followed; messages that it handed in are not shown again.
            client: The way to the gateway.
            view: Where all is shown.
            pictures: How the terminal is sent pictures.
            changed: Called when there is something to draw.
        """
        self._conversation = conversation
        self._client = client
        self._view = view
        self._pictures: Protocol = pictures
        self._changed = changed
        self._scope = anyio.CancelScope()
        self._tasks: TaskGroup | None = None
        self.turns = OpenTurns()
        self.questions = OpenQuestions()
        self.facts = Facts()
        self._after = 0
        "The event that was shown last."
        self.session_id = ""
        "Which one is followed; empty = none is."
        self.has_ended = False
        "Whether the session that was followed has ended."

    def begin(self, session_id: str, *, after: int, tasks: TaskGroup) -> None:
        """Follow a session from the event after `after` on, and no other one."""
        self._scope.cancel()
        self._scope = anyio.CancelScope()
        self._view.begin_again()
        self.turns, self.has_ended, self.session_id = OpenTurns(), False, session_id
        self.questions.clear()
        self._tasks = tasks
        tasks.start_soon(self._follow, session_id, after, self._scope)
        tasks.start_soon(self._learn)

    async def _follow(self, session_id: str, after: int, scope: anyio.CancelScope) -> None:
        with scope:
            self._after, is_told = after, False
            try:
                while not await self._follow_on(session_id, is_told=is_told):
                    is_told = True
            except (CoreError, ChannelError) as error:
                self._view.error(str(error))
            else:
                if not self.has_ended:
                    self._view.error(_LOST)
            self.session_id = ""  # the next message that is handed in has it followed again
            self.turns = OpenTurns()
            self.questions.clear()
            self._changed()

    async def _follow_on(self, session_id: str, *, is_told: bool) -> bool:
        """Follow a session from what was shown last on; return whether it is over.

        A person sits here and may leave: so a gateway that is away is looked for until it is back.
        """
        try:
            async with aclosing(self._client.follow(session_id, after=self._after)) as updates:
                async for update in updates:
                    if isinstance(update, Event):
                        self._after = update.seq
                    self._take(update)
                    self._changed()
        except GatewayAwayError as error:
            if not is_told:
                self._view.error(str(error))
                self._changed()
            return False
        return True

    def _take(self, update: Update) -> None:
        if isinstance(update, TextDelta):
            self._view.read(update)
            return
        self.turns.read(update)
        if not self._is_own(update):
            self._view.read(update)
        self.questions.read(update, anyio.current_time())
        match update.body:
            case CallFinished(attachments=attachments, images=images):
                for each in dict.fromkeys((*attachments, *images)):
                    self._picture(each)
            case TurnFinished() if self._tasks is not None:
                self._tasks.start_soon(self._learn)
            case SessionEnded():
                self.has_ended = True
            case _:
                pass

    def _is_own(self, event: Event) -> bool:
        """Return whether it is a message of this terminal, which stands there already."""
        return (
            isinstance(event.body, Received)
            and event.body.idempotency_key in self._conversation.own_messages
        )

    def _picture(self, file: Attachment) -> None:
        if self._pictures and file.is_image and self._tasks is not None:
            self._tasks.start_soon(self._show_picture, self.session_id, file)

    async def _show_picture(self, session_id: str, file: Attachment) -> None:
        data = b""
        try:
            async with aclosing(self._client.history.media(session_id, file.name)) as chunks:
                async for chunk in chunks:
                    data += chunk
                    if len(data) > IMAGE_BYTES_MAX:
                        return  # the line of the file stands there
        except (CoreError, ChannelError):
            return
        shown = picture(data, self._pictures)
        if shown and session_id == self.session_id:
            self._view.raw(shown)
            self._changed()

    async def _learn(self) -> None:
        """Ask what stands below the prompt."""
        try:
            status = await self._conversation.status()
            report = await self._conversation.context() if status is not None else None
        except (CoreError, ChannelError):
            return  # whoever types next is told what is wrong
        if status is None or report is None:
            return
        self.facts = replace(
            self.facts,
            agent=status.key.agent,
            model=report.model,
            percent=report.percent,
            cost_nanodollars=status.usage.cost_nanodollars,
        )
        self._changed()
