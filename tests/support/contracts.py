"""A published contract held by one test: every promise is a row.

The contracts are classes of tests, for whoever writes a plug-in to subclass. Our own channels keep
the same promises without a test for each: to find it and to tell of it costs more than to try it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.tables import wrong_rows


def left_out_of(make: Callable[[Path], object], folder: Path) -> set[str]:
    """Try every promise of a contract, each on an object of its own, as pytest does.

    It fails with an error for each that is not kept, and returns those that do not apply.

    Args:
        make: Returns what keeps the contract, given a folder of its own.
        folder: Where the folders are made.
    """
    names = sorted(name for name in dir(make(_made(folder / "names"))) if name.startswith("test_"))
    assert names
    left_out = set[str]()
    with wrong_rows(len(names)) as row_of:
        for name in names:
            with row_of(name):
                try:
                    getattr(make(_made(folder / name)), name)()
                except* pytest.skip.Exception:
                    left_out.add(name)
    return left_out


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
