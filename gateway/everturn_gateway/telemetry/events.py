"""Counts what sessions do, by the events that became durable. Pure: no IO, no clock.

A turn costs some microseconds here: one look into a table for each event, one addition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from everturn_actors.events import (
    AmbientStored,
    Announced,
    ApprovalAsked,
    ApprovalDecided,
    CallFinished,
    CallStarted,
    ChunkMarked,
    ContextReduced,
    Discarded,
    Event,
    ModelCallFailed,
    ModelReplied,
    Received,
    ReplyBroken,
    SessionEnded,
    SessionStarted,
    StepStarted,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import SCHEDULE
from everturn_actors.state.session_state import SessionState
from everturn_gateway.telemetry.instruments import Count, Instruments

SENDING_MAX: Final = 10_000  # chunks under way that are timed; one for each session that sends
_ENDS_OF_SENDING: Final = frozenset(("sent", "unsent", "unknown", "failed", "given_up"))


class _Batch(Struct, kw_only=True):
    """Events of one session that became durable together."""

    agent: str
    channel: str
    session_id: str
    began_at: datetime | None
    "When the turn began that was open before them; None where none was."
    started: frozenset[str]
    "Calls of the open step that may run."
    at: datetime
    "When the event happened that is counted now."


class EventTally:
    """Keeps the counters that follow from events."""

    def __init__(self, instruments: Instruments) -> None:
        self._to = instruments
        self._sending: dict[str, datetime] = {}
        "When a chunk was marked as sending, by session: it sends one after the other."
        self._counts: Mapping[type[object], Callable[[_Batch, Any], None]] = {
            SessionStarted: self._session_started,
            SessionEnded: self._session_ended,
            Received: self._received,
            AmbientStored: self._silent,
            Announced: self._announced,
            Discarded: self._discarded,
            TurnStarted: self._turn_started,
            TurnFinished: self._turn_finished,
            StepStarted: self._step_started,
            ModelReplied: self._replied,
            ReplyBroken: _by_agent(instruments.replies_broken),
            ModelCallFailed: _by_agent(instruments.model_waits),
            ApprovalAsked: _by_agent(instruments.approvals_asked),
            ApprovalDecided: self._decided,
            CallStarted: self._call_started,
            CallFinished: self._call_finished,
            ContextReduced: self._reduced,
            Summarised: self._summarised,
            ChunkMarked: self._marked,
        }

    def take(
        self, before: SessionState | None, after: SessionState, events: Sequence[Event]
    ) -> None:
        """Count events that became durable; see `Observer.durable`."""
        if not events:
            return
        turn = before.open_turn if before is not None else None
        step = turn.step if turn is not None else None
        batch = _Batch(
            agent=after.key.agent,
            channel=after.key.channel,
            session_id=after.session_id,
            began_at=turn.started_at if turn is not None else None,
            started=frozenset(step.started) if step is not None else frozenset(),
            at=events[0].at,
        )
        counts = self._counts
        for event in events:
            count = counts.get(type(event.body))
            if count is not None:
                batch.at = event.at
                count(batch, event.body)
        self._to.events.add(amount=len(events))

    # --- sessions and messages ---

    def _session_started(self, batch: _Batch, body: SessionStarted) -> None:
        del body
        self._to.sessions_started.add(batch.agent, batch.channel)

    def _session_ended(self, batch: _Batch, body: SessionEnded) -> None:
        self._sending.pop(batch.session_id, None)
        self._to.sessions_ended.add(batch.agent, batch.channel, body.reason)

    def _received(self, batch: _Batch, body: Received) -> None:
        kind = "ambient" if body.ambient else "prompt"
        self._to.messages_received.add(batch.agent, batch.channel, kind)
        if body.sender == SCHEDULE:
            self._to.scheduled_runs.add(batch.agent, "task")

    def _silent(self, batch: _Batch, body: AmbientStored) -> None:
        del body
        self._to.messages_received.add(batch.agent, batch.channel, "silent")

    def _announced(self, batch: _Batch, body: Announced) -> None:
        self._to.announcements.add(batch.agent, batch.channel)
        if body.sender == SCHEDULE:
            self._to.scheduled_runs.add(batch.agent, "message")

    def _discarded(self, batch: _Batch, body: Discarded) -> None:
        self._to.messages_discarded.add(batch.agent, batch.channel, amount=len(body.received))

    # --- turns ---

    def _turn_started(self, batch: _Batch, body: TurnStarted) -> None:
        del body
        self._to.turns_started.add(batch.agent, batch.channel)

    def _turn_finished(self, batch: _Batch, body: TurnFinished) -> None:
        self._to.turns_finished.add(batch.agent, batch.channel, body.outcome)
        if batch.began_at is not None:
            took_s = (batch.at - batch.began_at).total_seconds()
            self._to.turn_seconds.add(max(took_s, 0.0), batch.agent, body.outcome)

    def _step_started(self, batch: _Batch, body: StepStarted) -> None:
        del body
        batch.started = frozenset()
        self._to.steps.add(batch.agent)

    def _replied(self, batch: _Batch, body: ModelReplied) -> None:
        if body.fingerprint.is_cache_miss:
            self._to.prompt_cache_misses.add(batch.agent)

    def _decided(self, batch: _Batch, body: ApprovalDecided) -> None:
        self._to.approvals_decided.add(batch.agent, body.decision)

    def _call_started(self, batch: _Batch, body: CallStarted) -> None:
        batch.started |= {body.call_id}

    def _call_finished(self, batch: _Batch, body: CallFinished) -> None:
        if body.call_id not in batch.started:
            self._to.tool_calls_refused.add(batch.agent)

    # --- context and delivery ---

    def _reduced(self, batch: _Batch, body: ContextReduced) -> None:
        self._to.reductions.add(batch.agent, body.stage)
        less = max(body.tokens_before - body.tokens_after, 0)
        self._to.reduced_tokens.add(batch.agent, body.stage, amount=less)

    def _summarised(self, batch: _Batch, body: Summarised) -> None:
        self._to.summaries.add(batch.agent, body.source)

    def _marked(self, batch: _Batch, body: ChunkMarked) -> None:
        if body.mark == "sending":
            if len(self._sending) < SENDING_MAX:
                self._sending[batch.session_id] = batch.at
            return
        if body.mark not in _ENDS_OF_SENDING:
            return
        self._to.chunks.add(batch.channel, body.mark)
        began_at = self._sending.pop(batch.session_id, None)
        if began_at is not None:
            took_s = (batch.at - began_at).total_seconds()
            self._to.delivery_seconds.add(max(took_s, 0.0), batch.channel)


def _by_agent(counter: Count) -> Callable[[_Batch, object], None]:
    """Return what counts an event of which only the agent matters."""
    return lambda batch, _body: counter.add(batch.agent)
