"""Channels of a program's own."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from everturn_channels.adapter import InboundHandler
from everturn_channels.ingestion import chat_queues
from everturn_channels.ingestion.chat_queues import ChatQueues
from everturn_gateway.clock import SystemClock


def open_chat_queues(handler: InboundHandler) -> AbstractAsyncContextManager[ChatQueues]:
    """Take what a channel puts into the queues of its chats, while the block runs.

    What still waits when it ends was not confirmed: the platform brings it again, or a cursor does.
    """
    return chat_queues.open_chat_queues(handler, SystemClock())
