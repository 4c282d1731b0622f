"""A session as a file for people: its events as Markdown, one after the other. Pure.

What anybody wrote stands in quotations; only what begins a line without one is ours. So no text can
pass itself off as a heading, or as the words of somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from everturn_actors.context.transcripts import one_line, quoted
from everturn_actors.events import (
    AmbientStored,
    Announced,
    ApprovalDecided,
    CallFinished,
    Discarded,
    Edited,
    Event,
    Labelled,
    ModelCallFailed,
    ModelReplied,
    Received,
    SessionEnded,
    SessionStarted,
    Summarised,
    Transcribed,
    TurnFinished,
)
from everturn_actors.model import Attachment

ExportFormat: TypeAlias = Literal["markdown", "jsonl", "openai"]


class MarkdownExport:
    """Writes the events of a session in their order."""

    def __init__(self) -> None:
        """Begin before the first event."""
        self._last = 0
        self._calls: dict[str, str] = {}

    def write(self, event: Event) -> str:
        """Return what stands for an event, and for those that are missing before it."""
        gap = self.missing(event.seq)
        self._last = event.seq
        return gap + "".join(f"{part}\n\n" for part in self._parts(event))

    def missing(self, before: int) -> str:
        """Return what says that no event between the last one and this number is kept."""
        if before <= self._last + 1:
            return ""
        return f"*Events {self._last + 1} to {before - 1} are no longer kept.*\n\n"

    def _parts(self, event: Event) -> Iterator[str]:
        body, seq = event.body, event.seq
        match body:
            case SessionStarted(session_id=session_id, key=key):
                where = ", ".join(one_line(each) for each in (key.channel, key.chat) if each)
                yield f"# Session {session_id}"
                yield f"with {code(key.agent)}, in {code(where)}, since {_moment(event.at)}"
            case Labelled(labels=labels) if labels.title:
                yield f"*Called {code(labels.title)}*"
            case Received(text=text, sender=sender) | AmbientStored(text=text, sender=sender):
                yield _heading(sender or "user", event)
                yield from _said(text)
                if isinstance(body, Received):
                    yield from map(_file, body.attachments)
            case Announced(text=text, title=title):
                yield _heading(title or "agent", event)
                yield from _said(text)
            case Edited(text=text, received=number):
                yield f"*Message {number} was changed to*"
                yield from _said(text)
            case Transcribed(message=number, text=text, error=error):
                yield f"*Heard in message {number}*"
                yield from _said(text or error)
            case Discarded(received=numbers, reason=reason):
                which = ", ".join(map(str, numbers))
                yield f"*Not answered: {which}*"
                yield from _said(reason)
            case ModelReplied(text=text, calls=calls, model=model):
                self._calls = {call.call_id: call.name for call in calls}
                yield _heading("agent", event, model)
                yield from _said(text)
                for call in calls:
                    yield f"calls {code(call.name)}"
                    yield from _said(call.arguments)
            case ApprovalDecided(call_id=call_id, decision=decision, by=by):
                who = f" by {code(by)}" if by else ""
                yield f"*{code(self._calls.get(call_id, call_id))}: {decision}{who}*"
            case CallFinished(call_id=call_id, text=text, is_error=is_error, path=path):
                what = "error" if is_error else "result"
                yield f"{what} of {code(self._calls.get(call_id, call_id))} (event {seq})"
                yield from _said(text)
                if path:
                    yield f"The whole text is in {code(path)}."
            case ModelCallFailed(error=error):
                yield "*The model call failed*"
                yield from _said(error)
            case Summarised(text=text, messages=messages):
                yield f"*For the model, {messages:,} messages were summarised as*"
                yield from _said(text)
            case TurnFinished(outcome=outcome, error=error, turn=turn, partial=partial) if (
                outcome != "answered"
            ):
                if partial:
                    yield "*Of a reply that was cut short*"
                    yield from _said(partial)
                yield f"*Turn {turn}: {outcome}*"
                yield from _said(error)
            case SessionEnded(reason=reason):
                yield f"*The session ended {_moment(event.at)}: {reason}*"
            case _:
                pass


def code(text: str) -> str:
    """Return a short text of others as code, in one line, whatever stands in it."""
    return f"`{one_line(text).replace('`', chr(39))}`"


def _heading(who: str, event: Event, model: str = "") -> str:
    with_model = f", {code(model)}" if model else ""
    return f"## {code(who)}, {_moment(event.at)}{with_model} (event {event.seq})"


def _said(text: str) -> Iterator[str]:
    if text.strip():
        yield quoted(text)


def _file(file: Attachment) -> str:
    return f"file {code(file.file_name or file.name)}, {file.size_bytes:,} bytes"


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
