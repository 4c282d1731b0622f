"""Asking a person at the terminal whether a call may run, while its turn waits."""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup

from everturn_actors.errors import CoreError
from everturn_actors.events import ApprovalAsked, ApprovalDecided, TurnFinished
from everturn_actors.model import Decision
from everturn_actors.service import TextDelta, Update
from everturn_channels.errors import ChannelError
from everturn_channels.terminal.conversation import Conversation
from everturn_channels.terminal.prompt import PromptReader, Reader
from everturn_channels.terminal.reply import clean
from everturn_channels.terminal.screen import Screen

_WORDS: dict[str, Decision] = {
    **dict.fromkeys(("y", "yes", "o", "once", "allow"), "allow_once"),
    **dict.fromkeys(("a", "always"), "allow_always"),
    **dict.fromkeys(("n", "no", "d", "deny"), "deny"),
}


class Questions:
    """Asks for each call that waits, one after the other; somebody else may answer first.

    A script is not asked: whoever watches it answers with `everturn approve`.
    """

    def __init__(
        self, conversation: Conversation, reader: Reader, screen: Screen, tasks: TaskGroup
    ) -> None:
        self._conversation = conversation
        self._reader = reader
        self._screen = screen
        self._tasks = tasks
        self._asking: tuple[str, anyio.CancelScope] | None = None

    def read(self, update: Update) -> None:
        """Begin to ask, or stop asking, as `update` says."""
        if isinstance(update, TextDelta):
            return
        match update.body:
            case ApprovalAsked() as asked:
                if isinstance(self._reader, PromptReader):
                    scope = anyio.CancelScope()
                    self._asking = (asked.call_id, scope)
                    self._tasks.start_soon(self._ask, self._reader, asked, scope)
            case ApprovalDecided(call_id=call_id):
                if self._asking is not None and self._asking[0] == call_id:
                    self._asking[1].cancel()
            case TurnFinished():
                if self._asking is not None:
                    self._asking[1].cancel()
            case _:
                pass

    async def _ask(
        self, reader: PromptReader, asked: ApprovalAsked, scope: anyio.CancelScope
    ) -> None:
        always = f", [a]lways {clean(asked.pattern)}" if asked.pattern else ""
        question = f"  allow it? [y]es, once{always}, [n]o: "
        with scope:
            while True:
                try:
                    typed = await reader.choose(question)
                except EOFError:
                    typed = "no"  # nobody there is no yes
                decision = _WORDS.get(typed.strip().lower())
                if decision is None or (decision == "allow_always" and not asked.pattern):
                    continue
                try:
                    await self._conversation.decide(decision, asked.call_id)
                except (CoreError, ChannelError) as error:
                    self._screen.error(str(error))
                return
