"""What watches the event loop in every test: it fails where our code blocks, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from blockbuster import BlockingError

import everturn_actors

LOOK = "import os\ndef look():\n    return os.stat('/')\n"


def code_at(path: str) -> dict[str, Any]:
    """Return what stands in a module of a path."""
    names: dict[str, Any] = {}
    exec(compile(LOOK, path, "exec"), names)  # noqa: S102 - a text of this file
    return names


async def test_our_code_fails_where_it_blocks_the_loop_each_time() -> None:
    """And nobody else's."""
    # A disk that hangs holds up one conversation, and not all.
    ours = code_at(f"{everturn_actors.__path__[0]}/x.py")

    for _ in range(2):
        with pytest.raises(BlockingError, match=r"os\.stat"):
            ours["look"]()

    # What a test does itself may block. It is alone in its loop.
    assert code_at("/elsewhere/x.py")["look"]()


def test_our_code_may_block_where_no_loop_runs() -> None:
    """As in a thread."""
    assert code_at(f"{everturn_actors.__path__[0]}/x.py")["look"]()
