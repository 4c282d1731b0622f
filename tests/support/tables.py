"""Tests of pure code by a table: every row is tried, and all rows are one test.

With `pytest.mark.parametrize` each row is a test of its own, and costs more than a pure function
takes: that is for rows that each have a folder, a gateway or a loop of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager

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
    columns = columns_of(names)
    values = [values_of(row, is_one=len(columns) == 1) for row in rows]

    def make(test: Callable[..., None]) -> Callable[[], None]:
        def try_all() -> None:
            with wrong_rows(len(values)) as row_of:
                for row in values:
                    with row_of(row):
                        test(**dict(zip(columns, row, strict=True)))

        try_all.__name__, try_all.__qualname__ = test.__name__, test.__qualname__
        try_all.__doc__, try_all.__module__ = test.__doc__, test.__module__
        return try_all

    return make


def columns_of(names: str | Sequence[str]) -> list[str]:
    """Return the names of the columns, each by itself."""
    return [each.strip() for each in names.split(",")] if isinstance(names, str) else [*names]


@contextmanager
def wrong_rows(count: int) -> Generator[Callable[[object], AbstractContextManager[None]]]:
    """Give what each row is tried in; fail at the end where one was wrong, with all errors."""
    wrong: list[BaseException] = []

    @contextmanager
    def row_of(row: object) -> Generator[None]:
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - told below
            error.add_note(f"in the row {row!r}")
            wrong.append(error)

    yield row_of
    if wrong:
        told = f"{len(wrong)} of {count} rows are wrong"
        raise BaseExceptionGroup(told, wrong)


def values_of(row: object, *, is_one: bool) -> Sequence[object]:
    """Return the values of a row, one for each column."""
    if isinstance(row, pytest.ParameterSet):
        return row.values
    if is_one:
        return (row,)
    assert isinstance(row, Sequence), row
    return row
