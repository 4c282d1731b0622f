"""What callers over HTTP are told of a session whose messages come from a chat."""

from __future__ import annotations

import anyio
import orjson
from support.patience import WAIT_S

from everturn_actors.model import IncomingMessage, Queueing
from everturn_actors.service import Submission
from everturn_actors.testing import TestService, open_test_service
from everturn_gateway.http.schemas.history import read_messages
from everturn_gateway.http.streams import session_messages, turn_messages


async def say(
    test: TestService, text: str, *, key: str = "", most: int | None = None
) -> Submission:
    """Hand in a message; more than `most` waiting ones push out the oldest."""
    queueing = Queueing(max_waiting=most)
    return await test.service.submit(
        IncomingMessage(text=text, key=test.key(), idempotency_key=key, queueing=queueing)
    )


async def told(test: TestService) -> list[tuple[str, str | None]]:
    """Return the content and the turn of each message that the history shows of people."""
    session_id = await test.service.conversations.current(test.key())
    page = await read_messages(test.service, session_id, after=0, limit=50)
    return [(m.content, m.turn_id) for m in page.messages if m.role == "user"]


async def test_a_stream_of_a_message_that_was_dropped_ends_with_the_reason() -> None:
    """A client that waits for a turn that never comes must not wait for ever."""
    async with open_test_service() as test:
        test.provider.hold()
        await say(test, "runs")
        await test.provider.until_called()
        old = await say(test, "old", most=1)
        await say(test, "new", most=1)
        with anyio.fail_after(WAIT_S):
            chunks = [chunk async for chunk in turn_messages(old, lambda _: False, after=0)]
        test.provider.release()

        assert b"event: error" in chunks[-1]
        assert b"the message was dropped: more than 1 waited" in chunks[-1]
        assert b"turn-cancelled" in chunks[-1]


async def test_the_history_shows_what_was_answered_not_what_was_written_first() -> None:
    """Whoever reads along has to see the question that the answer stands under."""
    async with open_test_service() as test:
        test.provider.hold()
        await say(test, "runs")
        await test.provider.until_called()
        await say(test, "old", most=1)
        await say(test, "who wint?", key="k", most=1)
        assert await test.service.conversations.edit(test.key(), "k", "who went?")
        assert await told(test) == [("runs", "t1"), ("old", None), ("who went?", None)]
        await say(test, "a slip", key="s")
        assert await test.service.conversations.withdraw(test.key(), "s")
        assert await told(test) == [("runs", "t1"), ("old", None), ("who went?", None)]

        test.provider.release()
        waits = await say(test, "who wint?", key="k")
        assert (await waits.result()).turn == 2
        assert await told(test) == [("runs", "t1"), ("old", None), ("who went?", "t2")]


async def test_the_stream_of_a_session_carries_every_event_as_it_is_logged() -> None:
    """A kind of event that it did not know would end it for everybody who follows."""
    async with open_test_service() as test:
        said = await say(test, "hello")
        await said.result()
        await test.service.submit(IncomingMessage(kind="ambient", text="lunch?", key=test.key()))
        await test.service.reset(said.session_id)
        messages = session_messages(test.service, said.session_id, lambda _: False, after=0)
        chunks = [chunk async for chunk in messages]
        kinds = [line for chunk in chunks for line in chunk.splitlines() if line[:6] == b"event:"]

        assert kinds[-2:] == [b"event: ambient_stored", b"event: session_ended"]
        data = [line for line in chunks[-2].splitlines() if line.startswith(b"data:")]
        assert orjson.loads(data[0][5:])["text"] == "lunch?"
