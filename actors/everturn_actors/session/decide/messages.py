"""Messages: said to the agent, beside it, or in its name. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from everturn_actors.errors import CoreError
from everturn_actors.events import AmbientStored, Announced, Edited, Received, StatusChanged
from everturn_actors.protocol.commands import Accepted, Announce, Edit, StoreAmbient, Submit
from everturn_actors.session.decide.decision import Draft, ReportDrop
from everturn_actors.state.queue import dropped, how_it_joins, why_not_now


def submit(command: Submit, draft: Draft) -> Accepted | CoreError:
    """Accept a message to the agent; one that came before is answered as it was then."""
    inbound, state = command.inbound, draft.known
    seen = state.seen.get(inbound.idempotency_key) if inbound.idempotency_key else None
    is_busy = state.open_turn is not None
    in_window = draft.memory.debounce.in_window(inbound.sender, draft.now)
    if seen is None:
        error = draft.why_refused() or why_not_now(
            inbound, state.waiting, is_busy=is_busy, in_window=in_window
        )
        if error is not None:
            return error
    # Who speaks to the agent wants it to go on; what others say beside it does not.
    if state.status == "paused" and not inbound.ambient:
        draft.add(StatusChanged(status="active"))
    if seen is not None:
        return draft.accepted(seen)
    # In the same append as the message that takes its place: neither is lost without the other.
    gone = dropped(inbound, state.waiting, is_busy=is_busy, in_window=in_window)
    if gone is not None:
        draft.add(gone)
        if not inbound.ambient:
            draft.effects.append(ReportDrop(len(gone.received), gone.reason))
    draft.add(
        Received(
            text=inbound.text,
            sender=inbound.sender,
            idempotency_key=inbound.idempotency_key,
            attachments=command.attachments,
            untrusted=inbound.untrusted,
            reply_to=inbound.reply_to,
            joins=how_it_joins(inbound, in_window=in_window),
            ambient=inbound.ambient,
            retry_for_s=-1 if inbound.retry_for_s is None else inbound.retry_for_s,
            options=inbound.options,
        )
    )
    debounce_s = inbound.queueing.debounce_s
    # Kept in memory alone: after a restart nobody is still typing.
    if not inbound.ambient and debounce_s > 0:
        draft.memory = replace(
            draft.memory, debounce=draft.memory.debounce.note(inbound.sender, debounce_s, draft.now)
        )
    return draft.accepted(None)


def store_ambient(command: StoreAmbient, draft: Draft) -> bool | CoreError:
    """Keep a message that did not speak to the agent; answer whether it is a new one."""
    message = command.message
    if message.idempotency_key and message.idempotency_key in draft.known.seen:
        return False  # it came before; to store it again would show it twice
    error = draft.why_ended()
    if error is not None:
        return error
    draft.add(
        AmbientStored(
            text=message.text,
            sender=message.sender,
            idempotency_key=message.idempotency_key,
            shown=message.shown,
            untrusted=message.untrusted,
            max_messages=message.max_messages,
            max_age_s=message.max_age_s,
        )
    )
    return True


def announce(command: Announce, draft: Draft) -> Accepted | CoreError:
    """Say something in the agent's name, once."""
    said = command.announcement
    seen = draft.known.seen.get(said.idempotency_key) if said.idempotency_key else None
    if seen is None:
        error = draft.why_refused()
        if error is not None:
            return error
        draft.add(
            Announced(
                text=said.text,
                sender=said.sender,
                idempotency_key=said.idempotency_key,
                title=said.title,
                untrusted=said.untrusted,
                # Settled now: a channel that is set up later owes nothing of it.
                delivers=draft.context.delivers,
            )
        )
    return draft.accepted(seen)


def edit(command: Edit, draft: Draft) -> bool:
    """Replace the text of a message that still waits; answer whether it did."""
    state = draft.known
    seq = state.seen.get(command.idempotency_key)
    waits = not draft.memory.ending and any(message.seq == seq for message in state.waiting)
    # One whose turn has begun was read by the model, and cannot be unread.
    if waits and seq is not None:
        draft.add(Edited(received=seq, text=command.text))
    return waits
