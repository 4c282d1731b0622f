"""How far something is, shown to a person."""

from __future__ import annotations

import io

from rich.console import Console

from everturn_gateway.commands.shared.progress import SHOWN_AFTER_S, SlowProgress


def test_what_takes_long_is_shown_at_a_terminal_and_gone_at_the_end() -> None:
    """Nobody has to guess whether a look through many sessions still runs."""
    screen, now_s = io.StringIO(), [0.0]
    console = Console(file=screen, force_terminal=True, width=80)
    with SlowProgress("sessions", console=console, clock_s=lambda: now_s[0]) as looked:
        looked(100, 50_000)
        soon = screen.getvalue()
        now_s[0] = SHOWN_AFTER_S
        looked(12_345, 50_000)
    shown = screen.getvalue()

    assert soon == ""
    assert "sessions" in shown
    assert "12345/50000" in shown
    assert shown.endswith("\x1b[2K")  # the line is wiped


def test_a_file_gets_nothing_of_it() -> None:
    """What somebody keeps of stderr is what was said, without bars."""
    screen, now_s = io.StringIO(), [0.0]
    with SlowProgress("sessions", console=Console(file=screen), clock_s=lambda: now_s[0]) as looked:
        now_s[0] = SHOWN_AFTER_S
        looked(12_345, 50_000)

    assert screen.getvalue().strip() == ""
