"""Questions to a person at a terminal; nobody else is asked anything."""

from __future__ import annotations

import sys

import anyio.to_thread
import typer


def can_ask() -> bool:
    """Say whether a person sits there who can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def confirm(question: str) -> bool:
    """Ask; without a person the answer is yes."""
    if not can_ask():
        return True
    return await anyio.to_thread.run_sync(typer.confirm, question)
