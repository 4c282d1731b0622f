"""How a turn ended, made of the events that tell of one message. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.events import (
    CallFinished,
    CallsHandedOver,
    Discarded,
    Event,
    ModelReplied,
    SessionEnded,
    Steered,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import Outcome, ToolCall, Turn, Usage
from everturn_actors.session.message_events import MessageEvents, Taint
from everturn_actors.session.refusals import refusal, refusals_of

# Looked up by type: `isinstance` asks each class in turn, and most events are of none of them.
_TOLD = frozenset(
    (
        TurnStarted,
        Steered,
        ModelReplied,
        CallsHandedOver,
        CallFinished,
        TurnFinished,
        Discarded,
        SessionEnded,
    )
)


class TurnResult(Struct, frozen=True, kw_only=True):
    """How the turn that answers a message came out."""

    session_id: str
    turn: int
    message_seq: int
    "The event of the last reply; 0 where there was none."
    outcome: Outcome
    text: str
    error: str
    usage: Usage
    stop_reason: str = ""
    untrusted: bool = False
    "Whether it read text from outside that nobody vouches for; also where that is not known."
    refused: tuple[str, ...] = ()
    "Calls that did not run because they were refused, and why; see `refusals`."
    handed_over: tuple[ToolCall, ...] = ()
    "Calls that the caller has to run: the turn is not over, and goes on with what they give."


class TurnAnswer:
    """Reads a session's events from a message on, to the end of the turn that answers it."""

    __slots__ = (
        "_calls",
        "_own",
        "_refused",
        "_reply",
        "_seq",
        "_session_id",
        "_taint",
        "_usage",
        "turn",
    )

    def __init__(self, session_id: str, seq: int, taint: Taint, own: MessageEvents) -> None:
        """Begin before the event `seq` of the message.

        Args:
            session_id: The session.
            seq: The event.
            taint: Tells which turns have read text from outside.
            own: Tells the message's events from others.
        """
        self._session_id, self._seq, self._taint, self._own = session_id, seq, taint, own
        self.turn = 0
        "The turn that answers it; 0 = it has not begun."
        self._reply: tuple[int, ModelReplied] | None = None
        self._usage = Usage()
        self._calls: dict[str, ToolCall] = {}
        self._refused: list[str] = []

    def take(self, event: Event) -> TurnResult | None:
        """Take the next event; return how the turn ended, or that its caller is needed."""
        self._taint.read(event)
        if not self._own.has(event) or type(event.body) not in _TOLD:
            return None
        # What every turn brings comes first: each case costs those behind it a look.
        match event.body:
            case ModelReplied() as body:
                self._reply, self._usage = (event.seq, body), self._usage + body.usage
                self._calls = {call.call_id: call for call in body.calls}
            case TurnFinished() as body:
                is_tainted = self._taint.has(body.turn)
                return self._result(body, untrusted=is_tainted, refused=self._refused)
            case TurnStarted(turn=number) | Steered(turn=number):
                self.turn = number
            case CallsHandedOver(turn=number, call_ids=ids) if event.seq > self._seq:
                given = tuple(self._calls[each] for each in ids)
                end = TurnFinished(turn=number, outcome="answered")
                made = self._result(end, untrusted=True, refused=self._refused)
                return replace(made, handed_over=given)
            case CallFinished(is_refused=True, call_id=call_id, text=reason):
                self._refused.append(refusal(self._calls.get(call_id), reason))
            case Discarded(reason=reason):
                return self._cancelled(0, f"the message was dropped: {reason}", untrusted=False)
            case SessionEnded(reason=reason):
                untrusted = bool(self.turn) and self._taint.has(self.turn)
                why = f"the session was ended ({reason})"
                return self._cancelled(self.turn, why, untrusted=untrusted)
            case _:
                pass
        return None

    def _cancelled(self, turn: int, error: str, *, untrusted: bool) -> TurnResult:
        """Return that nothing answered the message."""
        self._reply = None
        end = TurnFinished(turn=turn, outcome="cancelled", error=error)
        return self._result(end, untrusted=untrusted)

    def _result(
        self, end: TurnFinished, *, untrusted: bool, refused: Sequence[str] = ()
    ) -> TurnResult:
        reply = self._reply
        return TurnResult(
            session_id=self._session_id,
            turn=end.turn,
            message_seq=reply[0] if reply else 0,
            outcome=end.outcome,
            text=reply[1].text if reply else "",
            error=end.error,
            usage=self._usage,
            stop_reason=reply[1].stop_reason if reply else "",
            untrusted=untrusted,
            refused=tuple(refused),
        )


def held_result(session_id: str, turn: Turn) -> TurnResult:
    """Return how a turn ended that the session still holds."""
    reply = turn.steps[-1].reply if turn.steps else None
    return TurnResult(
        session_id=session_id,
        turn=turn.number,
        message_seq=reply.seq if reply else 0,
        outcome=turn.outcome,
        text=turn.text,
        error=turn.error,
        usage=turn.usage,
        stop_reason=reply.stop_reason if reply else "",
        untrusted=turn.is_tainted,
        refused=refusals_of(turn),
    )
