"""How errors end a command: one line a person can act on, and an exit code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

from everturn_actors.errors import CoreError, WorkspaceLostError, is_group
from everturn_channels.errors import ChannelError
from everturn_channels.names import clean
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.logs import speaks_json

logger = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

_EXPECTED = (CoreError, ChannelError, GatewayError)


def explain(error: BaseException) -> int:
    """Tell the person what went wrong; return the exit code."""
    leaves = list(_leaves(error))
    expected = [leaf for leaf in leaves if isinstance(leaf, _EXPECTED)]
    unexpected = [leaf for leaf in leaves if not isinstance(leaf, (*_EXPECTED, KeyboardInterrupt))]
    if unexpected:
        path = crash_log.write(error)
        first = unexpected[0]
        where = f"; the traceback is in {path}" if path else ""
        text = f"unexpected {type(first).__name__}: {crash_log.secrets.mask(str(first))}{where}"
        say(text, level=logging.ERROR)
        return EXIT_FAILED
    if not expected:
        return EXIT_INTERRUPTED
    for text in dict.fromkeys(map(_text, expected)):
        say(text, level=logging.ERROR)
    if any(isinstance(leaf, WorkspaceLostError) for leaf in expected):
        return EXIT_FAILED  # nothing is wrong with what was asked: it may be started again
    return EXIT_BAD_INPUT


def say(text: str, *, level: int = logging.WARNING) -> None:
    """Write a line, or several, to stderr under the program's name.

    Where the process logs JSON, they are records of its log, of this level.
    """
    if speaks_json():
        logger.log(level, text)
        return
    lines = clean(text).splitlines() or [""]
    encoding = sys.stderr.encoding or "utf-8"
    for line in lines:
        shown = f"everturn: {line}\n".encode(encoding, "backslashreplace").decode(encoding)
        sys.stderr.write(shown)
    sys.stderr.flush()


def _text(error: BaseException) -> str:
    if isinstance(error, ConfigError) and error.faults:
        return "\n".join(map(str, error.faults))
    return str(error) or type(error).__name__


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield what a task group gathered, one by one."""
    if is_group(error):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
