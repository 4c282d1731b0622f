"""Which file a call was judged for, between the gate that judged it and the tool that writes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from everturn_gateway.tools.policy.held_files import HeldFiles

_KEPT: Final = 4096  # calls; the last ones judged, of all conversations of an agent


class JudgedWrites:
    """The protected files that calls were judged for, of one agent; in memory alone.

    A path may lead elsewhere when a call runs than when it was judged, and a file may have become
    another: a link can take the place of a folder. Whoever writes a protected file asks here
    whether the call was judged for this one. A call that was judged before the gateway was started
    again was not.
    """

    def __init__(self, held: HeldFiles | None = None) -> None:
        """Know of no call; `held` has the files of calls that wait or run, of the same agent."""
        self._paths: OrderedDict[tuple[str, str], str] = OrderedDict()
        self.held = held or HeldFiles()
        self.by_policy: frozenset[str] = frozenset()
        "Files that the policy names, see `protected_files`, as of the last call that was judged."

    @property
    def named(self) -> frozenset[str]:
        """All files that the policy names now, or a call that waits for a person or runs."""
        return self.by_policy | self.held.paths

    def note(self, session_id: str, call_id: str, path: str) -> None:
        """Keep that a call was judged for writing `path`, which is protected.

        `path` is as seen from the workspace, without links.
        """
        self._paths[session_id, call_id] = path
        self._paths.move_to_end((session_id, call_id))
        if len(self._paths) > _KEPT:
            self._paths.popitem(last=False)

    def is_judged(self, session_id: str, call_id: str, path: str) -> bool:
        """Return whether a call was judged for this protected file."""
        return self._paths.get((session_id, call_id)) == path
