"""What comes from Slack, put into the queues of its channels.

Each delivery is confirmed once what it brings is durable: what is not confirmed comes again at
once, after one and after five minutes, also what was sent while nobody listened. What is older is
read from the history, from the cursor of its channel on.
Source: https://docs.slack.dev/apis/events-api#error_handling, read 2026-11-27.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup

from everturn_channels.adapter import InboundHandler
from everturn_channels.errors import SetupError
from everturn_channels.ingestion.chat_queues import ChatQueues
from everturn_channels.ingestion.deliveries import Confirm, Confirmations
from everturn_channels.ingestion.events import PlatformEvent, ReadEvents
from everturn_channels.ingestion.json_fields import Json, object_of, text_of
from everturn_channels.slack.cursors import ChannelCursors
from everturn_channels.slack.formats.content import written_in
from everturn_channels.slack.formats.text import TS, deleted_in, is_from_person
from everturn_channels.slack.interactions import Interactions
from everturn_channels.slack.messages import Messages
from everturn_channels.slack.reading import EventReader

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 2.0
"A click or a command is confirmed after so long in any case: after three a person reads an error."
_REVOKED: Final = frozenset({"app_uninstalled", "tokens_revoked"})


class Receiver:
    """Receives for one login."""

    def __init__(
        self,
        *,
        handler: InboundHandler,
        messages: Messages,
        reader: EventReader,
        interactions: Interactions,
        cursors: ChannelCursors,
        queues: ChatQueues,
        tasks: TaskGroup,
    ) -> None:
        self._handler, self._messages, self._reader = handler, messages, reader
        self._interactions, self._cursors = interactions, cursors
        self._queues, self._tasks = queues, tasks
        self._doubts = 0
        self._read_at: dict[str, int] = {}
        "By channel, how many doubts there were when its history was read last; none = 0."
        self._confirmations = Confirmations()
        messages.settle = self._confirmations.settle

    async def take(self, kind: str, payload: Json, key: str, confirm: Confirm) -> None:
        """Take a delivery; `confirm` is called when it is settled.

        Args:
            kind: `events_api`, `interactive` or `slash_commands`.
            payload: What it brings.
            key: Tells it from all others.
            confirm: Tells Slack so.

        Raises:
            SetupError: The app was removed, or its tokens are void.
        """
        self._handler.received()
        match kind:
            case "events_api":
                await self._take_event(object_of(payload, "event"), confirm)
            case "interactive":
                channel = text_of(payload, "channel", "id")
                read = partial(self._interactions.clicks, payload)
                await self._put_waiting(channel, read, text_of(payload, "type"), confirm)
            case "slash_commands":
                read_command = partial(self._interactions.command, payload, key)
                channel = text_of(payload, "channel_id")
                await self._put_waiting(channel, read_command, "slash_command", confirm)
            case _:
                await confirm()

    def doubt(self) -> None:
        """Read a channel's history before its next message: something may never have come."""
        self._doubts += 1

    async def _take_event(self, event: Json, confirm: Confirm) -> None:
        kind, channel = text_of(event, "type"), text_of(event, "channel")
        if kind in _REVOKED:
            await confirm()
            msg = "Slack says that the app was removed, or that its tokens are void"
            raise SetupError(msg)
        if kind == "reaction_added":
            await self._take_reaction(event, confirm)
        elif kind not in {"message", "app_mention"} or not channel:
            await confirm()
        elif gone := deleted_in(event):
            read = partial(self._delete, channel, gone)
            await self._put_waiting(channel, read, "message_deleted", confirm)
        elif text_of(event, "subtype") == "message_changed":
            await self._take_change(channel, event, confirm)
        elif not TS.fullmatch(text_of(event, "ts")):
            self._handler.unreadable(kind, "it has no id")
            await confirm()
        elif not is_from_person(event):
            await confirm()
        else:
            await self._take_message(channel, event, confirm)

    async def _take_message(self, channel: str, raw: Json, confirm: Confirm) -> None:
        key = (channel, text_of(raw, "ts"))
        # From here on what a kill leaves out is read from the history.
        await self._cursors.begin_before(channel, key[1])
        self._confirmations.expect(key, confirm)
        if self._read_at.get(channel, 0) < self._doubts:
            self._read_at[channel] = self._doubts
            self._queues.catch_up(self._messages.gap(channel))
        if not self._queues.put_nowait(self._messages.event(channel, raw)):
            self._confirmations.forget(key)

    async def _take_change(self, channel: str, event: Json, confirm: Confirm) -> None:
        """Take a change by a person; Slack tells of much more, and of messages that are gone."""
        now, before = object_of(event, "message"), object_of(event, "previous_message")
        is_change = written_in(now) != written_in(before)
        if not is_change or not is_from_person(now) or not TS.fullmatch(text_of(now, "ts")):
            await confirm()
            return
        key = (channel, f"edit {text_of(event, 'event_ts') or text_of(event, 'ts')}")
        self._confirmations.expect(key, confirm)
        change = PlatformEvent(
            chat=channel,
            id=key,
            read=partial(self._reader.edit, channel, now),
            kind="message_changed",
            confirm=partial(self._confirmations.settle, key),
        )
        if not self._queues.put_nowait(change):
            self._confirmations.forget(key)

    async def _take_reaction(self, event: Json, confirm: Confirm) -> None:
        """Take a reaction on a message of the bot's, which others than the bot put there."""
        channel, me = text_of(event, "item", "channel"), self._reader.me
        is_ours = text_of(event, "item_user") == me and text_of(event, "user") not in {"", me}
        if not is_ours or not channel or not TS.fullmatch(text_of(event, "item", "ts")):
            await confirm()
            return
        key = (channel, f"reaction {text_of(event, 'event_ts')} {text_of(event, 'user')}")
        self._confirmations.expect(key, confirm)
        reaction = PlatformEvent(
            chat=channel,
            id=key,
            read=partial(self._reader.reaction, event),
            kind="reaction_added",
            confirm=partial(self._confirmations.settle, key),
        )
        if not self._queues.put_nowait(reaction):
            self._confirmations.forget(key)

    async def _delete(self, channel: str, ts: str) -> tuple[()]:
        await self._handler.deleted(channel, ts)
        return ()

    async def _put_waiting(
        self, channel: str, read: ReadEvents, kind: str, confirm: Confirm
    ) -> None:
        """Put in something for whose confirmation a person waits."""
        event = PlatformEvent(
            chat=channel,
            read=read,
            is_in_order=kind == "message_deleted",
            kind=kind,
            confirm=confirm,
        )
        if self._queues.put_nowait(event):
            self._tasks.start_soon(self._confirm_in_time, confirm)
        else:
            logger.warning("too much waits in a chat; a command or a click is left out")

    async def _confirm_in_time(self, confirm: Confirm) -> None:
        await anyio.sleep(PATIENCE_S)
        try:
            await confirm()
        except Exception:  # the boundary around one delivery
            logger.warning("a click or a command could not be confirmed", exc_info=True)
