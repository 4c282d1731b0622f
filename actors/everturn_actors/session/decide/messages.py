"""Messages: said to the agent, beside it, or in its name. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from everturn_actors.errors import CoreError
from everturn_actors.events import (
    AmbientStored,
    Announced,
    Discarded,
    Edited,
    Received,
    StatusChanged,
)
from everturn_actors.model import IncomingMessage
from everturn_actors.protocol.commands import Accepted, Edit, Submit, Withdraw
from everturn_actors.session.decide.decision import Draft, ReportDrop
from everturn_actors.state.queue import WITHDRAWN, dropped, how_it_joins, why_not_now


def submit(command: Submit, draft: Draft) -> Accepted | CoreError:
    """Take what is said, once: what came before is answered as it was then."""
    message = command.message
    seen = draft.known.seen.get(message.idempotency_key) if message.idempotency_key else None
    if seen is None:
        if message.waits:
            error = _let_wait(command, draft)
        elif message.kind == "ambient":
            error = _keep_ambient(message, draft)
        else:
            error = _announce(message, draft)
        if error is not None:
            return error
    elif message.kind == "prompt":
        _go_on(draft)
    return draft.accepted(seen)


def _go_on(draft: Draft) -> None:
    """End a pause. Who speaks to the agent wants it to; what others say beside it does not."""
    if draft.known.status == "paused":
        draft.add(StatusChanged(status="active"))


def _let_wait(command: Submit, draft: Draft) -> CoreError | None:
    """Let a message wait for its turn, or return why it may not."""
    message, waiting = command.message, draft.known.waiting
    is_busy = draft.known.open_turn is not None
    in_window = draft.memory.debounce.in_window(message.sender, draft.now)
    error = draft.why_refused() or why_not_now(
        message, waiting, is_busy=is_busy, in_window=in_window
    )
    if error is not None:
        return error
    is_prompt = message.kind == "prompt"
    if is_prompt:
        _go_on(draft)
    # In the same append as the message that takes its place: neither is lost without the other.
    gone = dropped(message, waiting, is_busy=is_busy, in_window=in_window)
    if gone is not None:
        draft.add(gone)
        if is_prompt:
            draft.effects.append(ReportDrop(len(gone.received), gone.reason))
    draft.add(
        Received(
            text=message.text,
            sender=message.sender,
            idempotency_key=message.idempotency_key,
            attachments=command.attachments,
            untrusted=message.untrusted,
            reply_to=message.reply_to,
            joins=how_it_joins(message, in_window=in_window),
            ambient=not is_prompt,
            retry_for_s=-1 if message.retry_for_s is None else message.retry_for_s,
            options=message.options,
        )
    )
    debounce_s = message.queueing.debounce_s
    # Kept in memory alone: after a restart nobody is still typing.
    if is_prompt and debounce_s > 0:
        debounce = draft.memory.debounce.note(message.sender, debounce_s, draft.now)
        draft.memory = replace(draft.memory, debounce=debounce)
    return None


def _keep_ambient(message: IncomingMessage, draft: Draft) -> CoreError | None:
    """Keep what was not said to the agent; also where there is no agent at present."""
    error = draft.why_ended()
    if error is not None:
        return error
    rules = message.ambient
    draft.add(
        AmbientStored(
            text=message.text,
            sender=message.sender,
            idempotency_key=message.idempotency_key,
            shown=rules.shown != "never",
            untrusted=message.untrusted,
            max_messages=rules.max_messages,
            max_age_s=rules.max_age_s,
        )
    )
    return None


def _announce(message: IncomingMessage, draft: Draft) -> CoreError | None:
    """Say something in the agent's name."""
    error = draft.why_refused()
    if error is not None:
        return error
    draft.add(
        Announced(
            text=message.text,
            sender=message.sender,
            idempotency_key=message.idempotency_key,
            title=message.title,
            untrusted=message.untrusted,
            # Decided now: a channel that is set up later owes nothing of it.
            delivers=draft.context.delivers,
        )
    )
    return None


def edit(command: Edit, draft: Draft) -> bool:
    """Replace the text of a message that still waits; answer whether it did."""
    seq = _waiting(command.idempotency_key, draft)
    if seq is not None:
        draft.add(Edited(received=seq, text=command.text))
    return seq is not None


def withdraw(command: Withdraw, draft: Draft) -> bool:
    """Take a message back that still waits, or that no turn was told of; answer whether it did."""
    seq = _waiting(command.idempotency_key, draft)
    if seq is None:
        known = draft.known.seen.get(command.idempotency_key)
        beside = {each.seq for each in draft.known.ambient if not each.own}
        seq = known if known in beside and not draft.memory.ending else None
    if seq is not None:
        draft.add(Discarded(received=(seq,), reason=WITHDRAWN))
        if not draft.known.is_asked:  # nothing is held any more: what comes next is held anew
            draft.memory = replace(draft.memory, debounce=draft.memory.debounce.release())
    return seq is not None


def _waiting(idempotency_key: str, draft: Draft) -> int | None:
    """Return the seq of a message, if it waits; None where it does not, or is not known."""
    seq = draft.known.seen.get(idempotency_key)
    # One whose turn has begun was read by the model, and cannot be unread.
    waits = not draft.memory.ending and any(each.seq == seq for each in draft.known.waiting)
    return seq if waits else None
