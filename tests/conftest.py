"""What every test stands on: a loop that must not be blocked, and reproducible examples."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    derandomize=True,
    print_blob=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _no_blocking() -> Generator[None]:
    """Fail a test whose code blocks the event loop: files, sleeps and locks belong in threads."""
    with blockbuster_ctx(["everturn_actors", "everturn_channels", "everturn_gateway"]):
        yield
