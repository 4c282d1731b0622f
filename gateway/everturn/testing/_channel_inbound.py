"""What the contract suite for channels pretends of a platform, and tries of what comes in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
import pytest

from everturn.testing._inbound import RecordingHandler
from everturn.testing._running import in_loop
from everturn_channels.adapter import Adapter, Message
from everturn_channels.errors import ConnectionLostError

_LOOK_S: Final = 0.01


class PretendedPlatform:
    """What whoever writes a channel says of its platform; see `ChannelContract`."""

    chat_id: str = "1"
    other_chat_id: str = "2"
    backlog_max_messages: int = 0
    "Of what was written in a chat while nobody listened, the newest so many are read; 0 = all."
    keeps_messages: bool = True
    "Whether the platform still has what was written while nobody listened."
    keeps_reactions: bool = True
    "Whether it tells later of reactions that were put then."

    @asynccontextmanager
    async def open_platform(self) -> AsyncGenerator[None]:
        """Run the double of the platform while a test runs; by default there is nothing to run."""
        yield

    def make_channel(self) -> Adapter:
        """Return a channel on the platform; nothing of it runs yet."""
        raise NotImplementedError

    async def until_ready(self, handler: RecordingHandler) -> None:
        """Wait until a channel that serves would see what is written; by default for its login."""
        await handler.until_connected()

    async def write(self, text: str, chat_id: str) -> None:
        """Let somebody write on the platform."""
        raise NotImplementedError

    async def shown(self) -> Sequence[str]:
        """Return what people see of what the bot said, oldest first, each as it stands now."""
        raise NotImplementedError

    async def unconfirmed(self, handler: RecordingHandler) -> int:
        """Return how many messages would come again if the channel were killed now.

        They are those that the platform holds, or that stand behind the cursors in `handler`.
        """
        del handler
        return 0

    async def write_unreadable(self) -> None:
        """Let something come from the platform that the channel cannot read."""
        raise NotImplementedError

    async def interrupt(self) -> None:
        """Let the platform be away for a moment, or cut the connection."""
        raise NotImplementedError

    async def lose_answer(self) -> None:
        """Let the platform show what the bot says next, and the answer be lost."""
        raise NotImplementedError

    async def slow_down(self, silence_s: float) -> None:
        """Let the platform refuse what the bot says next, and ask for so long a silence."""
        raise NotImplementedError

    async def expel(self) -> None:
        """Remove the bot from `chat_id`."""
        raise NotImplementedError

    async def revoke(self) -> None:
        """Take the bot's token back."""
        raise NotImplementedError

    async def change(self, message_id: str, text: str) -> None:
        """Let somebody change what they wrote in `chat_id`."""
        raise NotImplementedError

    async def remove(self, message_id: str) -> None:
        """Let somebody delete what they wrote in `chat_id`."""
        raise NotImplementedError

    async def react(self, message_id: str, emoji: str) -> None:
        """Let somebody put a reaction on a message of the bot's in `chat_id`."""
        raise NotImplementedError

    async def write_file(self, name: str, data: bytes, chat_id: str) -> None:
        """Let somebody send a file, and no text."""
        raise NotImplementedError

    async def files(self) -> Sequence[bytes]:
        """Return the files that the bot sent, oldest first."""
        raise NotImplementedError

    def text_of(self, payload: str) -> str:
        """Return what people would read of a payload; by default the payload itself."""
        return payload


class ServedPlatform(PretendedPlatform):
    """A platform on which tests run a channel."""

    def need(self, name: str) -> None:
        """Skip the test where a part of the platform is not implemented."""
        if getattr(type(self), name) is getattr(PretendedPlatform, name):
            pytest.skip(f"{name} is not implemented")

    async def made(self) -> Adapter:
        """Return a channel that is not served."""
        async with self.open_platform():
            return self.make_channel()

    async def until_confirmed(self, handler: RecordingHandler) -> None:
        """Wait until the platform holds nothing more."""
        while await self.unconfirmed(handler):  # noqa: ASYNC110 - a platform does not tell
            await anyio.sleep(_LOOK_S)

    @asynccontextmanager
    async def serving(self, handler: RecordingHandler) -> AsyncGenerator[Adapter]:
        """Serve a channel on the platform while the block runs."""
        async with self.open_platform():
            channel = self.make_channel()
            async with serve_on(channel, handler, self.until_ready):
                yield channel


