"""The files that come with messages: named, and kept before the message is accepted."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from everturn_actors.errors import SessionEndedError, UnknownSessionError
from everturn_actors.events import SessionStarted
from everturn_actors.model import Attachment, IncomingMessage, Upload
from everturn_actors.ports import SessionStore
from everturn_actors.protocol.actors import Actors
from everturn_actors.protocol.commands import GetStatus
from everturn_actors.state.validation import attachment_of


async def keep_files(
    store: SessionStore,
    registry: Actors,
    message: IncomingMessage,
    session_id: str,
    begin_with: SessionStarted | None,
) -> tuple[Attachment, ...]:
    """Keep what comes with a message, durably, before the event that names it is written.

    A crash in between leaves files that nothing names: they go with the session, or with the
    oldest.
    """
    if not message.attachments:
        return ()
    attachments = await named(message.attachments)
    is_again = False
    while True:
        # A file belongs to a session: it has to be there first.
        known = await registry.ask(
            session_id, GetStatus(message.idempotency_key), begin_with=begin_with
        )
        if known.is_known:
            return attachments  # they were kept with the first one
        if known.status == "ended":
            raise SessionEndedError(session_id, known.ended_reason)
        try:
            await save(store, session_id, message.attachments, attachments)
        except UnknownSessionError:  # it was deleted in this moment
            if begin_with is None or is_again:
                raise
            is_again = True
        else:
            return attachments


async def named(uploads: Sequence[Upload]) -> tuple[Attachment, ...]:
    """Return what a message keeps of its files. In a thread: to hash one takes its time."""
    if not uploads:
        return ()
    return await to_thread.run_sync(lambda: tuple(map(attachment_of, uploads)))


async def save(
    store: SessionStore,
    session_id: str,
    uploads: Sequence[Upload],
    attachments: Sequence[Attachment],
) -> None:
    """Keep files under the names that a message has for them."""
    for upload, attachment in zip(uploads, attachments, strict=True):
        await store.save_media(session_id, attachment.name, upload.data)
