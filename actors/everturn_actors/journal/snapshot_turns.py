"""Turns of a `state.yaml`, rebuilt from the lines of their messages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

from everturn_actors.model import (
    Approval,
    Attachment,
    Chunk,
    OpenStep,
    OpenTurn,
    Outcome,
    Overheard,
    Parcel,
    Replaced,
    Reply,
    Sent,
    Settled,
    Standing,
    Steering,
    Step,
    Summary,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    UserMessage,
)

T = TypeVar("T")
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


def _kinds(cls: type) -> dict[str, type]:
    hints = get_type_hints(cls).items()
    return {name: str if get_origin(h) is Literal else get_origin(h) or h for name, h in hints}


# Of an open turn.
_DELIVERY = ("delivers", "has_spoken", "told_of_drops", "preview_step", "preview_id")
_VALUES = (
    *(UserMessage, Attachment, Reply, ToolResult, ToolCall, Usage),
    *(Sent, Summary, Replaced, Standing),
    *(Overheard, Parcel, Chunk),
)
_KINDS: dict[type, dict[str, type]] = {cls: _kinds(cls) for cls in _VALUES}


def build(cls: type[T], values: Mapping[str, Any]) -> T:
    """Return `cls(**values)`, having checked that each value is of the kind its field names.

    Raises:
        TypeError: A field is missing, unknown, or of another kind.
    """
    value = cls(**values)
    kinds = _KINDS[cls]
    for name, item in values.items():
        if type(item) is not kinds[name]:
            msg = f"{name} must be {kinds[name].__name__}, not {type(item).__name__}"
            raise TypeError(msg)
    return value


def read_message(line: Line) -> _TurnMessage:
    """Return the message of a line.

    Raises:
        KeyError: It names no role.
        TypeError: A field is missing, unknown, or of another kind.
        ValueError: There is no such role.
    """
    values = dict(line)
    values.pop("turn", None)
    match values.pop("role"):
        case "user":
            if "attachments" in values:
                sent = values["attachments"]
                values["attachments"] = tuple(build(Attachment, each) for each in sent)
            return build(UserMessage, values)
        case "assistant":
            if "calls" in values:
                values["calls"] = tuple(build(ToolCall, call) for call in values["calls"])
            if "usage" in values:
                values["usage"] = build(Usage, values["usage"])
            return build(Reply, values)
        case "tool":
            return build(ToolResult, values)
        case role:
            msg = f"there is no role {role!r} here"
            raise ValueError(msg)


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

    def close_step(self) -> None:
        if self.reply is not None:
            self.steps.append(Step(reply=self.reply, results=tuple(self.results)))
            self.reply, self.results = None, []

    def close(self) -> Turn:
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


def _outcome(line: Line) -> tuple[Outcome, str]:
    outcome, error = line["outcome"], line.get("error", "")
    if outcome not in get_args(Outcome) or not isinstance(error, str):
        msg = f"the outcome of a turn is one of {', '.join(get_args(Outcome))}; its error is text"
        raise ValueError(msg)
    return cast("Outcome", outcome), error


def open_turn_of(lines: Iterable[Line], instant: Callable[[object], datetime]) -> OpenTurn | None:
    """Return the running turn that the lines of its section hold, or None where there are none.

    `instant` reads a time.

    Raises:
        EntryError: A line that cannot be read or cannot stand where it is.
    """
    draft: _Draft | None = None
    opened: datetime | None = None
    broken: tuple[str, ...] = ()
    delivery: dict[str, Any] = {}
    step: OpenStep | None = None
    entries = 0
    try:
        for line in lines:
            entries += 1
            if draft is None or opened is None:
                if line["role"] != "opened":
                    msg = "an open turn begins with the line of the role 'opened'"
                    raise ValueError(msg)  # noqa: TRY301 - every fault of a line is told alike
                draft, opened = _Draft(number=_number(line)), instant(line["at"])
                broken = tuple(line.get("broken", ()))
                delivery = {name: line[name] for name in _DELIVERY if name in line}
            elif line["role"] == "step":
                draft.close_step()
                step = OpenStep(
                    started=tuple(line.get("started", ())),
                    approvals=_approvals(line.get("approvals", ()), instant),
                )
            elif step is None:
                draft.add(read_message(line))
            else:
                step = _in_open_step(step, read_message(line))
        if draft is None or opened is None:
            return None
        draft.close_step()
    except (KeyError, TypeError, ValueError) as error:
        raise EntryError(entries - 1, explain(error)) from error
    return OpenTurn(
        number=draft.number,
        users=tuple(draft.users),
        started_at=opened,
        steps=tuple(draft.steps),
        step=step,
        steered=tuple(draft.steered),
        broken=broken,
        **delivery,
    )


def _approvals(lines: Iterable[Line], instant: Callable[[object], datetime]) -> dict[str, Approval]:
    found: dict[str, Approval] = {}
    for line in lines:
        settled = line["settled"]
        if settled and settled not in get_args(Settled):
            msg = f"an approval is settled as one of {', '.join(get_args(Settled))}"
            raise ValueError(msg)
        found[line["call_id"]] = Approval(
            call_id=line["call_id"],
            arguments_hash=line["arguments_hash"],
            expires_at=instant(line["expires_at"]),
            reason=line["reason"],
            pattern=line["pattern"],
            approvers=tuple(line["approvers"]),
            settled=settled or None,
            by=line["by"],
        )
    return found


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
            return replace(step, results={**step.results, message.call_id: message})
