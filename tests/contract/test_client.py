"""The client of a gateway: over HTTP to one that listens, and to one in the same process.

Everything behind them is real; only the model is scripted.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
import pytest
from support.gateway import HttpGateway, open_client_here, open_http_client, open_http_gateway
from support.patience import WAIT_S
from support.pictures import picture
from support.tables import table

from everturn_actors.errors import (
    InvalidInputError,
    SessionEndedError,
    UnknownAgentError,
    UnknownRequestError,
    UnknownSessionError,
)
from everturn_actors.events import Event, ModelReplied, Received, SessionEnded, TurnFinished
from everturn_actors.model import ConversationKey, ModelRequest, Reply, Upload
from everturn_actors.service import TextDelta, Update
from everturn_actors.state.reports import explanation_record
from everturn_actors.testing import ScriptedProvider
from everturn_actors.turn.call_status import waiting
from everturn_channels.errors import ClientError
from everturn_channels.terminal.client import Client
from everturn_channels.terminal.commands import describe
from everturn_channels.terminal.conversation import Answer, Conversation

DEADLINE_S = WAIT_S
KEY = ConversationKey(channel="terminal", chat="ann", agent="test")
Kind = Literal["here", "http"]

on_each_way = table("kind", ["here", "http"])


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A gateway and a client to it."""

    client: Client
    gateway: HttpGateway

    @property
    def provider(self) -> ScriptedProvider:
        return self.gateway.provider


@asynccontextmanager
async def open_house(
    kind: Kind, folder: Path, provider: ScriptedProvider | None = None
) -> AsyncGenerator[House]:
    """Open a gateway and the client, one way or the other."""
    with anyio.fail_after(DEADLINE_S):
        async with open_http_gateway(folder, provider=provider) as gateway:
            here, there = open_client_here(gateway), open_http_client(gateway.base_url, token="")
            async with here if kind == "here" else there as client:
                yield House(client=client, gateway=gateway)


async def ask(conversation: Conversation, text: str) -> tuple[Answer, list[Update]]:
    """Return the answer to `text` and every update on its way."""
    answer, updates = Answer(), list[Update]()
    seq = await conversation.hand_in(text)
    async with aclosing(conversation.answer(seq)) as stream:
        async for update in stream:
            answer = answer.after(update)
            updates.append(update)
    return answer, updates


def bodies(updates: list[Update]) -> list[type]:
    """Return the types of the events among `updates`."""
    return [type(update.body) for update in updates if isinstance(update, Event)]


@on_each_way
async def test_an_answer_arrives_from_message_to_end_of_turn(kind: Kind, tmp_path: Path) -> None:
    """The terminal shows nothing but these updates."""
    async with open_house(kind, tmp_path) as house:
        house.provider.script.append("Hello to you")
        answer, updates = await ask(Conversation(house.client, key=KEY), "Hello")

    assert (answer.text, answer.outcome, answer.turn) == ("Hello to you", "answered", 1)
    assert bodies(updates)[0] is Received
    assert bodies(updates)[-1] is TurnFinished


@on_each_way
async def test_pieces_come_while_the_model_still_speaks(kind: Kind, tmp_path: Path) -> None:
    """A person reads along; waiting for the whole reply is no streaming."""
    async with open_house(kind, tmp_path) as house:
        house.provider.script.append("one two three")
        house.provider.hold()
        conversation = Conversation(house.client, key=KEY)
        seq = await conversation.hand_in("count")
        text, before_release = "", ""
        async with aclosing(conversation.answer(seq)) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    text = text[: update.offset] + update.text
                    before_release = before_release or text
                    house.provider.release()

    assert before_release == "one "
    assert text == "one two three"


@on_each_way
async def test_a_conversation_goes_on_where_it_was(kind: Kind, tmp_path: Path) -> None:
    """Whoever comes back tomorrow finds the session of today, with a gateway or without one."""
    async with open_house(kind, tmp_path) as house:
        first = Conversation(house.client, key=KEY)
        await ask(first, "one")
        second = Conversation(house.client, key=KEY)
        status = await second.open()
        answer, _ = await ask(second, "two")
        there = await house.gateway.service.conversations.current(KEY)

    assert first.session_id == second.session_id == there
    assert (status.turns, status.messages, status.busy) == (1, 2, False)
    assert answer.turn == 2


@on_each_way
async def test_a_new_session_is_started_on_demand_and_following_the_old_one_ends(
    kind: Kind, tmp_path: Path
) -> None:
    """`--new` and /reset both leave the old session behind, ended and kept."""
    async with open_house(kind, tmp_path) as house:
        conversation = Conversation(house.client, key=KEY)
        await ask(conversation, "one")
        first = conversation.session_id
        await conversation.open(new=True)
        second = conversation.session_id
        await ask(conversation, "two")
        was = await conversation.reset()
        answer, _ = await ask(conversation, "three")
        third = conversation.session_id
        ended = [(await house.client.status(s)).status for s in (first, second, third)]
        # `attach` leaves by itself when there is nothing more to come.
        events = [u async for u in house.client.follow(second, after=0) if isinstance(u, Event)]
        nothing = [u async for u in house.client.follow(second, after=events[-1].seq)]

    assert len({first, second, third}) == 3
    assert was
    assert answer.turn == 1
    assert ended == ["ended", "ended", "active"]
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert isinstance(events[-1].body, SessionEnded)
    assert nothing == []


