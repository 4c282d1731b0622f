"""From the updates of a conversation to what a person reads. Pure.

A reply arrives as pieces, may be cut by a lost connection and begun again by another model call,
and then stands whole in its event. Whatever happens on the way, each character is shown once.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, assert_never

from msgspec import Struct

from everturn_actors.events import (
    AmbientStored,
    Announced,
    ApprovalAsked,
    ApprovalDecided,
    Branched,
    CallFinished,
    CallsAnswered,
    CallsHandedOver,
    CallStarted,
    ChunkMarked,
    ContextReduced,
    DeliveryPlanned,
    Discarded,
    Edited,
    Event,
    Labelled,
    ModelCallFailed,
    ModelChosen,
    ModelReplied,
    NotesShown,
    OlderQuoted,
    Pinned,
    PreviewSent,
    PromptCounted,
    Received,
    ReplyBroken,
    SessionEnded,
    SessionShared,
    SessionStarted,
    Spoken,
    StatusChanged,
    Steered,
    StepStarted,
    Summarised,
    Transcribed,
    TurnFinished,
    TurnStarted,
    Unpinned,
)
from everturn_actors.model import Attachment, ToolCall, UserMessage
from everturn_actors.service import TextDelta, Update
from everturn_actors.todo import todo_in, todo_lines
from everturn_channels.delivery.words import default_text, files_text, inquiry_text
from everturn_channels.names import clean, one_line, visible

Style: TypeAlias = Literal["reply", "plain", "user", "note", "warning", "error"]

ARGUMENTS_SHOWN = 60  # code points; a call is a hint to a person, not a record
ASKED_SHOWN = 20_000  # of a call that a person is asked about: all of any that can be judged


class Piece(Struct, frozen=True, kw_only=True):
    """Text to show."""

    style: Style
    text: str
    """`reply`: Markdown that goes on where the one before ended. The others: whole lines.

    They have no last line end.
    """
    ends: bool = False
    "This piece of a reply is its last."


class ReplyReader:
    """Reads the updates of one conversation in order and says what to show."""

    def __init__(self, *, show_users: bool = False, show_calls: bool = True) -> None:
        """Begin.

        Args:
            show_users: Whether messages of people are shown.
            show_calls: Whether calls and what failed of them are; else a to-do list alone.
        """
        self._show_users = show_users
        self._show_calls = show_calls
        self._place = (0, 0)
        self._shown: str = ""
        self._reply: str = ""
        self._calls: dict[str, ToolCall] = {}

    def read(self, update: Update) -> tuple[Piece, ...]:
        """Return what `update` adds to the screen."""
        if isinstance(update, TextDelta):
            return self._delta(update)
        return self._event(update)

    def _delta(self, delta: TextDelta) -> tuple[Piece, ...]:
        if (delta.turn, delta.step) != self._place:
            left = self._leave()
            self._place = (delta.turn, delta.step)
            return (*left, *self._grow(delta.text))
        return self._grow(self._reply[: delta.offset] + delta.text)

    def _grow(self, reply: str) -> tuple[Piece, ...]:
        """Show what `reply`, the text so far, has beyond what was shown."""
        self._reply = reply
        if self._shown.startswith(reply):
            return ()
        again: tuple[Piece, ...] = ()
        if not reply.startswith(self._shown):
            again = (*self._leave(), Piece(style="note", text="(the model was asked again)"))
        new = reply[len(self._shown) :]
        self._reply = self._shown = reply
        return (*again, Piece(style="reply", text=clean(new)))

    def _leave(self) -> tuple[Piece, ...]:
        """End the reply that was being shown."""
        begun = bool(self._shown)
        self._shown = self._reply = ""
        return (Piece(style="reply", text="", ends=True),) if begun else ()

    def _event(self, event: Event) -> tuple[Piece, ...]:
        body = event.body
        match body:
            case Received():
                if not self._show_users:
                    return ()
                return (_said(body),)
            case ModelReplied():
                self._calls = {call.call_id: call for call in body.calls}
                calls = (c for c in body.calls if self._show_calls or todo_in(c) is not None)
                return (*self._replied(body.text), *map(_call, calls))
            case Announced():
                return self._announced(body)
            case CallFinished():
                return self._finished(body)
            case TurnFinished():
                return (*self._leave(), *_outcome(body))
            case Discarded():
                return (Piece(style="note", text=f"(not answered: {clean(body.reason)})"),)
            case SessionEnded():
                return self._noted(f"(the session has ended: {body.reason})")
            case StatusChanged():
                return self._noted("(paused)") if body.status == "paused" else ()
            case Transcribed():
                return self._heard(body)
            case ContextReduced() | ModelCallFailed():
                return self._noted(f"({body.line})") if body.line else ()
            case ReplyBroken():
                return self._noted(f"(the reply could not be used: {clean(body.reason)})")
            case ApprovalAsked():
                return (Piece(style="warning", text=_asked(body, self._calls.get(body.call_id))),)
            case ApprovalDecided():
                answer = f": {visible(one_line(body.answer))}" if body.answer else ""
                return (Piece(style="note", text=f"  {_DECIDED[body.decision]}{answer}"),)
            case CallsHandedOver():
                return (Piece(style="note", text="(waits for the tools of its client)"),)
            case (
                SessionStarted()
                | TurnStarted()
                | Steered()
                | StepStarted()
                | PreviewSent()
                | CallsAnswered()
                | CallStarted()
                | Summarised()
                | AmbientStored()
                | Labelled()
                | NotesShown()
                | PromptCounted()
                | OlderQuoted()
                | Spoken()
                | Pinned()
                | Unpinned()
                | DeliveryPlanned()
            ):
                return ()
            case ModelChosen():
                return _chosen(body)
            case Edited():
                if not self._show_users:
                    return ()
                return (Piece(style="user", text=f"changed to: {clean(body.text)}"),)
            case ChunkMarked():
                return _undelivered(body)
            case Branched():
                return (Piece(style="note", text=f"(forked from {body.of} at #{body.at_seq})"),)
            case SessionShared():
                return _shared(body)
            case _:
                assert_never(body)

    def _finished(self, body: CallFinished) -> tuple[Piece, ...]:
        """Show the files that a call sent, or why it failed."""
        if not body.is_error:
            return tuple(_sent_file(file) for file in body.attachments)
        if not self._show_calls:
            return ()
        reason = clean(body.text).strip().partition("\n")[0]
        return (Piece(style="note", text=f"  failed: {reason}"),)

    def _heard(self, body: Transcribed) -> tuple[Piece, ...]:
        """Show the words of a voice note, or why there are none."""
        is_said = self._show_users and not body.error
        text = clean(body.line or body.heard)
        return (Piece(style="user" if is_said else "note", text=text),)

    def _noted(self, text: str) -> tuple[Piece, ...]:
        """Show a note below the reply that is being shown."""
        return (*self._leave(), Piece(style="note", text=text))

    def _announced(self, body: Announced) -> tuple[Piece, ...]:
        """Show what was said beside the turn; a reply that is being shown goes on below it."""
        ends = (Piece(style="reply", text="", ends=True),) if self._shown else ()
        head = (Piece(style="note", text=f"(from {clean(body.title)})"),) if body.title else ()
        return (*ends, *head, Piece(style="reply", text=clean(body.text), ends=True))

    def _replied(self, text: str) -> tuple[Piece, ...]:
        pieces = self._grow(text)
        if self._shown != text:  # more was shown than the reply has
            pieces = (
                *self._leave(),
                Piece(style="note", text="(the model was asked again)"),
                Piece(style="reply", text=clean(text)),
            )
            self._shown = text
        self._place = (0, 0)
        return (*pieces, *self._leave())


_DECIDED = {
    "allow_once": "allowed",
    "allow_always": "allowed, from now on always",
    "deny": "not allowed",
    "answer": "answered",
    "expired": "nobody answered in time",
    "overtaken": "a new message came first",
    "withdrawn": "it does not have to be answered any more",
}


def _asked(body: ApprovalAsked, call: ToolCall | None) -> str:
    """Return what a person has to know to decide: the whole call, and why it is asked.

    Nothing of it is hidden, or can pass for a line of ours.
    """
    why = visible(body.reason.replace("\n", " "))
    if body.inquiry is not None:
        said = (inquiry_text(body.inquiry), why, default_text(body.inquiry))
        return "\n".join(f"  {line}" for part in said if part for line in part.split("\n"))
    about = f": {why}" if why else ""
    lines = [f"  waits to be allowed{about} (call {visible(body.call_id)})"]
    if call is not None:
        arguments = visible(call.arguments)
        shown = arguments[:ASKED_SHOWN].replace("\n", "\n  | ")
        lines.append(f"  {visible(call.name)} {shown}")
        if len(arguments) > ASKED_SHOWN:
            lines.append(
                f"  ... and {len(arguments) - ASKED_SHOWN:,} characters that are not shown"
            )
    if held := files_text(body.files):
        lines.append(f"  {held}")
    return "\n".join(lines)


def _sent_file(file: Attachment) -> Piece:
    """Return the line of a file that a call sent; its bytes are no matter for a terminal."""
    return Piece(style="note", text=f"  sent {clean(file.described)}")


def _call(call: ToolCall) -> Piece:
    if todo := todo_in(call):
        lines = visible(todo_lines(todo)).replace("\n", "\n  ")
        return Piece(style="note", text=f"  {lines}")
    arguments = clean(call.arguments).replace("\n", " ")
    if len(arguments) > ARGUMENTS_SHOWN:
        arguments = arguments[: ARGUMENTS_SHOWN - 1] + "…"
    return Piece(style="note", text=f"  {clean(call.name)} {arguments}")


def _outcome(body: TurnFinished) -> tuple[Piece, ...]:
    match body.outcome:
        case "answered":
            return ()
        case "cancelled":
            return (Piece(style="note", text="(cancelled)"),)
        case "failed":
            return (Piece(style="error", text=f"no answer: {clean(body.error)}"),)
        case "interrupted":
            text = "the answer was interrupted" + (f": {clean(body.error)}" if body.error else "")
            return (Piece(style="error", text=text),)
        case _:
            assert_never(body.outcome)


def _chosen(body: ModelChosen) -> tuple[Piece, ...]:
    label = body.model.label if body.model is not None else "the agent's own model"
    return (Piece(style="note", text=f"({visible(one_line(label))} answers now)"),)


def _undelivered(body: ChunkMarked) -> tuple[Piece, ...]:
    if body.mark not in {"failed", "given_up"}:
        return ()
    return (Piece(style="note", text=f"(did not arrive: {clean(body.error)})"),)


def _shared(body: SessionShared) -> tuple[Piece, ...]:
    done = "is no longer shared" if body.is_withdrawn else "is shared"
    return (Piece(style="note", text=f"(the session {done} with {clean(body.principal)})"),)


def _said(body: Received) -> Piece:
    """Show what somebody wrote."""
    told = clean(UserMessage(text=body.text, attachments=body.attachments).as_text)
    return Piece(style="user", text=f"{clean(body.sender) or 'user'}: {told}")
