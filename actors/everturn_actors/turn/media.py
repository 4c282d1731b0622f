"""Files that a turn makes, kept in the store, and the images that its requests show, read there.

A turn sends the same images with every step: they are kept in memory until it is over.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from anyio import to_thread
from msgspec.structs import replace

from everturn_actors.context.estimation.pictures import SHOWN_BYTES
from everturn_actors.errors import (
    InvalidInputError,
    JournalError,
    StoreAwayError,
)
from everturn_actors.events.turns import images_text
from everturn_actors.ids import made_name
from everturn_actors.model import Attachment, CallOptions, Reply, Upload
from everturn_actors.ports import SessionStore, ToolContext
from everturn_actors.state.validation import ATTACHMENTS_MAX, attachment_of, check_images, sniffed
from everturn_actors.turn.reply_flaws import asks_for_form

logger = logging.getLogger(__name__)

_FLAWS_TOLD: Final = 3  # of one reply; the operator's log has all


async def keep_files(files: Sequence[Upload], context: ToolContext) -> tuple[Attachment, ...]:
    """Keep files that were checked, before the event that names them is written.

    A crash in between leaves files that nothing names: they go with the session, with the oldest,
    or when somebody's words are erased from it.

    Raises:
        JournalError: One could not be kept.
    """
    if not files:
        return ()
    named = await to_thread.run_sync(lambda: tuple(map(_made, files)))
    for file, attachment in zip(files, named, strict=True):
        await context.store.save_media(context.session_id, attachment.name, file.data)
    return named


async def keep_images(
    reply: Reply, options: CallOptions, context: ToolContext
) -> tuple[tuple[Attachment, ...], str]:
    """Keep the images that a model made with its reply, before the event of the reply is written.

    The reply has to be one that can be used: what is kept for another, no event names. The same
    image counts once. What is no image, is too large, or is one too many costs nothing else.

    Returns:
        What was kept, and what follows the text of the reply: a line for each, or why there is
        none; nothing where the text has to be JSON, which it would not be any more.

    Raises:
        JournalError: One could not be kept.
    """
    if not (reply.images or reply.lost_images):
        return (), ""
    good, flaws = await to_thread.run_sync(_looked_at, reply)
    if over := len(good[ATTACHMENTS_MAX:]):
        flaws.append(f"{over} of them are more than the {ATTACHMENTS_MAX} of one reply")
    kept = tuple(attachment for attachment, _ in good[:ATTACHMENTS_MAX])
    for attachment, image in good[:ATTACHMENTS_MAX]:
        await context.store.save_media(context.session_id, attachment.name, image.data)
    if flaws:
        told = {"session_id": context.session_id, "model": reply.model, "error": "; ".join(flaws)}
        logger.warning("images that a model made cannot be used", extra=told)
    if asks_for_form(options):
        return kept, ""
    lost = [f"[an image made by the model cannot be used: {each}]" for each in flaws[:_FLAWS_TOLD]]
    if left := len(flaws[_FLAWS_TOLD:]):
        lost.append(f"[and {left} more, for reasons that the log has]")
    lines = "\n".join((*lost, *((images_text(kept),) if kept else ())))
    return kept, f"\n\n{lines}" if reply.text.strip() else lines


def _made(file: Upload) -> Attachment:
    attachment = attachment_of(file)
    return replace(attachment, name=made_name(attachment.name))


def _looked_at(reply: Reply) -> tuple[list[tuple[Attachment, Upload]], list[str]]:
    """Return the images that can be kept, each once, and why the others cannot. Hashes them."""
    good: dict[str, tuple[Attachment, Upload]] = {}
    flaws = [*reply.lost_images]
    for each in reply.images:
        # Its bytes are believed: a wrong label costs nobody a good image.
        image = dataclasses.replace(each, media_type=sniffed(each.data) or each.media_type)
        try:
            check_images([image])
        except InvalidInputError as error:
            flaws.append(str(error))
        else:
            attachment = _made(image)
            good.setdefault(attachment.name, (attachment, image))
    return [*good.values()], flaws


class MediaReader:
    """Reads the images of one session; what one request shows is kept for the next."""

    def __init__(self, store: SessionStore, session_id: str) -> None:
        """Begin with nothing kept."""
        self._store = store
        self._session_id = session_id
        self._kept: dict[str, bytes] = {}

    async def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of those that are there, at most `SHOWN_BYTES` of them in all.

        One that is gone, or cannot be read, is left out: the model is told of it in words.

        Raises:
            StoreAwayError: None can be read now.
        """
        found: dict[str, bytes] = {}
        left_bytes = SHOWN_BYTES
        for name in names:
            data = self._kept.get(name)
            if data is None:
                data = await self._from_store(name)
            if data is not None and len(data) <= left_bytes:
                found[name] = data
                left_bytes -= len(data)
        self._kept = found
        return found

    def forget(self) -> None:
        """Keep nothing in memory: the turn is over."""
        self._kept = {}

    async def _from_store(self, name: str) -> bytes | None:
        try:
            return await self._store.read_media(self._session_id, name)
        except StoreAwayError:
            raise
        except JournalError as error:
            logger.warning(
                "an image cannot be read; the model is told of it in words",
                extra={"session_id": self._session_id, "file": name, "error": str(error)},
            )
            return None
