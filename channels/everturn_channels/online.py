"""Who says things on a platform, which is nobody between two logins."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Generic, TypeVar

from everturn_channels.errors import NotSentError

SenderT = TypeVar("SenderT")


class Online(Generic[SenderT]):
    """Has the sender of an adapter for as long as its login holds.

    Args:
        offline: What is said where somebody wants to send between two logins.

    Example:
        with self._online.through(Sender(api)):
            await receiver.run()
    """

    def __init__(self, offline: str) -> None:
        self._offline = offline
        self._sender: SenderT | None = None

    @contextmanager
    def through(self, sender: SenderT) -> Generator[SenderT]:
        """Let things be said through `sender` while the block runs."""
        self._sender = sender
        try:
            yield sender
        finally:
            # Its connections close next: whoever sends then is told so, and tries again later.
            self._sender = None

    @property
    def sender(self) -> SenderT:
        """The sender.

        Raises:
            NotSentError: There is none now.
        """
        if self._sender is None:
            raise NotSentError(self._offline)
        return self._sender
