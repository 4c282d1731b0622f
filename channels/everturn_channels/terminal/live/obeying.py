"""Does what a person types while the session is followed: messages, answers and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from anyio.abc import TaskGroup

from everturn_actors.errors import CoreError, InvalidInputError
from everturn_channels.errors import ChannelError
from everturn_channels.terminal.attachments import Basket
from everturn_channels.terminal.client import Client, ListedSession
from everturn_channels.terminal.commands import NO_SESSION, obey, turns_text
from everturn_channels.terminal.conversation import Conversation, last_messages
from everturn_channels.terminal.gauge import show_compacted
from everturn_channels.terminal.live.completion import Source
from everturn_channels.terminal.live.following import Following
from everturn_channels.terminal.live.questions import Answered
from everturn_channels.terminal.live.view import View
from everturn_channels.terminal.lookups import (
    filled_prompt,
    listed,
    offered_models,
    offered_prompts,
    picked,
    session_lines,
    title_of,
)
from everturn_channels.terminal.slash import Command, Mistake, Nothing, Say, parse
from everturn_channels.texts import DECISION_WORDS

RESUMED_MESSAGES = 3  # of a session that one goes on in, shown again


class Obeying:
    """What becomes of each line."""

    def __init__(
        self,
        conversation: Conversation,
        client: Client,
        view: View,
        following: Following,
        bars: tuple[str, str],
    ) -> None:
        """Prepare: what is talked in, where its gateway is, and where all is shown."""
        self._conversation = conversation
        self._client = client
        self._view = view
        self._following = following
        self._bars = bars
        self._basket = Basket()
        self._listed: Sequence[ListedSession] = ()
        self.is_handing_in = False
        "Whether a message is on its way and not accepted yet."
        self.sources: Mapping[str, Source] = {
            "resume": self._offered_sessions,
            "prompt": self._offered_prompts,
            "model": partial(offered_models, conversation),
        }
        "What may stand behind commands."

    async def obey(self, line: str, *, columns: int, tasks: TaskGroup) -> bool:
        """Do what was typed; return whether the chat goes on.

        Args:
            line: What was typed.
            columns: How wide the terminal is.
            tasks: Where goes on what takes long.

        Raises:
            CoreError, ChannelError: It cannot be done.
        """
        answered = self._answer_in(line)
        if answered is not None:
            await self.decide(answered)
            return True
        match parse(line):
            case Say() if hint := self._following.questions.hint:
                self._view.note(hint)
            case Say(text=text):
                await self._hand_in(text, tasks)
            case Mistake(text=text):
                self._view.error(text)
            case Command(name="exit"):
                return False
            case Command() as command:
                await self._command(command, columns, tasks)
            case Nothing():
                pass
        return True

    async def decide(self, answered: Answered) -> None:
        """Hand in what somebody decided.

        Raises:
            CoreError, ChannelError: It no longer waits, or cannot be answered so.
        """
        await self._conversation.decide(
            answered.decision,
            answered.call_id,
            arguments_hash=answered.arguments_hash,
            answer=answered.answer,
        )

    def _answer_in(self, line: str) -> Answered | None:
        """Return what a line answers that is asked; None where it is a message or a command."""
        questions = self._following.questions
        word = line.strip()
        decision = DECISION_WORDS.get(word.lower())
        if decision is not None and questions.asked is not None:
            answered = questions.decided(decision)
            if answered is not None:
                return answered
        return None if word.startswith("/") else questions.typed(word)

    async def _hand_in(self, text: str, tasks: TaskGroup, *, untrusted: bool = False) -> None:
        self.is_handing_in = True
        try:
            seq = await self._conversation.hand_in(text, self._basket.uploads, untrusted=untrusted)
        finally:
            self.is_handing_in = False
        self._basket.empty()
        session_id = self._conversation.session_id
        if session_id != self._following.session_id:
            self._following.begin(session_id, after=seq - 1, tasks=tasks)

    async def _command(self, command: Command, columns: int, tasks: TaskGroup) -> None:
        match command.name:
            case "new":
                await self._new(tasks)
            case "resume":
                await self._resume(command.text, tasks)
            case "calls":
                self._view.show(*self._view.calls.show(_number(command.text)))
            case "compact":
                self._view.note("(summarising; you can go on meanwhile)")
                tasks.start_soon(self._compact, command.text)
            case "retry":
                await self._conversation.retry()
            case "prompt" if command.text:
                text = await filled_prompt(self._conversation, command.text)
                self._view.note(text)
                await self._hand_in(text, tasks, untrusted=True)
            case "sessions":
                await self._list_sessions(command.text)
            case _:
                pieces = await obey(
                    command, self._conversation, self._basket, columns=columns - 1, bars=self._bars
                )
                self._view.show(*pieces)

    async def _compact(self, focus: str) -> None:
        try:
            compacted = await self._conversation.compact(focus)
        except (CoreError, ChannelError) as error:
            self._view.error(str(error))
        else:
            self._view.note(NO_SESSION if compacted is None else show_compacted(compacted))

    async def _new(self, tasks: TaskGroup) -> None:
        status = await self._conversation.begin_new()
        self._view.note(f"(a new session: {status.session_id}; /sessions lists those before)")
        self._following.begin(status.session_id, after=status.last_seq, tasks=tasks)

    async def _list_sessions(self, words: str) -> None:
        """Show sessions, and remember them: `/resume` takes their numbers."""
        self._listed = await listed(self._conversation, words)
        self._view.note(session_lines(self._listed))

    async def _resume(self, wanted: str, tasks: TaskGroup) -> None:
        if not wanted.strip():
            await self._list_sessions("")
            return
        found = picked(wanted, self._listed)
        if found is None:
            found = picked(wanted, await listed(self._conversation, wanted))
        if found is None:
            msg = f"there is no session {wanted!r}; /sessions lists them"
            raise InvalidInputError(msg)
        session_id = found.session_id
        if found.status == "ended":
            # What is gone to is where this conversation goes on, also on another day.
            session_id = await self._client.history.fork(
                session_id, at_seq=found.last_seq, key=self._conversation.home
            )
            self._view.note("(it had ended: a new session begins with all that was said in it)")
        status = await self._conversation.go_to(session_id)
        self._view.note(f"({title_of(found)}: session {session_id}, {turns_text(status.turns)})")
        after = await last_messages(self._client, status, RESUMED_MESSAGES)
        self._following.begin(session_id, after=after, tasks=tasks)
        if status.busy:
            await self._conversation.resume()

    async def _offered_sessions(self) -> Sequence[tuple[str, str]]:
        return [(each.session_id, title_of(each)) for each in await listed(self._conversation, "")]

    async def _offered_prompts(self) -> Sequence[tuple[str, str]]:
        return [(each.name, each.description) for each in await offered_prompts(self._conversation)]


def _number(text: str) -> int | None:
    word = text.strip()
    if not word:
        return None
    if not word.isdecimal():
        msg = "/calls takes the number of a call"
        raise InvalidInputError(msg)
    return int(word)
