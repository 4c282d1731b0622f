"""What the bot says and does: each request once, and what may be there already is looked for."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeVar

from everturn_actors.ports import Clock
from everturn_channels.adapter import Outbound, OutgoingFile
from everturn_channels.errors import NotSentError, RefusedError
from everturn_channels.ingestion.json_fields import Json, objects_of, text_of, texts_of
from everturn_channels.languages import marked, said
from everturn_channels.names import one_line
from everturn_channels.slack.files import has_file
from everturn_channels.slack.formats import markup
from everturn_channels.slack.formats.emojis import name_of
from everturn_channels.slack.formats.text import TS, ts_of
from everturn_channels.slack.requests import BAD_BLOCKS, RequestFailedError, SlackApi

K = TypeVar("K")
T = TypeVar("T")

logger = logging.getLogger(__name__)

FILES_MAX_BYTES: Final = 50 * 1024 * 1024
"More Slack takes, but no agent sends."
EVENT_TYPE: Final = "everturn"
TYPING: Final = marked("is typing…")
_LOOK_BACK: Final = timedelta(hours=2)
"""What may be there already is looked for from so long before it was owed.

A preview is shown before its reply is owed, and clocks differ.
"""
_LOOK_BACK_FILE: Final = timedelta(minutes=2)
"A file has no preview, and the one that was sent an hour ago may have its name and size."
_LOOK_BACK_UNKNOWN: Final = timedelta(days=1)
_PAGE: Final = 200
_PAGES: Final = 10
_REMEMBERED: Final = 5_000


class Sender:
    """Says things as one bot."""

    def __init__(self, api: SlackApi, me: str, clock: Clock) -> None:
        self._api, self._me, self._clock = api, me, clock
        self._nonces: OrderedDict[tuple[str, str], str] = OrderedDict()
        "By channel and message: a change keeps what a message is known by."
        self._reactions: OrderedDict[tuple[str, str], str] = OrderedDict()

    async def send(self, message: Outbound) -> str:
        """As `Adapter.send`."""
        is_unsure = False
        if message.is_repeat:
            found = await self._find(message)
            if found:
                return found
            is_unsure = found is None
        if message.file is not None:
            return await self._send_file(message, message.file, is_repeat=is_unsure)
        fields = markup.fields_of(message.payload, buttons=message.buttons, is_repeat=is_unsure)
        if message.topic:
            fields["thread_ts"] = message.topic
        if message.nonce:
            fields["metadata"] = _metadata(message.nonce)
        try:
            answer = await self._post("chat.postMessage", message.chat_id, fields)
        except RequestFailedError as error:
            raise error.to_send_error() from error
        ts = text_of(answer, "ts")
        self._remember(message, ts)
        return ts

    async def edit(self, channel: str, ts: str, payload: str) -> None:
        """As `Adapter.edit`. The same once more is the same message."""
        fields = markup.fields_of(payload)
        if nonce := self._nonces.get((channel, ts), ""):
            fields["metadata"] = _metadata(nonce)
        try:
            await self._post("chat.update", channel, {**fields, "ts": ts})
        except RequestFailedError as error:
            raise error.to_send_error() from error

    async def type(self, channel: str, topic: str) -> None:
        """Show in a thread that an answer comes; outside of threads Slack shows nothing."""
        if not topic:
            return
        status = said(TYPING)
        try:
            await self._api.call(
                "assistant.threads.setStatus",
                {"channel_id": channel, "thread_ts": topic, "status": status},
            )
        except RequestFailedError as error:
            raise error.to_send_error() from error

    async def react(self, channel: str, ts: str, emoji: str) -> None:
        """As `Adapter.react`."""
        name = name_of(emoji)
        if emoji and not name:
            msg = f"Slack takes emojis by their names: write {emoji} as :name:."
            raise RefusedError(msg)
        known = self._reactions.pop((channel, ts), "")
        try:
            if name:
                await self._reaction("reactions.add", channel, ts, name)
                _keep(self._reactions, (channel, ts), name)
                old = [known] if known not in {"", name} else []
            else:
                old = [known] if known else await self._own_reactions(channel, ts)
            for each in old:
                await self._reaction("reactions.remove", channel, ts, each)
        except RequestFailedError as error:
            raise error.to_send_error() from error

    # --- inside ---

    async def _post(self, method: str, channel: str, fields: dict[str, object]) -> Json:
        """Send or change a message; where its formatting is not taken, as plain text."""
        try:
            return await self._api.call(method, {"channel": channel, **fields})
        except RequestFailedError as error:
            if error.code not in BAD_BLOCKS:
                raise
            logger.warning("the formatting of a message was refused", extra={"why": str(error)})
        return await self._api.call(method, {"channel": channel, **markup.as_plain(fields)})

    async def _find(self, message: Outbound) -> str | None:
        """Return the message that is there already; empty = it is not, None = nobody knows.

        Raises:
            NotSentError: Slack does not tell now.
        """
        file, cursor = message.file, ""
        back = _LOOK_BACK_FILE if file is not None else _LOOK_BACK
        since = message.since - back if message.since else None
        oldest = since or self._clock.now() - _LOOK_BACK_UNKNOWN
        name = _file_name(file) if file is not None else ""
        for _ in range(_PAGES):
            page = await self._page(message, ts_of(oldest), cursor)
            messages = objects_of(page, "messages")
            if file is not None:
                found = has_file(messages, name, len(file.data), self._me)
            else:
                found = self._with_nonce(messages, message.nonce)
            if found:
                self._remember(message, found)
                return found
            cursor = text_of(page, "response_metadata", "next_cursor")
            if not cursor:
                return ""
        return None

    async def _page(self, message: Outbound, oldest: str, cursor: str) -> Json:
        fields: dict[str, object] = {
            "channel": message.chat_id,
            "ts": message.topic or None,
            "oldest": oldest,
            "limit": _PAGE,
            "include_all_metadata": True,
            "cursor": cursor or None,
        }
        method = "conversations.replies" if message.topic else "conversations.history"
        try:
            return await self._api.read(method, fields)
        except RequestFailedError as error:
            found = error.to_send_error()
            if isinstance(found, RefusedError | NotSentError):
                raise found from error
            raise NotSentError(str(found)) from error  # it was only looked

    def _with_nonce(self, messages: Sequence[Json], nonce: str) -> str:
        """Return the bot's message of a nonce: others may write the same into theirs."""
        for raw in messages:
            known = text_of(raw, "metadata", "event_payload", "nonce")
            if nonce and known == nonce and text_of(raw, "user") == self._me:
                return text_of(raw, "ts")
        return ""

    async def _send_file(self, message: Outbound, file: OutgoingFile, *, is_repeat: bool) -> str:
        """Upload a file, then show it; what is uploaded twice is waste that nobody sees.

        Source: https://docs.slack.dev/messaging/working-with-files#uploading_files.
        """
        size, name = len(file.data), _file_name(file)
        if size > FILES_MAX_BYTES:
            msg = f"Files of {FILES_MAX_BYTES:,} bytes at most can be sent."
            raise RefusedError(msg)
        try:
            place = await self._api.call(
                "files.getUploadURLExternal", {"filename": name, "length": size}
            )
            await self._api.upload(text_of(place, "upload_url"), file.data)
        except RequestFailedError as error:
            found = error.to_send_error()
            if isinstance(found, RefusedError | NotSentError):
                raise found from error
            raise NotSentError(str(found)) from error  # nothing of it shows so far
        file_id = text_of(place, "file_id")
        try:
            await self._api.call(
                "files.completeUploadExternal",
                {
                    "files": [{"id": file_id, "title": name}],
                    "channel_id": message.chat_id,
                    "thread_ts": message.topic or None,
                    "initial_comment": said(markup.REPEAT_LABEL) if is_repeat else None,
                },
            )
        except RequestFailedError as error:
            raise error.to_send_error() from error
        return file_id

    async def _reaction(self, method: str, channel: str, ts: str, name: str) -> None:
        try:
            await self._api.call(method, {"channel": channel, "timestamp": ts, "name": name})
        except RequestFailedError as error:
            if error.code not in {"already_reacted", "no_reaction"}:
                raise

    async def _own_reactions(self, channel: str, ts: str) -> list[str]:
        found = await self._api.read(
            "reactions.get", {"channel": channel, "timestamp": ts, "full": True}
        )
        return [
            text_of(each, "name")
            for each in objects_of(found, "message", "reactions")
            if self._me in texts_of(each, "users")
        ]

    def _remember(self, message: Outbound, ts: str) -> None:
        if message.nonce and TS.fullmatch(ts):
            _keep(self._nonces, (message.chat_id, ts), message.nonce)


def _metadata(nonce: str) -> dict[str, object]:
    """Return what a message is known by when it is looked for.

    Source: https://docs.slack.dev/messaging/message-metadata.
    """
    return {"event_type": EVENT_TYPE, "event_payload": {"nonce": nonce}}


def _file_name(file: OutgoingFile) -> str:
    return one_line(file.file_name) or "file"


def _keep(kept: OrderedDict[K, T], key: K, value: T) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _REMEMBERED:
        kept.popitem(last=False)
