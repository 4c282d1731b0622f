"""`everturn chat` through a pipe or a plain terminal: a line, its answer, the next line.

At a terminal that knows escape sequences it is another program: `live`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from typing import Literal, TypeAlias, assert_never

import anyio

from everturn_actors.errors import CoreError, InvalidInputError
from everturn_actors.events import TurnFinished
from everturn_actors.service import TextDelta, Update
from everturn_channels.errors import ChannelError
from everturn_channels.names import clean
from everturn_channels.terminal.attachments import Basket
from everturn_channels.terminal.client import Status
from everturn_channels.terminal.commands import NO_SESSION, obey
from everturn_channels.terminal.conversation import Conversation
from everturn_channels.terminal.gauge import show_compacted
from everturn_channels.terminal.interrupts import Interrupts, open_interrupts
from everturn_channels.terminal.lookups import filled_prompt
from everturn_channels.terminal.prompt import Reader
from everturn_channels.terminal.questions import Asker, Questions
from everturn_channels.terminal.reply import Piece, ReplyReader
from everturn_channels.terminal.screen import Screen
from everturn_channels.terminal.slash import Command, Mistake, Nothing, Say, parse

EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130

_Next: TypeAlias = Literal["go on", "leave"]


class Chat:
    """The loop of one chat."""

    def __init__(
        self,
        conversation: Conversation,
        reader: Reader,
        screen: Screen,
        *,
        began_at: datetime | None = None,
        asker: Asker | None = None,
    ) -> None:
        """Prepare it.

        Args:
            conversation: What is talked in.
            reader: Where lines come from.
            screen: Where all is shown.
            began_at: An answer that came since then is shown at the beginning; None = none is.
            asker: Who answers questions; None = nobody sits there.
        """
        self._conversation = conversation
        self._asker = asker
        self._began_at = began_at
        self._reader = reader
        self._screen = screen
        self._basket = Basket()
        self._failed = False
        self._left = False
        "Whether the person went away from a running turn."

    async def run(self, *, new: bool = False) -> int:
        """Talk until the person leaves; return the exit code.

        Args:
            new: Start a new session first.

        Raises:
            CoreError: The conversation cannot be opened.
            ChannelError: The gateway cannot be reached.
        """
        status = await self._conversation.open(new=new)
        async with open_interrupts() as interrupts:
            await self._loop(status, interrupts)
        if interrupts.ended or self._left:
            return EXIT_INTERRUPTED
        return EXIT_FAILED if self._failed else EXIT_OK

    async def _loop(self, status: Status, interrupts: Interrupts) -> None:
        next_: _Next = "go on"
        if self._asker is not None:
            self._screen.note(f"{status.key.agent}: session {status.session_id}. /help, /exit")
        if status.busy:
            self._screen.note("(the answer to your last message goes on)")
            next_ = await self._watch(self._rest(status), interrupts)
        elif self._began_at is not None and status.turns:
            # A gateway that this chat opened may have ended the turn of the chat before it.
            answer = await self._conversation.answered_since(self._began_at, status)
            if answer:
                self._screen.note("(your last message is answered)")
                self._screen.show([Piece(style="reply", text=clean(answer), ends=True)])
        while next_ == "go on":
            try:
                line = await self._read(interrupts)
            except EOFError:
                return
            except InvalidInputError as error:
                self._fail(error)
                continue
            next_ = await self._handle(line, interrupts)

    async def _read(self, interrupts: Interrupts) -> str:
        """Return the next line; where a person sits, Ctrl-C leaves.

        Raises:
            EOFError: There will be no more.
            InvalidInputError: The line cannot be read.
        """
        if self._asker is None:
            return await self._reader.read()
        with anyio.CancelScope() as scope:
            interrupts.at_prompt = scope.cancel
            try:
                return await self._reader.read()
            finally:
                interrupts.at_prompt = lambda: None
        self._left = True
        self._screen.note("")
        raise EOFError

    async def _handle(self, line: str, interrupts: Interrupts) -> _Next:
        typed = parse(line)
        match typed:
            case Nothing():
                return "go on"
            case Mistake(text=text):
                self._screen.error(text)
                self._failed = True
                return "go on"
            case Say(text=text):
                return await self._watch(self._exchange(text), interrupts)
            case Command(name="exit"):
                return "leave"
            case Command(name="prompt", text=text) if text:
                return await self._prompt(text, interrupts)
            case Command() as command:
                try:
                    await self._obey(command, interrupts)
                except (CoreError, ChannelError) as error:
                    self._fail(error)
                return "go on"
            case _:
                assert_never(typed)

    async def _prompt(self, typed: str, interrupts: Interrupts) -> _Next:
        """Send a prompt of an MCP server, and show what is sent."""
        try:
            text = await filled_prompt(self._conversation, typed)
        except (CoreError, ChannelError) as error:
            self._fail(error)
            return "go on"
        self._screen.note(text)
        return await self._watch(self._exchange(text, untrusted=True), interrupts)

    async def _obey(self, command: Command, interrupts: Interrupts) -> None:
        match command.name:
            case "compact":
                await self._compact(command.text, interrupts)
            case "retry":
                seq = await self._conversation.retry()
                await self._watch(self._conversation.answer(seq), interrupts)
            case _:
                self._screen.show(await obey(command, self._conversation, self._basket))

    async def _compact(self, focus: str, interrupts: Interrupts) -> None:
        """Have older turns summarised; Ctrl-C goes on without waiting for it.

        Raises:
            CoreError, ChannelError: It cannot be done.
        """
        text, error = "(the summary goes on without you)", None
        self._screen.note("(summarising; Ctrl-C goes on without waiting for it)")
        async with anyio.create_task_group() as tg:

            async def stop_waiting() -> None:
                await interrupts.wait()
                tg.cancel_scope.cancel()

            tg.start_soon(stop_waiting)
            try:
                compacted = await self._conversation.compact(focus)
                text = NO_SESSION if compacted is None else show_compacted(compacted)
            except (CoreError, ChannelError) as problem:
                error = problem
            tg.cancel_scope.cancel()
        if error is not None:
            raise error
        self._screen.note(text)

    def _fail(self, error: Exception) -> None:
        self._failed = True
        self._screen.error(str(error))

    async def _exchange(self, text: str, *, untrusted: bool = False) -> AsyncGenerator[Update]:
        uploads = self._basket.uploads
        seq = await self._conversation.hand_in(text, uploads, untrusted=untrusted)
        self._basket.empty()
        async with aclosing(self._conversation.answer(seq)) as updates:
            async for update in updates:
                yield update

    async def _rest(self, status: Status) -> AsyncGenerator[Update]:
        """Yield the updates of what was accepted before this chat began."""
        now: Status | None = status
        await self._conversation.resume()
        while now is not None and now.busy:
            async with aclosing(self._conversation.rest(now.last_seq)) as updates:
                async for update in updates:
                    yield update
            now = await self._conversation.status()

    async def _watch(self, updates: AsyncGenerator[Update], interrupts: Interrupts) -> _Next:
        """Show updates until they end; Ctrl-C cancels the turn, a second one leaves."""
        reply = ReplyReader()
        error: Exception | None = None
        async with anyio.create_task_group() as tg:

            async def cancel_turn() -> None:
                await interrupts.wait()
                tg.start_soon(ask_to_cancel)
                await interrupts.wait()
                self._left = True
                tg.cancel_scope.cancel()

            async def ask_to_cancel() -> None:
                try:
                    if not await self._conversation.cancel():
                        self._screen.note("(nothing to cancel yet; Ctrl-C again leaves)")
                except (CoreError, ChannelError) as problem:
                    self._fail(problem)

            tg.start_soon(cancel_turn)
            questions = Questions(self._conversation, self._asker, self._screen, tg)
            async with aclosing(updates):
                try:
                    async for update in updates:
                        self._screen.show(reply.read(update))
                        self._note_outcome(update)
                        questions.read(update)
                except (CoreError, ChannelError) as problem:
                    error = problem
            tg.cancel_scope.cancel()
        self._screen.end_line()
        if error is not None:
            self._fail(error)
        return "leave" if self._left else "go on"

    def _note_outcome(self, update: Update) -> None:
        if isinstance(update, TextDelta) or not isinstance(update.body, TurnFinished):
            return
        if update.body.outcome in {"failed", "interrupted"}:
            self._failed = True
