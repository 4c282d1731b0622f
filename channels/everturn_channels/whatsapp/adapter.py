"""The WhatsApp channel as an `Adapter`: one login, and what is said through it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio

from everturn_actors.ports import Clock
from everturn_channels.adapter import Adapter, Capabilities, InboundHandler, Outbound
from everturn_channels.errors import ChannelError
from everturn_channels.ingestion.chat_queues import open_chat_queues
from everturn_channels.ingestion.deliveries import DeliveryAnswer
from everturn_channels.ingestion.json_fields import Json, text_of
from everturn_channels.ingestion.numbered_questions import NumberedQuestions
from everturn_channels.ingestion.reordering import Reordering
from everturn_channels.online import Online
from everturn_channels.whatsapp import markup
from everturn_channels.whatsapp.account import WhatsAppAccount
from everturn_channels.whatsapp.chats import Chats
from everturn_channels.whatsapp.media import FILES_MAX_BYTES
from everturn_channels.whatsapp.people import People
from everturn_channels.whatsapp.reading import Login
from everturn_channels.whatsapp.receiver import Receiver
from everturn_channels.whatsapp.requests import CloudApi, RequestFailedError, open_api
from everturn_channels.whatsapp.sender import OnClosed, Sender, nobody_told
from everturn_channels.whatsapp.statuses import Statuses
from everturn_channels.whatsapp.webhook import Webhook

CAPABILITIES: Final = Capabilities(
    typing_s=25.0,
    buttons=True,
    reactions=True,
    files_max_bytes=FILES_MAX_BYTES,
    chunk_units=markup.CHUNK_UNITS,
)
REORDER_S: Final = 1.0
"So long what Meta delivers late waits for what the same person wrote before it."
_FIELDS: Final = (
    "id",
    "display_phone_number",
    "verified_name",
    "quality_rating",
    "name_status",
    "code_verification_status",
)
"""What is asked of the number.

Source: https://github.com/facebook/openapi (business-messaging-api_v23.0.yaml,
getPhoneNumberById), read 2026-11-27.
"""
_PROBLEMS: Final[Mapping[tuple[str, str], str]] = {
    ("quality_rating", "RED"): "its quality is low: people block or report it, and Meta takes less",
    ("name_status", "DECLINED"): "Meta declined its display name",
    ("name_status", "EXPIRED"): "its display name expired: ask for it anew",
}
_OFFLINE: Final = "The number is not logged in to WhatsApp."


class WhatsAppAdapter(Adapter):
    """One number of the Cloud API. Implements `adapter.Adapter`.

    Args:
        name: Of the channel.
        account: Which number it is.
        clock: The time.
    """

    def __init__(self, *, name: str, account: WhatsAppAccount, clock: Clock) -> None:
        self.name, self._account, self._clock = name, account, clock
        self._where = f"channels.{name}"
        self._webhook = Webhook(account)
        self._chats, self._statuses = Chats(), Statuses()
        self._online: Online[Sender] = Online(_OFFLINE)

    @property
    def platform(self) -> str:
        """`whatsapp`."""
        return "whatsapp"

    @property
    def capabilities(self) -> Capabilities:
        """What WhatsApp can do: whole texts, which nobody can change."""
        return CAPABILITIES

    # --- in ---

    async def serve(self, handler: InboundHandler) -> None:
        """As `Adapter.serve`."""
        questions = NumberedQuestions(handler)
        self._chats.on_open = handler.deliverable
        closed = partial(_tell_waiting, handler)
        failure: ChannelError | None = None
        async with self._logged_in(questions, closed) as (api, sender, number):
            login = Login(
                api=api,
                number="".join(filter(str.isdecimal, number)),
                people=People(handler),
                chats=self._chats,
                sender=sender,
                questions=questions,
            )
            async with (
                anyio.create_task_group() as tasks,
                open_chat_queues(handler, self._clock) as queues,
            ):
                queues.reordering = Reordering(self._clock, REORDER_S)
                receiver = Receiver(
                    account=self._account,
                    login=login,
                    statuses=self._statuses,
                    handler=handler,
                    queues=queues,
                    tasks=tasks,
                )
                handler.connected(number)
                failure = await self._webhook.run(receiver, api, self._where)
                tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def take_delivery(self, headers: Mapping[str, str], body: bytes) -> DeliveryAnswer:
        """Take what Meta delivers; see `Webhook.take`."""
        return await self._webhook.take(headers, body)

    def answer_challenge(self, query: Mapping[str, str]) -> DeliveryAnswer:
        """Answer whoever sets the address; see `Webhook.answer_challenge`."""
        return self._webhook.answer_challenge(query)

    async def stand_by(self) -> None:
        """As `Adapter.stand_by`."""
        async with self._logged_in(None, nobody_told):
            await anyio.sleep_forever()

    async def check(self) -> Sequence[str]:
        """As `Adapter.check`. Asks Meta for the number."""
        async with open_api(self._account, where=self._where) as api:
            try:
                return _looked_at(await api.number(*_FIELDS))
            except RequestFailedError as error:
                raise error.to_connection_error(self._where) from error

    @asynccontextmanager
    async def _logged_in(
        self, questions: NumberedQuestions | None, on_closed: OnClosed
    ) -> AsyncGenerator[tuple[CloudApi, Sender, str]]:
        """Log in; while the block runs things can be said.

        Yields:
            The connections, who says things through them, and the number as people write it.

        Raises:
            SetupError: Meta does not accept the token, or knows no such number.
            ConnectionLostError: It cannot be reached.
        """
        async with open_api(self._account, where=self._where) as api:
            try:
                # A wrong token is found here, and not with the first message.
                number = await api.number("id", "display_phone_number")
            except RequestFailedError as error:
                raise error.to_connection_error(self._where) from error
            shown = text_of(number, "display_phone_number") or self._account.phone_number_id
            sender = Sender(
                api,
                chats=self._chats,
                statuses=self._statuses,
                questions=questions,
                on_closed=on_closed,
            )
            with self._online.through(sender):
                yield api, sender, shown

    # --- out ---

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """As `Adapter.render`."""
        return markup.render(markdown, is_plain=is_plain)

    async def send(self, message: Outbound) -> str:
        """As `Adapter.send`."""
        return await self._online.sender.send(message)

    async def type(self, chat_id: str, topic: str) -> None:
        """As `Adapter.type`."""
        del topic
        await self._online.sender.type(chat_id)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """As `Adapter.react`."""
        await self._online.sender.react(chat_id, message_id, emoji)


def _tell_waiting(handler: InboundHandler, chat: str, why: str) -> None:
    handler.undelivered(chat, why, is_lost=False)


def _looked_at(number: Json) -> list[str]:
    """Return a line for each thing found; those with `problem: ` need the owner."""
    shown = text_of(number, "display_phone_number")
    name = text_of(number, "verified_name")
    found = [f"the number is {shown}" + (f", {name}" if name else "")]
    found += [
        f"problem: {words}"
        for (field, value), words in _PROBLEMS.items()
        if text_of(number, field).upper() == value
    ]
    found.append("Meta delivers over HTTP; whether it reaches this gateway, it shows there")
    return found
