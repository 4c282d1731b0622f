"""Large results and media in files."""

from __future__ import annotations

from functools import partial

from everturn_actors.ids import is_session_id
from everturn_actors.journal import results
from everturn_actors.journal.files.base import OnFiles
from everturn_actors.journal.results import check_result_name, encode_text


class FileBlobs(OnFiles):
    """`SessionBlobs` on plain files; see there for what each method promises."""

    async def save_result(self, session_id: str, name: str, text: str) -> None:
        """See `SessionStore.save_result`."""
        check_result_name(name)
        data = encode_text(text)
        async with self._handles.at(session_id) as handle:
            files, known, handle.shelf = handle.files, handle.shelf, None
            limit = self._results_max_bytes
            work = partial(
                results.save, files, files.results, name, data, max_bytes=limit, shelf=known
            )
            handle.shelf = await self._in_thread(work, files.results)

    async def read_result(self, session_id: str, name: str) -> str | None:
        """See `SessionStore.read_result`."""
        if not is_session_id(session_id):
            return None
        folder = self._layout.session(session_id).results
        return await self._in_thread(partial(results.read_text, folder, name), folder)

    async def save_media(self, session_id: str, name: str, data: bytes) -> None:
        """See `SessionStore.save_media`."""
        check_result_name(name, "a file")
        async with self._handles.at(session_id) as handle:
            files, known, handle.media = handle.files, handle.media, None
            limit = self._media_max_bytes
            work = partial(
                results.save, files, files.media, name, data, max_bytes=limit, shelf=known
            )
            handle.media = await self._in_thread(work, files.media)

    async def read_media(self, session_id: str, name: str) -> bytes | None:
        """See `SessionStore.read_media`."""
        if not is_session_id(session_id):
            return None
        folder = self._layout.session(session_id).media
        return await self._in_thread(partial(results.read, folder, name), folder)
