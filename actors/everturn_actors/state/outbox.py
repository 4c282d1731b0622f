"""What a session owes the people of its channel, and how it is told that they got it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

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
    Spoken,
    Transcribed,
    TurnFinished,
)
from everturn_actors.model import SCHEDULE, Chunk, Mark, OpenTurn, OutboxItem, OutboxItemKind

UNDELIVERED_LINES: Final = 5  # in one message; whoever missed more is told that there was more
UNDELIVERED_MORE: Final = "More than that could not be delivered."
_NAMES: Final[Mapping[OutboxItemKind, str]] = MappingProxyType(
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


def reply_items(event: Event, turn: OpenTurn, body: ModelReplied) -> Iterator[OutboxItem]:
    """Yield what is pending for a reply to the open step of `turn`: its text, where it has any."""
    # A reply that only asks for calls says nothing to people.
    images, text = body.images if turn.delivers else (), body.said
    if not turn.speaks or not (images or text.strip()):
        return
    step = len(turn.steps) + 1
    # Of another step: that message shows something else and stays.
    shown = turn.preview_id if turn.preview_step == step else ""
    yield OutboxItem(
        seq=event.seq,
        pending_since=event.at,
        turn=turn.number,
        kind="reply" if text.strip() else "file",
        text=text,
        attachments=images,
        reply_to=turn.reply_to,
        preview=shown,
        preview_step=step if turn.preview_step == step and not shown else 0,
    )


def announcement_items(event: Event, turn: int, body: Announced) -> Iterator[OutboxItem]:
    """Yield what is pending for an announcement after, or in, the turn of this number: its text."""
    if body.delivers:
        yield OutboxItem(
            seq=event.seq, pending_since=event.at, turn=turn, kind="reply", text=body.text
        )


def file_items(event: Event, turn: OpenTurn, body: CallFinished | Spoken) -> Iterator[OutboxItem]:
    """Yield what is pending for a call, or an answer that is spoken: the files that it sends."""
    if turn.delivers and body.attachments:
        yield OutboxItem(
            seq=event.seq,
            pending_since=event.at,
            turn=turn.number,
            kind="file",
            attachments=body.attachments,
        )


def question_items(event: Event, turn: OpenTurn, body: ApprovalAsked) -> Iterator[OutboxItem]:
    """Yield what is pending for a call that waits for a person: the question."""
    if turn.delivers:
        yield OutboxItem(
            seq=event.seq,
            pending_since=event.at,
            turn=turn.number,
            kind="approval",
            text=body.reason,
            call_id=body.call_id,
            inquiry=body.inquiry,
            reply_to=turn.reply_to,
        )


def drop_items(event: Event, turn: OpenTurn, body: Discarded) -> Iterator[OutboxItem]:
    """Yield what is pending where messages are not answered: a word, once a turn."""
    if turn.delivers:
        text = f"Not every message is answered: {body.reason}."
        yield OutboxItem(
            seq=event.seq, pending_since=event.at, turn=turn.number, kind="notice", text=text
        )


def line_items(
    event: Event,
    turn: OpenTurn | None,
    body: ContextReduced | ModelCallFailed | Transcribed | Spoken,
) -> Iterator[OutboxItem]:
    """Yield what is pending for a reduction, an outage, or a voice note: the line about it.

    Of a turn that only scheduled jobs asked for nobody waits for the answer.
    """
    if turn is None or not turn.speaks or not body.line:
        return
    # What is hidden stays hidden for whoever writes next; an outage passes before that.
    if isinstance(body, ContextReduced) or not _is_scheduled(turn):
        yield OutboxItem(
            seq=event.seq, pending_since=event.at, turn=turn.number, kind="notice", text=body.line
        )


def end_items(event: Event, turn: OpenTurn, body: TurnFinished) -> Iterator[OutboxItem]:
    """Yield what is pending for the end of a turn: a word where nothing was answered.

    Who cancelled it knows; and of a turn that only scheduled jobs asked for, the scheduler tells.
    """
    # Whoever was answered, or cancelled it, need not be told.
    if not turn.speaks or body.outcome in {"answered", "cancelled"}:
        return
    if _is_scheduled(turn):
        return
    yield OutboxItem(
        seq=event.seq,
        pending_since=event.at,
        turn=turn.number,
        kind="end",
        text=body.error,
        outcome=body.outcome,
        reply_to=turn.reply_to,
    )


def _is_scheduled(turn: OpenTurn) -> bool:
    return all(user.sender == SCHEDULE for user in turn.heard)


def deliver(
    outbox: tuple[OutboxItem, ...], body: DeliveryPlanned | ChunkMarked
) -> tuple[OutboxItem, ...]:
    """Return what is pending after an event of a delivery; what arrived is no longer.

    A question stays until its first chunk is closed: whoever sees it has to be told of its end.

    Raises:
        ValueError: The event cannot stand here; the text says why.
    """
    index = next((n for n, item in enumerate(outbox) if item.seq == body.item), None)
    if index is None:
        msg = f"outbox item {body.item} is not pending"
        raise ValueError(msg)
    item = outbox[index]
    item = _planned(item, body) if isinstance(body, DeliveryPlanned) else _marked(item, body)
    kept = () if _is_over(item) else (item,)
    return (*outbox[:index], *kept, *outbox[index + 1 :])


def given_up(
    outbox: tuple[OutboxItem, ...], body: DeliveryPlanned | ChunkMarked
) -> OutboxItem | None:
    """Return the outbox item of which something is given up for the first time; None = none is.

    `outbox` is what was pending before the event. That such a message is lost is not told again.
    """
    if not isinstance(body, ChunkMarked) or body.mark != "given_up":
        return None
    item = next(each for each in outbox if each.seq == body.item)
    # One line for the item, not one for each of its chunks.
    is_first = all(chunk.mark != "given_up" for chunk in item.chunks or ())
    return item if is_first and item.kind != "undelivered" else None


def with_undelivered(
    outbox: tuple[OutboxItem, ...], event: Event, item: OutboxItem
) -> tuple[OutboxItem, ...]:
    """Return what is pending where people have to be told that `outbox item` did not arrive.

    One message tells of all that was given up until it is rendered.
    """
    text = _undelivered_text(item)
    for index, each in enumerate(outbox):
        # Not rendered yet: another line fits into the same message.
        if each.kind == "undelivered" and each.chunks is None:
            lines = each.text.split("\n")
            if len(lines) >= UNDELIVERED_LINES:
                text = UNDELIVERED_MORE
            # It says already that there is more; the log has all of it.
            if lines[-1] == UNDELIVERED_MORE:
                return outbox
            told = replace(each, text=f"{each.text}\n{text}")
            return (*outbox[:index], told, *outbox[index + 1 :])
    since = item.pending_since or event.at
    told = OutboxItem(
        seq=event.seq, pending_since=since, turn=item.turn, kind="undelivered", text=text
    )
    return (*outbox, told)


def undelivered_note(item: OutboxItem) -> str:
    """Return what the model is told of an outbox item that was given up, in a line of ours."""
    what = f"your {_NAMES.get(item.kind, 'message')}{_moment(item)}"
    why = "its chat could not be reached"
    if _is_in_doubt(item):
        return f"[It is not known whether {what} arrived here: {why}.]"
    part = " whole" if _has_sent(item) else ""
    return f"[{what[0].upper()}{what[1:]} was not delivered{part} here: {why}.]"


def _undelivered_text(item: OutboxItem) -> str:
    name, part = _NAMES.get(item.kind, "message"), " whole" if _has_sent(item) else ""
    text = f"A {name}{_moment(item)} could not be delivered{part}."
    return f"{text} It may have come all the same." if _is_in_doubt(item) else text


def _moment(item: OutboxItem) -> str:
    return (
        f" from {item.pending_since:%Y-%m-%d %H:%M} UTC" if item.pending_since is not None else ""
    )


def _has_sent(item: OutboxItem) -> bool:
    return any(chunk.mark == "sent" for chunk in item.chunks or ())


def _is_in_doubt(item: OutboxItem) -> bool:
    return any(chunk.tries and not chunk.is_done for chunk in item.chunks or ())


def _planned(item: OutboxItem, body: DeliveryPlanned) -> OutboxItem:
    """Return an item with the chunks that it was rendered to."""
    # Rendered twice it would have other chunks than those whose marks are in the log.
    if item.chunks is not None:
        msg = f"outbox item {item.seq} is rendered already"
        raise ValueError(msg)
    return replace(item, chunks=tuple(Chunk(payload=payload) for payload in body.chunks))


def _marked(item: OutboxItem, body: ChunkMarked) -> OutboxItem:
    """Return an item of which one chunk has another mark."""
    chunks = item.chunks or ()
    if not 0 <= body.chunk < len(chunks):
        msg = f"outbox item {item.seq} has no chunk {body.chunk}"
        raise ValueError(msg)
    chunk = chunks[body.chunk]
    # A mark that goes back would have a message sent again that people have.
    if body.mark not in _MAY_FOLLOW[chunk.mark]:
        msg = f"chunk {body.chunk} of outbox item {item.seq} is {chunk.mark}, not {body.mark} next"
        raise ValueError(msg)
    chunk = replace(
        chunk,
        mark=body.mark,
        tries=chunk.tries + (body.mark == "unknown"),
        platform_id=body.platform_id or chunk.platform_id,
    )
    return replace(item, chunks=(*chunks[: body.chunk], chunk, *chunks[body.chunk + 1 :]))


def _is_over(item: OutboxItem) -> bool:
    # The buttons below it work until the message says that it is settled.
    if item.kind == "approval" and item.chunks:
        return item.chunks[0].mark == "closed"
    return item.is_delivered
