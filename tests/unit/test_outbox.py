"""What a session owes the people of its channel, from the moment it is said until it is there."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.histories import delivered_log
from support.tables import table

from everturn.testing._histories import replay
from everturn_actors.errors import CorruptJournalError
from everturn_actors.events import (
    OVERFLOW_LINE,
    Announced,
    ApprovalAsked,
    ApprovalDecided,
    Body,
    CallFinished,
    CallStarted,
    ChunkMarked,
    ContextReduced,
    DeliveryPlanned,
    Event,
    ModelReplied,
    PreviewSent,
    Received,
    ReplyBroken,
    SessionEnded,
    SessionStarted,
    Steered,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import (
    Attachment,
    Chunk,
    ConversationKey,
    Mark,
    OutboxItem,
    OutboxItemKind,
    Outcome,
    ToolCall,
)
from everturn_actors.state.apply import apply
from everturn_actors.state.outbox import UNDELIVERED_LINES, UNDELIVERED_MORE, deliver
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import START

KEY = ConversationKey(channel="telegram", chat="1", agent="test")
FILE = Attachment(name="ab.png", media_type="image/png")
CALL = ToolCall(call_id="a", name="draw")
STEP = StepStarted(turn=1, step=1, model="m")
ASKED = ApprovalAsked(call_id="a", arguments_hash="", timeout_s=60, reason="it draws")
ANSWERED = TurnFinished(turn=1, outcome="answered")


def after(*bodies: Body, state: SessionState | None = None) -> SessionState:
    """Return the state after these events; by default of a session in which somebody asked."""
    if state is None:
        first = SessionStarted(session_id="s", key=KEY)
        state = apply(None, Event(seq=1, at=START, body=first))
        state = after(Received(text="draw", sender="ann", reply_to="44"), state=state)
    for body in bodies:
        state = apply(state, Event(seq=state.last_seq + 1, at=START, body=body))
    return state


def began(*bodies: Body, delivers: bool = True) -> SessionState:
    """Return the state in the turn that answers, event 3."""
    turn = TurnStarted(turn=1, received=(2,), window_messages=100, delivers=delivers)
    return after(turn, STEP, *bodies)


# --- what is pending ---


def test_what_a_model_says_and_sends_is_owed() -> None:
    """Each reply by itself, to whom it answers, and nothing that is empty."""
    # A reply with text is owed and replies to who asked. In a group nobody knows otherwise to whom
    # it was said.
    state = began(ModelReplied(text="there"), ANSWERED)

    assert state.outbox == (
        OutboxItem(seq=5, pending_since=START, turn=1, kind="reply", text="there", reply_to="44"),
    )

    # A reply before tools is owed as one of its own. What the model says before it acts is said
    # then, not afterwards.
    state = began(ModelReplied(text="let me see", calls=(CALL,)))

    assert [(each.kind, each.text) for each in state.outbox] == [("reply", "let me see")]

    # A reply without words has nothing pending. An empty message is refused by every platform.
    assert began(ModelReplied(text=" \n", calls=(CALL,))).outbox == ()

    # A call owes the files that it sends. A picture that was drawn and not sent was drawn for
    # nobody.
    state = began(ModelReplied(text="", calls=(CALL,)), CallStarted(call_id="a"))
    state = after(CallFinished(call_id="a", text="sent", attachments=(FILE,)), state=state)

    assert state.outbox == (
        OutboxItem(seq=7, pending_since=START, turn=1, kind="file", attachments=(FILE,)),
    )

    # An answer replies to the newest message that it answers. Also to one that came while the turn
    # ran.
    state = began(ModelReplied(text="", calls=(CALL,)))
    state = after(
        Received(text="blue", sender="bob", reply_to="45"),
        Received(text="please", sender="bob"),
        CallFinished(call_id="a", text="drawn"),
        Steered(turn=1, received=(6, 7)),
        StepStarted(turn=1, step=2, model="m"),
        ModelReplied(text="done"),
        state=state,
    )

    assert [each.reply_to for each in state.outbox] == ["45"]

    # A session that owes something is due. The next start has to wake it, though no turn is open.
    state = began(ModelReplied(text="there"), ANSWERED)

    assert (state.has_work, state.is_due) == (False, True)
    assert not after(DeliveryPlanned(item=5, chunks=()), state=state).is_due


def test_a_question_is_owed_until_everybody_was_told_of_its_end() -> None:
    """And not at all where it was settled before it was asked."""
    # A question is owed until everybody was told of its end. Buttons that stay when they no longer
    # do anything mislead whoever presses them.
    state = began(ModelReplied(text="", calls=(CALL,)), ASKED)
    question = OutboxItem(
        seq=6,
        pending_since=START,
        turn=1,
        kind="approval",
        text="it draws",
        call_id="a",
        reply_to="44",
    )
    assert state.outbox == (question,)

    state = after(
        DeliveryPlanned(item=6, chunks=("may I?",)),
        ChunkMarked(item=6, chunk=0, mark="sending"),
        ChunkMarked(item=6, chunk=0, mark="sent", platform_id="70"),
        ApprovalDecided(call_id="a", decision="deny", by="ann"),
        CallFinished(call_id="a", text="no", is_error=True),
        state=state,
    )
    assert [each.seq for each in state.outbox] == [6]
    assert state.outbox[0].is_delivered

    assert after(ChunkMarked(item=6, chunk=0, mark="closed"), state=state).outbox == ()

    # A question with nothing to send is done at once. It was settled before anybody was asked.
    state = began(ModelReplied(text="", calls=(CALL,)), ASKED)

    assert after(DeliveryPlanned(item=6, chunks=()), state=state).outbox == ()


@table("before", ["planned", "unsent", "failed"])
def test_a_question_that_nobody_got_can_be_closed(before: Mark) -> None:
    """It was settled before it could be sent, and must not be sent any more."""
    state = began(ModelReplied(text="", calls=(CALL,)), ASKED)
    state = after(DeliveryPlanned(item=6, chunks=("may I?",)), state=state)
    if before != "planned":
        marks: tuple[Mark, ...] = ("sending", before)
        state = after(*(ChunkMarked(item=6, chunk=0, mark=each) for each in marks), state=state)

    assert len(state.outbox) == 1
    assert after(ChunkMarked(item=6, chunk=0, mark="closed"), state=state).outbox == ()


def test_the_line_of_an_emergency_is_owed_and_others_are_not() -> None:
    """People are told why it takes longer; what is routine is not their concern."""
    state = began(ContextReduced(stage="clear"), ContextReduced(stage="halve"))

    assert state.outbox == (
        OutboxItem(seq=6, pending_since=START, turn=1, kind="notice", text=OVERFLOW_LINE),
    )
    idle = after(ContextReduced(stage="halve"), state=began(ModelReplied(text="x"), ANSWERED))
    assert [each.kind for each in idle.outbox] == ["reply"]


@table("outcome", ["failed", "interrupted"])
def test_a_turn_without_an_answer_owes_the_reason(outcome: Outcome) -> None:
    """Silence would leave the person waiting for ever."""
    state = began(TurnFinished(turn=1, outcome=outcome, error="the model is down"))

    assert state.outbox == (
        OutboxItem(
            seq=5,
            pending_since=START,
            turn=1,
            kind="end",
            text="the model is down",
            outcome=outcome,
            reply_to="44",
        ),
    )


def test_who_waits_for_no_answer_is_owed_nothing() -> None:
    """They stopped it, they read it elsewhere, or they began afresh."""
    # Who cancelled a turn is told nothing. They know.
    assert began(TurnFinished(turn=1, outcome="cancelled")).outbox == ()

    # A turn that delivers to nobody has nothing pending. Who asks over HTTP reads the answer there.
    state = began(
        ContextReduced(stage="halve"),
        ModelReplied(text="let me see", calls=(CALL,)),
        ASKED,
        ApprovalDecided(call_id="a", decision="allow_once"),
        CallFinished(call_id="a", text="", attachments=(FILE,)),
        TurnFinished(turn=1, outcome="failed", error="x"),
        delivers=False,
    )

    assert state.outbox == ()

    # The end of a session has nothing pending any more. Whoever starts afresh does not want the
    # answer to what was before.
    state = began(ModelReplied(text="there"), ANSWERED, SessionEnded(reason="reset"))

    assert (state.outbox, state.is_due) == ((), False)


@table("end", [TurnFinished(turn=1, outcome="failed", error="down"), ANSWERED])
def test_of_the_end_of_a_turn_that_jobs_asked_for_the_scheduler_tells(end: TurnFinished) -> None:
    """Else people read of the same failure twice, and of each try."""
    plain = SessionStarted(session_id="s", key=KEY)
    state = after(
        Received(text="tidy up", sender="schedule"),
        Received(text="and the cellar", sender="schedule"),
        TurnStarted(turn=1, received=(2, 3), window_messages=100, delivers=True),
        state=apply(None, Event(seq=1, at=START, body=plain)),
    )

    assert after(end, state=state).outbox == ()
    said = after(STEP, ModelReplied(text="done"), ANSWERED, state=state)
    assert [(each.kind, each.text) for each in said.outbox] == [("reply", "done")]


def test_a_person_in_such_a_turn_is_told_of_its_end() -> None:
    """What they asked for is not answered, and no job asks for it again."""
    plain = SessionStarted(session_id="s", key=KEY)
    first = apply(None, Event(seq=1, at=START, body=plain))
    failed = TurnFinished(turn=1, outcome="failed", error="down")
    together = after(
        Received(text="tidy up", sender="schedule"),
        Received(text="and hello", sender="ann"),
        TurnStarted(turn=1, received=(2, 3), window_messages=100, delivers=True),
        failed,
        state=first,
    )
    steered = after(
        Received(text="tidy up", sender="schedule"),
        TurnStarted(turn=1, received=(2,), window_messages=100, delivers=True),
        STEP,
        ModelReplied(text="", calls=(CALL,)),
        Received(text="and hello", sender="ann"),
        CallFinished(call_id="a", text="tidy"),
        Steered(turn=1, received=(6,)),
        failed,
        state=first,
    )

    assert [each.kind for each in together.outbox] == ["end"]
    assert [each.kind for each in steered.outbox] == ["end"]


def test_an_announcement_is_owed_as_it_stands_with_or_without_a_turn() -> None:
    """No model and no turn stands between it and the people."""
    said = Announced(text="Stand-up!", title="Stand-up", delivers=True)
    first = apply(None, Event(seq=1, at=START, body=SessionStarted(session_id="s", key=KEY)))

    assert after(said, state=first).outbox == (
        OutboxItem(seq=2, pending_since=START, turn=0, kind="reply", text="Stand-up!"),
    )
    during = began(said, ModelReplied(text="there"), ANSWERED)
    assert [(p.seq, p.turn, p.text, p.reply_to) for p in during.outbox] == [
        (5, 1, "Stand-up!", ""),
        (6, 1, "there", "44"),
    ]
    assert began(Announced(text="Stand-up!")).outbox == ()

    # An announcement takes no preview's place. The message that shows the reply as it comes is the
    # reply's.
    state = began(Announced(text="Stand-up!", delivers=True), PREVIEW, ModelReplied(text="there"))

    assert previews(state) == [("Stand-up!", ""), ("there", "77")]


# --- previews ---


PREVIEW = PreviewSent(turn=1, step=1, platform_id="77")


def previews(state: SessionState) -> list[tuple[str, str]]:
    """Return the text and the preview of all that is pending."""
    return [(item.text, item.preview) for item in state.outbox]


def test_a_preview_is_the_place_of_the_next_words_of_its_step() -> None:
    """Nobody reads the same twice, and nothing is written over what was said."""
    # A reply takes the place of its preview. Otherwise people read the same twice: once cut off,
    # once whole.
    assert previews(began(PREVIEW, ModelReplied(text="there"))) == [("there", "77")]

    # A preview stays with its step when the model is asked again. A broken reply is not another
    # step.
    broken = ReplyBroken(turn=1, step=1, reason="cut off")

    assert previews(began(PREVIEW, broken, ModelReplied(text="there"))) == [("there", "77")]

    # A preview is of no later step. The second reply must not be written over the first.
    state = began(
        PREVIEW,
        ModelReplied(text="one", calls=(CALL,)),
        CallFinished(call_id="a", text="x"),
        StepStarted(turn=1, step=2, model="m"),
        ModelReplied(text="two"),
    )

    assert previews(state) == [("one", "77"), ("two", "")]

    # A preview of a try that broke off is the place of the next words. The try after it made calls
    # and said nothing; what was shown must not stay for good.
    state = began(
        PREVIEW,
        ModelReplied(text="", calls=(CALL,)),
        CallFinished(call_id="a", text="x"),
        StepStarted(turn=1, step=2, model="m"),
        ModelReplied(text="two"),
    )

    assert previews(state) == [("two", "77")]

    # A preview that is known before the calls are done is of their reply. The reply stands in the
    # open step then.
    state = began(ModelReplied(text="let me see", calls=(CALL,)), PREVIEW)

    assert previews(state) == [("let me see", "77")]

    # A preview that comes too late changes nothing. The reply is on its way as a message of its
    # own, or was never pending.
    laid_out = DeliveryPlanned(item=5, chunks=("there",))

    assert previews(began(ModelReplied(text="there"), laid_out, PREVIEW)) == [("there", "")]
    assert began(TurnFinished(turn=1, outcome="cancelled"), PREVIEW).outbox == ()
    assert began(PREVIEW, ModelReplied(text="x"), delivers=False).outbox == ()


SENDING = PreviewSent(turn=1, step=1, mark="sending")
UNSENT = PreviewSent(turn=1, step=1, mark="unsent")
REPLIED = ModelReplied(text="there")


@table(
    ("bodies", "step"),
    [
        ((SENDING, REPLIED), 1),
        ((REPLIED, SENDING), 1),
        ((SENDING, UNSENT, REPLIED), 0),
        ((SENDING, REPLIED, UNSENT), 0),
        ((SENDING, PREVIEW, REPLIED), 0),
        ((SENDING, REPLIED, PREVIEW), 0),
    ],
)
def test_a_reply_knows_whether_a_preview_may_stand_beside_it(
    bodies: tuple[Body, ...], step: int
) -> None:
    """Only then it has to say that it may be a repeat, whoever was quicker."""
    (item,) = began(*bodies).outbox

    assert item.preview_step == step
    assert item.preview == ("77" if PREVIEW in bodies else "")


@table("is_over", [False, True])
def test_a_preview_that_is_known_after_its_reply_still_is_its_place(*, is_over: bool) -> None:
    """The platform answers when it does; the model may have been quicker."""
    rest = (ANSWERED,) if is_over else ()
    state = began(ModelReplied(text="there"), *rest, PREVIEW)

    assert previews(state) == [("there", "77")]


@table(
    "body",
    [
        PreviewSent(turn=2, step=1, platform_id="77"),
        PreviewSent(turn=0, step=1, platform_id="77"),
        PreviewSent(turn=1, step=2, platform_id="77"),
        PreviewSent(turn=1, step=0, platform_id="77"),
        PreviewSent(turn=1, step=1, platform_id=""),
        PreviewSent(turn=1, step=1, platform_id="77", mark="sending"),
        PreviewSent(turn=1, step=1, platform_id="77", mark="unsent"),
    ],
)
def test_a_preview_of_what_was_not_begun_is_refused(body: PreviewSent) -> None:
    """A log that tells of it was written by no version of Everturn."""
    with pytest.raises(CorruptJournalError, match="PreviewSent"):
        began(body)


# --- how it is delivered ---


def outbox(*chunks: str) -> tuple[OutboxItem, ...]:
    """Return a reply that is rendered, and one after it that is not."""
    items = (
        OutboxItem(seq=5, pending_since=START, turn=1, kind="reply"),
        OutboxItem(seq=9, pending_since=START, turn=2, kind="reply"),
    )
    return deliver(items, DeliveryPlanned(item=5, chunks=chunks)) if chunks else items


def marked(
    items: tuple[OutboxItem, ...], chunk: int, *marks: Mark, platform_id: str = ""
) -> tuple[OutboxItem, ...]:
    """Return what is pending after these marks of one chunk of the first reply."""
    for mark in marks:
        body = ChunkMarked(item=5, chunk=chunk, mark=mark, platform_id=platform_id)
        items = deliver(items, body)
    return items


def test_an_item_leaves_with_its_last_chunk() -> None:
    """What became of each chunk is known, and what is done with is let go."""
    # An item leaves with its last chunk. Until then a restart has to know what is there already.
    items = marked(outbox("one", "two"), 0, "sending", "sent", platform_id="70")
    assert items[0].chunks is not None
    assert [(c.mark, c.platform_id) for c in items[0].chunks] == [("sent", "70"), ("planned", "")]

    items = marked(items, 1, "sending", "sent")

    assert [each.seq for each in items] == [9]

    # Chunks that are given up or closed let the outbox items go too. One message that a platform
    # refuses must not be tried for ever.
    items = marked(outbox("one", "two", "three"), 0, "sending", "failed")
    items = marked(marked(items, 1, "closed"), 2, "failed")

    assert [each.seq for each in items] == [9]

    # Each unknown outcome is counted. The second one is the last.
    items = marked(outbox("one"), 0, "sending", "unknown", "sending", "unknown")

    assert items[0].chunks is not None
    assert items[0].chunks[0].tries == 2
    assert [each.seq for each in marked(items, 0, "failed")] == [9]

    # What surely did not arrive is not counted. A platform that is down for a day is not a reason
    # to give up.
    items = marked(outbox("one"), 0, *("sending", "unsent") * 50)

    assert items[0].chunks is not None
    assert items[0].chunks[0].tries == 0

    # Outbox items may be delivered out of order. A question that waits for a person must not hold
    # up what comes after it.
    items = deliver(outbox(), DeliveryPlanned(item=9, chunks=()))

    assert [each.seq for each in items] == [5]


@table(
    ("body", "why"),
    [
        (ChunkMarked(item=4, chunk=0, mark="sending"), "outbox item 4 is not pending"),
        (DeliveryPlanned(item=4, chunks=()), "outbox item 4 is not pending"),
        (DeliveryPlanned(item=5, chunks=()), "rendered already"),
        (ChunkMarked(item=9, chunk=0, mark="sending"), "has no chunk 0"),
        (ChunkMarked(item=5, chunk=1, mark="sending"), "has no chunk 1"),
        (ChunkMarked(item=5, chunk=-1, mark="sending"), "has no chunk -1"),
        (ChunkMarked(item=5, chunk=0, mark="sent"), "is planned, not sent next"),
        (ChunkMarked(item=5, chunk=0, mark="planned"), "is planned, not planned next"),
    ],
)
def test_what_cannot_have_happened_is_refused(
    body: DeliveryPlanned | ChunkMarked, why: str
) -> None:
    """A delivery that is marked wrongly is one that is sent twice, or never."""
    with pytest.raises(ValueError, match=why):
        deliver(outbox("one"), body)


MARKS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from(get_args(Mark))), max_size=12)


@given(MARKS)
def test_what_is_known_to_be_there_is_never_sent_again(marks: list[tuple[int, Mark]]) -> None:
    """The promise to the reader, whatever a delivery port does: no chunk is sent again."""
    items = outbox("one", "two")
    seen: dict[int, list[Mark]] = {0: ["planned"], 1: ["planned"]}
    for chunk, mark in marks:
        try:
            items = marked(items, chunk, mark)
        except ValueError:
            continue
        seen[chunk].append(mark)

    for told in seen.values():
        for before, now in pairwise(told):
            assert now != "sending" or before in {"planned", "unsent", "unknown"}
            assert now not in {"sent", "unsent", "unknown"} or before == "sending"
    is_over = all(told[-1] in {"sent", "failed", "given_up", "closed"} for told in seen.values())
    assert is_over == (items[0].seq != 5)


def test_the_session_survives_being_told_what_is_in_a_whole_log() -> None:
    """The example that snapshots and records are tried with owes what it should."""
    state = replay(delivered_log())

    assert [(p.seq, p.kind, p.preview) for p in state.outbox] == [
        (13, "reply", "77"),
        (18, "approval", ""),
        (25, "file", ""),
        (27, "notice", ""),
        (29, "reply", "79"),
        (35, "end", ""),
        (48, "undelivered", ""),
    ]
    assert [each.seq for each in state.ambient] == [41, 43, 44, 48]
    assert state.open_turn is not None
    assert (state.open_turn.preview_step, state.open_turn.preview_id) == (1, "80")


# --- what is given up ---


def lost(
    *marks: Mark, kind: OutboxItemKind = "reply", state: SessionState | None = None
) -> OutboxItem:
    """Return what people are told where a reply of two chunks, marked so, is given up."""
    chunks = tuple(Chunk(payload="x", mark=mark, tries=mark == "unknown") for mark in marks)
    item = OutboxItem(seq=5, pending_since=START, turn=1, kind=kind, chunks=chunks)
    first = next(n for n, mark in enumerate(marks) if mark not in {"sent", "given_up"})
    body = ChunkMarked(item=5, chunk=first, mark="given_up", error="offline")
    state = replace(state or began(), outbox=(item,))
    after_it = after(body, state=state)
    assert [each.own for each in after_it.ambient] == [True]
    return next(each for each in after_it.outbox if each.kind == "undelivered")


def test_what_is_given_up_is_owed_as_a_word_and_told_to_the_model() -> None:
    """Whoever waits for a reply has to know that none comes."""
    told = lost("unsent", "planned")

    assert told.pending_since == START
    assert told.text == "A reply from 2026-01-02 03:04 UTC could not be delivered."
    assert "could not be delivered whole" in lost("sent", "unsent").text
    assert lost("unknown", "planned").text.endswith("It may have come all the same.")
    assert lost("unsent", "planned", kind="file").text.startswith("A file from")

    # One word tells of all that was given up until it is laid out. A day of outage ends in one
    # message.
    items = tuple(
        OutboxItem(
            seq=n,
            pending_since=START,
            turn=1,
            kind="reply",
            chunks=(Chunk(payload="x", mark="unsent"),),
        )
        for n in range(1, 9)
    )
    state = replace(began(), outbox=items)
    for n in range(1, 9):
        state = after(ChunkMarked(item=n, chunk=0, mark="given_up"), state=state)

    [told] = state.outbox
    assert told.text.count("could not be delivered") == UNDELIVERED_LINES + 1
    assert told.text.endswith(UNDELIVERED_MORE)
    assert len(state.ambient) == 8

    state = after(
        DeliveryPlanned(item=told.seq, chunks=("x",)),
        ChunkMarked(item=told.seq, chunk=0, mark="sending"),
        ChunkMarked(item=told.seq, chunk=0, mark="unsent"),
        ChunkMarked(item=told.seq, chunk=0, mark="given_up"),
        state=state,
    )
    assert state.outbox == ()
    assert len(state.ambient) == 8
