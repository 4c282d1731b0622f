"""What there is to show of a running turn: the text of its reply so far, or which tools run."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from everturn_actors.delivery.port import Outgoing
from everturn_actors.model import OpenTurn
from everturn_actors.ports import Clock
from everturn_actors.service import TextDelta
from everturn_actors.todo import todo_lines, todo_of_turn
from everturn_channels.delivery.words import ran_text, running_text, with_todo
from everturn_channels.names import visible
from everturn_channels.settings import ChannelSettings


class Intent(Struct, frozen=True, kw_only=True):
    """What should be shown now."""

    turn: int
    step: int
    "The step whose reply it announces."
    text: str
    running: tuple[str, ...] = ()
    "The tools that it tells of; empty = it is the text of a reply, or tells of none any more."
    is_status: bool = False
    "It tells of tools, and is no part of a reply."
    todo: str = ""
    "The to-do list of the turn, which stands before that; empty = there is none."


class Coming(Struct):
    """The text of a reply as far as it came."""

    turn: int = 0
    step: int = 0
    length: int = 0
    since: datetime | None = None
    "When its first piece came."
    is_blank: bool = True


class Status(Struct):
    """The message that tells of tools, and shows the to-do list of a turn."""

    platform_id: str = ""
    "Empty = there is none."
    names: list[str] = field(default_factory=list[str])
    "All that it told of."
    is_running: bool = False
    "Whether it says that they still run."
    todo: str = ""
    "The list that it shows."
    turn: int = 0
    "Whose list that is."
    is_old: bool = False
    "Whether other messages stand below it: for the next tool there will be a new one."


class Intents:
    """Knows what one conversation should be shown now, and what it is shown already."""

    def __init__(self, session: Outgoing, *, settings: ChannelSettings, clock: Clock) -> None:
        """Begin with nothing shown."""
        self._session, self._settings, self._clock = session, settings, clock
        self.coming = Coming()
        self._pieces: list[str] = []
        self.shown = Intent(turn=0, step=0, text="")
        self._given_up = (0, 0, False)
        "The turn, the step, and whether its tools: they are not shown any more."
        self.status = Status()

    def give_up(self, intent: Intent) -> None:
        """Show nothing more of that step, or of its tools."""
        self._given_up = (intent.turn, intent.step, intent.is_status)

    def add(self, delta: TextDelta) -> None:
        """Take the next piece of a reply."""
        coming = self.coming
        if delta.offset == 0 or (delta.turn, delta.step) != (coming.turn, coming.step):
            now = self._clock.now()
            coming = self.coming = Coming(turn=delta.turn, step=delta.step, since=now)
            self._pieces.clear()
        self._pieces.append(delta.text)
        coming.length += len(delta.text)
        coming.is_blank = coming.is_blank and not delta.text.strip()

    def now(self) -> Intent | None:
        """Return what should be shown; None where that is nothing, or shown already."""
        intent = self.of_text() or self._of_status()
        return None if intent == self.shown else intent

    def of_text(self) -> Intent | None:
        """Return what should be shown of a reply that comes; None where nothing."""
        turn, coming = self.awaited(), self.coming
        if turn is None or (turn.number, len(turn.steps) + 1) != (coming.turn, coming.step):
            return None
        if coming.is_blank or self._given_up == (coming.turn, coming.step, False):
            return None
        text = "".join(self._pieces)
        self._pieces[:] = [text]
        return Intent(turn=coming.turn, step=coming.step, text=text)

    def _of_status(self) -> Intent | None:
        turn, names = self._running()
        if turn is not None:
            todo = self.todo(turn.number)
            is_called = turn.step is not None and turn.step.reply is not None
            # where the next reply will stand
            number, step = turn.number, len(turn.steps) + (2 if is_called else 1)
            if self._given_up == (number, step, True):
                return None
            if names or (todo and todo != self.status.todo):
                told = running_text(names) if names else self._ran()
                return Intent(
                    turn=number,
                    step=step,
                    text=with_todo(todo, told),
                    running=names,
                    is_status=True,
                    todo=todo,
                )
        if self.status.is_running:
            text = with_todo(self.status.todo, self._ran())
            return Intent(turn=0, step=0, text=text, is_status=True, todo=self.status.todo)
        return None

    def todo(self, number: int) -> str:
        """Return the to-do list of a turn, the open one or the newest; empty where it has none."""
        state = self._session.state
        turn = state.open_turn or (state.conversation.turns or (None,))[-1]
        if turn is None or turn.number != number:
            return self.status.todo if self.status.turn == number else ""
        return visible(todo_lines(todo_of_turn(turn) or ()))

    def ended(self) -> str:
        """Return what the message says when nothing runs any more."""
        return with_todo(self.status.todo, self._ran())

    def _ran(self) -> str:
        return ran_text(self.status.names) if self.status.names else ""

    def _running(self) -> tuple[OpenTurn | None, tuple[str, ...]]:
        """Return the open turn, if something of it may be told, and the tools of it that run."""
        turn = self._session.state.open_turn
        if turn is None or not turn.speaks or self._owes_before():
            return None, ()
        if not self._settings.tool_activity or turn.step is None or turn.step.reply is None:
            return turn, ()
        step, calls = turn.step, turn.step.reply.calls
        runs = (call for call in calls if call.call_id in step.started)
        return turn, tuple(call.name for call in runs if call.call_id not in step.results)

    def awaited(self) -> OpenTurn | None:
        """Return the open turn, if a reply is awaited and nothing older has to be sent first."""
        turn = self._session.state.open_turn
        awaits = turn is not None and turn.speaks and turn.step and turn.step.reply is None
        return turn if awaits and not self._owes_before() else None

    def _owes_before(self) -> bool:
        return any(not item.is_delivered for item in self._session.state.outbox)
