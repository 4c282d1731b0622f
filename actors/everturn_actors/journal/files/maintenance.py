"""`Maintenance` on plain files; see there for what each method promises."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from everturn_actors.errors import CorruptJournalError, JournalError
from everturn_actors.gaps import Gap, with_gap
from everturn_actors.ids import is_session_id
from everturn_actors.journal import results
from everturn_actors.journal.disk import remove, replace_file, sync_directory
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.loading import load_session, read_optional, read_record
from everturn_actors.journal.log.archive import ArchiveRecord, look_at_ends
from everturn_actors.journal.log.codec import BadLineError, decode, encode, seed
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.snapshot.reader import BadSnapshotError, decode_state
from everturn_actors.journal.snapshot.state_yaml import encode_state
from everturn_actors.ports.maintenance import Part, Rewriting, StoredSizes


class FileMaintenance:
    """Looks after the folders of sessions."""

    def __init__(self, store: FileStore) -> None:
        """Work on what an open store has locked."""
        self._store = store

    async def sizes(self, session_id: str) -> StoredSizes:
        """See `Maintenance.sizes`."""
        if not is_session_id(session_id):
            return StoredSizes()
        files = self._store.layout.session(session_id)
        return await self._store.alone(session_id, partial(_sizes, files))

    async def drop(self, session_id: str, *parts: Part) -> int:
        """See `Maintenance.drop`."""
        if not is_session_id(session_id):
            return 0
        files = self._store.layout.session(session_id)
        return await self._store.alone(session_id, partial(_drop, files, parts))

    async def rewrite(self, session_id: str, change: Rewriting) -> None:
        """See `Maintenance.rewrite`."""
        if not is_session_id(session_id):
            return
        files = self._store.layout.session(session_id)
        await self._store.alone(session_id, partial(_rewrite, files, change))


def _sizes(files: SessionFiles) -> StoredSizes:
    return StoredSizes(
        log=_size(files.log) + _size(files.state),
        archive=_size(files.archive),
        results=_folder_size(files.results),
        media=_folder_size(files.media),
    )


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _folder_size(folder: Path) -> int:
    try:
        return sum(each.lstat().st_size for each in folder.iterdir())
    except FileNotFoundError:
        return 0


def _drop(files: SessionFiles, parts: Collection[Part]) -> int:
    freed = 0
    for part, folder in (("results", files.results), ("media", files.media)):
        if part in parts and folder.is_dir() and not folder.is_symlink():
            freed += _folder_size(folder)
            shutil.rmtree(folder)
            sync_directory(files.folder)
    if "archive" in parts and files.archive.exists():
        freed += _drop_archive(files)
    return freed


def _drop_archive(files: SessionFiles) -> int:
    """Remove an archive once the snapshot says so; return its size in bytes."""
    saved, ends = read_optional(files.state), look_at_ends(files)
    if saved is None or ends.first_seq is None or ends.last_seq is None:
        return 0  # without it the session cannot be loaded, or it is for `doctor` to look at
    try:
        state = decode_state(saved)
    except BadSnapshotError:
        return 0
    record = read_record(files) or ArchiveRecord()
    gap = Gap(first=ends.first_seq, last=ends.last_seq, cause="discarded")
    size = _size(files.archive)
    # From here on nobody misses it.
    after = ArchiveRecord(gaps=with_gap(record.gaps, gap))
    replace_file(files.state, encode_state(state, after))
    remove(files.archive)
    sync_directory(files.folder)
    return size


def _rewrite(files: SessionFiles, change: Rewriting) -> None:
    if load_session(files) is None:  # sets right what a crash left, and refuses what is damaged
        return
    for folder in (files.results, files.media):
        _tidy(folder, change, is_media=folder == files.media)
    archive, log = _anew(files, files.archive, change), _anew(files, files.log, change)
    saved = read_optional(files.state)
    if saved is not None:
        record = read_record(files)
        if record is not None and archive is not None:
            # Never more than is there, whichever of the two files a crash leaves.
            smaller = min(record.size_bytes, len(archive), _size(files.archive))
            record = replace(record, size_bytes=smaller)
        replace_file(files.state, encode_state(change.state(decode_state(saved)), record))
    if archive is not None:
        replace_file(files.archive, archive)
    if log is not None:
        replace_file(files.log, log)
    for leftover in files.folder.glob(f"{files.log.name}.*"):
        if leftover != files.archive and leftover.is_file():
            remove(leftover)  # torn lines that were kept beside the log: nobody was told of them
    sync_directory(files.folder)


def _anew(files: SessionFiles, path: Path, change: Rewriting) -> bytes | None:
    """Return the lines of a file, each written anew; None where there is no file."""
    data = read_optional(path)
    if data is None:
        return None
    start, lines = seed(files.session_id), data.split(b"\n")
    try:
        events = [change.event(decode(line, start)) for line in lines if line]
    except BadLineError as error:
        raise CorruptJournalError(str(error), path=path) from error
    return encode(files.session_id, events)


def _tidy(folder: Path, change: Rewriting, *, is_media: bool) -> None:
    if not folder.is_dir() or folder.is_symlink():
        return
    for path in sorted(folder.iterdir()):
        if is_media:
            stays = change.keeps_media(path.name)
        else:
            try:
                stays = change.keeps_result(results.read_text(folder, path.name) or "")
            except JournalError:
                stays = True
        if not stays:
            remove(path)
    sync_directory(folder)
