"""Tests by a table whose rows ask the same gateway: every row is tried, and all are one test.

For rows that leave nothing behind, such as requests that are refused. To open a gateway and its API
takes a hundred times as long as to ask it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from support.gateway import open_http_gateway
from support.tables import columns_of, values_of, wrong_rows


def on_one_gateway(
    names: str | Sequence[str], rows: Iterable[object]
) -> Callable[[Callable[..., Awaitable[None]]], Callable[[Path], Awaitable[None]]]:
    """Return what makes one test of a function and its table; used as `support.tables.table` is.

    The function takes the gateway, `gateway`, besides the columns.
    """
    columns = columns_of(names)
    values = [values_of(row, is_one=len(columns) == 1) for row in rows]

    def make(test: Callable[..., Awaitable[None]]) -> Callable[[Path], Awaitable[None]]:
        async def try_all(tmp_path: Path) -> None:
            async with open_http_gateway(tmp_path) as gateway:
                with wrong_rows(len(values)) as row_of:
                    for row in values:
                        with row_of(row):
                            await test(gateway=gateway, **dict(zip(columns, row, strict=True)))

        try_all.__name__, try_all.__qualname__ = test.__name__, test.__qualname__
        try_all.__doc__, try_all.__module__ = test.__doc__, test.__module__
        return try_all

    return make