@on_each_way
async def test_a_session_that_ended_elsewhere_is_replaced(kind: Kind, tmp_path: Path) -> None:
    """A session may expire between two messages; the person's message must not be lost."""
    async with open_house(kind, tmp_path) as house:
        conversation = Conversation(house.client, key=KEY)
        await ask(conversation, "one")
        await house.gateway.service.reset(conversation.session_id)
        answer, _ = await ask(conversation, "two")
        named = Conversation(house.client, session_id=conversation.session_id)
        await house.gateway.service.reset(conversation.session_id)
        with pytest.raises(SessionEndedError, match="reset"):
            await named.hand_in("three")

    assert answer.outcome == "answered"


@on_each_way
async def test_a_running_turn_is_cancelled(kind: Kind, tmp_path: Path) -> None:
    """Ctrl-C has to reach the turn, and the stream has to end with it."""
    async with open_house(kind, tmp_path) as house:
        house.provider.hold()
        conversation = Conversation(house.client, key=KEY)
        answer = Answer()
        seq = await conversation.hand_in("count")
        was: bool | None = None
        async with aclosing(conversation.answer(seq)) as updates:
            async for update in updates:
                answer = answer.after(update)
                if isinstance(update, TextDelta) and was is None:
                    was = await conversation.cancel()
        again = await conversation.cancel()

    assert answer.outcome == "cancelled"
    assert was is True
    assert again is False


@on_each_way
async def test_only_the_turn_of_the_message_is_shown(kind: Kind, tmp_path: Path) -> None:
    """A turn before it and messages after it belong to others."""
    async with open_house(kind, tmp_path) as house:
        house.provider.script += ["first answer", "second answer"]
        house.provider.hold()
        conversation = Conversation(house.client, key=KEY)
        await conversation.hand_in("one")
        await house.provider.until_called()
        seq = await conversation.hand_in("two")
        house.provider.release()
        async with aclosing(conversation.answer(seq)) as stream:
            updates = [update async for update in stream]

    replies = [
        u.body.text for u in updates if isinstance(u, Event) and isinstance(u.body, ModelReplied)
    ]
    received = [u.seq for u in updates if isinstance(u, Event) and isinstance(u.body, Received)]
    assert replies == ["second answer"]
    assert received == [seq]


@on_each_way
async def test_a_running_answer_is_taken_up_by_whoever_comes_later(
    kind: Kind, tmp_path: Path
) -> None:
    """After a restart the answer goes on; the person sees it from its beginning."""
    async with open_house(kind, tmp_path) as house:
        house.provider.script.append("one two three")
        house.provider.hold()
        conversation = Conversation(house.client, key=KEY)
        await conversation.hand_in("count")
        await house.provider.until_called()
        later = Conversation(house.client, key=KEY)
        status = await later.open()
        text = ""
        async with aclosing(later.rest(status.last_seq)) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    text = text[: update.offset] + update.text
                    house.provider.release()
        after = await later.status()

    assert status.busy
    assert text == "one two three"
    assert after is not None
    assert not after.busy


@on_each_way
async def test_history_and_lists_tell_what_happened(kind: Kind, tmp_path: Path) -> None:
    """`sessions list` and `sessions show` are read from here."""
    async with open_house(kind, tmp_path) as house:
        conversation = Conversation(house.client, key=KEY)
        for text in ("one", "two"):
            await ask(conversation, text)
        other = await house.client.open(
            ConversationKey(channel="terminal", chat="bob", agent="test")
        )
        said = await house.client.history.messages(conversation.session_id, after=0)
        later = await house.client.history.messages(conversation.session_id, after=said[1].seq)
        rows = await house.client.sessions(after="", limit=10)
        page = await house.client.sessions(after=rows[0].session_id, limit=10)
        agents = await house.client.agents()

    assert [(m.role, m.text) for m in said] == [
        ("user", "one"),
        ("assistant", "reply 1"),
        ("user", "two"),
        ("assistant", "reply 2"),
    ]
    assert list(later) == list(said[2:])
    assert [row.session_id for row in rows] == [other, conversation.session_id]
    assert [row.key.chat for row in rows] == ["bob", "ann"]
    assert [row.session_id for row in page] == [conversation.session_id]
    assert list(agents) == ["test"]


@on_each_way
async def test_the_context_is_told_alike_through_both(kind: Kind, tmp_path: Path) -> None:
    """`/context`, `context show` and `context explain` are read from here."""
    async with open_house(kind, tmp_path) as house:
        conversation = Conversation(house.client, key=KEY)
        updates: list[Update] = []
        for number in range(10):
            _, updates = await ask(conversation, f"{number} {'word ' * 100}")
        session_id, last = conversation.session_id, updates[-2]
        assert isinstance(last, Event)
        before = await house.client.contexts.report(session_id)
        compacted = await house.client.contexts.compact(session_id, "the numbers")
        after = await house.client.contexts.report(session_id)
        explained = await house.client.contexts.explain(session_id, last.seq)
        real = await house.gateway.service.reader.context(session_id)
        (really,) = await house.gateway.service.reader.explain(session_id, last.seq)

    assert (before.shown_messages, before.hidden_messages) == (20, 0)
    assert compacted.done
    assert after == real
    assert after.summary is not None
    assert after.hidden_messages == after.summary.messages == compacted.messages
    assert after.predicted_tokens == compacted.tokens_after
    assert explained.verdict == "same"
    assert explanation_record(explained) == explanation_record(really)


