"""Tells people of calls: a line in the log at once, webhooks one by one beside the work."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Struct

from everturn_actors.ports import Clock
from everturn_actors.supervisor import TRANSIENT, Supervisor, contain
from everturn_gateway.late_loading import late
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.policy.policy import Delivery, LogDelivery, WebhookDelivery

if TYPE_CHECKING:
    from everturn_gateway.tools.policy import webhook_client
else:
    webhook_client = late("everturn_gateway.tools.policy.webhook_client")

logger = logging.getLogger(__name__)

QUEUE_LIMIT = 256  # webhooks that wait; those beyond are dropped and counted
BACKOFF_S: Final = (1.0, 4.0)  # before the second and the third try
FLUSH_S = 5.0  # how long what waits may still be sent when the gateway stops
_SHOWN_CHARACTERS = 500  # of a command or arguments, in the log
_SENT_CHARACTERS = 8_000  # of them, to a webhook


class ToolNotice(Struct, frozen=True, kw_only=True):
    """One call that somebody is to be told of."""

    agent: str
    session_id: str
    call_id: str
    tool: str
    command: str
    "The command that it ran, or the tool's name."
    arguments: str
    success: bool


class _Post(Struct, frozen=True):
    """One webhook to call."""

    url: str
    body: bytes
    call_id: str


class Notifier:
    """Takes notices from tools; see `open_notifier`."""

    def __init__(
        self, waiting: MemoryObjectSendStream[_Post], clock: Clock, secrets: SecretRegistry
    ) -> None:
        self._waiting = waiting
        self._clock = clock
        self._secrets = secrets
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """How many webhooks were dropped because too many waited."""
        return self._dropped

    def notify(self, notice: ToolNotice, deliveries: tuple[Delivery, ...]) -> None:
        """Deliver a notice: the log has it at once, webhooks get it later. Never waits."""
        for delivery in deliveries:
            match delivery:
                case LogDelivery():
                    self._log(notice)
                case WebhookDelivery(url=url):
                    self._post(url, notice)
                case _:
                    assert_never(delivery)

    def _log(self, notice: ToolNotice) -> None:
        logger.log(
            logging.INFO if notice.success else logging.WARNING,
            "a call that the policy tells of has run",
            extra={
                "agent": notice.agent,
                "session_id": notice.session_id,
                "call_id": notice.call_id,
                "tool": notice.tool,
                "command": self._secrets.mask(notice.command)[:_SHOWN_CHARACTERS],
                "success": notice.success,
            },
        )

    def _post(self, url: str, notice: ToolNotice) -> None:
        body = _body(notice, self._secrets, self._clock.now())
        try:
            self._waiting.send_nowait(_Post(url, body, notice.call_id))
        except (anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._dropped += 1
            logger.warning(
                "a webhook was dropped: too many wait",
                extra={"call_id": notice.call_id, "dropped": self._dropped, **_place(url)},
            )


@asynccontextmanager
async def open_notifier(
    clock: Clock, secrets: SecretRegistry, *, supervisor: Supervisor | None = None
) -> AsyncGenerator[Notifier]:
    """Open what tells people of calls, with one worker for its webhooks.

    A webhook is tried three times, ten seconds each; redirects are not followed. What fails is
    logged. At the end, what waits gets five seconds; the rest is logged as not sent.

    Args:
        clock: The time.
        secrets: What no webhook is told.
        supervisor: Runs the worker; by default one of its own.
    """
    supervisor = supervisor or Supervisor(clock)
    sending, receiving = anyio.create_memory_object_stream[_Post](QUEUE_LIMIT)
    async with receiving, anyio.create_task_group() as tasks:
        work = partial(_work, receiving, clock)
        supervisor.start(tasks, "webhooks", work, policy=TRANSIENT)
        async with sending:
            yield Notifier(sending, clock, secrets)
        tasks.cancel_scope.deadline = anyio.current_time() + FLUSH_S


async def _work(waiting: MemoryObjectReceiveStream[_Post], clock: Clock) -> None:
    client: webhook_client.WebhookClient | None = None
    left: _Post | None = None
    try:
        async for post in waiting:
            left = post
            if client is None:
                client = await anyio.to_thread.run_sync(_client)
            await contain("webhook", partial(_send, client, post, clock))
            left = None
    finally:
        unsent = waiting.statistics().current_buffer_used + (left is not None)
        if unsent:
            logger.warning("webhooks were not sent before the end", extra={"count": unsent})
        if client is not None:
            with anyio.move_on_after(1, shield=True):
                await client.aclose()


def _client() -> webhook_client.WebhookClient:
    """Make the client. Blocking: it loads its library, which few gateways need."""
    return webhook_client.WebhookClient()


async def _send(client: webhook_client.WebhookClient, post: _Post, clock: Clock) -> None:
    """Try up to three times; what fails in the end is logged."""
    why = ""
    for pause_s in (*BACKOFF_S, None):
        why, is_final = await client.post(post.url, post.body)
        if not why:
            return
        if is_final or pause_s is None:
            break
        await clock.sleep(pause_s)
    logger.warning(
        "a webhook could not be delivered",
        extra={"call_id": post.call_id, "why": why, **_place(post.url)},
    )


def _place(url: str) -> dict[str, str]:
    """Return what may be logged of an address: those of webhooks hold tokens."""
    parts = urlsplit(url)
    return {"host": parts.hostname or ""}


def _body(notice: ToolNotice, secrets: SecretRegistry, at: datetime) -> bytes:
    """Return the JSON of a notice: Duragent's fields, and ours.

    Source: `send_notification` of Duragent v1alpha1 (event, session_id, agent, command, success).
    """
    return orjson.dumps(
        {
            "event": "command_notification",
            "agent": notice.agent,
            "session_id": notice.session_id,
            "call_id": _sent(notice.call_id, secrets),
            "tool": _sent(notice.tool, secrets),
            "command": _sent(notice.command, secrets),
            "arguments": _sent(notice.arguments, secrets),
            "success": notice.success,
            "at": at.isoformat(),
        }
    )


def _sent(text: str, secrets: SecretRegistry) -> str:
    masked = secrets.mask(text).encode("utf-8", "replace").decode()
    return masked if len(masked) <= _SENT_CHARACTERS else f"{masked[:_SENT_CHARACTERS]}..."
