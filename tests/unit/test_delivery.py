"""The parts of a delivery: tokens of questions, texts, chunks of outbox items, rate limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import get_args

import anyio
from msgspec.structs import replace
from support.patience import WAIT_S
from support.scripted_adapter import ScriptedAdapter, capabilities
from support.tables import table

from everturn_actors.model import (
    Approval,
    ConversationKey,
    OpenStep,
    OpenTurn,
    OutboxItem,
    Reply,
    Resolution,
    ToolCall,
)
from everturn_actors.state.session_state import SessionState
from everturn_actors.testing import START, ManualClock
from everturn_channels.delivery.approvals import (
    approval_token,
    button_data,
    find_question,
    read_button,
)
from everturn_channels.delivery.questions import NONE, question_of
from everturn_channels.delivery.rate_limiter import RateLimiter
from everturn_channels.delivery.rendering import (
    attachments_of,
    is_whole_reply,
    nonce,
    render,
)
from everturn_channels.delivery.words import call_text, question_text, ran_text, resolved_text
from everturn_channels.settings import ChannelSettings

APPROVAL = Approval(
    call_id="c1", arguments_hash="a" * 32, expires_at=datetime(2026, 1, 2, 4, 4, tzinfo=UTC)
)
CALL = ToolCall(call_id="c1", name="rm", arguments='{"path":"a\\nb","deep":{"n":[1,2]}}')


def state_with(*approvals: Approval, outbox: tuple[OutboxItem, ...] = ()) -> SessionState:
    """Return a session whose open step asks."""
    step = OpenStep(
        reply=Reply(seq=5, calls=(CALL,)), approvals={each.call_id: each for each in approvals}
    )
    return SessionState(
        session_id="s1",
        key=ConversationKey(channel="test", chat="chat", agent="test"),
        created_at=START,
        updated_at=START,
        last_seq=9,
        open_turn=OpenTurn(number=1, users=(), started_at=START, step=step),
        outbox=outbox,
    )


# --- buttons ---


@table("decision", ["allow_once", "allow_always", "deny"])
def test_a_button_says_what_its_press_means(decision: str) -> None:
    """What goes out to the platform is what comes back from it."""
    token = approval_token("s1", APPROVAL)
    data = button_data(decision, token)  # type: ignore[arg-type]

    button = read_button(data)
    assert button is not None
    assert (button.decision, button.token, button.answer) == (decision, token, "")
    assert len(data.encode("ascii")) <= 64


@table(
    "data", ["", "ap:", "ap:x:0123456789abcdef", "ap:o:0123", "ap:o:0123456789abcdef\n", "hello"]
)
def test_what_is_no_button_of_a_question_is_none(data: str) -> None:
    """Buttons of other bots, or of older versions, decide about nothing."""
    assert read_button(data) is None


# --- questions ---


def asked(seq: int) -> OutboxItem:
    """Return the outbox item of a question."""
    return OutboxItem(seq=seq, turn=1, kind="approval", call_id="c1")


def test_a_token_fits_one_call_with_one_set_of_arguments_of_one_session() -> None:
    """SE-04: what was allowed must not allow anything else."""
    anew = replace(APPROVAL, expires_at=APPROVAL.expires_at + timedelta(microseconds=1))
    tokens = {
        approval_token("s1", APPROVAL),
        approval_token("s2", APPROVAL),
        approval_token("s1", replace(APPROVAL, call_id="c2")),
        approval_token("s1", replace(APPROVAL, arguments_hash="b" * 32)),
        approval_token("s1", anew),
    }

    assert len(tokens) == 5
    found = find_question(state_with(APPROVAL), approval_token("s1", APPROVAL))
    assert found is APPROVAL
    assert find_question(state_with(APPROVAL), "0" * 16) is None

    # A question is over when a later step asks about a call of the same name. Some models number
    # their calls anew in each step.
    state = state_with(APPROVAL, outbox=(asked(6), asked(9)))

    assert question_of(state, state.outbox[0]).is_over
    assert not question_of(state, state.outbox[1]).is_over
    assert question_of(state, state.outbox[1]).call == CALL


# --- words ---


def test_whoever_decides_reads_all_of_it_and_how_it_ended() -> None:
    """The words of a question, of its end and of what ran."""
    # A question shows every argument and hides nothing. Whoever decides must see what runs, not
    # what it pretends to be.
    call = ToolCall(call_id="c", name="ba\u200bsh", arguments='{"x":"\u202eabc","y":"1\\n2"}')
    text = question_text(call, APPROVAL, "s1", has_buttons=True)

    assert "May ba\\u200bsh run?" in text
    assert '"x": "\\u202eabc"' in text
    assert '"y": "1\\n2"' in text
    assert "Whoever may talk here may answer, until 2026-01-02 04:04 UTC." in text
    assert text.isprintable() is False
    assert text.replace("\n", "").isprintable()

    # Every end of a question has its words. None of them may read like another.
    ends = (*get_args(Resolution), None)

    assert len({resolved_text(each, "ann") for each in ends}) == len(ends) == 8
    assert "ada" not in resolved_text("deny", "owner:ada"), "a group need not learn who is an owner"

    # Many tools make a short line. A turn may run a hundred; nobody reads their names.
    assert ran_text(["a", "b", "a"]) == "ran a, b"
    assert ran_text([*"abcdefgh"]) == "ran a, b, c, d, e, f and 2 more"


@table("arguments", ["{", '{"a":' + "[" * 5000, "\x00"])
def test_arguments_that_are_no_json_are_shown_as_they_stand(arguments: str) -> None:
    """A model may write anything; the question is asked all the same."""
    text = call_text(ToolCall(call_id="c", name="rm", arguments=arguments))

    assert arguments.replace("\x00", "\\u0000") in text


# --- layout ---


def test_what_is_laid_out_is_what_is_owed() -> None:
    """No text is a file, a question that is over is nothing, and a message is known again."""
    # No text passes for a file. A model that writes the mark of a file must not be able to send
    # one.
    adapter = ScriptedAdapter()
    item = OutboxItem(seq=1, turn=1, kind="reply", text="\x1dreply")
    [payload] = render(item, NONE, "s1", adapter, ChannelSettings())

    assert not is_whole_reply(payload)
    assert attachments_of(item, payload) == ()

    # A question that nobody can answer is laid out as nothing. There is nothing to ask.
    assert render(asked(1), NONE, "s1", ScriptedAdapter(), ChannelSettings()) == ()

    # A nonce is the same for the same message alone. It is how a platform knows a message that it
    # has already.
    assert nonce("s", 1, 0) == "e67c19bb961becd707b13916"  # after an upgrade, too
    assert len({nonce("s", 1, 0), nonce("s", 1, 1), nonce("s", 2, 0), nonce("t", 1, 0)}) == 4


@table(("after", "size"), [(0, 2), (2, 3), (3, 3)])
def test_a_reply_becomes_a_file_above_the_limit_alone(after: int, size: int) -> None:
    """The limit is the last number of messages that is not too many."""
    adapter = ScriptedAdapter(able=capabilities(chunk_units=10))
    settings = ChannelSettings(long_replies="file", file_after_chunks=after)
    item = OutboxItem(seq=1, turn=1, kind="reply", text="x" * size * 10)
    payloads = render(item, NONE, "s1", adapter, settings)

    assert any(map(is_whole_reply, payloads)) == (size > max(after, 1))


# --- rate limits ---


async def test_who_waited_for_a_place_waits_for_quiet_too() -> None:
    """A 429 may come while others queue; none of them may slip through."""
    clock = ManualClock()
    limiter = RateLimiter(clock, lambda: 0.0, at_once=1)
    taken: list[str] = []
    assert limiter.acquire_nowait()
    assert not limiter.acquire_nowait()

    async def wait() -> None:
        await limiter.acquire()
        taken.append("taken")

    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert limiter.is_contended
            limiter.pause_for(33)
            limiter.pause_for(5)
            limiter.release()
            await clock.until_sleeping(33)
            assert taken == []
            clock.advance(33)
    assert taken == ["taken"]


async def test_the_wait_after_failures_grows_to_a_minute_and_varies() -> None:
    """Whoever asks a platform that is down asks it seldom."""
    # A thousand conversations must not come back in the same second.
    clock = ManualClock()
    for jitter, failures, expected_s in ((0.0, 1, 1), (0.0, 4, 8), (0.0, 99, 60), (1.0, 99, 30)):
        limiter = RateLimiter(clock, lambda jitter=jitter: jitter)  # type: ignore[misc]
        with anyio.fail_after(WAIT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(limiter.back_off, failures)
                await clock.until_sleeping(expected_s)
                assert not clock._will_wake(clock.now())
                clock.advance(expected_s)

    # Pauses grow to a limit and those in doubt further. Whatever may have arrived may come again
    # with each try.
    limiter = RateLimiter(ManualClock(), lambda: 0.0)
    assert [limiter.backoff_s(n) for n in (1, 2, 3, 7, 99)] == [1, 2, 4, 60, 60]
    assert [limiter.backoff_s(n, in_doubt=True) for n in (1, 2, 3, 99)] == [2, 4, 8, 1800]


async def test_a_platform_that_is_back_ends_the_waits() -> None:
    """An outage is over for everybody at once."""
    # A platform that is back ends the waits after failures. What could not be sent in an outage
    # need not wait another minute after it.
    clock = ManualClock()
    limiter = RateLimiter(clock, lambda: 0.0)
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(limiter.back_off, 99)
            tasks.start_soon(limiter.back_off, 1)
            await clock.until_sleeping(1)
            await clock.until_sleeping(60)
            limiter.stop_backing_off()

    assert clock.now() == ManualClock().now()

    # A word of the platform ends the waits that listen for it. What failed in an outage need not
    # wait longer than the outage.
    clock = ManualClock()
    limiter = RateLimiter(clock, lambda: 0.0)
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(limiter.wait, 1_000, or_heard=True))
            tasks.start_soon(limiter.wait, 10)
            await clock.until_sleeping(10)
            await clock.until_sleeping(1_000)
            limiter.heard()
            await anyio.wait_all_tasks_blocked()
            assert not clock._will_wake(clock.now() + timedelta(seconds=9))
            clock.advance(10)

    assert clock.now() == ManualClock().now() + timedelta(seconds=10)
