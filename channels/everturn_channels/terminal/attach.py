"""`everturn attach` through a pipe: look on as a session goes on, and speak in it.

At a terminal it is another program: `live`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from typing import assert_never

import anyio
from anyio.abc import TaskGroup

from everturn_actors.errors import CoreError, InvalidInputError
from everturn_actors.events import Discarded, SessionEnded, Steered, TurnFinished, TurnStarted
from everturn_actors.service import TextDelta, Update
from everturn_channels.errors import ChannelError
from everturn_channels.terminal.attachments import Basket
from everturn_channels.terminal.chat import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from everturn_channels.terminal.client import Client
from everturn_channels.terminal.commands import obey
from everturn_channels.terminal.conversation import Conversation, last_messages
from everturn_channels.terminal.gauge import show_compacted
from everturn_channels.terminal.interrupts import Interrupts, open_interrupts
from everturn_channels.terminal.lookups import filled_prompt
from everturn_channels.terminal.prompt import Reader
from everturn_channels.terminal.reply import ReplyReader
from everturn_channels.terminal.screen import Screen
from everturn_channels.terminal.slash import Command, Mistake, Nothing, Say, parse


class Attach:
    """Shows one session live, and hands in what is typed."""

    def __init__(
        self, client: Client, session_id: str, *, reader: Reader | None, screen: Screen
    ) -> None:
        """Prepare.

        Args:
            client: The way to the gateway.
            session_id: The session to look at.
            reader: Where lines come from; None = only look on.
            screen: Where everything is shown.
        """
        self._client = client
        self._conversation = Conversation(client, session_id=session_id)
        self._reader = reader
        self._screen = screen
        self._basket = Basket()
        self._handed_in: set[int] = set()
        self._settled: set[int] = set()
        self._unanswered: set[int] = set()
        "Messages whose turn is over, and those of them that got no answer; by event number."
        self._open: tuple[int, tuple[int, ...]] = (0, ())
        self._turn_over = anyio.Event()
        self._failed = False
        self._beside: TaskGroup
        "What goes on while lines are read."

    async def run(self, *, last: int) -> int:
        """Show the last messages, then what comes; return the exit code.

        Args:
            last: How many messages of the past to begin with.

        Raises:
            CoreError: There is no such session, or it failed.
            ChannelError: The gateway cannot be reached.
        """
        status = await self._conversation.open()
        after = await last_messages(self._client, status, last)
        async with open_interrupts() as interrupts, AsyncExitStack() as stack:
            tg = await stack.enter_async_context(anyio.create_task_group())
            tg.start_soon(self._leave_on_interrupt, interrupts, tg.cancel_scope)
            tg.start_soon(self._follow, after, tg.cancel_scope)
            if self._reader is not None:
                if status.busy:  # whoever can speak takes part; whoever looks on changes nothing
                    await self._conversation.resume()
                await self._speak(self._reader)
                tg.cancel_scope.cancel()
        self._screen.end_line()
        if interrupts.ended:
            return EXIT_INTERRUPTED
        failed = self._failed or bool(self._handed_in & self._unanswered)
        return EXIT_FAILED if failed else EXIT_OK

    async def _leave_on_interrupt(self, interrupts: Interrupts, scope: anyio.CancelScope) -> None:
        await interrupts.wait()
        scope.cancel()

    async def _follow(self, after: int, scope: anyio.CancelScope) -> None:
        reply = ReplyReader(show_users=True)
        updates = self._client.follow(self._conversation.session_id, after=after)
        async with aclosing(updates):
            async for update in updates:
                self._screen.show(reply.read(update))
                self._settle(update)
                if not isinstance(update, TextDelta) and isinstance(update.body, SessionEnded):
                    break
            else:
                self._screen.error("the gateway has stopped")
                self._failed = True
        scope.cancel()

    def _settle(self, update: Update) -> None:
        """Keep count of the messages whose turn is over."""
        if isinstance(update, TextDelta):
            return
        match update.body:
            case TurnStarted(turn=turn, received=received):
                self._open = (turn, received)
            case Steered(turn=turn, received=received):
                self._open = (turn, (*self._open[1], *received))
            case TurnFinished(turn=turn, outcome=outcome) if turn == self._open[0]:
                self._settled.update(self._open[1])
                if outcome != "answered":
                    self._unanswered.update(self._open[1])
                else:  # one of before may have been asked again
                    self._unanswered.difference_update(self._open[1])
                self._turn_over.set()
                self._turn_over = anyio.Event()
            case Discarded(received=received):
                self._settled.update(received)
                self._unanswered.update(received)
                self._turn_over.set()
                self._turn_over = anyio.Event()
            case _:
                pass

    async def _speak(self, reader: Reader) -> None:
        async with anyio.create_task_group() as self._beside:
            await self._read(reader)

    async def _read(self, reader: Reader) -> None:
        while True:
            try:
                line = await reader.read()
            except EOFError:
                break
            except InvalidInputError as error:
                self._complain(str(error))
                continue
            try:
                if not await self._handle(line):
                    return
            except (CoreError, ChannelError) as error:
                self._complain(str(error))
        while not self._handed_in <= self._settled:
            await self._turn_over.wait()

    async def _handle(self, line: str) -> bool:
        """Do what was typed; return whether to go on."""
        typed = parse(line)
        match typed:
            case Nothing():
                pass
            case Mistake(text=text):
                self._complain(text)
            case Say(text=text):
                seq = await self._conversation.hand_in(text, self._basket.uploads)
                self._basket.empty()
                self._handed_in.add(seq)
            case Command():
                return await self._obey(typed)
            case _:
                assert_never(typed)
        return True

    async def _obey(self, command: Command) -> bool:
        match command.name:
            case "exit":
                return False
            case "compact":
                self._screen.note("(summarising)")
                self._beside.start_soon(self._compact, command.text)
            case "retry":
                await self._conversation.retry()
            case "prompt" if command.text:
                text = await filled_prompt(self._conversation, command.text)
                uploads = self._basket.uploads
                seq = await self._conversation.hand_in(text, uploads, untrusted=True)
                self._basket.empty()
                self._handed_in.add(seq)
            case "reset" | "new":  # the session itself says that it has ended
                await self._conversation.reset()
            case _:
                self._screen.show(await obey(command, self._conversation, self._basket))
        return True

    async def _compact(self, focus: str) -> None:
        """Have older turns summarised, while the person goes on typing."""
        try:
            compacted = await self._conversation.compact(focus)
        except (CoreError, ChannelError) as error:
            self._complain(str(error))
        else:
            if compacted is not None:
                self._screen.note(show_compacted(compacted))

    def _complain(self, text: str) -> None:
        self._failed = True
        self._screen.error(text)
