"""How long a turn waits for the rest of a burst."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from everturn_actors.state.queue import LONGEST_DEBOUNCES, Debounce

BEGAN = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
HOLD_S = 1.5


def at(seconds: float) -> datetime:
    """Return an instant so many seconds after the first message."""
    return BEGAN + timedelta(seconds=seconds)


def test_nothing_is_waited_for_unless_a_message_asks_for_it() -> None:
    """A program that sends one request must not wait for a second one."""
    holds = Debounce()
    holds = holds.note("ann", 0, at(0))

    assert holds.until(at(0)) is None
    assert not holds.in_window("ann", at(0))


def test_a_message_holds_the_turn_for_its_time() -> None:
    """A forwarded message and the comment on it come as two, and are one question."""
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))

    assert holds.until(at(0)) == at(1.5)
    assert holds.until(at(1.4)) == at(1.5)
    assert holds.until(at(1.5)) is None


def test_each_further_message_holds_it_anew_but_not_for_ever() -> None:
    """Somebody who types without a pause is answered in the end."""
    holds = Debounce()
    for n in range(6):
        holds = holds.note("ann", HOLD_S, at(n))

    assert holds.until(at(5)) == at(HOLD_S * LONGEST_DEBOUNCES)
    assert holds.until(at(6)) is None


def test_the_turn_waits_for_everybody_who_writes() -> None:
    """Two people who talk to the agent at once are answered together."""
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))
    holds = holds.note("bob", HOLD_S, at(1))

    assert holds.until(at(1)) == at(2.5)


def test_what_belongs_together_is_of_one_sender_and_close() -> None:
    """Nobody's message is taken for the rest of another's."""
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))

    assert holds.in_window("ann", at(1.4))
    assert not holds.in_window("ann", at(1.5))
    assert not holds.in_window("bob", at(0.1))


def test_a_burst_that_does_not_end_is_more_than_one() -> None:
    """The rest of a burst is taken where nothing else is: a flood must not get in as one."""
    holds = Debounce()
    for n in range(6):
        holds = holds.note("ann", HOLD_S, at(n))

    assert holds.in_window("ann", at(5.9))
    assert not holds.in_window("ann", at(6))
    holds = holds.note("ann", HOLD_S, at(6))
    assert holds.in_window("ann", at(7.4))


def test_a_turn_that_began_is_not_held_and_the_next_one_is() -> None:
    """The wait is counted for each turn, from the first message that waits for it."""
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))
    holds = holds.release()
    assert holds.until(at(0.1)) is None

    holds = holds.note("bob", HOLD_S, at(5))

    assert holds.until(at(5)) == at(6.5)


def test_a_burst_goes_on_in_the_turn_after() -> None:
    """A comment that comes when its turn was begun by a command is still that sender's next."""
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))
    holds = holds.release()

    assert holds.in_window("ann", at(1))


def test_a_clock_that_is_set_back_holds_nobody() -> None:
    """An hour that comes twice must not keep a message for an hour."""
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))

    assert holds.until(at(-3600)) is None
    assert not holds.in_window("ann", at(-3600))


def test_any_number_of_senders_and_any_wish_can_be_borne() -> None:
    """A setting with too many zeros must not end the conversation."""
    holds = Debounce()
    for n in range(1000):
        holds = holds.note(f"member {n}", 1e300, at(0))

    assert holds.until(at(0)) == at(86_400)
    assert not holds.in_window("member 0", at(1))
    assert holds.in_window("member 999", at(1))
