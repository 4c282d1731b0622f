"""The processes that a test has begun."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import psutil

Children: TypeAlias = Callable[[], list[psutil.Process]]
"Returns the processes that this one has begun since the test began, and that are still there."


def children_from_now() -> Children:
    """Return what lists them. Those of tests before this one may take their time to end."""
    before = set(psutil.Process().children())
    return lambda: [each for each in psutil.Process().children() if each not in before]
