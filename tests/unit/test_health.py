"""The status of a channel: healthy only with proof, and every trouble in words."""

from __future__ import annotations

from datetime import timedelta

from everturn_actors.testing import START, ManualClock
from everturn_channels.health import ERROR_LIMIT, Health


def _health(clock: ManualClock) -> Health:
    return Health("telegram-family", "telegram", clock, 60)


def test_only_who_is_connected_and_heard_from_is_healthy() -> None:
    """R18: a channel that receives no more looks connected for ever."""
    # A login alone is no health.
    clock = ManualClock()
    health = _health(clock)
    before = health.is_healthy
    health.connected("@bot")
    logged_in = health.is_healthy
    health.received()
    heard = health.is_healthy
    clock.advance(60)
    just = health.is_healthy
    clock.advance(0.001)

    assert (before, logged_in, heard, just) == (False, False, True, True)
    assert not health.is_healthy
    assert not health.status().is_healthy

    # Who is heard from but not connected is not healthy. The last words of a lost connection are
    # still fresh.
    clock = ManualClock()
    health = _health(clock)
    health.connected("@bot")
    health.received()

    health.retrying(clock.now(), "gone")

    assert not health.is_healthy


def test_a_status_tells_everything() -> None:
    """It is all that people see of a channel."""
    clock = ManualClock()
    health = _health(clock)
    health.count_in()
    health.count_in()
    health.count_out()
    health.count_skipped(3)
    clock.advance(5)
    health.retrying(START + timedelta(seconds=9), "no route\n to host")
    clock.advance(1)
    health.retrying(START + timedelta(seconds=20), "no route to host")

    status = health.status()

    assert (status.name, status.platform, status.state) == (
        "telegram-family",
        "telegram",
        "retrying",
    )
    assert (status.received, status.sent, status.skipped, status.retries) == (2, 1, 3, 2)
    assert (status.error, status.account) == ("no route to host", "")
    assert status.since == START + timedelta(seconds=5)
    assert status.retry_at == START + timedelta(seconds=20)
    assert status.last_received_at is None


def test_trouble_stays_in_the_status_until_it_is_over() -> None:
    """And no longer."""
    # A connection ends the trouble. A status that still names yesterday's error sends people
    # looking for it.
    clock = ManualClock()
    health = _health(clock)
    health.retrying(START, "gone")

    health.connected("@bot")

    status = health.status()
    assert (status.state, status.account) == ("connected", "@bot")
    assert (status.error, status.retry_at, status.retries) == ("", None, 0)

    # A fault of the setup stays until it is set right. It is tried again, but only its owner can
    # help: the state has to say so.
    clock = ManualClock()
    health = _health(clock)
    health.failed("the token is not valid")
    health.retrying(START + timedelta(minutes=5))
    waiting = health.status()
    health.retrying(START, "no route to host")

    assert (waiting.state, waiting.error) == ("failed setup", "the token is not valid")
    assert waiting.retry_at == START + timedelta(minutes=5)
    assert health.status().state == "retrying"

    # A stopped channel waits for nothing. The gateway stops; nothing is tried again.
    health = _health(ManualClock())
    health.retrying(START, "gone")

    health.stopped()

    assert (health.status().state, health.status().retry_at) == ("stopped", None)


def test_no_error_carries_a_token() -> None:
    """Nor half of one."""
    # SE-03: errors of HTTP libraries name the address, and the address holds the token.
    health = _health(ManualClock())

    health.failed("GET https://api.telegram.org/bot123456:AAAA-x_y/getMe: " + "z" * 1000)

    error = health.status().error
    assert "AAAA" not in error
    assert "https://api.telegram.org/bot***/getMe" in error
    assert len(error) == ERROR_LIMIT

    # The gateway's own mask is used before the words are cut. Half a secret is still a secret.
    secret = "s3cret" * 10
    health = Health(
        "d", "discord", ManualClock(), 60, mask=lambda text: text.replace(secret, "***")
    )

    health.retrying(START, "x" * (ERROR_LIMIT - 20) + secret)

    assert health.status().error.endswith("x***")
