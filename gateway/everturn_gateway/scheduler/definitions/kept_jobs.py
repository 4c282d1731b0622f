"""Jobs that programs make, kept in a store that several machines open; their files mirror it.

A machine that opens such a store has the files written before anything is read: a job whose file is
missing would count as called off. What people write in the folder stays theirs, on this machine.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from anyio import to_thread

from everturn_actors.documents import Document, Form, form_of
from everturn_actors.errors import JournalError
from everturn_actors.ports import KeyedStore
from everturn_gateway.scheduler.definitions.job_store import JobStore, Page, read_text
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.jobs import Made

logger = logging.getLogger(__name__)

FOLDER: Final = "schedules/jobs/"
BEGUN: Final = "schedules/jobs.json"
"Is there once the jobs of a folder were taken into the store."
_TEXT: Final[Form[str]] = form_of("yaml", str, "")
_FIRST: Final[Form[str]] = form_of("begun", str, "")
_PROGRAMS: Final = frozenset(("tool", "cli", "http"))


class KeptJobs(JobStore):
    """`JobStore` whose jobs of programs are durable in a store."""

    def __init__(self, folder: Path, keyed: KeyedStore, *, timezone: str = "") -> None:
        """Mirror a store in a folder, which need not be there."""
        super().__init__(folder, timezone=timezone)
        self._keyed = keyed
        self._is_mirrored = self._has_begun = False

    async def read(self) -> Page:
        """See `JobStore.read`; the files are made what the store holds.

        That is done the first time, and the first after `look_again`.

        Raises:
            OSError: The folder or the store cannot be read.
        """
        if not self._is_mirrored:
            self._is_mirrored = True  # until somebody looks again, who may do so meanwhile
            try:
                with _as_of_a_disk():
                    await self._mirror()
            except BaseException:
                self._is_mirrored = False
                raise
        return await super().read()

    def look_again(self) -> None:
        """See `JobStore.look_again`."""
        self._is_mirrored = False

    async def write(self, job_id: str, section: JobSettings, made: Made) -> str:
        """See `JobStore.write`; it is durable in the store, too."""
        text = await super().write(job_id, section, made)
        try:
            with _as_of_a_disk():
                await self._document(job_id).write(text)
        except OSError:
            await super().put_away(self.folder / f"{job_id}.yaml")  # nobody is told of it
            raise
        return text

    async def put_away(self, file: Path) -> None:
        """See `JobStore.put_away`; it is gone from the store first."""
        with _as_of_a_disk():
            await self._keyed.delete(_key(file.stem))
        await super().put_away(file)

    async def _mirror(self) -> None:
        """Write the files that are missing, and put those away that the store knows nothing of."""
        page = await super().read()
        files = {job.job_id: job.file for job in page.jobs if job.made.by in _PROGRAMS}
        kept = {key.removeprefix(FOLDER).removesuffix(".json") for key in await self._listed()}
        begun = Document(self._keyed, BEGUN, _FIRST)
        if not self._has_begun and not await begun.read():
            for job_id in files.keys() - kept:
                text = await to_thread.run_sync(read_text, files[job_id])
                await self._document(job_id).write(text)
            await begun.write("yes")
            kept |= files.keys()
        self._has_begun = True  # for ever
        for job_id in sorted(kept - files.keys()):
            await self.restore(job_id, await self._document(job_id).read())
        for job_id in files.keys() - kept:
            fields = {"job": job_id, "file": str(files[job_id])}
            logger.warning("a job was called off elsewhere; its file is put away", extra=fields)
            await super().put_away(files[job_id])

    async def _listed(self) -> tuple[str, ...]:
        return await self._keyed.list(FOLDER)

    def _document(self, job_id: str) -> Document[str]:
        return Document(self._keyed, _key(job_id), _TEXT)


def _key(job_id: str) -> str:
    return f"{FOLDER}{job_id}.json"


@contextmanager
def _as_of_a_disk() -> Generator[None]:
    """Raise what a store fails of as an error of a disk, which the scheduler waits out."""
    try:
        yield
    except JournalError as error:
        raise OSError(errno.EIO, str(error)) from error
