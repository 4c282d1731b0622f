"""Tests by a table: every row is tried, and all rows are one test.

With `pytest.mark.parametrize` each row is a test of its own: to find it, to hand it to a worker
and to tell of it costs more than most rows take. That is for rows of seconds, which then run side
by side.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest


def table(
    names: str | Sequence[str],
    rows: Iterable[object],
    *,
    ids: Callable[[Any], object] | Iterable[object] | None = None,
    parts: int = 1,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what makes one test of a function and its table; used as `pytest.mark.parametrize` is.

    The test tries all rows, and fails with an error for each that is wrong. It names the row. Each
    row has a folder of its own for `tmp_path`, what it does by `monkeypatch` ends with it, and
    `caplog` and `capsys` hold its own alone. The loop and all other fixtures are those of the one
    test, and whatever a row does to them stays.

    Args:
        names: The arguments: one after the other, or with commas between.
        rows: The value of each row where there is one name, the values in their order where there
            are several; `pytest.param` as well.
        ids: What each row is called, or what says so of the value of a row; by default its values.
        parts: How many tests to make of it, which workers share; for rows of a second or so.
    """
    columns = columns_of(names)
    given_rows = [*rows]
    values = [values_of(row, is_one=len(columns) == 1) for row in given_rows]
    called = _names_of(given_rows, values, ids)

    def make(test: Callable[..., Any]) -> Callable[..., Any]:
        def arguments(number: int, fixtures: Mapping[str, Any]) -> dict[str, Any]:
            row = dict(zip(columns, values[number], strict=True))
            return {**fixtures, **row}

        async def try_all_in_loop(share: int = 0, **fixtures: Any) -> None:
            with wrong_rows(len(values)) as row_of:
                for number, name in [*enumerate(called)][share::parts]:
                    with row_of(name), _of_this_row(number, fixtures) as own:
                        await test(**arguments(number, own))

        def try_all(share: int = 0, **fixtures: Any) -> None:
            with wrong_rows(len(values)) as row_of:
                for number, name in [*enumerate(called)][share::parts]:
                    with row_of(name), _of_this_row(number, fixtures) as own:
                        test(**arguments(number, own))

        made: Any = try_all_in_loop if inspect.iscoroutinefunction(test) else try_all
        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name not in columns]
        if parts > 1:
            others.append(inspect.Parameter("share", inspect.Parameter.KEYWORD_ONLY))
            made = pytest.mark.parametrize("share", range(parts))(made)
        made.__signature__ = signature.replace(parameters=others)
        made.__name__, made.__qualname__ = test.__name__, test.__qualname__
        made.__doc__, made.__module__ = test.__doc__, test.__module__
        return made  # type: ignore[no-any-return]  # a function with more than functions have

    return make


@contextmanager
def _of_this_row(number: int, fixtures: Mapping[str, Any]) -> Generator[Mapping[str, Any]]:
    """Give a row what the one before it has not touched, where that is known how."""
    own = {**fixtures}
    for each in (own.get("caplog"), own.get("capsys")):
        if isinstance(each, pytest.LogCaptureFixture):
            each.clear()
        elif isinstance(each, pytest.CaptureFixture):
            each.readouterr()
    if "tmp_path" in own:
        own["tmp_path"] /= str(number)
        own["tmp_path"].mkdir()
    with pytest.MonkeyPatch.context() as patches:
        if "monkeypatch" in own:
            own["monkeypatch"] = patches
        yield own


def _names_of(
    rows: Sequence[object],
    values: Sequence[Sequence[object]],
    ids: Callable[[Any], object] | Iterable[object] | None,
) -> Sequence[object]:
    if callable(ids):
        return [[ids(each) for each in row] for row in values]
    if ids is not None:
        return [*ids]
    return [row.id if isinstance(row, pytest.ParameterSet) and row.id else row for row in rows]


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
        assert not row.marks, "a row with marks is a test of its own"
        return row.values
    if is_one:
        return (row,)
    assert isinstance(row, Sequence), row
    return row
