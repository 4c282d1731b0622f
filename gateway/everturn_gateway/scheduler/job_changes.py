"""Which jobs changed, for whoever shows a list of them: names, and never a queue."""

from __future__ import annotations

from typing import Final

import anyio

KEPT_MAX: Final = 10_000  # ids; whoever missed more looks at all jobs


class JobChanges:
    """Keeps with which version each job changed last. One event loop."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._versions: dict[str, int] = {}
        "By id, ascending."
        self._changed = anyio.Event()
        self.version = 0
        "Of the newest change."

    def record(self, job_id: str) -> None:
        """Take note that a job is new, changed, or gone."""
        self.version += 1
        self._versions.pop(job_id, None)
        self._versions[job_id] = self.version
        if len(self._versions) > KEPT_MAX:
            del self._versions[next(iter(self._versions))]
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def since(self, version: int) -> tuple[str, ...]:
        """Return the ids of the jobs that changed after `version`, the newest change first."""
        found: list[str] = []
        for job_id in reversed(self._versions):
            if self._versions[job_id] <= version:
                break
            found.append(job_id)
        return tuple(found)

    async def wait(self, version: int) -> None:
        """Wait until something changed after `version`."""
        while self.version <= version:
            await self._changed.wait()
