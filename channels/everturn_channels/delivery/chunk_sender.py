"""Brings one chunk to a platform: as a message, a file, or in the place of its preview."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field, structs

from everturn_actors.delivery.port import Outgoing
from everturn_actors.errors import JournalError
from everturn_actors.events import Body, ChunkMarked
from everturn_actors.model import Attachment, Chunk, Mark, OutboxItem
from everturn_actors.ports import Clock
from everturn_channels.adapter import Adapter, Outbound, OutgoingFile
from everturn_channels.delivery.questions import question_of
from everturn_channels.delivery.rendering import (
    REPLY_FILE,
    attachments_of,
    buttons_of,
    is_whole_reply,
    line,
    nonce,
    preview_nonce,
)
from everturn_channels.delivery.words import large_file, missing_file, refused_file
from everturn_channels.errors import NotSentError, RefusedError, UnknownOutcomeError
from everturn_channels.health import mask_token

logger = logging.getLogger(__name__)

EDIT_TRIES: Final = 8  # so often a preview is to become the reply; then the reply is sent anew
NONCE_S: Final = 120.0
"""So long a platform surely remembers a nonce.

Discord says "in the past few minutes" (https://docs.discord.com/developers/resources/message).
"""
ERROR_MAX: Final = 500  # characters of a reason that are kept
_NONCE_CHARACTERS: Final = 25  # see `Outbound.nonce`


class DeliveryJob(Struct, kw_only=True):
    """One outbox item under way."""

    item: OutboxItem
    chunks: list[Chunk]
    left: deque[int]
    "Numbers of the chunks that are not done, in order."
    records: list[Body] = field(default_factory=list[Body])
    "What is recorded together with the next mark."
    preview: str = ""
    "The message whose place the first chunk takes; empty = none."
    was_cut_short: bool = False
    "Whether the first chunk may have been sent anew already, in place of the preview."
    edits: int = 0
    "How often the preview may have become the reply."
    files: dict[int, dict[int, str]] = field(default_factory=dict[int, dict[int, str]])
    "By chunk: the files of it that are out, by number, and what they are called there."

    def mark(self, index: int, mark: Mark, *, platform_id: str = "", error: str = "") -> None:
        """Note what became of a chunk."""
        chunk = self.chunks[index]
        self.chunks[index] = structs.replace(
            chunk, mark=mark, tries=chunk.tries + (mark == "unknown")
        )
        self.records.append(
            ChunkMarked(
                item=self.item.seq,
                chunk=index,
                mark=mark,
                platform_id=platform_id,
                error=mask_token(error)[:ERROR_MAX],
            )
        )
        if self.chunks[index].is_done and index in self.left:
            self.left.remove(index)

    def take_records(self) -> tuple[Body, ...]:
        """Return what is to be recorded now."""
        records, self.records = tuple(self.records), []
        return records


class ChunkSender:
    """Sends the chunks of one session, each once for each call."""

    def __init__(self, session: Outgoing, adapter: Adapter, clock: Clock) -> None:
        """Send what `session` owes through `adapter`."""
        self._session, self._adapter, self._clock = session, adapter, clock

    async def send(self, job: DeliveryJob, index: int) -> str:
        """Bring a chunk to the platform; return what it is called there.

        Raises:
            SendError: Its kind says what is known.
        """
        if index == 0 and job.preview:
            platform_id = await self._put_in_place(job)
            if platform_id:
                return platform_id
        key, item, chunk = self._session.state.key, job.item, job.chunks[index]
        may_be_shown = index == 0 and item.preview_step > 0
        message = Outbound(
            chat_id=key.chat,
            topic=key.topic,
            payload=chunk.payload,
            reply_to=item.reply_to if index == 0 else "",
            nonce=nonce(self._session.session_id, item.seq, index),
            is_repeat=chunk.tries > 0 or may_be_shown or (index == 0 and job.edits > 0),
            is_late=self._is_late(item),
            since=item.pending_since,
        )
        if may_be_shown and self._adapter.capabilities.nonces and self._adapter.capabilities.edits:
            return await self._put_over(message, item)
        if is_whole_reply(message.payload):
            data = item.text.encode()
            file = OutgoingFile(data=data, file_name=REPLY_FILE, media_type="text/markdown")
            return await self._adapter.send(structs.replace(message, payload="", file=file))
        if attachments := attachments_of(item, message.payload):
            return await self._send_files(message, attachments, job.files.setdefault(index, {}))
        if item.kind == "approval" and index == len(job.chunks) - 1 and self._has_buttons:
            question = question_of(self._session.state, item)
            buttons = buttons_of(question, self._session.session_id)
            message = structs.replace(message, buttons=buttons)
        return await self._adapter.send(message)

    def _is_late(self, item: OutboxItem) -> bool:
        at = item.pending_since
        return at is None or (self._clock.now() - at).total_seconds() >= NONCE_S

    @property
    def _has_buttons(self) -> bool:
        return self._adapter.capabilities.buttons

    async def _put_in_place(self, job: DeliveryJob) -> str:
        """Put the first chunk in the place of its preview.

        Returns:
            What the message is called; empty where it has to be sent anew.
        """
        key, preview = self._session.state.key, job.preview
        try:
            await self._adapter.edit(key.chat, key.topic, preview, job.chunks[0].payload)
        except RefusedError as error:
            if error.is_chat_gone:
                raise
            job.preview = ""
            if job.was_cut_short:
                raise UnknownOutcomeError(str(error)) from error
            return ""
        except UnknownOutcomeError as error:
            job.edits += 1
            if job.edits < EDIT_TRIES:  # the same once more does no harm
                raise NotSentError(str(error)) from error
            job.preview = ""
            return ""
        return preview

    async def _put_over(self, message: Outbound, item: OutboxItem) -> str:
        """Send the first chunk in the name of a preview: where that is there, in its place."""
        name = preview_nonce(self._session.session_id, item.turn, item.preview_step)
        platform_id = await self._adapter.send(structs.replace(message, nonce=name))
        try:
            await self._adapter.edit(message.chat_id, message.topic, platform_id, message.payload)
        except RefusedError as error:
            if error.is_chat_gone:
                raise
            return await self._adapter.send(message)
        return platform_id

    async def _send_files(
        self, message: Outbound, attachments: Sequence[Attachment], done: dict[int, str]
    ) -> str:
        """Send files as one message; a line names each that cannot be sent.

        Where they are refused together, each is sent by itself. `done` holds by number what is
        out, also from tries before this one: it is not sent again.
        """
        found = {n: await self._file(f) for n, f in enumerate(attachments) if n not in done}
        files = {n: each for n, each in found.items() if isinstance(each, OutgoingFile)}
        lines = {n: each for n, each in found.items() if isinstance(each, str)}
        bare = structs.replace(message, payload="")
        if not files and not done:
            lines = {0: "\n".join(lines.values())}
        if len(files) > 1 and not done:
            first, *rest = files.values()
            try:
                name = await self._adapter.send(
                    structs.replace(bare, file=first, more_files=tuple(rest))
                )
                done |= dict.fromkeys(files, name)
            except RefusedError as error:
                if error.is_chat_gone:
                    raise
        for number, file in files.items():
            if number not in done:
                single = structs.replace(bare, file=file, nonce=_nonce_of(bare, number))
                done[number] = await self._send_file(single, attachments[number])
        for number, text in lines.items():
            single = structs.replace(bare, payload=line(self._adapter, text))
            done[number] = await self._adapter.send(
                structs.replace(single, nonce=_nonce_of(bare, number))
            )
        return done[min(done)]

    async def _send_file(self, message: Outbound, attachment: Attachment) -> str:
        """Send a file, or, where it is refused, a line that names it."""
        try:
            return await self._adapter.send(message)
        except RefusedError as error:
            if error.is_chat_gone:
                raise
            text = line(self._adapter, refused_file(attachment))
            return await self._adapter.send(structs.replace(message, payload=text, file=None))

    async def _file(self, attachment: Attachment) -> OutgoingFile | str:
        """Return a file to send, or the line in its place."""
        limit = self._adapter.capabilities.files_max_bytes
        try:
            data = await self._session.read_file(attachment.name)
        except JournalError as error:
            logger.warning(
                "a file could not be read",
                extra={"session_id": self._session.session_id, "error": str(error)},
            )
            data = None
        if data is None:
            return missing_file(attachment)
        if len(data) > limit:
            return large_file(attachment, len(data), limit)
        return OutgoingFile(
            data=data,
            file_name=attachment.file_name or attachment.name,
            media_type=attachment.media_type,
            is_voice=attachment.is_voice,
            duration_s=attachment.duration_s,
        )


def _nonce_of(message: Outbound, number: int) -> str:
    """Return what names a file of a message where it goes by itself."""
    if not number or not message.nonce:
        return message.nonce
    return f"{number}{message.nonce}"[:_NONCE_CHARACTERS]
