"""Files that a call may run which waits for a person, or runs: others ask before they write them.

An answer is bound to what such a file says, and is looked at as the call begins. What comes between
that look and the moment when a program opens the file, perhaps minutes into a script, no look can
see; so nobody writes it meanwhile without a question of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

_KEPT: Final = 1024  # conversations with an open question at a time; the oldest go first


class _Held(Struct, frozen=True):
    call_id: str
    paths: tuple[str, ...]
    until_s: float


class HeldFiles:
    """Which files the open calls of one agent name, by conversation; in memory alone.

    A conversation has one such call at a time: its next one takes its place. After a restart a
    call is judged again before it runs, and so is here again.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """Hold nothing; `now_s` is a clock that only goes forward."""
        self._held: dict[str, _Held] = {}
        self._now_s = now_s

    def hold(self, session_id: str, call_id: str, paths: tuple[str, ...], *, for_s: float) -> None:
        """Hold files for a call, in place of those of the conversation's call before.

        Args:
            session_id: The conversation.
            call_id: The call.
            paths: As seen from the workspace, without links; a folder ends with `/`.
            for_s: How long at most: until it is answered and over.
        """
        self._held.pop(session_id, None)
        if not paths:
            return
        self._held[session_id] = _Held(call_id, paths, self._now_s() + for_s)
        if len(self._held) > _KEPT:
            del self._held[next(iter(self._held))]

    def release(self, session_id: str, call_id: str) -> None:
        """Let go of the files of a call that is over."""
        held = self._held.get(session_id)
        if held is not None and held.call_id == call_id:
            del self._held[session_id]

    def begin(self, session_id: str, call_id: str) -> None:
        """Let go of what the conversation's call before this one held: it is over."""
        held = self._held.get(session_id)
        if held is not None and held.call_id != call_id:
            del self._held[session_id]

    @property
    def paths(self) -> frozenset[str]:
        """All files that are held now."""
        if not self._held:
            return frozenset()
        now_s = self._now_s()
        return frozenset(
            p for each in self._held.values() if each.until_s > now_s for p in each.paths
        )
