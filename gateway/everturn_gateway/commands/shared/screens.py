"""The screen of stdout."""

from __future__ import annotations

import os
import sys

from everturn_channels.terminal.screen import Screen, stream_writer, wants_colour


def stdout_screen() -> Screen:
    """Return what writes to stdout: coloured on a terminal, plain elsewhere and with NO_COLOR."""
    return Screen(
        stream_writer(sys.stdout),
        colour=wants_colour(sys.stdout, os.environ),
        encoding=sys.stdout.encoding or "utf-8",
    )
