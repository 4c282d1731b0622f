"""Turns of a `state.yaml`, rebuilt from the lines of their messages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NoReturn, TypeAlias, cast, get_args

from everturn_actors.model import (
    Approval,
    OpenStep,
    OpenTurn,
    Outage,
    Outcome,
    Reply,
    Resolution,
    Steering,
    Step,
    ToolResult,
    Turn,
    UserMessage,
)
from everturn_actors.state.serialization import read_value

Line: TypeAlias = Mapping[str, Any]
_TurnMessage: TypeAlias = UserMessage | Reply | ToolResult


class EntryError(Exception):
    """One entry of a section cannot be read. Never leaves `journal`.

    Attributes:
        index: Which one, from 0.
    """

    def __init__(self, index: int, why: str) -> None:
        self.index = index
        super().__init__(why)


def explain(error: Exception) -> str:
    """Return what is wrong with an entry, from the error that building its value gave."""
    return f"the field {error} is missing" if isinstance(error, KeyError) else str(error)


def read_message(line: Line) -> _TurnMessage:
    """Return the message of a line.

    Raises:
        KeyError: It names no role.
        TypeError: A field is of another kind.
        ValueError: There is no such role, or a field is missing, unknown, or not allowed.
    """
    values = dict(line)
    values.pop("turn", None)
    match values.pop("role"):
        case "user":
            return read_value(UserMessage, values)
        case "assistant":
            return _with_own_ids(read_value(Reply, values))
        case "tool":
            return read_value(ToolResult, values)
        case role:
            msg = f"there is no role {role!r} here"
            raise ValueError(msg)


def _with_own_ids(reply: Reply) -> Reply:
    if len({call.call_id for call in reply.calls}) < len(reply.calls):
        msg = "two calls of a reply have the same call_id"
        raise ValueError(msg)
    return reply


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A turn while its lines are read."""

    number: int
    users: list[UserMessage] = field(default_factory=list[UserMessage])
    steered: list[Steering] = field(default_factory=list[Steering])
    steps: list[Step] = field(default_factory=list[Step])
    reply: Reply | None = None
    results: list[ToolResult] = field(default_factory=list[ToolResult])
    outcome: Outcome = "answered"
    error: str = ""

    def add(self, message: _TurnMessage) -> None:
        match message:
            case UserMessage():
                self.close_step()
                if self.steps:
                    self._steer(message)
                else:
                    self.users.append(message)
            case Reply():
                self.close_step()
                self._check_begun()
                self.reply = message
            case ToolResult():
                if self.reply is None:
                    msg = "a result stands before the reply that made its call"
                    raise ValueError(msg)
                self.results.append(message)

    def _steer(self, message: UserMessage) -> None:
        """Add a message that came while the turn ran; those that came together stay together."""
        done = len(self.steps)
        users: tuple[UserMessage, ...] = (message,)
        if self.steered and self.steered[-1].after_steps == done:
            users = (*self.steered.pop().users, message)
        self.steered.append(Steering(after_steps=done, users=users))

    def _check_begun(self) -> None:
        if not self.users:
            msg = f"turn {self.number} begins with no message of the user"
            raise ValueError(msg)

    def close_step(self) -> None:
        if self.reply is None:
            return
        self.steps.append(Step(reply=self.reply, results=tuple(self.results)))
        self.reply, self.results = None, []

    def close(self) -> Turn:
        self._check_begun()
        self.close_step()
        return Turn(
            number=self.number,
            users=tuple(self.users),
            steps=tuple(self.steps),
            outcome=self.outcome,
            error=self.error,
            steered=tuple(self.steered),
        )


def _number(line: Line) -> int:
    number = line["turn"]
    if type(number) is not int:
        msg = f"turn must be int, not {type(number).__name__}"
        raise TypeError(msg)
    return number


def turns_of(lines: Iterable[Line]) -> tuple[Turn, ...]:
    """Return the finished turns that the lines of a section hold.

    Raises:
        EntryError: A line that cannot be read or cannot stand where it is.
    """
    turns: list[Turn] = []
    draft: _Draft | None = None
    entries = 0
    try:
        for line in lines:
            entries += 1
            number = _number(line)
            if draft is None or draft.number != number:
                if draft is not None:
                    turns.append(draft.close())
                    _check_order(draft.number, number)
                draft = _Draft(number=number)
            if line["role"] == "outcome":
                draft.outcome, draft.error = _outcome(line)
            else:
                draft.add(read_message(line))
        if draft is not None:
            turns.append(draft.close())
    except (KeyError, TypeError, ValueError) as error:
        raise EntryError(entries - 1, explain(error)) from error
    return tuple(turns)


def _check_order(before: int, number: int) -> None:
    if number <= before:
        msg = f"turn {number} stands after turn {before}"
        raise ValueError(msg)


def _outcome(line: Line) -> tuple[Outcome, str]:
    outcome, error = line["outcome"], line.get("error", "")
    if outcome not in get_args(Outcome) or not isinstance(error, str):
        msg = f"the outcome of a turn is one of {', '.join(get_args(Outcome))}; its error is text"
        raise ValueError(msg)
    return cast("Outcome", outcome), error


