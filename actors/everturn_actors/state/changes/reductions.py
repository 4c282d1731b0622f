"""What is hidden from the model for good, and the summaries that tell of it. Pure."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from everturn_actors.events import ContextReduced, Event, Summarised
from everturn_actors.model import Reductions, Summary
from everturn_actors.state.changes.steps import OVERTAKEN, advance, after, impossible
from everturn_actors.state.outbox import line_items
from everturn_actors.state.session_state import SessionState

NOTE_CHARACTERS = 1_000  # of what is told beside a summary, the newest


COOL_DOWNS_S = (60, 300, 900)  # after the first, second and every further failed summary


def apply_context_reduced(state: SessionState, event: Event, body: ContextReduced) -> SessionState:
    """Hide messages from the model for good."""
    if body.cut_turn > last_finished(state) + 1:
        raise impossible(event, "it hides a turn that is not finished")
    if max((*body.dropped, *(each.seq for each in body.replaced)), default=0) >= event.seq:
        raise impossible(event, "it hides what is not yet said")
    old = state.reductions
    new = replace(
        old,
        cut_turn=max(old.cut_turn, body.cut_turn),
        dropped=old.dropped.union(body.dropped),
        replaced={**old.replaced, **{each.seq: each for each in body.replaced}},
        note=f"{old.note}\n{body.note}".strip()[-NOTE_CHARACTERS:],
    )
    outbox = (*state.outbox, *line_items(event, state.open_turn, body))
    return _stand(state, event, new, outbox=outbox)


def apply_summarised(state: SessionState, event: Event, body: Summarised) -> SessionState:
    """Let a summary stand for turns from now on."""
    old = state.reductions
    before = old.summary.last_turn if old.summary else 0
    if not before <= body.last_turn <= last_finished(state):
        raise impossible(event, "it tells of less than the summary before, or of what is to come")
    failures = old.failures + 1 if body.error else 0
    new = replace(
        old,
        cut_turn=max(old.cut_turn, body.last_turn + 1),
        summary=Summary(
            last_turn=body.last_turn,
            messages=body.messages,
            text=body.text,
            source=body.source,
            path=body.path,
            outside=body.outside,
            opaque=body.opaque,
        ),
        note="" if old.note in body.text else old.note,  # one may have come while it was made
        failures=failures,
        retry_at=after(event, cool_down(failures).total_seconds()) if failures else None,
    )
    state = _stand(state, event, new, usage=state.usage + body.usage)
    step = state.open_turn.step if state.open_turn else None
    if step is None or step.reply is not None:
        return state
    # A request that does not know of it is on its way: the next one cannot begin with that.
    return replace(state, fingerprint=replace(state.fingerprint, messages=OVERTAKEN))


def last_finished(state: SessionState) -> int:
    """Return the number of the newest turn that is finished; 0 = none is."""
    return state.turns - (state.open_turn is not None)


def cool_down(failures: int) -> timedelta:
    """Return how long no model is asked for a summary after so many failures in a row."""
    return timedelta(seconds=COOL_DOWNS_S[min(failures, len(COOL_DOWNS_S)) - 1])


def _stand(
    state: SessionState, event: Event, reductions: Reductions, **changes: object
) -> SessionState:
    """Return the state in which this is hidden, and nothing is left to compare a request with."""
    shown = next((t for t in state.held_turns if t.number >= reductions.cut_turn), state.open_turn)
    first = shown.users[0].seq if shown is not None else state.last_seq
    tidy = replace(  # what is said of single messages that are not shown anyway is forgotten
        reductions,
        dropped=frozenset(seq for seq in reductions.dropped if seq >= first),
        replaced={seq: each for seq, each in reductions.replaced.items() if seq >= first},
    )
    fingerprint = replace(
        state.fingerprint, prefix="", messages=0
    )  # what it cost is still worth knowing
    return advance(state, event, reductions=tidy, fingerprint=fingerprint, **changes)
