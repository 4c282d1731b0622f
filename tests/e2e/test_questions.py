"""How often people are asked while agents do ordinary work: no more than is written down."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from support.commands import needs_sandbox
from support.warm_start import everturn_command

ROOT = Path(__file__).parents[2]
MOST = {"workbench": 1, "coder": 0, "researcher": 1, "digest": 0}
"Questions of each scenario's agent; docs/evidence.md has those of before."


def _benchmark() -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module("questions")
    finally:
        sys.path.pop(0)


questions = _benchmark()


@needs_sandbox
@pytest.mark.parametrize("scenario", questions.SCENARIOS, ids=lambda each: str(each.agent))
async def test_ordinary_work_asks_no_more_than_is_written_down(scenario: Any) -> None:
    """Whoever is asked for everything reads nothing, and switches the questions off."""
    count, is_done = await anyio.to_thread.run_sync(
        lambda: questions.measure(scenario, ROOT, then=False, everturn=everturn_command())
    )

    assert is_done, count.failed
    assert sum(count.asked.values()) <= MOST[scenario.agent], count.reasons
