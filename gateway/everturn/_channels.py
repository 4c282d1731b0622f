"""The base of channels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, NoReturn

import anyio

from everturn_channels.adapter import (
    Button,
    Capabilities,
    InboundEvent,
    InboundHandler,
    Outbound,
)
from everturn_channels.chunks import split_text
from everturn_channels.errors import NotNowError, RefusedError

_CHUNK_CHARACTERS: Final = 4000
_FOR_EVER_S: Final = 10_000_000.0  # nobody expects the platform to be heard from


class Channel(ABC):
    """A platform on which people write to agents: one bot on it.

    To write one:

    1. Subclass it, set `name`, and implement `serve` and `send`. All else has an answer already,
       for a platform that takes texts and can do nothing more.
    2. `serve` logs in, calls `handler.connected`, and hands in what people write with `hand_in`,
       those of one chat one after the other. It runs until it is cancelled; where it raises, it is
       called again after a pause: `SetupError` where its owner has to change something,
       `ConnectionLostError` where the platform is away.
    3. A message has an id that is the same whenever it comes: handed in twice it counts once. When
       `hand_in` returns, the message is on disk. Only then tell the platform that you have it.
    4. `send` sends one piece and returns what the platform calls it, which must not be empty. Say
       truthfully what went wrong: `NotSentError` where it may be tried again, `UnknownOutcomeError`
       where it was perhaps sent, `RefusedError` where it never will be.
    5. Override `capabilities` for what the platform can do besides, and implement what belongs to
       it: `edit` with `edits`, `type` with `typing_s`, `react` with `reactions`.
    6. Give the object to `open_gateway(channels=[...])`. Agents are closed by default: say who may
       write in `Agent(settings={"access": {"dm": {"policy": "open"}}})`.
    7. Hold it to its contract: `everturn.testing.ChannelContract`.

    >>> import everturn
    >>> class Printing(everturn.Channel):
    ...     name = "printing"
    ...     async def serve(self, handler):
    ...         handler.connected("@printing")
    ...         await anyio.sleep_forever()
    ...     async def send(self, message):
    ...         print(message.payload)
    ...         return "1"
    >>> Printing().render("Hello **there**.")
    ('Hello **there**.',)
    """

    name: str
    "Of the channel, as conversations and routes have it: lower-case letters, digits, hyphens."

    @property
    def platform(self) -> str:
        """What it is called for people; by default its name."""
        return self.name

    @property
    def capabilities(self) -> Capabilities:
        """What the platform can do; by default it takes texts of 4,000 characters."""
        return Capabilities(
            edits=False,
            typing_s=0,
            preview_s=0,
            has_drafts=lambda _type: False,
            buttons=False,
            nonces=False,
            files_max_bytes=0,
            reactions=False,
            chunk_units=_CHUNK_CHARACTERS,
            idle_s=_FOR_EVER_S,
        )

    @abstractmethod
    async def serve(self, handler: InboundHandler) -> None:
        """Log in and hand in what comes, until cancelled. Called again after it raised.

        Raises:
            SetupError: Its owner has to change something; the text says what.
            ConnectionLostError: The platform cannot be reached.
        """

    @abstractmethod
    async def send(self, message: Outbound) -> str:
        """Send a message; return what the platform calls it.

        Runs at the same time as `serve`, and for several chats at once. Do not try again.

        Raises:
            NotSentError: Not sent, and may be tried again; also while `serve` is not connected.
            UnknownOutcomeError: Perhaps sent.
            RefusedError: It never will be.
        """

    @staticmethod
    async def hand_in(handler: InboundHandler, event: InboundEvent) -> None:
        """Hand in an event, again and again while it cannot be taken; return when it is durable.

        Waits as long as it takes. What follows in the same chat has to wait behind it.
        """
        while True:
            try:
                await handler.handle(event)
            except NotNowError as error:
                await anyio.sleep(error.retry_after_s)
            else:
                handler.received()
                return

    async def check(self) -> Sequence[str]:
        """Return a line for each thing that is wrong, for `doctor`; by default none.

        A line that begins with `problem: ` needs its owner; others are for information.
        """
        return ()

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """Return a text as payloads of at most the platform's size; by default Markdown as it is.

        Pure. A text without anything to show gives none.
        """
        return split_text(markdown, self.capabilities.chunk_units, "characters", is_plain=is_plain)

    async def edit(
        self,
        chat_id: str,
        topic: str,
        platform_id: str,
        payload: str,
        *,
        buttons: tuple[Button, ...] = (),
    ) -> None:
        """Put a payload in the place of a message of the bot; by default it cannot.

        Raises:
            RefusedError: It cannot be changed.
        """
        del chat_id, topic, platform_id, payload, buttons
        self._refuse("change messages")

    async def show_draft(self, chat_id: str, topic: str, draft: int, text: str) -> None:
        """Show `text` as a draft, where `capabilities.has_drafts`; by default it cannot.

        Raises:
            RefusedError: It cannot.
        """
        del chat_id, topic, draft, text
        self._refuse("show drafts")

    async def type(self, chat_id: str, topic: str) -> None:
        """Show the typing indicator once, where `capabilities.typing_s`; by default it cannot.

        Raises:
            RefusedError: It cannot.
        """
        del chat_id, topic
        self._refuse("show that somebody types")

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put a reaction on a message, where `capabilities.reactions`; by default it cannot.

        Raises:
            RefusedError: It cannot.
        """
        del chat_id, message_id, emoji
        self._refuse("react")

    def _refuse(self, what: str) -> NoReturn:
        msg = f"{self.platform} cannot {what}"
        raise RefusedError(msg)
