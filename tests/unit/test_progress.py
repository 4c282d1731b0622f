"""How far something is, shown to a person."""

from __future__ import annotations

import io

import anyio
import pytest
from rich.console import Console

from everturn_gateway.commands.shared.progress import slow_progress

WAIT_S = 10.0


class Screen(io.StringIO):
    """A screen that tells when something was drawn on it."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.wanted, self.is_there = wanted, anyio.Event()

    def write(self, text: str) -> int:
        """Draw, and see whether it is there now."""
        count = super().write(text)
        if self.wanted in self.getvalue():
            self.is_there.set()
        return count


async def test_what_takes_long_is_shown_at_a_terminal_and_gone_at_the_end() -> None:
    """Nobody has to guess whether a look through many sessions still runs."""
    screen = Screen("12345/50000")
    console = Console(file=screen, force_terminal=True, width=80)
    async with slow_progress("sessions", console=console, shown_after_s=0) as looked:
        looked(12_345, 50_000)
        with anyio.fail_after(WAIT_S):
            await screen.is_there.wait()
    shown = screen.getvalue()

    assert "sessions" in shown
    assert shown.endswith("\x1b[2K")  # the line is wiped


async def test_what_is_soon_over_shows_nothing_and_its_error_is_its_own() -> None:
    """A command that takes a moment is silent; whoever called finds the error that was raised."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    with pytest.raises(ValueError, match="no such session"):
        async with slow_progress("sessions", console=console) as looked:
            looked(100, 50_000)
            msg = "no such session"
            raise ValueError(msg)

    assert screen.getvalue() == ""


async def test_elsewhere_lines_tell_how_far_it_is() -> None:
    """What somebody keeps of stderr has lines, without bars; a wait that counts nothing has one."""
    lines: list[str] = []
    console = Console(file=io.StringIO())
    for what, done in (("sessions", 100), ("asking", 0)):
        came = anyio.Event()

        def line(text: str, came: anyio.Event = came) -> None:
            lines.append(text)
            came.set()

        async with slow_progress(what, console=console, shown_after_s=0, line=line) as looked:
            looked(done, done or None)
            with anyio.fail_after(WAIT_S):
                await came.wait()

    assert lines == ["sessions: 100 of 100, about 0 s left", "asking: 0 s so far"]