class ReceivingContract(ServedPlatform):
    """Order, confirmation, crashes, outages, and what cannot be read."""

    @in_loop
    async def test_what_somebody_writes_is_handed_in(self) -> None:
        """With what a conversation needs to know of it."""
        handler = RecordingHandler()
        async with self.serving(handler):
            await self.write("hello", self.chat_id)
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
        async with self.serving(handler):
            for number in range(5):
                await self.write(f"message {number}", self.chat_id)
                await self.write(f"message {number}", self.other_chat_id)
            await handler.until_handled(10)

        expected = [f"message {number}" for number in range(5)]
        assert handler.texts(self.chat_id) == expected
        assert handler.texts(self.other_chat_id) == expected

    @in_loop
    async def test_a_chat_that_takes_long_holds_up_no_other(self) -> None:
        """One person's large file must not silence the bot."""
        handler = RecordingHandler()
        async with self.serving(handler):
            gate = handler.hold(self.chat_id)
            await self.write("slow", self.chat_id)
            await self.write("behind it", self.chat_id)
            await self.write("quick", self.other_chat_id)
            await handler.until(lambda: handler.texts(self.other_chat_id))
            early = handler.texts(self.chat_id)
            gate.set()
            await handler.until(lambda: len(handler.texts(self.chat_id)) == 2)

        assert early == []
        assert handler.texts(self.chat_id) == ["slow", "behind it"]

    @in_loop
    async def test_what_cannot_be_taken_now_comes_again_in_its_order(self) -> None:
        """The disk may be full for a while: nothing may be lost, and nothing may overtake it."""
        handler = RecordingHandler(refusals=2)
        async with self.serving(handler):
            await self.write("first", self.chat_id)
            await self.write("second", self.chat_id)
            await handler.until(lambda: len(handler.texts()) == 2)

        assert handler.texts() == ["first", "second"]
        refused = [event.text for event in handler.refused if isinstance(event, Message)]
        assert refused[0] == "first"

    @in_loop
    async def test_a_message_is_confirmed_when_it_is_durable_and_not_before(self) -> None:
        """What the platform counts as received is gone for ever if the process is killed."""
        self.need("unconfirmed")
        handler = RecordingHandler()
        async with self.serving(handler):
            await self.write("known", self.chat_id)
            await self.until_confirmed(handler)
            gate = handler.hold(self.chat_id)
            await self.write("hello", self.chat_id)
            await handler.until(lambda: handler.waiting)
            early = await self.unconfirmed(handler)
            gate.set()
            await self.until_confirmed(handler)

        assert early == 1
        assert handler.texts() == ["known", "hello"]

    @in_loop
    async def test_what_cannot_be_read_is_told_and_hides_nothing(self) -> None:
        """One bad event would silence the channel for ever, since it comes again and again."""
        self.need("write_unreadable")
        handler = RecordingHandler()
        async with self.serving(handler):
            await self.write("before", self.chat_id)
            await self.write_unreadable()
            await self.write("after", self.chat_id)
            await handler.until(lambda: len(handler.texts()) == 2)
            await handler.until(lambda: handler.passed_over)

        assert handler.texts() == ["before", "after"]

    @in_loop
    async def test_an_outage_loses_nothing(self) -> None:
        """The channel connects again by itself, or says that the connection is lost."""
        self.need("interrupt")
        handler = RecordingHandler()
        async with self.serving(handler):
            await self.write("before", self.chat_id)
            await handler.until_handled(1)
            await self.interrupt()
            await self.write("meanwhile", self.chat_id)
            await handler.until(lambda: "meanwhile" in handler.texts())
            await self.write("after", self.chat_id)
            await handler.until(lambda: "after" in handler.texts())

        assert handler.texts() == ["before", "meanwhile", "after"]

    @in_loop
    async def test_what_was_not_durable_comes_again_after_a_crash(self) -> None:
        """Also where the cursor that was written last is older than what was taken."""
        _need_history(self)
        first = RecordingHandler()
        async with self.open_platform():
            async with serve_on(self.make_channel(), first, self.until_ready):
                cursors = dict(first.cursors)
                await self.write("before", self.chat_id)
                await first.until_handled(1)
                first.hold(self.chat_id)
                await self.write("meanwhile", self.chat_id)
                await first.until(lambda: first.waiting)
            second = RecordingHandler(cursors=cursors)
            async with serve_on(self.make_channel(), second, self.until_ready):
                await second.until(lambda: "meanwhile" in second.texts())
                await self.write("after", self.chat_id)
                await second.until(lambda: "after" in second.texts())

        assert [text for text in second.texts() if text != "before"] == ["meanwhile", "after"]

    @in_loop
    async def test_what_was_written_meanwhile_is_read_within_the_bounds_of_the_backlog(
        self,
    ) -> None:
        """The newest matter after a long absence; who wrote the others has to know."""
        _need_history(self)
        too_many = 3 if self.backlog_max_messages else 0
        texts = [
            f"missed {number}" for number in range((self.backlog_max_messages or 5) + too_many)
        ]
        first = RecordingHandler()
        async with self.open_platform():
            async with serve_on(self.make_channel(), first, self.until_ready):
                await self.write("before", self.chat_id)
                await first.until_handled(1)
                await self.until_confirmed(first)
            for text in texts:
                await self.write(text, self.chat_id)
            second = RecordingHandler(cursors=first.cursors)
            async with serve_on(self.make_channel(), second, self.until_ready):
                await second.until(lambda: texts[-1] in second.texts())
                await self.write("after", self.chat_id)
                await second.until(lambda: "after" in second.texts())

        assert second.texts() == [*texts[too_many:], "after"]
        assert sum(count for _, count, _ in second.skips) == too_many


def _need_history(platform: PretendedPlatform) -> None:
    """Skip the test where the platform forgets what nobody receives."""
    if not platform.keeps_messages:
        pytest.skip("the platform forgets what nobody receives")


@asynccontextmanager
async def serve_on(
    channel: Adapter,
    handler: RecordingHandler,
    until_ready: Callable[[RecordingHandler], Awaitable[None]],
) -> AsyncGenerator[None]:
    """Serve a channel while the block runs, from when it would see what is written."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_serve, channel, handler)
        await until_ready(handler)
        yield
        tasks.cancel_scope.cancel()


async def _serve(channel: Adapter, handler: RecordingHandler) -> None:
    """Serve, again and again where the platform is away: so does the gateway."""
    while True:
        try:
            await channel.serve(handler)
        except ConnectionLostError:
            await anyio.sleep(_LOOK_S)
