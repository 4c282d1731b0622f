"""Tool calls as lines that fold: one for each call, and all of it where somebody asks. Pure."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import Final

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

from everturn_actors.errors import InvalidInputError
from everturn_actors.events import CallFinished, CallStarted, ModelReplied, TurnFinished
from everturn_actors.json_values import Json, as_object
from everturn_actors.model import ToolCall
from everturn_actors.service import TextDelta, Update
from everturn_actors.todo import todo_in
from everturn_channels.names import clean, one_line
from everturn_channels.terminal.reply import Piece, Style

CALLS_KEPT: Final = 200  # that can be unfolded
_SUMMARY: Final = 60  # characters of what a call does
_REASON: Final = 60  # characters of why one failed; unfolded it stands whole
_TEXT_KEPT: Final = 200_000  # characters of a result; the whole stands with the session
_LINES_SHOWN: Final = 200  # of an unfolded result


class Call(Struct, frozen=True, kw_only=True):
    """One call of this conversation."""

    number: int
    "Counted from 1 in this terminal."
    call: ToolCall
    began: datetime | None = None
    result: CallFinished | None = None
    seconds: float = 0.0


class Calls:
    """Reads the updates of a conversation, and shows its calls."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque(maxlen=CALLS_KEPT)
        self._open: dict[str, Call] = {}
        self._count = 0
        self.unfolded = False
        "Whether calls are shown whole from now on."

    def read(self, update: Update) -> tuple[Piece, ...]:
        """Return the lines of the calls that ended with an update."""
        if isinstance(update, TextDelta):
            return ()
        match update.body:
            case ModelReplied(calls=calls):
                for call in calls:
                    if todo_in(call) is None:  # it is shown as a list, not as a call
                        self._count += 1
                        self._open[call.call_id] = Call(number=self._count, call=call)
            case CallStarted(call_id=call_id) if call_id in self._open:
                self._open[call_id] = replace(self._open[call_id], began=update.at)
            case CallFinished(call_id=call_id) as result if call_id in self._open:
                open_ = self._open.pop(call_id)
                seconds = (update.at - open_.began).total_seconds() if open_.began else 0.0
                kept = replace(result, text=result.text[:_TEXT_KEPT])
                done = replace(open_, result=kept, seconds=seconds)
                self._calls.append(done)
                return (_whole(done),) if self.unfolded else (_folded(done),)
            case TurnFinished():
                self._open.clear()
            case _:
                pass
        return ()

    def running(self, now: datetime) -> tuple[str, ...]:
        """Return a line for each call that runs."""
        lines: list[str] = []
        for call in self._open.values():
            if call.began is not None:
                since = _seconds((now - call.began).total_seconds())
                lines.append(f"  … {_summary(call.call)}{since}")
        return tuple(lines)

    def show(self, number: int | None) -> tuple[Piece, ...]:
        """Return one call unfolded; without a number the newest."""
        if not self._calls:
            return (Piece(style="note", text="(no call was made here)"),)
        if number is None:
            return (_whole(self._calls[-1]),)
        found = [each for each in self._calls if each.number == number]
        if not found:
            msg = f"there is no call {number} here: {self._calls[0].number} to {self._count}"
            raise InvalidInputError(msg)
        return (_whole(found[0]),)

    def toggle(self) -> tuple[Piece, ...]:
        """Show the calls whole from now on, or folded; return the newest one where it is whole."""
        self.unfolded = not self.unfolded
        if not self.unfolded:
            return (Piece(style="note", text="(calls are folded again)"),)
        newest = self.show(None) if self._calls else ()
        return (*newest, Piece(style="note", text="(calls are shown whole; Ctrl-O folds them)"))


def _folded(call: Call) -> Piece:
    result = call.result
    head = f"  ▸ {call.number} {_summary(call.call)}"
    if result is None:
        return Piece(style="note", text=head)
    if result.is_error:
        reason = one_line(result.text.strip().partition("\n")[0], _REASON)
        what = "not run" if result.is_refused else "failed"
        return Piece(style="error", text=f"{head} · {what}: {reason}")
    count = result.text.count("\n") + 1 if result.text.strip() else 0
    lines = f"{count:,} line{'s' * (count != 1)}" if count else "nothing"
    return Piece(style="note", text=f"{head} · {lines}{_seconds(call.seconds)}")


def _whole(call: Call) -> Piece:
    result = call.result
    lines = [f"  ▾ {call.number} {clean(call.call.name)}{_seconds(call.seconds)}"]
    lines += [f"    {line}" for line in _arguments(call.call)]
    if result is not None:
        said = clean(result.text).rstrip().split("\n")
        lines += [f"    │ {line}" for line in said[:_LINES_SHOWN]]
        if len(said) > _LINES_SHOWN:
            lines.append(f"    │ … and {len(said) - _LINES_SHOWN:,} more lines")
        if result.path:
            lines.append(f"    (all of it: {clean(result.path)} in the session's results)")
    style: Style = "warning" if result is not None and result.is_error else "note"
    return Piece(style=style, text="\n".join(lines))


def _values(call: ToolCall) -> Json:
    try:
        return as_object(json.decode(call.arguments))
    except (DecodeError, RecursionError):
        return {}


def _summary(call: ToolCall) -> str:
    """Return what a call does in one line: `bash ls -la`."""
    values = _values(call)
    match list(values.items()):
        case [(_, value)]:
            said = _text(value)
        case []:
            said = "" if call.arguments.strip() in {"", "{}"} else call.arguments
        case items:
            said = ", ".join(f"{name}={_text(value)}" for name, value in items)
    line = " ".join(clean(f"{call.name} {said}").split())
    return line if len(line) <= _SUMMARY else f"{line[: _SUMMARY - 1]}…"


def _arguments(call: ToolCall) -> list[str]:
    values = _values(call)
    if not values:
        return [clean(call.arguments)] if call.arguments.strip() not in {"", "{}"} else []
    lines: list[str] = []
    for name, value in values.items():
        first, *others = clean(_text(value)).split("\n")
        lines += [f"{clean(name)}: {first}", *(f"  {line}" for line in others)]
    return lines


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.encode(value).decode()


def _seconds(seconds: float) -> str:
    return f" · {seconds:.0f} s" if seconds >= 1 else ""
