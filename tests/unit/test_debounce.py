"""How long a turn waits for the rest of a burst."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from everturn_actors.state.queue import LONGEST_DEBOUNCES, Debounce

BEGAN = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
HOLD_S = 1.5


def at(seconds: float) -> datetime:
    """Return an instant so many seconds after the first message."""
    return BEGAN + timedelta(seconds=seconds)


def test_a_turn_waits_for_the_rest_of_what_people_write() -> None:
    """Not where nobody asks for it, and not for ever."""
    # Nothing is waited for unless a message asks for it. A program that sends one request must not
    # wait for a second one.
    holds = Debounce()
    holds = holds.note("ann", 0, at(0))

    assert holds.until(at(0)) is None
    assert not holds.in_window("ann", at(0))

    # A message holds the turn for its time. A forwarded message and the comment on it come as two,
    # and are one question.
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))

    assert holds.until(at(0)) == at(1.5)
    assert holds.until(at(1.4)) == at(1.5)
    assert holds.until(at(1.5)) is None

    # Each further message holds it anew but not for ever. Somebody who types without a pause is
    # answered in the end.
    holds = Debounce()
    for n in range(6):
        holds = holds.note("ann", HOLD_S, at(n))

    assert holds.until(at(5)) == at(HOLD_S * LONGEST_DEBOUNCES)
    assert holds.until(at(6)) is None

    # The turn waits for everybody who writes. Two people who talk to the agent at once are answered
    # together.
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))
    holds = holds.note("bob", HOLD_S, at(1))

    assert holds.until(at(1)) == at(2.5)

    # A turn that began is not held and the next one is. The wait is counted for each turn, from the
    # first message that waits for it.
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))
    holds = holds.release()
    assert holds.until(at(0.1)) is None

    holds = holds.note("bob", HOLD_S, at(5))

    assert holds.until(at(5)) == at(6.5)


def test_what_belongs_together_is_of_one_sender_and_close() -> None:
    """Also across the beginning of a turn."""
    # Nobody's message is taken for the rest of another's.
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))

    assert holds.in_window("ann", at(1.4))
    assert not holds.in_window("ann", at(1.5))
    assert not holds.in_window("bob", at(0.1))

    # A burst that does not end is more than one. The rest of a burst is taken where nothing else
    # is: a flood must not get in as one.
    holds = Debounce()
    for n in range(6):
        holds = holds.note("ann", HOLD_S, at(n))

    assert holds.in_window("ann", at(5.9))
    assert not holds.in_window("ann", at(6))
    holds = holds.note("ann", HOLD_S, at(6))
    assert holds.in_window("ann", at(7.4))

    # A burst goes on in the turn after. A comment that comes when its turn was begun by a command
    # is still that sender's next.
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))
    holds = holds.release()

    assert holds.in_window("ann", at(1))


def test_neither_clocks_nor_settings_hold_a_message_for_good() -> None:
    """Somebody waits for an answer."""
    # A clock that is set back holds nobody. An hour that comes twice must not keep a message for an
    # hour.
    holds = Debounce()
    holds = holds.note("ann", HOLD_S, at(0))

    assert holds.until(at(-3600)) is None
    assert not holds.in_window("ann", at(-3600))

    # Any number of senders and any wish can be borne. A setting with too many zeros must not end
    # the conversation.
    holds = Debounce()
    for n in range(1000):
        holds = holds.note(f"member {n}", 1e300, at(0))

    assert holds.until(at(0)) == at(86_400)
    assert not holds.in_window("member 0", at(1))
    assert holds.in_window("member 999", at(1))
