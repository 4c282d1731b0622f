"""Writes to stdout what others may have written: for people and for programs, never for a terminal.

A terminal obeys what it is sent. So people are shown texts without control characters, and
programs get JSON in which all of them are escaped, also those that JSON itself would let through.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, redirect_stdout

from msgspec import Struct, structs

from everturn_channels.names import clean

_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *range(0xD800, 0xE000))}
"""DEL and C1, which a terminal may obey, and halves of characters, which nothing can encode.

JSON escapes the controls below them by itself; these can stand nowhere but in a text.
"""


def print_line(text: str) -> None:
    """Print a line, or several, for a person."""
    sys.stdout.write(f"{clean(text)}\n")


def print_done(text: str, record: Mapping[str, object], *, as_json: bool) -> None:
    """Say what a command has done: a line for a person, or the fields of it as JSON.

    Args:
        text: The line.
        record: The fields, by the names that HTTP has for them.
        as_json: Which of the two.
    """
    if as_json:
        print_json(dict(record))
    else:
        print_line(text)


@contextmanager
def recorded(*, as_json: bool) -> Generator[dict[str, object]]:
    """Let a command that talks fill in a record, which is printed as JSON where that is asked for.

    Then all that it says and asks on the way goes to stderr: stdout has the record alone, and
    nothing where the command fails.

        with recorded(as_json=as_json) as record:
            say("Logging in ...")
            record["account"] = log_in()
    """
    record: dict[str, object] = {}
    if not as_json:
        yield record
        return
    with redirect_stdout(sys.stderr):
        yield record
    print_json(record)


def print_json(
    data: object, *, indent: int | None = 2, default: Callable[[object], object] | None = None
) -> None:
    """Print JSON, with a line end.

    Args:
        data: What to print.
        indent: None = all of it in one line.
        default: Makes something printable of what JSON does not know; values of a
            conversation it is never asked for.
    """

    def plain(value: object) -> object:
        if isinstance(value, Struct):
            return structs.asdict(value)
        if default is not None:
            return default(value)
        msg = f"{type(value).__name__} is nothing that JSON knows"
        raise TypeError(msg)

    text = json.dumps(data, ensure_ascii=False, indent=indent, default=plain)
    sys.stdout.write(f"{text.translate(_ESCAPED)}\n")
