"""What all errors of the core are."""

from __future__ import annotations


class CoreError(Exception):
    """Something went wrong inside Everturn."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])


# --- the caller acts ---
