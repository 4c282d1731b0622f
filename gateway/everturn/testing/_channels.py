"""The suite that holds a channel to its contract."""

from __future__ import annotations

from everturn.testing._channel_inbound import ReceivingContract, serve_on
from everturn.testing._channel_outbound import SendingContract
from everturn.testing._inbound import RecordingHandler
from everturn.testing._running import in_loop
from everturn_channels.adapter import Outbound


class ChannelContract(ReceivingContract, SendingContract):
    """Holds a channel to `everturn_channels.adapter.Adapter`, on a platform that you pretend.

    1. Subclass it in a test module, under a name that begins with `Test`.
    2. Implement `open_platform`, where the double of your platform has to be started.
    3. Implement `make_channel`: a channel on that platform. A test makes several, one after the
       other, as a process that crashed and its next start do.
    4. Implement `write`: somebody writes on that platform, whether or not the channel serves.
    5. Implement `shown`: what people see there of what the bot said, oldest first.
    6. Implement `unconfirmed`, `write_unreadable`, `interrupt`, `lose_answer`, `slow_down`,
       `expel`, `revoke`, `change`, `react`, `write_file` and `files` where the double can do
       that: without them the tests that need them are skipped.
    7. Set `backlog_max_messages` to what the channel is made with, where it leaves out the rest,
       and `keeps_messages` to False for a platform that forgets what nobody receives, and
       `keeps_reactions` for one that tells of no reaction later.

    >>> from contextlib import asynccontextmanager
    >>> class TestMyChannel(ChannelContract):
    ...     @asynccontextmanager
    ...     async def open_platform(self):
    ...         async with open_pretended_platform() as self.platform:
    ...             yield
    ...     def make_channel(self):
    ...         return MyChannel(self.platform.url)
    ...     async def write(self, text, chat_id):
    ...         await self.platform.say(chat_id, text)
    ...     async def shown(self):
    ...         return self.platform.texts
    """

    @in_loop
    async def test_it_says_what_it_is(self) -> None:
        """Settings, logs and conversations name it; what it can do decides how it is used."""
        channel = await self.made()
        able = channel.capabilities

        assert channel.name
        assert channel.platform
        assert able.chunk_units > 0
        assert min(able.typing_s, able.preview_s, able.idle_s, able.files_max_bytes) >= 0
        assert able.edits or not able.preview_s or able.drafts

    @in_loop
    async def test_a_text_without_anything_to_show_gives_nothing(self) -> None:
        """An empty message is an error on most platforms."""
        channel = await self.made()

        assert [tuple(channel.render(text)) for text in ("", " \n ")] == [(), ()]

    @in_loop
    async def test_a_long_text_comes_in_pieces_and_whole(self) -> None:
        """No word is lost, and the order is kept; the same text gives the same pieces."""
        channel = await self.made()
        words = [f"word{number}" for number in range(channel.capabilities.chunk_units // 2)]
        pieces = channel.render(" ".join(words), is_plain=True)

        assert len(pieces) > 1
        assert " ".join(map(self.text_of, pieces)).split() == words
        assert channel.render(" ".join(words), is_plain=True) == pieces

    @in_loop
    async def test_what_the_bot_says_is_shown(self) -> None:
        """Each piece that was rendered is one message, and has a name."""
        handler = RecordingHandler()
        async with self.serving(handler) as channel:
            (payload,) = channel.render("hello there", is_plain=True)
            name = await channel.send(Outbound(chat_id=self.chat_id, payload=payload, nonce="1"))
            shown = list(await self.shown())

        assert name
        assert len(shown) == 1
        assert "hello there" in shown[0]

    @in_loop
    async def test_it_can_be_served_again(self) -> None:
        """A connection that was lost is built anew, by the same object."""
        async with self.open_platform():
            channel = self.make_channel()
            cursors: dict[str, str] = {}
            for text in ("first", "second"):
                handler = RecordingHandler(cursors=cursors)
                async with serve_on(channel, handler, self.until_ready):
                    await self.write(text, self.chat_id)
                    await handler.until(lambda: text in handler.texts())  # noqa: B023 - awaited here
                    cursors = handler.cursors
