"""The text from outside that is behind a process: in files that it opens, and those it changes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from everturn_actors.outside import together
from everturn_gateway.tools.marks import MarkedFiles, MarkedWorkspaces
from everturn_gateway.tools.processes.process import Process


class ProcessFiles:
    """Follows the marked files of all processes."""

    def __init__(self, marks: MarkedWorkspaces) -> None:
        """Look into `marks`, by workspace."""
        self._marks = marks

    async def follow(self, process: Process, *, has_gap: bool = False) -> None:
        """Take note from now on of the marked files that it opens, and those that it changes.

        With `has_gap` it was started by another gateway. Nothing where that was done before.
        """
        record, marks = process.record, self._marks_of(process)
        begin = partial(marks.begin, record.outside, since_ns=record.since_ns, has_gap=has_gap)
        async with process.beginning:
            if process.run is None:
                process.run = await marks.in_thread(begin)

    async def look(self, process: Process, *, ends: bool = False) -> None:
        """Find out which text from outside is behind a process, and mark what it changed.

        Raises:
            OSError: That cannot be recorded; in memory it holds all the same.
        """
        if process.run is None and process.ended.is_set() and process.record.told:
            return  # it was seen to its end
        await self.follow(process, has_gap=True)
        run, marks = process.run, self._marks_of(process)
        assert run is not None, "it is followed"
        ends = ends or process.ended.is_set()
        await marks.in_thread(partial(marks.end if ends else marks.look, run))
        await process.add_outside(run.sources)

    async def let_go(self, process: Process) -> None:
        """Follow the files of a process no more that was never begun."""
        if process.run is not None:
            marks = self._marks_of(process)
            await marks.in_thread(partial(marks.end, process.run))

    async def put_behind(self, process: Process, sources: tuple[str, ...]) -> None:
        """Say that text from outside is behind what a process is about to be given to read.

        Raises:
            OSError: As `look`.
        """
        if process.run is not None:
            process.run.behind = together(sources, process.run.behind)
        await process.add_outside(sources)

    def _marks_of(self, process: Process) -> MarkedFiles:
        return self._marks.of(Path(process.record.files))
