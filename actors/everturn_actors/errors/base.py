"""What all errors of the core are."""

from __future__ import annotations

from typing import TypeGuard


class CoreError(Exception):
    """Something went wrong inside Everturn."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])


# --- the caller acts ---


def is_group(error: BaseException) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    """Whether it is what a task group gathered: `exceptions` has its parts."""
    return isinstance(error, BaseExceptionGroup)
