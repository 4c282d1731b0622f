"""The log of this process, kept as that of the served gateway is."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from io import StringIO

from everturn_gateway.logs import RecentLog, SecretRegistry, setup_logging


@contextmanager
def logging_to(recent: RecentLog, secrets: SecretRegistry) -> Generator[None]:
    """Log as the served gateway does while the block runs."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    setup_logging("INFO", secrets, stream=StringIO(), recent=recent)
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)
