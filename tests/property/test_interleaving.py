"""Whoever writes where, and whenever the model answers: nothing is lost, mixed up or said twice."""

from __future__ import annotations

from collections import defaultdict

import anyio
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from everturn_actors.events import Received, TurnStarted
from everturn_actors.model import IncomingMessage
from everturn_actors.service import Submission
from everturn_actors.testing import TestService, open_test_service

CHATS = ("red", "green", "blue")

moves = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(CHATS), st.sampled_from(["ann", "bob", "eve"])),
        st.sampled_from(["hold", "release", "let run"]),
    ),
    min_size=1,
    max_size=25,
)


@examples(12)
@given(moves)
def test_messages_are_answered_in_order_each_in_one_turn(
    script: list[tuple[str, str] | str],
) -> None:
    """IN-12: order inside a chat is the order of arrival; every message is in exactly one turn."""

    async def play() -> None:
        async with open_test_service() as test:
            sent = await carry(test, script)
            for chat, submissions in sent.items():
                for submission in submissions:
                    assert (await submission.result()).outcome == "answered"
                session_id = submissions[0].session_id
                events = await test.service.history(session_id, after=0, limit=10_000)
                received = [e.seq for e in events if isinstance(e.body, Received)]
                texts = [e.body.text for e in events if isinstance(e.body, Received)]
                answered = [
                    seq
                    for e in events
                    if isinstance(e.body, TurnStarted)
                    for seq in e.body.received
                ]

                assert answered == received
                assert texts == [f"{chat} {number}" for number in range(len(submissions))]

    anyio.run(play)


async def carry(
    test: TestService, script: list[tuple[str, str] | str]
) -> dict[str, list[Submission]]:
    """Do what the script says; return what was submitted, by chat, in order."""
    sent: dict[str, list[Submission]] = defaultdict(list)
    for move in script:
        match move:
            case "hold":
                test.provider.release()
                test.provider.hold()
            case "release":
                test.provider.release()
            case (chat, sender):
                text = f"{chat} {len(sent[chat])}"
                inbound = IncomingMessage(text=text, sender=sender, key=test.key(chat))
                sent[chat].append(await test.service.submit(inbound))
            case _:
                await anyio.lowlevel.checkpoint()
    test.provider.release()
    return sent
