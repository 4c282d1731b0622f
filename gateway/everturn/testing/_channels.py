"""The suite that holds a channel to its contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio

from everturn.testing._inbound import RecordingHandler
from everturn.testing._running import in_loop
from everturn_channels.adapter import Adapter, Message, Outbound


class ChannelContract:
    """Holds a channel to `everturn_channels.adapter.Adapter`, on a platform that you pretend.

    1. Subclass it in a test module, under a name that begins with `Test`.
    2. Implement `make_channel`: a channel whose platform is a double of yours.
    3. Implement `write`: somebody writes a message on that platform, in the chat `chat_id`.
    4. Implement `shown`: what people see there of what the bot said, oldest first.

    >>> class TestMyChannel(ChannelContract):
    ...     def make_channel(self):
    ...         self.platform = PretendedPlatform()
    ...         return MyChannel(self.platform.url)
    ...     async def write(self, text):
    ...         await self.platform.say(self.chat_id, text)
    ...     def shown(self):
    ...         return self.platform.texts
    """

    chat_id: str = "1"

    def make_channel(self) -> Adapter:
        """Return the channel; nothing of it runs yet. Called once in a test."""
        raise NotImplementedError

    async def write(self, text: str) -> None:
        """Let somebody write on the platform; the channel serves."""
        raise NotImplementedError

    def shown(self) -> Sequence[str]:
        """Return what people see of what the bot said, oldest first."""
        raise NotImplementedError

    def test_it_says_what_it_is(self) -> None:
        """Settings, logs and conversations name it; what it can do decides how it is used."""
        channel = self.make_channel()
        able = channel.capabilities

        assert channel.name
        assert channel.platform
        assert able.chunk_units > 0
        assert min(able.typing_s, able.preview_s, able.idle_s, able.files_max_bytes) >= 0
        assert able.edits or not able.preview_s or able.drafts

    def test_a_text_without_anything_to_show_gives_nothing(self) -> None:
        """An empty message is an error on most platforms."""
        channel = self.make_channel()

        assert [tuple(channel.render(text)) for text in ("", " \n ")] == [(), ()]

    def test_a_long_text_comes_in_pieces_and_whole(self) -> None:
        """No word is lost, and the order is kept; the same text gives the same pieces."""
        channel = self.make_channel()
        words = [f"word{number}" for number in range(channel.capabilities.chunk_units // 2)]
        pieces = channel.render(" ".join(words), is_plain=True)

        assert len(pieces) > 1
        assert " ".join(pieces).split() == words
        assert channel.render(" ".join(words), is_plain=True) == pieces

    @in_loop
    async def test_what_somebody_writes_is_handed_in(self) -> None:
        """With what a conversation needs to know of it."""
        handler = RecordingHandler()
        async with self._serving(handler):
            await self.write("hello")
            (event,) = await handler.until_handled(1)

        assert isinstance(event, Message)
        assert event.text == "hello"
        assert event.chat.id == self.chat_id
        assert event.id
        assert event.sender.id
        assert event.at.tzinfo is not None

    @in_loop
    async def test_messages_keep_their_order_and_have_names_of_their_own(self) -> None:
        """Two messages with one id would count as one."""
        handler = RecordingHandler()
        async with self._serving(handler):
            for number in range(5):
                await self.write(f"message {number}")
            events = await handler.until_handled(5)

        messages = [event for event in events if isinstance(event, Message)]
        assert [message.text for message in messages] == [f"message {n}" for n in range(5)]
        assert len({message.id for message in messages}) == len(messages)

    @in_loop
    async def test_what_cannot_be_taken_now_comes_again_in_its_order(self) -> None:
        """The disk may be full for a while: nothing may be lost, and nothing may overtake it."""
        handler = RecordingHandler(refusals=2)
        async with self._serving(handler):
            await self.write("first")
            await self.write("second")
            events = await handler.until_handled(2)

        messages = [event for event in events if isinstance(event, Message)]
        assert [message.text for message in messages] == ["first", "second"]
        assert {event.id for event in handler.refused if isinstance(event, Message)} == {
            messages[0].id
        }

    @in_loop
    async def test_what_the_bot_says_is_shown(self) -> None:
        """Each piece that was rendered is one message, and has a name."""
        handler = RecordingHandler()
        async with self._serving(handler) as channel:
            (payload,) = channel.render("hello there", is_plain=True)
            name = await channel.send(Outbound(chat_id=self.chat_id, payload=payload, nonce="1"))
            shown = list(self.shown())

        assert name
        assert len(shown) == 1
        assert "hello there" in shown[0]

    @in_loop
    async def test_it_can_be_served_again(self) -> None:
        """A connection that was lost is built anew, by the same object."""
        channel = self.make_channel()
        for _ in range(2):
            handler = RecordingHandler()
            async with _serving(channel, handler):
                await self.write("hello")
                await handler.until_handled(1)

    @asynccontextmanager
    async def _serving(self, handler: RecordingHandler) -> AsyncGenerator[Adapter]:
        channel = self.make_channel()
        async with _serving(channel, handler):
            yield channel


@asynccontextmanager
async def _serving(channel: Adapter, handler: RecordingHandler) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.serve, handler)
        await handler.until_connected()
        yield
        tasks.cancel_scope.cancel()
