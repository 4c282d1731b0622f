"""All that a workspace keeps as bytes, for a move to another store or from one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from anyio import to_thread

from everturn_actors.errors import JournalError
from everturn_actors.journal import results
from everturn_actors.journal.disk import make_directory, replace_file, use_error
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.index import entries
from everturn_actors.journal.loading import read_optional
from everturn_actors.journal.log.codec import HEAD_BYTES, load_json, seq_of
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.model import ConversationKey
from everturn_actors.ports.keyed import is_key
from everturn_actors.ports.transfer import Blob, BlobKind, SessionBytes

T = TypeVar("T")

NO_KEYS: Final = frozenset((
    "sessions", "active", "conversations", "deleted",  # the store of sessions itself
    "files", "outside", "checkpoints", "agents", "declared",  # of agents, and on this machine
    "processes", "models",  # of this machine
    "gateway.json",
))  # fmt: skip
"What of a workspace is no value of its keyed store, though it may be named like one."
_NO_LIMIT: Final = 1 << 62


class FileTransfer:
    """`Transfer` of a workspace; see there for what each method promises."""

    def __init__(self, store: FileStore) -> None:
        """Read and write what an open store has locked."""
        self._store, self._layout = store, store.layout

    @property
    def place(self) -> str:
        """See `Transfer.place`."""
        return str(self._layout.workspace)

    async def sessions(self) -> Sequence[str]:
        """See `Transfer.sessions`."""
        found = await self._in_thread(partial(entries.session_ids, self._layout))
        return sorted(found)

    async def read(self, session_id: str) -> SessionBytes | None:
        """See `Transfer.read`. What a load sets right is set right."""
        if await self._store.load(session_id) is None:
            return None
        return await self._in_thread(partial(_read, self._layout.session(session_id)))

    async def write(self, session_id: str, data: SessionBytes) -> None:
        """See `Transfer.write`."""
        await self._store.delete(session_id)
        await self._in_thread(partial(_write, self._layout.session(session_id), data))

    async def delete(self, session_id: str) -> None:
        """See `Transfer.delete`."""
        await self._store.delete(session_id)

    async def blobs(self, session_id: str) -> Sequence[Blob]:
        """See `Transfer.blobs`."""
        return await self._in_thread(partial(_blobs, self._layout.session(session_id)))

    async def read_blob(self, session_id: str, blob: Blob) -> bytes | None:
        """See `Transfer.read_blob`."""
        folder = _folder(self._layout.session(session_id), blob[0])
        return await self._in_thread(partial(results.read, folder, blob[1]))

    async def write_blob(self, session_id: str, blob: Blob, data: bytes) -> None:
        """See `Transfer.write_blob`."""
        files = self._layout.session(session_id)
        folder = _folder(files, blob[0])
        save = partial(results.save, files, folder, blob[1], data, max_bytes=_NO_LIMIT, shelf=None)
        await self._in_thread(save)

    async def conversations(self) -> Mapping[ConversationKey, str]:
        """See `Transfer.conversations`. A pointer that cannot be read points nowhere."""
        return dict(await self._in_thread(lambda: list(_pointers(self._layout.conversations))))

    async def keep_conversations(self, current: Mapping[ConversationKey, str]) -> None:
        """See `Transfer.keep_conversations`."""
        await self._in_thread(partial(entries.remove_stray_pointers, self._layout, ()))
        for key, session_id in current.items():
            await self._store.bind(key, session_id)

    async def keep_active(self, sessions: Sequence[str]) -> None:
        """See `Transfer.keep_active`."""
        for session_id in await self._store.active():
            if session_id not in sessions:
                await self._store.mark_passive(session_id)
        for session_id in sessions:
            await self._store.mark_active(session_id)
        await self._store.rebuild_list()

    async def keys(self) -> Sequence[str]:
        """See `Transfer.keys`."""
        return await self._in_thread(partial(_keys, self._layout.workspace))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await to_thread.run_sync(work)
        except OSError as error:
            path = Path(error.filename or self._layout.workspace)
            raise use_error(error, path) from error


def _read(files: SessionFiles) -> SessionBytes:
    """Return the files of a session, without what a crash left in two of them, or half of."""
    archive, log = read_optional(files.archive) or b"", read_optional(files.log) or b""
    archive = archive[: archive.rfind(b"\n") + 1]
    if archive:
        last = seq_of(archive[archive.rfind(b"\n", 0, -1) + 1 :]) or 0
        while (seq := seq_of(log[:HEAD_BYTES])) is not None and seq <= last:
            log = log[log.find(b"\n") + 1 :]
    return SessionBytes(archive=archive, log=log, snapshot=read_optional(files.state))


def _write(files: SessionFiles, data: SessionBytes) -> None:
    make_directory(files.folder)
    if data.archive:
        replace_file(files.archive, data.archive)
    if data.snapshot is not None:
        replace_file(files.state, data.snapshot)
    replace_file(files.log, data.log)


def _folder(files: SessionFiles, kind: BlobKind) -> Path:
    return files.results if kind == "result" else files.media


def _blobs(files: SessionFiles) -> list[Blob]:
    found: list[tuple[int, BlobKind, str]] = []
    kinds: tuple[BlobKind, ...] = ("result", "media")
    for kind in kinds:
        folder = _folder(files, kind)
        names = os.listdir(folder) if folder.is_dir() else ()
        kept = filter(results.is_result_name, names)
        found.extend(((folder / name).lstat().st_mtime_ns, kind, name) for name in kept)
    return [(kind, name) for _, kind, name in sorted(found)]


def _pointers(folder: Path) -> Iterator[tuple[ConversationKey, str]]:
    for path in sorted(folder.glob("*.json")):
        try:
            record = load_json(path.read_bytes())
            if isinstance(record, dict):
                key = msgspec.convert(record.get("key"), ConversationKey)
                yield key, str(record["session"])
        except (ValueError, KeyError) as error:
            msg = "this pointer of a conversation cannot be read; remove it, or repair the index"
            raise JournalError(msg, path=path) from error


def _keys(workspace: Path) -> list[str]:
    found: list[str] = []
    for top in workspace.iterdir():
        if top.name in NO_KEYS or top.is_symlink():
            continue
        if top.is_file():
            found.append(top.name)
        for folder, _, names in os.walk(top):
            inside = Path(folder).relative_to(workspace)
            found += [str(inside / name) for name in names]
    return sorted(filter(is_key, found))
