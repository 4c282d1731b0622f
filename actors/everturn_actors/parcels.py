"""What a session owes the people of its channel, and how it is told that they got it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from everturn_actors.events import (
    Announced,
    ApprovalAsked,
    CallFinished,
    ChunkMarked,
    ContextReduced,
    DeliveryPlanned,
    Discarded,
    Event,
    ModelCallFailed,
    ModelReplied,
    TurnFinished,
)
from everturn_actors.model import SCHEDULE, Chunk, Mark, OpenTurn, Parcel, ParcelKind

UNDELIVERED_LINES: Final = 5  # in one message; whoever missed more is told that there was more
UNDELIVERED_MORE: Final = "More than that could not be delivered."
_NAMES: Final[Mapping[ParcelKind, str]] = MappingProxyType(
    {"reply": "reply", "file": "file", "approval": "question"}
)

_MAY_FOLLOW: Final[Mapping[Mark, frozenset[Mark]]] = MappingProxyType(
    {
        "planned": frozenset(("sending", "failed", "given_up", "closed")),
        "sending": frozenset(("sent", "unsent", "unknown", "failed")),
        "unsent": frozenset(("sending", "failed", "given_up", "closed")),
        "unknown": frozenset(("sending", "failed", "given_up", "closed")),
        "sent": frozenset(("closed",)),
        "failed": frozenset(("closed",)),
        "given_up": frozenset(("closed",)),
        "closed": frozenset(),
    }
)


def owed_reply(event: Event, turn: OpenTurn, body: ModelReplied) -> Iterator[Parcel]:
    """Yield what is owed for a reply to the open step of `turn`: its text, where it has any."""
    if not turn.delivers or not body.text.strip():
        return
    step = len(turn.steps) + 1
    shown = turn.preview_id if turn.preview_step == step else ""
    yield Parcel(
        seq=event.seq,
        owed_at=event.at,
        turn=turn.number,
        kind="reply",
        text=body.text,
        reply_to=turn.reply_to,
        preview=shown,
        preview_step=step if turn.preview_step == step and not shown else 0,
    )


def owed_announcement(event: Event, turn: int, body: Announced) -> Iterator[Parcel]:
    """Yield what is owed for an announcement after, or in, the turn of this number: its text."""
    if body.delivers:
        yield Parcel(seq=event.seq, owed_at=event.at, turn=turn, kind="reply", text=body.text)


def owed_files(event: Event, turn: OpenTurn, body: CallFinished) -> Iterator[Parcel]:
    """Yield what is owed for a call: the files that it sends."""
    if turn.delivers and body.attachments:
        yield Parcel(
            seq=event.seq,
            owed_at=event.at,
            turn=turn.number,
            kind="file",
            attachments=body.attachments,
        )


def owed_question(event: Event, turn: OpenTurn, body: ApprovalAsked) -> Iterator[Parcel]:
    """Yield what is owed for a call that waits for a person: the question."""
    if turn.delivers:
        yield Parcel(
            seq=event.seq,
            owed_at=event.at,
            turn=turn.number,
            kind="approval",
            text=body.reason,
            call_id=body.call_id,
            reply_to=turn.reply_to,
        )


def owed_drop(event: Event, turn: OpenTurn, body: Discarded) -> Iterator[Parcel]:
    """Yield what is owed where messages are not answered: a word, once a turn."""
    if turn.delivers:
        text = f"Not every message is answered: {body.reason}."
        yield Parcel(seq=event.seq, owed_at=event.at, turn=turn.number, kind="notice", text=text)


def owed_line(
    event: Event, turn: OpenTurn | None, body: ContextReduced | ModelCallFailed
) -> Iterator[Parcel]:
    """Yield what is owed for a reduction, or an outage: the line that people are told of it.

    Of a turn that only scheduled jobs asked for nobody waits for the answer.
    """
    if turn is None or not turn.delivers or not body.line:
        return
    if isinstance(body, ContextReduced) or not _is_scheduled(turn):
        yield Parcel(
            seq=event.seq, owed_at=event.at, turn=turn.number, kind="notice", text=body.line
        )


def owed_end(event: Event, turn: OpenTurn, body: TurnFinished) -> Iterator[Parcel]:
    """Yield what is owed for the end of a turn: a word where nothing was answered.

    Who cancelled it knows; and of a turn that only scheduled jobs asked for, the scheduler tells.
    """
    if not turn.delivers or body.outcome in {"answered", "cancelled"}:
        return
    if _is_scheduled(turn):
        return
    yield Parcel(
        seq=event.seq,
        owed_at=event.at,
        turn=turn.number,
        kind="end",
        text=body.error,
        outcome=body.outcome,
        reply_to=turn.reply_to,
    )


def _is_scheduled(turn: OpenTurn) -> bool:
    return all(user.sender == SCHEDULE for user in turn.heard)


def deliver(owed: tuple[Parcel, ...], body: DeliveryPlanned | ChunkMarked) -> tuple[Parcel, ...]:
    """Return what is owed after an event of a delivery; a parcel that arrived is no longer.

    A question stays until its first chunk is closed: whoever sees it has to be told of its end.

    Raises:
        ValueError: The event cannot stand here; the text says why.
    """
    index = next((n for n, parcel in enumerate(owed) if parcel.seq == body.parcel), None)
    if index is None:
        msg = f"parcel {body.parcel} is not owed"
        raise ValueError(msg)
    parcel = owed[index]
    parcel = _planned(parcel, body) if isinstance(body, DeliveryPlanned) else _marked(parcel, body)
    kept = () if _is_over(parcel) else (parcel,)
    return (*owed[:index], *kept, *owed[index + 1 :])


def given_up(owed: tuple[Parcel, ...], body: DeliveryPlanned | ChunkMarked) -> Parcel | None:
    """Return the parcel of which something is given up for the first time; None = none is.

    `owed` is what was owed before the event. That such a message did not arrive is not told again.
    """
    if not isinstance(body, ChunkMarked) or body.mark != "given_up":
        return None
    parcel = next(each for each in owed if each.seq == body.parcel)
    is_first = all(chunk.mark != "given_up" for chunk in parcel.chunks or ())
    return parcel if is_first and parcel.kind != "undelivered" else None


def with_undelivered(owed: tuple[Parcel, ...], event: Event, parcel: Parcel) -> tuple[Parcel, ...]:
    """Return what is owed where people have to be told that `parcel` did not arrive.

    One message tells of all that was given up until it is laid out.
    """
    text = _undelivered_text(parcel)
    for index, each in enumerate(owed):
        if each.kind == "undelivered" and each.chunks is None:
            lines = each.text.split("\n")
            if len(lines) >= UNDELIVERED_LINES:
                text = UNDELIVERED_MORE
            if lines[-1] == UNDELIVERED_MORE:
                return owed
            told = replace(each, text=f"{each.text}\n{text}")
            return (*owed[:index], told, *owed[index + 1 :])
    since = parcel.owed_at or event.at
    told = Parcel(seq=event.seq, owed_at=since, turn=parcel.turn, kind="undelivered", text=text)
    return (*owed, told)


def undelivered_note(parcel: Parcel) -> str:
    """Return what the model is told of a parcel that was given up, in a line of ours."""
    what = f"your {_NAMES.get(parcel.kind, 'message')}{_moment(parcel)}"
    why = "its chat could not be reached"
    if _is_in_doubt(parcel):
        return f"[It is not known whether {what} arrived here: {why}.]"
    part = " whole" if _has_sent(parcel) else ""
    return f"[{what[0].upper()}{what[1:]} was not delivered{part} here: {why}.]"


def _undelivered_text(parcel: Parcel) -> str:
    name, part = _NAMES.get(parcel.kind, "message"), " whole" if _has_sent(parcel) else ""
    text = f"A {name}{_moment(parcel)} could not be delivered{part}."
    return f"{text} It may have come all the same." if _is_in_doubt(parcel) else text


def _moment(parcel: Parcel) -> str:
    return f" from {parcel.owed_at:%Y-%m-%d %H:%M} UTC" if parcel.owed_at is not None else ""


def _has_sent(parcel: Parcel) -> bool:
    return any(chunk.mark == "sent" for chunk in parcel.chunks or ())


def _is_in_doubt(parcel: Parcel) -> bool:
    return any(chunk.tries and not chunk.is_done for chunk in parcel.chunks or ())


def _planned(parcel: Parcel, body: DeliveryPlanned) -> Parcel:
    if parcel.chunks is not None:
        msg = f"parcel {parcel.seq} is laid out already"
        raise ValueError(msg)
    return replace(parcel, chunks=tuple(Chunk(payload=payload) for payload in body.chunks))


def _marked(parcel: Parcel, body: ChunkMarked) -> Parcel:
    chunks = parcel.chunks or ()
    if not 0 <= body.chunk < len(chunks):
        msg = f"parcel {parcel.seq} has no chunk {body.chunk}"
        raise ValueError(msg)
    chunk = chunks[body.chunk]
    if body.mark not in _MAY_FOLLOW[chunk.mark]:
        msg = f"chunk {body.chunk} of parcel {parcel.seq} is {chunk.mark}, not {body.mark} next"
        raise ValueError(msg)
    chunk = replace(
        chunk,
        mark=body.mark,
        tries=chunk.tries + (body.mark == "unknown"),
        platform_id=body.platform_id or chunk.platform_id,
    )
    return replace(parcel, chunks=(*chunks[: body.chunk], chunk, *chunks[body.chunk + 1 :]))


def _is_over(parcel: Parcel) -> bool:
    if parcel.kind == "approval" and parcel.chunks:
        return parcel.chunks[0].mark == "closed"
    return parcel.is_delivered
