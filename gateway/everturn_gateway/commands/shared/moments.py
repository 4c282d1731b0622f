"""Instants for people at a terminal: by this machine's clock, with the name of its zone."""

from __future__ import annotations

from datetime import datetime


def minute_text(moment: datetime) -> str:
    """Return an instant to the minute: `2026-12-01 08:30 CET`."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M %Z}"
