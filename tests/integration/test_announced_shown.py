"""Who reads a conversation sees what was said in the agent's name without a turn."""

from __future__ import annotations

from contextlib import aclosing

from everturn_actors.model import IncomingMessage
from everturn_actors.service import Submission
from everturn_actors.testing import TestService, open_test_service
from everturn_gateway.http.schemas.history import read_messages
from everturn_gateway.http.streams import session_messages


async def announce(test: TestService) -> Submission:
    """Let a job say something in the conversation of the service."""
    said = IncomingMessage(
        kind="announcement",
        text="Five minutes.",
        key=test.key(),
        sender="schedule",
        title="Stand-up",
    )
    return await test.service.submit(said)


async def test_the_history_shows_it_as_the_assistants() -> None:
    """Who reads a conversation over HTTP or in a terminal sees all that was said in it."""
    async with open_test_service() as test:
        told = await announce(test)
        inbound = IncomingMessage(text="thanks", key=test.key(), sender="ann")
        await (await test.service.submit(inbound)).result()
        session_id = told.session_id
        pages = [
            await read_messages(test.service, session_id, after=after, limit=limit)
            for after, limit in ((0, 100), (0, 1), (2, 1))
        ]

        rows = [(m.role, m.content, m.turn_id, m.sender) for m in pages[0].messages]
        assert rows == [
            ("assistant", "Five minutes.", None, "schedule"),
            ("user", "thanks", "t1", "ann"),
            ("assistant", "reply 1", "t1", ""),
        ]
        assert [m.content for page in pages[1:] for m in page.messages] == [
            "Five minutes.",
            "thanks",
        ]
        assert pages[1].next == "m2"


async def test_who_follows_the_events_of_a_session_gets_it() -> None:
    """Programs show what a job says as soon as it is said."""
    async with open_test_service() as test:
        told = await announce(test)
        found = b""
        async with aclosing(
            session_messages(test.service, told.session_id, lambda _: False, after=1)
        ) as chunks:
            async for chunk in chunks:
                if chunk.startswith(b"event: "):
                    found = chunk
                    break

        assert found.startswith(b"event: announced\nid: 2\ndata: ")
        assert b'"text":"Five minutes.","sender":"schedule"' in found
        assert b'"title":"Stand-up"' in found
