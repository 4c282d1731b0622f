"""A published suite as one test: each test of the suite is a row of it.

A suite is tests by themselves for whoever holds one thing of theirs to it. Here many things are
held to each, and most of its tests take less time than to hand one to a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.tables import wrong_rows


def hold_to_suite(
    make: Callable[[], Any],
    folder: Path,
    *,
    left_out: Iterable[str] = (),
    share: int = 0,
    parts: int = 1,
) -> None:
    """Run all tests of a suite, and fail with an error for each that failed; it names the test.

    Args:
        make: Makes what holds something to the suite, anew for each test.
        folder: Where each test gets an empty folder of its own.
        left_out: The tests that are skipped, as what they need is not there; no others may be.
        share: Which of the parts to run.
        parts: Into how many parts the suite is cut, which workers share.
    """
    names = [each for each in dir(make()) if each.startswith("test_")]
    assert names
    skipped = set[str]()
    with wrong_rows(len(names)) as row_of:
        for name in names[share::parts]:
            suite = make()
            suite.folder = folder / name
            suite.folder.mkdir()
            with row_of(name):
                try:
                    _run(getattr(suite, name))
                except* pytest.skip.Exception:
                    skipped.add(name)
    assert skipped == {*left_out} & {*names[share::parts]}, f"skipped: {sorted(skipped)}"


def _run(test: Callable[[], Coroutine[Any, Any, None] | None]) -> None:
    if iscoroutinefunction(test):
        anyio.run(test)
    else:
        test()
