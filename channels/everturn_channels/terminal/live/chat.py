"""`everturn chat` and `everturn attach` at a terminal: one prompt, and the session above it.

The session is followed from the first moment on, so whatever happens in it is shown, whoever began
it; what is typed is handed in at once, and steers a turn that runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from prompt_toolkit.history import History

from everturn_actors.errors import CoreError
from everturn_channels.errors import ChannelError
from everturn_channels.terminal.client import Client, Status
from everturn_channels.terminal.commands import turns_text
from everturn_channels.terminal.conversation import Conversation, last_messages
from everturn_channels.terminal.interrupts import open_interrupts
from everturn_channels.terminal.live.completion import ChatCompleter
from everturn_channels.terminal.live.display import Display
from everturn_channels.terminal.live.following import Following
from everturn_channels.terminal.live.images import protocol_of
from everturn_channels.terminal.live.markdown import Look
from everturn_channels.terminal.live.obeying import Obeying
from everturn_channels.terminal.live.prompt import PROMPT, Asked, LivePrompt
from everturn_channels.terminal.live.status_line import status_line
from everturn_channels.terminal.live.view import View
from everturn_channels.terminal.reply import Piece

EXIT_OK: Final = 0
EXIT_INTERRUPTED: Final = 130
_AWAY: Final = "the gateway does not answer; reconnecting ..."


class TerminalOf(Struct, frozen=True, kw_only=True):
    """What a person sits at."""

    look: Look
    bars: tuple[str, str]
    "What bars are made of, see `gauge`."
    history: History
    environ: Mapping[str, str]
    now: Callable[[], datetime]


class LiveChat:
    """One person at one prompt, and what keys do there: the `PromptHost` of the prompt."""

    def __init__(
        self,
        conversation: Conversation,
        client: Client,
        terminal: TerminalOf,
        *,
        began_at: datetime | None = None,
    ) -> None:
        """Prepare.

        Args:
            conversation: What is talked in.
            client: The way to the gateway.
            terminal: What the person sits at.
            began_at: An answer that came since then is shown at the beginning; None = none is.
        """
        self._conversation = conversation
        self._client = client
        self._terminal = terminal
        self._began_at = began_at
        self._view = View()
        self._following = Following(
            conversation,
            client,
            self._view,
            pictures=protocol_of(terminal.environ),
            changed=self._changed,
        )
        self._obeying = Obeying(conversation, client, self._view, self._following, terminal.bars)
        self._prompt = LivePrompt(
            self,
            history=terminal.history,
            completer=ChatCompleter(self._obeying.sources),
            colour=terminal.look.colour,
        )
        self._display = Display(self._view, self._prompt, terminal.look, now=terminal.now)
        self._hinted = self._is_stopping = self._left = False
        self._tasks: TaskGroup
        "What goes on beside the prompt."

    async def run(self, *, new: bool = False, last: int = 0) -> int:
        """Talk until the person leaves; return the exit code.

        Args:
            new: Start a new session first.
            last: How many messages of the past to begin with.

        Raises:
            CoreError: The conversation cannot be opened.
            ChannelError: The gateway cannot be reached.
        """
        status = await self._conversation.open(new=new)
        after = await self._greet(status, last)
        self._prompt.write(self._display.rest(self._prompt.columns))
        async with open_interrupts() as interrupts, AsyncExitStack() as stack:
            interrupts.at_prompt = self._prompt.interrupt
            drawing = await stack.enter_async_context(anyio.create_task_group())
            drawing.start_soon(self._display.run)
            stack.callback(self._display.stop)
            async with anyio.create_task_group() as self._tasks:
                self._following.begin(status.session_id, after=after, tasks=self._tasks)
                if status.busy:
                    await self._conversation.resume()
                self._tasks.start_soon(self._obey_lines)
                self._left = await self._prompt.run() or self._left
                self._tasks.cancel_scope.cancel()
        self._prompt.write(self._display.rest(self._prompt.columns))
        return EXIT_INTERRUPTED if interrupts.ended or self._left else EXIT_OK

    def _changed(self) -> None:
        self._display.changed()

    async def _greet(self, status: Status, last: int) -> int:
        """Say where the person is; return the event after which the session is followed."""
        goes_on = f"goes on after {turns_text(status.turns)}" if status.turns else "begins"
        self._view.note(
            f"{status.key.agent}: session {status.session_id} {goes_on}. /help, Ctrl-D leaves."
        )
        if status.busy:
            self._view.note("(the answer to your last message goes on)")
            return await last_messages(self._client, status, max(last, 1))
        if last:
            return await last_messages(self._client, status, last)
        if self._began_at is not None and status.turns:
            # A gateway that this chat opened may have ended the turn of the chat before it.
            answer = await self._conversation.answered_since(self._began_at, status)
            if answer:
                self._view.note("(your last message is answered)")
                self._view.show(Piece(style="reply", text=answer, ends=True))
        return status.last_seq

    async def _obey_lines(self) -> None:
        async for line in self._prompt.typed:
            self._hinted = False
            indent = "\n" + " " * len(PROMPT)
            self._view.show(Piece(style="user", text=f"{PROMPT}{line.replace(chr(10), indent)}"))
            self._display.changed()
            try:
                goes_on = await self._obeying.obey(
                    line, columns=self._prompt.columns, tasks=self._tasks
                )
            except (CoreError, ChannelError) as error:
                self._view.error(str(error))
                goes_on = True
            self._display.changed()
            if not goes_on:
                self._prompt.leave()
                return

    def above(self, columns: int, rows: int) -> str:
        """See `PromptHost.above`."""
        return self._display.above(columns, rows)

    def below(self, columns: int) -> str:
        """See `PromptHost.below`."""
        since = self._following.turns.since
        doing = ""
        if self._client.connection.is_away:
            doing = _AWAY
        elif self._is_busy:
            took = int((self._terminal.now() - since).total_seconds()) if since else 0
            how = "stopping; Ctrl-C again leaves" if self._is_stopping else "Ctrl-C stops"
            doing = f"answering {max(took, 0)} s, {how}"
        else:
            self._is_stopping = False
        return status_line(self._following.facts, doing, columns=columns, bars=self._terminal.bars)

    def asked(self) -> Asked | None:
        """See `PromptHost.asked`."""
        return self._following.questions.asked

    def answer(self, key: str) -> None:
        """See `PromptHost.answer`."""
        answered = self._following.questions.pressed(key)
        if answered is not None:
            self._tasks.start_soon(self._beside, partial(self._obeying.decide, answered))

    def fold(self) -> None:
        """See `PromptHost.fold`."""
        self._view.show(*self._view.calls.toggle())
        self._display.changed()

    def interrupt(self) -> bool:
        """See `PromptHost.interrupt`: once stops the turn; again, or twice idle, leaves."""
        if self._is_busy:
            if self._is_stopping:
                self._left = True
                return True
            self._is_stopping = True
            self._tasks.start_soon(self._beside, self._stop)
            return False
        if self._hinted:
            return True
        self._hinted = True
        self._view.note("(Ctrl-C again or Ctrl-D leaves)")
        self._display.changed()
        return False

    @property
    def _is_busy(self) -> bool:
        return self._following.turns.is_busy or self._obeying.is_handing_in

    async def _stop(self) -> None:
        if not await self._conversation.cancel():
            self._view.note("(nothing to cancel yet; Ctrl-C again leaves)")

    async def _beside(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
        except (CoreError, ChannelError) as error:
            self._view.error(str(error))
        self._display.changed()
