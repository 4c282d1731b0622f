"""Strategies for event logs that could have happened: every event is legal where it stands.

A log is made by asking `next_bodies` what may follow the present state, drawing one, and applying
it; a stateful test does the same one step at a time.
"""

from __future__ import annotations

from typing import get_args

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from everturn.testing._histories import (
    KEY,
    SESSION_ID,
    moment,
)
from everturn_actors.checksums import sealed, unsealed
from everturn_actors.events import (
    AmbientStored,
    Announced,
    ApprovalAsked,
    ApprovalDecided,
    Body,
    Branched,
    CallFinished,
    CallStarted,
    ChunkMarked,
    ContextReduced,
    DeliveryPlanned,
    Discarded,
    Edited,
    Event,
    Labelled,
    ModelCallFailed,
    ModelReplied,
    PreviewSent,
    Received,
    ReplyBroken,
    SessionEnded,
    SessionShared,
    SessionStarted,
    StatusChanged,
    Steered,
    StepStarted,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.journal.log.codec import encode, seed
from everturn_actors.model import (
    AnyMessage,
    Attachment,
    ConversationKey,
    Disposition,
    FileDigest,
    Joins,
    Labels,
    Mark,
    OpenStep,
    OpenTurn,
    OutboxItem,
    PromptFingerprint,
    Replaced,
    Reply,
    Resolution,
    Step,
    SummarySource,
    ToolCall,
    Turn,
    Usage,
)
from everturn_actors.state.apply import apply
from everturn_actors.state.changes.turns import RETRIED
from everturn_actors.state.session_state import SessionState

EARLIEST_END = 12
"Seq after which a session may end: most histories would be too short otherwise to show anything."

HOSTILE = (
    "\x00\t\n\r\x1b\x7f\x80\x85\x9f\xa0\u2028\u2029\ufeff\ufffd\ufffe\uffff\udfff\ud800\U0001f600"
    "\U0001fffe\U0010ffff\"\\/'#:-?&*!|>%@`{}[], "
)
"Characters that JSON escapes, that YAML cannot hold, and that mean something in one of them."


def _mend(text: str) -> str:
    """Join surrogates that stand as a pair: JSON cannot tell them from the character they mean."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


texts: SearchStrategy[str] = st.one_of(
    st.text(alphabet="abc \n", max_size=20),
    st.text(alphabet=st.characters(), max_size=20),
    st.text(alphabet=HOSTILE, max_size=12),
).map(_mend)
"Any text at all, lone surrogates included."

names: SearchStrategy[str] = st.one_of(
    st.sampled_from(["", "alice", "-100123", "null", "1e3", "on"]), texts
)
"Short texts: senders, keys, models."

_counts = st.integers(0, 1_000_000)
usages = st.builds(
    Usage,
    input_tokens=_counts,
    output_tokens=_counts,
    cached_tokens=_counts,
    cache_written_tokens=st.sampled_from([0, 0, 77]),
    cost_nanodollars=st.sampled_from([0, 0, 1, 10**12]),
)
keys = st.builds(ConversationKey, channel=names, chat=names, agent=names, topic=names)
sent = st.builds(
    PromptFingerprint,
    prefix=st.sampled_from(["", "9f86d081", "60303ae2"]),
    messages=_counts,
    units=_counts,
    is_cache_miss=st.booleans(),
)
paths = st.sampled_from(["", "", "call_1.txt", "4-2.txt"])
"Names of results, as events give them."
outsides = st.sampled_from([(), (), ("the page https://a.example/",), ("a", "b", "and more")])
"Sources of text from outside, as events give them."
_seldom = st.sampled_from([False, False, False, True])


_ATTACHED = st.one_of(
    st.just(()),
    st.tuples(
        st.builds(
            Attachment,
            name=names,
            media_type=st.sampled_from(["image/png", "text/plain"]),
            file_name=names,
            size_bytes=st.integers(0, 2**40),
        )
    ),
)


def next_bodies(state: SessionState | None, *, may_end: bool = True) -> SearchStrategy[Body] | None:
    """Return what may happen next, or None where nothing can any more.

    Args:
        state: The present state; None = there is no session yet.
        may_end: Whether the end of the session is among it.
    """
    if state is None:
        return st.builds(
            SessionStarted,
            session_id=st.just(SESSION_ID),
            key=keys,
            instructions=texts,
            seen=st.sampled_from([(), ("alice", "1e3")]),
            principal=names,
            branch_of=st.sampled_from(["", "", "before"]),
        )
    if state.status == "ended":
        return _LABELLED if state.last_seq % 2 else None
    moves: list[SearchStrategy[Body]] = [_RECEIVED]
    if state.last_seq % 4 == 1:  # seldom: they lead nowhere
        moves += [_SILENT, _ANNOUNCED, _SHARED, _LABELLED, *_of_waiting(state)]
    if state.turns:
        moves.append(hiding(state))
    if state.outbox:
        moves += [_delivery(state)] * 2
    if state.last_seq % 3 == 0 and (begun := _begun_steps(state)):
        moves.append(_late_preview(state, begun))
    if state.open_turn is None:
        if state.waiting:
            moves += [_turn_started(state)] * 3
        else:
            moves.append(st.builds(StatusChanged, status=st.sampled_from(["active", "paused"])))
            moves.append(_BRANCHED)
        if state.newest_turn is not None and state.newest_turn.outcome in RETRIED:
            moves += [_turn_retried(state, state.newest_turn)] * 2
        if may_end and state.last_seq > EARLIEST_END:
            moves.append(
                st.builds(SessionEnded, reason=st.sampled_from(["reset", "expired"]), by=names)
            )
    else:
        moves += _in_turn(state.open_turn) * 3
        if state.waiting and _may_steer(state.open_turn):
            moves += [_steered(state, state.open_turn.number)] * 3
    return st.one_of(moves)


_SHARED = st.builds(SessionShared, principal=names, by=names, is_withdrawn=st.booleans())

_BRANCHED = st.builds(
    Branched, of=st.sampled_from(["before", "another"]), at_seq=st.integers(1, 9), by=names
)

_LABELLED = st.builds(
    Labelled,
    labels=st.builds(Labels, title=names, pinned=st.booleans(), archived=st.booleans()),
    by=names,
)


def _may_steer(turn: OpenTurn) -> bool:
    return bool(turn.outage) if turn.step else bool(turn.steps)


_HOW: list[tuple[str, Joins, bool]] = [
    (reply_to, joins, ambient)
    for ambient in (False, False, True)
    for reply_to in ("", "44", "1e3")
    for joins in get_args(Joins)
]
_RECEIVED = st.builds(
    lambda how, **rest: Received(
        reply_to=how[0], joins=how[1], ambient=how[2], retry_for_s=60 if how[0] else -1, **rest
    ),
    st.sampled_from(_HOW),
    text=texts,
    sender=names,
    idempotency_key=names,
    attachments=_ATTACHED,
    untrusted=_seldom,
)
_SILENT = st.builds(
    lambda how, **rest: AmbientStored(shown=how[0], max_messages=how[1], max_age_s=how[2], **rest),
    st.sampled_from([(True, 100, 86_400), (True, 2, 0), (False, 100, 60), (True, 0, 10**15)]),
    text=texts,
    sender=names,
    idempotency_key=names,
    untrusted=_seldom,
)
_ANNOUNCED = st.builds(
    Announced,
    text=texts,
    sender=names,
    idempotency_key=names,
    title=names,
    untrusted=_seldom,
    delivers=st.booleans(),
)


def _of_waiting(state: SessionState) -> list[SearchStrategy[Body]]:
    """Return what may become of messages that wait, other than a turn."""
    if not state.waiting:
        return []
    seqs = [message.seq for message in state.waiting]
    some = st.lists(st.sampled_from(seqs), min_size=1, max_size=2, unique=True)
    return [
        st.builds(Edited, received=st.sampled_from(seqs), text=texts),
        st.builds(Discarded, received=some.map(sorted).map(tuple), reason=names),
    ]


def _turn_started(state: SessionState) -> SearchStrategy[Body]:
    count = st.integers(1, len(state.waiting))
    told = st.integers(0, len(state.ambient))
    return st.builds(
        TurnStarted,
        turn=st.just(state.turns + 1),
        received=count.map(lambda n: tuple(message.seq for message in state.waiting[:n])),
        window_messages=st.sampled_from([2, 6, 100, 1000]),
        ambient=told.map(lambda n: tuple(each.seq for each in state.ambient[n:])),
        delivers=st.booleans(),
    )


def _turn_retried(state: SessionState, failed: Turn) -> SearchStrategy[Body]:
    return st.builds(
        TurnStarted,
        turn=st.just(state.turns + 1),
        received=st.just(tuple(user.seq for user in failed.heard)),
        window_messages=st.sampled_from([2, 6, 100]),
        delivers=st.booleans(),
        retries=st.just(failed.number),
        idempotency_key=names,
    )


# What may become of a chunk, by what is known of it.
_NEXT: dict[Mark, tuple[Mark, ...]] = {
    "planned": ("sending", "sending", "failed", "closed"),
    "sending": ("sent", "sent", "unsent", "unknown", "failed"),
    "unsent": ("sending", "sending", "failed", "closed"),
    "unknown": ("sending", "sending", "failed", "closed"),
    "sent": ("closed",),
    "failed": ("closed",),
    "closed": (),
}


def _delivery(state: SessionState) -> SearchStrategy[Body]:
    """Return what may become of what is pending."""
    return st.one_of([move for item in state.outbox[:3] for move in _of_item(item)])


def _of_item(item: OutboxItem) -> list[SearchStrategy[Body]]:
    if item.chunks is None:
        chunks = st.lists(texts, min_size=item.seq % 4 > 0, max_size=3).map(tuple)
        return [st.builds(DeliveryPlanned, item=st.just(item.seq), chunks=chunks)]
    marks = [(n, mark) for n, chunk in enumerate(item.chunks) for mark in _NEXT[chunk.mark]]

    def marked(of: tuple[int, Mark], platform_id: str, error: str) -> Body:
        return ChunkMarked(
            item=item.seq, chunk=of[0], mark=of[1], platform_id=platform_id, error=error
        )

    return [st.builds(marked, st.sampled_from(marks), names, names)] if marks else []


def _begun_steps(state: SessionState) -> int:
    """Return how many steps of the last turn have begun, for as long as its replies are pending."""
    turn = state.open_turn
    if turn is not None:
        return len(turn.steps) + (turn.step is not None)
    owes = any(item.kind == "reply" and item.turn == state.turns for item in state.outbox)
    return len(state.held_turns[-1].steps) if owes and state.held_turns else 0


_SHOWN = {
    "platform_id": st.sampled_from(["77", "on"]),
    "mark": st.sampled_from(["sending", "sent", "sent", "unsent"]),
}


def _named(preview: PreviewSent) -> PreviewSent:
    """Return a preview that has a name where it is there, and no sooner."""
    return preview if preview.mark == "sent" else replace(preview, platform_id="")


def _late_preview(state: SessionState, begun: int) -> SearchStrategy[Body]:
    """Return a preview of a step that has begun, and may be over."""
    return st.builds(
        PreviewSent,
        turn=st.just(state.turns),
        step=st.integers(1, begun),
        **_SHOWN,
    ).map(_named)


def _steered(state: SessionState, turn: int) -> SearchStrategy[Body]:
    count = st.integers(1, len(state.waiting))
    return st.builds(
        Steered,
        turn=st.just(turn),
        received=count.map(lambda n: tuple(message.seq for message in state.waiting[:n])),
    )


def hiding(state: SessionState) -> SearchStrategy[Body]:
    """Return what may be hidden from the model at this point, for good."""
    finished = _finished_turns(state)
    if finished:
        reduced = _context_reduced(state)
        return st.one_of(reduced, reduced, _summarised(state, finished))
    return _context_reduced(state)


def _finished_turns(state: SessionState) -> int:
    return state.turns - (state.open_turn is not None)


@st.composite
def _context_reduced(draw: st.DrawFn, state: SessionState) -> Body:
    """Draw a reduction of what the session holds: any turns, any steps, any messages."""
    running = state.open_turn
    turns = (*state.held_turns, *((running,) if running else ()))
    steps: list[Step] = [step for turn in turns for step in turn.steps]
    messages: list[AnyMessage] = [user for turn in turns for user in turn.heard]
    messages += [message for step in steps for message in step.messages]
    chosen = draw(st.lists(st.sampled_from(messages), min_size=1, max_size=3)) if messages else []
    dropped = draw(st.lists(st.sampled_from(steps), max_size=2)) if steps else []
    cut_turn = draw(st.integers(0, _finished_turns(state) + 1)) if draw(_seldom) else 0
    return ContextReduced(
        stage=draw(st.one_of(names, st.just("halve"))),
        cut_turn=cut_turn,
        dropped=tuple(message.seq for step in dropped for message in step.messages),
        replaced=tuple(_replaced(draw, message) for message in chosen),
        messages=draw(_counts),
        tokens_before=draw(_counts),
        tokens_after=draw(_counts),
        note=draw(names),
    )


def _replaced(draw: st.DrawFn, message: AnyMessage) -> Replaced:
    calls = message.calls if isinstance(message, Reply) and draw(st.booleans()) else ()
    return Replaced(
        seq=message.seq,
        disposition=draw(st.sampled_from(get_args(Disposition))),
        text=draw(texts),
        arguments=tuple(draw(texts) for _ in calls),
    )


def _summarised(state: SessionState, finished: int) -> SearchStrategy[Body]:
    before = state.reductions.summary
    return st.builds(
        Summarised,
        last_turn=st.integers(before.last_turn if before else 1, finished),
        messages=_counts,
        text=texts,
        source=st.sampled_from(get_args(SummarySource)),
        tries=st.integers(0, 3),
        model=names,
        usage=usages,
        path=paths,
        error=names,
        outside=outsides,
    )


def _in_turn(turn: OpenTurn) -> list[SearchStrategy[Body]]:
    if turn.step is None:
        started = st.builds(
            StepStarted, turn=st.just(turn.number), step=st.just(len(turn.steps) + 1), model=names
        )
        return [started, started, _turn_finished(turn)]
    if turn.step.reply is None:
        preview = st.builds(
            PreviewSent,
            turn=st.just(turn.number),
            step=st.just(len(turn.steps) + 1),
            **_SHOWN,
        ).map(_named)
        shown = [preview] if turn.delivers and not turn.preview_id else []
        fails = [_broken(turn), _call_failed(turn)]
        return [*shown, _replied(), _replied(), _replied(), *fails, _turn_finished(turn)]
    return _in_calls(turn.step, turn.step.reply)


def _turn_finished(turn: OpenTurn) -> SearchStrategy[Body]:
    outcomes = st.sampled_from(["answered", "failed", "cancelled", "interrupted"])
    return st.builds(
        TurnFinished, turn=st.just(turn.number), outcome=outcomes, error=names, by=names
    )


@st.composite
def _replied(draw: st.DrawFn) -> Body:
    ids = draw(st.lists(names, max_size=3, unique=True))
    return ModelReplied(
        text=draw(texts),
        reasoning=draw(names),
        calls=tuple(ToolCall(call_id=i, name=draw(names), arguments=draw(texts)) for i in ids),
        usage=draw(usages),
        stop_reason=draw(st.sampled_from(["stop", "length", "tool_calls"])),
        model=draw(names),
        fingerprint=draw(sent),
        opaque=draw(st.sampled_from(["", "", '[{"signature":"abc="}]', "\u2028"])),
        fallback=draw(st.sampled_from(["", "", "", "openai/other"])),
        outside=draw(outsides),
        retells=draw(st.booleans()),
    )


def _broken(turn: OpenTurn) -> SearchStrategy[Body]:
    return st.builds(
        ReplyBroken,
        turn=st.just(turn.number),
        step=st.just(len(turn.steps) + 1),
        reason=names,
        text=texts,
        usage=usages,
        model=names,
    )


def _call_failed(turn: OpenTurn) -> SearchStrategy[Body]:
    return st.builds(
        ModelCallFailed,
        turn=st.just(turn.number),
        step=st.just(len(turn.steps) + 1),
        attempt=st.just(turn.outage.attempts + 1 if turn.outage else 1),
        error=texts,
        retry_in_ms=st.sampled_from([0, 4_001, 10**18]),
        give_up_in_ms=st.sampled_from([0, 900_000, 10**18]),
        tells=st.booleans(),
    )


def _in_calls(step: OpenStep, reply: Reply) -> list[SearchStrategy[Body]]:
    open_ids = [call.call_id for call in reply.calls if call.call_id not in step.results]
    chosen = st.sampled_from(open_ids)
    finished = st.builds(
        CallFinished,
        call_id=chosen,
        text=texts,
        is_error=st.booleans(),
        path=paths,
        untrusted=_seldom,
        source=st.sampled_from(["", "", "the page https://a.example/"]),
        is_refused=_seldom,
        attachments=_ATTACHED,
    )
    moves: list[SearchStrategy[Body]] = [st.builds(CallStarted, call_id=chosen), finished, finished]
    idle = [call_id for call_id in open_ids if call_id not in step.started]
    if idle:
        moves.append(_asked(st.sampled_from(idle)))
    asked = [i for i in open_ids if i in step.approvals and step.approvals[i].resolution is None]
    if asked:
        decisions = st.sampled_from(get_args(Resolution))
        word = st.builds(
            ApprovalDecided, call_id=st.sampled_from(asked), decision=decisions, by=names
        )
        moves += [word, word]
    return moves


def _asked(call_ids: SearchStrategy[str]) -> SearchStrategy[Body]:
    return st.builds(
        ApprovalAsked,
        call_id=call_ids,
        arguments_hash=st.sampled_from(["", "9f86d081884c7d65"]),
        timeout_s=st.integers(0, 100_000),
        reason=texts,
        pattern=names,
        approvers=st.lists(names, max_size=2).map(tuple),
        files=st.lists(
            st.builds(FileDigest, path=texts, digest=names, is_there=st.booleans()), max_size=2
        ).map(tuple),
    )


@st.composite
def histories(draw: st.DrawFn, *, max_events: int = 24) -> tuple[Event, ...]:
    """Return the log of a session, from its first event on, cut off anywhere."""
    events: list[Event] = []
    state: SessionState | None = None
    for _ in range(draw(st.integers(1, max_events))):
        bodies = next_bodies(state)
        if bodies is None:
            break
        event = Event(
            seq=len(events) + 1, at=moment(draw(st.integers(0, 10**9))), body=draw(bodies)
        )
        state = apply(state, event)
        events.append(event)
    return tuple(events)


def rich_log() -> tuple[Event, ...]:
    """Return a log with every kind of thing that a turn with tools can leave, cut off inside one.

    Its last step has a call that was refused, one that runs and one that a person is asked about.
    """
    picture = Attachment(
        name="ab.png", media_type="image/png", file_name="cat.png", size_bytes=12_345
    )
    cost = Usage(input_tokens=9, cache_written_tokens=3, cost_nanodollars=1_234_567)
    calls = tuple(ToolCall(call_id=i, name="bash", arguments='{"n":1}') for i in "abc")
    asked = ApprovalAsked(
        call_id="a",
        arguments_hash="9f86d081884c7d65",
        timeout_s=60,
        reason="it writes",
        pattern="bash:ls *",
        approvers=("alice", "b*"),
    )
    bodies: tuple[Body, ...] = (
        SessionStarted(session_id=SESSION_ID, key=KEY),
        Received(text="look", sender="alice", attachments=(picture,), untrusted=True),
        TurnStarted(turn=1, received=(2,), window_messages=100),
        StepStarted(turn=1, step=1, model="m"),
        ReplyBroken(turn=1, step=1, reason="cut off", text="let", usage=cost, model="m"),
        ModelReplied(text="", calls=calls, usage=cost, opaque='[{"s":1}]', fallback="openai/o"),
        *(CallStarted(call_id=call.call_id) for call in calls),
        CallFinished(call_id="b", text="page", path="1-1-2.txt", untrusted=True),
        CallFinished(call_id="a", text="no", is_error=True),
        CallFinished(call_id="c", text="yes"),
        Received(text="not that", sender="bob"),
        Received(text="nor that", sender="alice", attachments=(picture,)),
        Steered(turn=1, received=(13,)),
        Steered(turn=1, received=(14,)),  # a crash came between the two
        StepStarted(turn=1, step=2, model="m"),
        ModelReplied(text="as you wish", opaque="x", fallback="openai/o"),
        TurnFinished(turn=1, outcome="answered"),
        Received(text="go on"),
        TurnStarted(turn=2, received=(20,), window_messages=100),
        StepStarted(turn=2, step=1, model="m"),
        ModelReplied(text="", calls=calls),
        asked,
        ApprovalDecided(call_id="a", decision="deny", by="bob"),
        CallFinished(call_id="a", text="not allowed by bob", is_error=True),
        replace(asked, call_id="b", pattern="", approvers=()),
        ApprovalDecided(call_id="b", decision="allow_once"),
        CallStarted(call_id="b"),
        replace(asked, call_id="c"),
        StatusChanged(status="paused"),
    )
    return tuple(
        Event(seq=seq, at=moment(seq * 1_000_000), body=body) for seq, body in enumerate(bodies, 1)
    )


def outage_log() -> tuple[Event, ...]:
    """Return a log with two outages of a model in one turn, cut off inside the second.

    Messages came before the first reply, and after it.
    """
    call = ToolCall(call_id="a", name="bash", arguments="{}")
    failed = ModelCallFailed(
        turn=1,
        step=1,
        attempt=1,
        error="m at h: HTTP 503",
        retry_in_ms=4_250,
        give_up_in_ms=900_000,
        tells=True,
    )
    again = replace(failed, attempt=2, retry_in_ms=8_001, give_up_in_ms=890_000, tells=False)
    bodies: tuple[Body, ...] = (
        SessionStarted(session_id=SESSION_ID, key=KEY),
        Received(text="look", sender="alice", retry_for_s=60),
        TurnStarted(turn=1, received=(2,), window_messages=100, delivers=True),
        StepStarted(turn=1, step=1, model="m"),
        failed,
        Received(text="please", sender="alice", reply_to="45"),
        Steered(turn=1, received=(6,)),
        again,
        ReplyBroken(turn=1, step=1, reason="it was empty"),
        replace(failed, tells=False),
        ModelReplied(text="", calls=(call,)),
        CallStarted(call_id="a"),
        CallFinished(call_id="a", text="done"),
        StepStarted(turn=1, step=2, model="m"),
        replace(failed, step=2, tells=False),
        Received(text="now", sender="alice"),
        Steered(turn=1, received=(16,)),
        replace(again, step=2),
    )
    return tuple(
        Event(seq=seq, at=moment(seq * 1_000_000), body=body) for seq, body in enumerate(bodies, 1)
    )


def delivered_log() -> tuple[Event, ...]:
    """Return a log with every kind of thing that a channel can leave, cut off inside a turn.

    A burst with an edit and a message that was dropped; what was said beside, in both ways; a
    reply with a preview that is half sent, a question, files, a line, an unanswered turn, and what
    was said in the agent's name.
    """
    file = Attachment(name="cd.pdf", media_type="application/pdf", size_bytes=9)
    calls = tuple(ToolCall(call_id=i, name="send") for i in "ab")
    key = ConversationKey(channel="telegram", chat="-100", topic="7", agent="assistant")
    bodies: tuple[Body, ...] = (
        SessionStarted(session_id=SESSION_ID, key=key, seen=("old-1", "old-2")),
        AmbientStored(text="[Bob] lunch?", sender="bob", idempotency_key="k2", untrusted=True),
        AmbientStored(text="[Eve] no", sender="eve", shown=False),
        Received(text="[Ann] luok", sender="ann", idempotency_key="k4", reply_to="44"),
        Received(text="[Bob] hm", sender="bob", ambient=True, joins="own"),
        Edited(received=4, text="[Ann] look"),
        Received(text="[Ann] there", sender="ann", reply_to="45", joins="burst"),
        Received(text="[Cy] too many", sender="cy", joins="own"),
        Discarded(received=(8,), reason="more than 2 waited"),
        TurnStarted(turn=1, received=(4, 5, 7), window_messages=100, ambient=(2,), delivers=True),
        StepStarted(turn=1, step=1, model="m"),
        PreviewSent(turn=1, step=1, platform_id="77"),
        ModelReplied(text="I will", calls=calls),
        DeliveryPlanned(item=13, chunks=("I", "will")),
        ChunkMarked(item=13, chunk=0, mark="sending"),
        ChunkMarked(item=13, chunk=0, mark="sent", platform_id="77"),
        ChunkMarked(item=13, chunk=1, mark="sending"),
        ApprovalAsked(call_id="a", arguments_hash="9f86d081884c7d65", timeout_s=60, reason="sends"),
        ChunkMarked(item=13, chunk=1, mark="unknown", error="cut off"),
        DeliveryPlanned(item=18, chunks=("may I?",)),
        ChunkMarked(item=18, chunk=0, mark="sending"),
        ChunkMarked(item=18, chunk=0, mark="sent", platform_id="78"),
        ApprovalDecided(call_id="a", decision="allow_once", by="ann"),
        CallStarted(call_id="a"),
        CallFinished(call_id="a", text="sent", attachments=(file,)),
        CallFinished(call_id="b", text="no", is_error=True),
        ContextReduced(stage="halve"),
        StepStarted(turn=1, step=2, model="m"),
        ModelReplied(text="there you are"),
        PreviewSent(turn=1, step=2, platform_id="79"),
        TurnFinished(turn=1, outcome="answered"),
        Received(text="[Ann] again", sender="ann", reply_to="46"),
        AmbientStored(text="[Bob] and?", sender="bob", max_messages=3, max_age_s=60),
        TurnStarted(turn=2, received=(32,), window_messages=100, delivers=True),
        TurnFinished(turn=2, outcome="failed", error="it was down"),
        AmbientStored(text="[Bob] ?", sender="bob"),
        Received(text="[Ann] hello?", sender="ann"),
        TurnStarted(turn=3, received=(37,), window_messages=100, delivers=True),
        StepStarted(turn=3, step=1, model="m"),
        PreviewSent(turn=3, step=1, platform_id="80"),
        AmbientStored(text="[Bob] one more", sender="bob"),
        Received(text="[Bob] mm", sender="bob", ambient=True),
        Announced(
            text="Stand-up!", sender="schedule", idempotency_key="k9", title="Stand", delivers=True
        ),
        Announced(text="It rains.", untrusted=True),
        DeliveryPlanned(item=43, chunks=("Stand-up!",)),
        ChunkMarked(item=43, chunk=0, mark="sending"),
        ChunkMarked(item=43, chunk=0, mark="unsent", error="offline"),
        ChunkMarked(item=43, chunk=0, mark="given_up", error="pending for too long; offline"),
    )
    return tuple(
        Event(seq=seq, at=moment(seq * 1_000_000), body=body) for seq, body in enumerate(bodies, 1)
    )


def line_of_version(version: int, event: Event) -> bytes:
    """Return an event's line as another version of the format would seal it, with its newline."""
    ours = unsealed(encode(SESSION_ID, [event])[:-1])
    _, comma, rest = ours.partition(b",")
    return sealed(b'{"v":%d%b%b' % (version, comma, rest), seed(SESSION_ID))
