"""What becomes of a call that waits to be allowed, while its turn is watched at a terminal."""

from __future__ import annotations

from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from everturn_actors.errors import CoreError
from everturn_actors.events import ApprovalAsked, ApprovalDecided, TurnFinished
from everturn_actors.model import Decision, Inquiry
from everturn_actors.service import TextDelta, Update
from everturn_channels.errors import ChannelError
from everturn_channels.names import visible
from everturn_channels.terminal.conversation import Conversation
from everturn_channels.terminal.screen import Screen
from everturn_channels.texts import DECISION_WORDS


class Asker(Protocol):
    """A way to ask a person."""

    async def choose(self, question: str) -> str:
        """Return the line that answers a question.

        Raises:
            EOFError: There is nobody any more.
            KeyboardInterrupt: The person wants to end the turn.
        """
        ...


class Questions:
    """Asks for each call that waits, one after the other; somebody else may answer first.

    Where no person sits at the terminal, it says how to answer from elsewhere; where nobody can,
    the call is not allowed.
    """

    def __init__(
        self, conversation: Conversation, asker: Asker | None, screen: Screen, tasks: TaskGroup
    ) -> None:
        self._conversation = conversation
        self._asker = asker
        self._screen = screen
        self._tasks = tasks
        self._asking: tuple[str, anyio.CancelScope] | None = None

    def read(self, update: Update) -> None:
        """Begin to ask, or stop asking, as `update` says."""
        if isinstance(update, TextDelta):
            return
        match update.body:
            case ApprovalAsked() as asked:
                scope = anyio.CancelScope()
                self._asking = (asked.call_id, scope)
                self._tasks.start_soon(self._settle, asked, scope)
            case ApprovalDecided(call_id=call_id):
                if self._asking is not None and self._asking[0] == call_id:
                    self._asking[1].cancel()
            case TurnFinished():
                if self._asking is not None:
                    self._asking[1].cancel()
            case _:
                pass

    async def _settle(self, asked: ApprovalAsked, scope: anyio.CancelScope) -> None:
        with scope:
            if self._asker is not None:
                try:
                    decision, answer = await _word(self._asker, self._screen, asked)
                except KeyboardInterrupt:  # Ctrl-C means here what it means while an answer runs
                    await self._conversation.cancel()
                else:
                    await self._decide(decision, asked, answer)
            elif self._conversation.is_shared:
                command = f"everturn approve {self._conversation.session_id}"
                other = "--answer ..." if asked.inquiry is not None else "--deny"
                self._screen.note(f"  (answer with `{command}`, or with {other})")
            else:
                self._screen.note("  (nobody can be asked here: it does not run)")
                await self._decide("deny", asked)

    async def _decide(self, decision: Decision, asked: ApprovalAsked, answer: str = "") -> None:
        try:
            await self._conversation.decide(
                decision, asked.call_id, arguments_hash=asked.arguments_hash, answer=answer
            )
        except (CoreError, ChannelError) as error:
            self._screen.error(str(error))


async def _word(asker: Asker, screen: Screen, asked: ApprovalAsked) -> tuple[Decision, str]:
    """Ask until the answer is one; return it, and what was typed to an inquiry.

    Raises:
        KeyboardInterrupt: The person wants to end the turn.
    """
    if asked.inquiry is not None:
        return await _answer(asker, screen, asked.inquiry)
    always = f", [a]lways {visible(asked.pattern)}" if asked.pattern else ""
    question = f"  allow it? [y]es, once{always}, [n]o: "
    while True:
        try:
            typed = await asker.choose(question)
        except EOFError:
            return "deny", ""  # nobody there is no yes
        word = typed.strip().lower().removeprefix("/")
        if word in {"stop", "cancel"}:
            raise KeyboardInterrupt
        decision = DECISION_WORDS.get(word)
        if decision is not None and (decision != "allow_always" or asked.pattern):
            return decision, ""
        hint = "y, a or n" if asked.pattern else "y or n; this can only be allowed once"
        screen.note(f"  (answer {hint}; /stop ends the turn)")


async def _answer(asker: Asker, screen: Screen, inquiry: Inquiry) -> tuple[Decision, str]:
    numbers = f"1-{len(inquiry.choices)}" if inquiry.choices else ""
    hint = " or ".join(filter(None, (numbers, "a text" if inquiry.takes_text else "")))
    while True:
        try:
            typed = await asker.choose(f"  your answer ({hint}): ")
        except EOFError:
            return "deny", ""
        word = typed.strip()
        if word.lower() in {"/stop", "/cancel"}:
            raise KeyboardInterrupt
        if word.lower() == "/deny":
            return "deny", ""
        if inquiry.read(word) is not None:
            return "answer", word
        screen.note(f"  (answer {hint}; /deny: you do not want to; /stop ends the turn)")
