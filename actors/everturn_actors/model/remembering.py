"""Values that carry what was derived from them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from everturn_actors.codec import Value

T = TypeVar("T")


class Remembering(Value, frozen=True, kw_only=True, gc=True, dict=True):
    """A value that carries what was once derived from it; no two are told apart by that."""

    @property
    def memo(self) -> dict[str, Any]:
        """Forms derived from this value alone (a token count, wire bytes), kept by `remember`."""
        return vars(self)


def remember(value: Remembering, form: str, derive: Callable[[], T]) -> T:
    """Return `derive()`, computed once for this value and `form`.

    The caller promises that the result follows from the value and `form` alone.
    """
    memo = vars(value)  # of those that `memo` is: each message is asked, several times in a turn
    found: T | None = memo.get(form)
    if found is None:
        found = memo[form] = derive()
    return found
