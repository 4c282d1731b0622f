"""Tables for people, which stay whole when a program reads them."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from everturn_channels.names import clean

_PIPE_COLUMNS = 10_000  # nothing is cut or wrapped where nobody looks


def console() -> Console:
    """Return the console of stdout: coloured on a terminal, plain elsewhere and with NO_COLOR."""
    if sys.stdout.isatty():
        return Console(highlight=False, no_color=bool(os.environ.get("NO_COLOR")))
    return Console(highlight=False, no_color=True, width=_PIPE_COLUMNS)


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()
) -> None:
    """Print rows under their headers; control characters in them are left out.

    Args:
        headers: Of the columns.
        rows: A cell for each column.
        right: Headers of the columns with numbers, which end on the right.
    """
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left")
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    console().print(table)
