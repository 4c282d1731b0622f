"""How many examples a property test tries: a few, always the same; at night many others.

make nightly                                   # 2,000 of each, other ones each time
FUZZ_EXAMPLES=20000 pytest --timeout=0 tests/property/test_fuzz_*.py
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

LONG_RUN: Final = int(os.environ.get("FUZZ_EXAMPLES", "0"))
"How many in a long run; 0 = this is none."
EXAMPLES: Final = 12
"Of a test that does not say."


def examples(count: int = EXAMPLES, *, steps: int = 50) -> settings:
    """Return the settings of a test that tries so many, and in a long run as many as that says.

    Args:
        count: The same ones each time.
        steps: Of a state machine, at most.
    """
    if not LONG_RUN:
        return settings(max_examples=count, stateful_step_count=steps)
    return settings(
        max_examples=LONG_RUN,
        stateful_step_count=steps,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )


settings.register_profile(
    "default",
    derandomize=not LONG_RUN,
    print_blob=True,
    deadline=None,
    max_examples=LONG_RUN or EXAMPLES,
    suppress_health_check=list(HealthCheck) if LONG_RUN else [HealthCheck.too_slow],
)
settings.load_profile("default")
