"""Loads large libraries and what stands on them when they are first needed, and in no other place.

A module names what it loads late beside its imports, so that types and the direction of imports are
checked as of any other:

    if TYPE_CHECKING:
        from everturn_gateway.tools.web import fetching
    else:
        fetching = late("everturn_gateway.tools.web.fetching")
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Final

from everturn_gateway.gc_tuning import no_rounds

_SWITCH_S: Final = 0.0005

_ONE_AT_A_TIME: Final = threading.RLock()


class _Late(ModuleType):
    """Stands for a module that is loaded when something of it is first asked for."""

    def __getattr__(self, name: str) -> object:
        module = sys.modules.get(self.__name__)
        if module is None:
            with loading_late():
                module = import_module(self.__name__)
        value: object = getattr(module, name)
        return value


def late(name: str) -> ModuleType:
    """Return a module that is loaded with the first look into it.

    That look is blocking, and raises ModuleNotFoundError where the library of an extra is missing.

    Args:
        name: Of the module, from the root.
    """
    return _Late(name)


@contextmanager
def loading_late() -> Generator[None]:
    """Load modules for a block, in a thread, without keeping the event loop from its work.

    Python lets a thread run for 5 ms before another one gets its turn, and the event loop waits for
    that at each of its callbacks: a turn took ten times as long while FastAPI was loaded. For this
    block it is half a millisecond. The collector does not look through half-made modules either.

    Source: https://docs.python.org/3/library/sys.html#sys.setswitchinterval (read 2026-11-24).
    """
    # One at a time: modules that import each other are half made while that goes on.
    with _ONE_AT_A_TIME, no_rounds():
        usual_s = sys.getswitchinterval()
        sys.setswitchinterval(min(usual_s, _SWITCH_S))
        try:
            yield
        finally:
            sys.setswitchinterval(usual_s)