@on_each_way
async def test_what_does_not_exist_or_is_deleted_is_named(kind: Kind, tmp_path: Path) -> None:
    """Bad input gets an error that names what is wrong."""
    async with open_house(kind, tmp_path) as house:
        client = house.client
        report = client.contexts.report
        for ask_for in (client.status, client.cancel, client.reset, client.delete, report):
            with pytest.raises(UnknownSessionError, match="nope"):
                await ask_for("nope")
        # An id comes from a command line: never a place on the disk or another route.
        for name in ("../../etc", "a/b", "..", "%2e%2e"):
            with pytest.raises((UnknownSessionError, ClientError)):
                await client.status(name)
        with pytest.raises(UnknownSessionError, match="nope"):
            await client.contexts.explain("nope", 2)
        with pytest.raises(UnknownSessionError, match="nope"):
            await client.contexts.compact("nope", "")
        with pytest.raises((UnknownAgentError, ClientError), match="nobody"):
            await client.open(ConversationKey(channel="terminal", chat="ann", agent="nobody"))
        session_id = await client.open(KEY)
        with pytest.raises(InvalidInputError, match="bytes"):
            await client.submit(session_id, "x" * 2 * 1024 * 1024, idempotency_key="k")
        with pytest.raises(InvalidInputError):
            await client.submit(session_id, "\ud800", idempotency_key="k")
        with pytest.raises(
            UnknownRequestError, match="no request was sent in this session yet"
        ) as no:
            await client.contexts.explain(session_id, 9)
        status = await client.status(session_id)
        await client.reset(session_id)
        with pytest.raises(SessionEndedError):
            await client.contexts.compact(session_id, "")
        await client.delete(session_id)  # a promise to the person who asked for it
        with pytest.raises(UnknownSessionError):
            await client.status(session_id)
        rows = await client.sessions(after="", limit=10)

    assert not rows
    assert status.last_seq == 1
    assert (no.value.session_id, no.value.seq) == (session_id, 9)


@on_each_way
async def test_files_go_with_a_message_and_are_told_of_in_the_history(
    kind: Kind, tmp_path: Path
) -> None:
    """A person at a terminal shows a picture; who attaches later reads that there was one."""
    files = [picture(1, name="cat.png"), Upload(data=b"buy milk", file_name="notes")]
    lie = Upload(data=b"<html>", media_type="image/png", file_name="x.png")
    async with open_house(kind, tmp_path) as house:
        session_id = await house.client.open(KEY)
        # Refused in the same words, wherever the gateway runs; and the session goes on.
        with pytest.raises(InvalidInputError, match=r"attachment 1 \('x.png'\) is said to be"):
            await house.client.submit(session_id, "who?", idempotency_key="k", attachments=[lie])
        assert await house.client.history.messages(session_id, after=0) == []
        seq = await house.client.submit(session_id, "who?", idempotency_key="k", attachments=files)
        await house.client.submit(session_id, "who?", idempotency_key="k", attachments=files)
        async with aclosing(house.client.follow(session_id, after=0)) as updates:
            async for update in updates:
                if isinstance(update, Event) and isinstance(update.body, TurnFinished):
                    break
        history = await house.client.history.messages(session_id, after=0)
        request = house.provider.requests[0]

    assert list(request.media.values()) == [files[0].data]
    assert (history[0].seq, history[0].role) == (seq, "user")
    assert history[0].text == (
        "who?\n[attached: cat.png, image/png, 67 bytes]"
        "\n[attached: notes, application/octet-stream, 8 bytes]"
    )
    assert len([said for said in history if said.role == "user"]) == 1


class Crowded(ScriptedProvider):
    """A model for which each call waits first."""

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the next reply, when there is room."""
        with waiting("a free place"):
            reply = await super().complete(request, lambda _piece: None)
        on_text(reply.text)
        return reply


@on_each_way
async def test_a_status_tells_what_the_model_call_waits_for(kind: Kind, tmp_path: Path) -> None:
    """Whoever wonders why nothing comes learns that others go first."""
    model = Crowded()
    model.hold()
    async with open_house(kind, tmp_path, model) as house:
        conversation = Conversation(house.client, key=KEY)
        seq = await conversation.hand_in("Hello")
        await model.until_called()
        during = await conversation.status()
        model.release()
        async with aclosing(conversation.answer(seq)) as stream:
            async for _ in stream:
                pass
        after = await conversation.status()

    assert during is not None
    assert "waits     for a free place" in describe(during).splitlines()
    assert after is not None
    assert after.waiting_for == ""
