"""The end of a session, and who else may see it. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from everturn_actors.errors import CoreError
from everturn_actors.events import SessionEnded, SessionShared
from everturn_actors.protocol.commands import End, Share
from everturn_actors.session.decide.decision import Draft, Later, NotifyStopping, StopTurn
from everturn_actors.state.recovery import close_turn, is_expired


def end(command: End, draft: Draft) -> Later:
    """End the session, as soon as its open turn is closed."""
    draft.memory = replace(draft.memory, ending=command.reason, ended_by=command.by)
    if draft.is_worked_on:
        draft.effects.append(StopTurn(command.by))
    return Later.ENDED


def stop(draft: Draft) -> Later:
    """Begin nothing more: the service stops."""
    draft.memory = replace(draft.memory, is_stopping=True)
    draft.effects.append(NotifyStopping())
    return Later.STOPPED


def expire(draft: Draft) -> None:
    """End a session in which nothing was said for longer than its agent allows."""
    state, spec = draft.state, draft.context.spec
    if state is None or spec is None or not draft.context.resumes:
        return
    if not is_expired(state, spec.session.ttl_hours, draft.now):
        return
    if state.outbox and draft.context.delivers:
        return  # what is pending is delivered first
    draft.memory = replace(draft.memory, ending=draft.memory.ending or "expired")
    finish(draft)


def finish(draft: Draft) -> None:
    """End a session that is to end, where no task works on its turn any more."""
    state, memory = draft.state, draft.memory
    if memory.ending is None or state is None or state.status == "ended":
        return
    if state.open_turn is not None:
        if draft.is_worked_on:
            return  # the turn is being cancelled; its end comes through the mailbox
        why = "the session was ended"
        draft.add(*close_turn(state.open_turn, "cancelled", why, memory.ended_by))
    # The last event, behind all that belongs to its turns.
    draft.add(SessionEnded(reason=memory.ending, by=memory.ended_by))


def share(command: Share, draft: Draft) -> tuple[str, ...] | CoreError:
    """Give somebody the session, or take it back; answer with those who have it then."""
    error = draft.why_ended()
    if error is not None:
        return error
    # Else it is so already.
    if (command.principal in draft.known.shared_with) == command.is_withdrawn:
        draft.add(
            SessionShared(
                principal=command.principal, by=command.by, is_withdrawn=command.is_withdrawn
            )
        )
    return draft.known.shared_with
