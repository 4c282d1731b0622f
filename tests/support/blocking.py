"""BlockBuster at a tenth of its price: it knows what it has seen.

At each call that may block, it goes through the stack and compares the file of each frame with all
names that it was given. A suite makes millions of such calls. Which of the names a piece of code
belongs to does not change, so here it is looked up once for each.
"""

from __future__ import annotations

import sys
from asyncio.events import _get_running_loop
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType
from typing import Any, Final

import blockbuster.blockbuster as library
from blockbuster import BlockingError

_WATCHED: Final = 1
_MAY_BLOCK: Final = 2


def remember_code() -> None:
    """Let all functions that BlockBuster wraps from now on remember what they have seen."""
    library._wrap_blocking = _wrap


def _wrap(
    modules: Sequence[str],
    excluded_modules: Sequence[str],
    func: Callable[..., Any],
    func_name: str,
    can_block_functions: list[tuple[str, Iterable[str]]],
    can_block_predicate: Callable[..., bool],
) -> Callable[..., Any]:
    """Return what the library's own function of this name returns."""
    assert modules, "all that runs would be watched"
    skip = library._skip
    seen: dict[int, tuple[CodeType, int]] = {}

    def look_at(code: CodeType) -> int:
        name = code.co_filename
        is_watched = name.startswith(tuple(modules))
        is_watched &= not name.startswith(tuple(excluded_modules))
        may_block = any(
            name.endswith(file) and code.co_name in functions
            for file, functions in can_block_functions
        )
        found = _WATCHED * is_watched | _MAY_BLOCK * may_block
        seen[id(code)] = code, found  # kept, so that no other code gets its id
        return found

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if skip.value or _get_running_loop() is None:
            return func(*args, **kwargs)
        skip.value = True
        try:
            if can_block_predicate(*args, **kwargs):
                return func(*args, **kwargs)
            frame: FrameType | None = sys._getframe(1)
            is_watched = 0
            while frame is not None:
                known = seen.get(id(frame.f_code))
                found = look_at(frame.f_code) if known is None else known[1]
                if found & _MAY_BLOCK:
                    return func(*args, **kwargs)
                is_watched |= found
                frame = frame.f_back
            if is_watched:
                raise BlockingError(func_name)
            return func(*args, **kwargs)
        finally:
            skip.value = False

    return wrapper