def open_turn_of(lines: Sequence[Line], instant: Callable[[object], datetime]) -> OpenTurn | None:
    """Return the running turn that the lines of its section hold, or None where there are none.

    `instant` reads a time.

    Raises:
        EntryError: A line that cannot be read or cannot stand where it is.
    """
    if not lines:
        return None
    step: OpenStep | None = None
    entries = 1
    try:
        header = _header_of(lines[0], instant)
        draft = _Draft(number=header.turn)
        for line in lines[1:]:
            entries += 1
            if (number := _number(line)) != draft.number:
                _refuse(f"the open turn is turn {draft.number}, not {number}")
            if line["role"] == "step":
                if step is not None:
                    _refuse("a turn has one step that runs")
                draft.close_step()
                step = _open_step_of(line, instant)
            elif step is None:
                draft.add(read_message(line))
            else:
                step = _in_open_step(step, read_message(line))
        turn = draft.close()
        _check_open_step(step)
    except (KeyError, TypeError, ValueError) as error:
        raise EntryError(entries - 1, explain(error)) from error
    return OpenTurn(
        number=turn.number,
        users=turn.users,
        started_at=header.at,
        steps=turn.steps,
        step=step,
        steered=turn.steered,
        broken=header.broken,
        delivers=header.delivers,
        retried_steps=header.retried_steps,
        sent_files=header.sent_files,
        outage=header.outage,
        told_of_outage=header.told_of_outage,
        told_of_drops=header.told_of_drops,
        preview_step=header.preview_step,
        preview_id=header.preview_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """The first line of an open turn: what is known of it besides its messages."""

    turn: int
    at: datetime
    broken: tuple[str, ...] = ()
    delivers: bool = False
    retried_steps: int = 0
    sent_files: bool = False
    outage: Outage | None = None
    told_of_outage: bool = False
    told_of_drops: bool = False
    preview_step: int = 0
    preview_id: str = ""


def _header_of(line: Line, instant: Callable[[object], datetime]) -> _Header:
    values = {**line}
    if values.pop("role") != "opened":
        _refuse("an open turn begins with the line of the role 'opened'")
    outage = _outage_of(values.pop("outage", None), instant)
    header = read_value(_Header, {**values, "at": instant(values["at"])})
    return replace(header, outage=outage)


_TIMES: Final = ("since", "failed_at", "retry_at", "give_up_at")


def _outage_of(line: object, instant: Callable[[object], datetime]) -> Outage | None:
    if line is None:
        return None
    if not isinstance(line, dict):
        _refuse("an outage must be a mapping")
    values = cast("dict[str, Any]", line)
    times = {name: instant(values[name]) for name in _TIMES}
    return read_value(Outage, {**values, **times})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """The line of the step that runs."""

    turn: int
    started: tuple[str, ...] = ()


def _open_step_of(line: Line, instant: Callable[[object], datetime]) -> OpenStep:
    values = {**line}
    del values["role"]
    asked = values.pop("approvals", [])
    if not isinstance(asked, list):
        _refuse("approvals must be a list")
    approvals = [_approval(each, instant) for each in cast("list[object]", asked)]
    return OpenStep(
        started=read_value(_Begun, values).started,
        approvals={each.call_id: each for each in approvals},
    )


def _approval(line: object, instant: Callable[[object], datetime]) -> Approval:
    if not isinstance(line, dict):
        _refuse("an approval must be a mapping")
    values = cast("dict[str, Any]", {**line})
    resolution, values["expires_at"] = values.pop("settled"), instant(values["expires_at"])
    if resolution and resolution not in get_args(Resolution):
        _refuse(f"an approval is settled as one of {', '.join(get_args(Resolution))}")
    return replace(read_value(Approval, values), resolution=resolution or None)


def _refuse(why: str) -> NoReturn:
    raise ValueError(why)


def _in_open_step(step: OpenStep, message: _TurnMessage) -> OpenStep:
    match message:
        case UserMessage():
            msg = "a message of the user stands inside a step"
            raise ValueError(msg)
        case Reply():
            if step.reply is not None:
                msg = "a step has one reply"
                raise ValueError(msg)
            return replace(step, reply=message)
        case ToolResult():
            if message.call_id in step.results:
                msg = f"call {message.call_id!r} has two results"
                raise ValueError(msg)
            return replace(step, results={**step.results, message.call_id: message})


def _check_open_step(step: OpenStep | None) -> None:
    """Check that all that is known of calls is known of calls of the step's reply."""
    if step is None:
        return
    made = {call.call_id for call in step.reply.calls} if step.reply else set[str]()
    for call_id in (*step.started, *step.results, *step.approvals):
        if call_id not in made:
            msg = f"the running step has no call {call_id!r}"
            raise ValueError(msg)
    if step.reply and all(call_id in step.results for call_id in made):
        msg = "the step that runs has no call that waits: without the line of its role it is done"
        raise ValueError(msg)
