"""Tests of pure code by a table: every row is tried, and all rows are one test.

With `pytest.mark.parametrize` each row is a test of its own, and costs more than a pure function
takes: that is for rows that each have a folder, a gateway or a loop of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest


def table(
    names: str | Sequence[str], rows: Iterable[object]
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Return what makes one test of a function and its table; used as `pytest.mark.parametrize` is.

    The test tries all rows, and fails with an error for each that is wrong. It names the row.

    Args:
        names: The arguments: one after the other, or with commas between.
        rows: The value of each row where there is one name, the values in their order where there
            are several; `pytest.param` as well.
    """
    columns = [each.strip() for each in names.split(",")] if isinstance(names, str) else [*names]
    values = [_values(row, is_one=len(columns) == 1) for row in rows]

    def make(test: Callable[..., None]) -> Callable[[], None]:
        def try_all() -> None:
            wrong: list[BaseException] = []
            for row in values:
                try:
                    test(**dict(zip(columns, row, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - told below
                    error.add_note(f"in the row {row!r}")
                    wrong.append(error)
            if wrong:
                told = f"{len(wrong)} of {len(values)} rows are wrong"
                raise BaseExceptionGroup(told, wrong)

        try_all.__name__, try_all.__qualname__ = test.__name__, test.__qualname__
        try_all.__doc__, try_all.__module__ = test.__doc__, test.__module__
        return try_all

    return make


def _values(row: object, *, is_one: bool) -> Sequence[object]:
    if isinstance(row, pytest.ParameterSet):
        return row.values
    if is_one:
        return (row,)
    assert isinstance(row, Sequence), row
    return row
