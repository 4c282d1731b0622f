"""Which failed tests are looked at again, alone, before a run is called red."""

from __future__ import annotations

from support.alone import judge
from support.tables import table

E2E = "tests/e2e/test_chat.py::test_one"


@table(
    ("exit_code", "failed", "why"),
    [
        (1, [E2E], ""),
        (1, [E2E, "tests/integration/test_feed.py::test_two"], ""),
        (1, [E2E, "tests/stateful/test_turns.py::test_three"], "test_three starts no process"),
        (1, [E2E] * 4, "4 tests failed"),
        (1, [], "ended with 1"),
        (2, [E2E], "ended with 2"),
        (3, [E2E], "ended with 3"),
    ],
)
def test_a_red_run_stays_red_unless_few_tests_with_processes_failed(
    exit_code: int, failed: list[str], why: str
) -> None:
    """A run that was cut, or that broke something without a process, has no second look."""
    assert why in judge(exit_code, failed)
    assert bool(judge(exit_code, failed)) == bool(why)
