"""Loads large libraries and what stands on them when they are first needed, and in no other place.

A module names what it loads late beside its imports, so that types and the direction of imports are
checked as of any other:

    if TYPE_CHECKING:
        from everturn_gateway.tools.web import fetching
    else:
        fetching = late("everturn_gateway.tools.web.fetching")
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import ModuleType
from typing import Final, cast

from everturn_gateway.gc_tuning import no_rounds

_SWITCH_S: Final = 0.0005

_LOADED: Final = "__loaded__"
_ONE_AT_A_TIME: Final = threading.RLock()


class _Late(ModuleType):
    """Stands for a module that is loaded when something of it is first asked for."""

    def __getattr__(self, name: str) -> object:
        module: ModuleType | None = vars(self).get(_LOADED)
        if module is None or sys.modules.get(self.__name__) is not module:
            # Where it is there already another thread may be in the middle of it: to import it
            # waits for that, and for nothing else.
            is_there = self.__name__ in sys.modules
            with nullcontext() if is_there else loading_late():
                module = vars(self)[_LOADED] = import_module(self.__name__)
        value: object = getattr(module, name)
        return value


def late(name: str) -> ModuleType:
    """Return a module that is loaded with the first look into it.

    That look is blocking, and raises ModuleNotFoundError where the library of an extra is missing.

    Args:
        name: Of the module, from the root.
    """
    return _Late(name)


class _LatePattern:
    """Stands for a pattern that is compiled when something of it is first asked for."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> object:
        # What is found stays here: from the second time on it costs nothing more.
        value: object = getattr(re.compile(self._text, self._flags), name)
        self.__dict__[name] = value
        return value


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled with its first use, 0.1 to 7 ms later.

    For what few starts need: to compile all patterns of the gateway took a seventh of a start.
    Only its methods stand for it: `re.sub` and its like refuse it.

    Args:
        text: The pattern. Nobody hears of a mistake in it before it is used.
        flags: Those of `re`.
    """
    return cast("re.Pattern[str]", _LatePattern(text, flags))


def late_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return a package's `__getattr__`, which loads the module that a name comes from.

        if TYPE_CHECKING:
            from everturn_gateway.tools.policy.gate import PolicyGate
        else:
            __getattr__ = late_names(__name__, {"PolicyGate": "gate"})

    Args:
        package: From the root.
        homes: By name: its module, from the package.
    """

    def find(name: str) -> object:
        if name not in homes:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        with loading_late():
            module = import_module(f"{package}.{homes[name]}")
        value: object = getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return find


@contextmanager
def loading_late() -> Generator[None]:
    """Load modules for a block, in a thread, without keeping the event loop from its work.

    A turn took ten times as long while FastAPI was loaded. The collector does not look through
    half-made modules either.
    """
    # One at a time: modules that import each other are half made while that goes on.
    with _ONE_AT_A_TIME, no_rounds(), giving_way():
        yield


@contextmanager
def giving_way() -> Generator[None]:
    """Have threads that compute for a block let the event loop go first; several may at a time.

    Python lets a thread run for 5 ms before another one gets its turn, and the event loop waits for
    that at each of its callbacks, once for each thread. For this block it is half a millisecond.

    Source: https://docs.python.org/3/library/sys.html#sys.setswitchinterval (read 2026-11-24).
    """
    with _GIVING.mutex:
        if not _GIVING.blocks:
            _GIVING.usual_s = sys.getswitchinterval()
            sys.setswitchinterval(min(_GIVING.usual_s, _SWITCH_S))
        _GIVING.blocks += 1
    try:
        yield
    finally:
        with _GIVING.mutex:
            _GIVING.blocks -= 1
            if not _GIVING.blocks:
                sys.setswitchinterval(_GIVING.usual_s)


class _Giving:
    """How many blocks give way now, and what holds without them."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.blocks = 0
        self.usual_s = 0.0


_GIVING: Final = _Giving()
