"""Older messages that are looked for with each question: what is common is counted once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from everturn_actors.events import Event, ModelReplied
from everturn_actors.model import ConversationKey
from everturn_actors.ports.search import MessageMatch, MessageQuery, SearchPlace, SearchRole
from everturn_gateway.search.finding import read_together
from everturn_gateway.search.table import Batch, IndexedMessage, IndexedSession, MessageTable

NOW = datetime(2026, 11, 26, tzinfo=UTC)
KEY = ConversationKey(channel="http", chat="a", agent="a")
SESSION = IndexedSession(session_id="s", key=KEY, created_at=NOW)


def _said(
    table: MessageTable, texts: Sequence[str], first: int = 1, role: SearchRole = "user"
) -> None:
    said = [IndexedMessage(seq, NOW, role, "", text) for seq, text in enumerate(texts, first)]
    table.put([Batch(session=SESSION, last_seq=said[-1].seq, messages=tuple(said))])


def _found(table: MessageTable, question: str) -> list[int]:
    query = MessageQuery(
        text=question,
        places=(SearchPlace(session_id="s"),),
        roles=frozenset(("user",)),
        common_rows=3,
    )
    return [match.seq for match in table.search(query)[0]]


def test_a_word_that_is_common_stays_so_until_its_session_goes() -> None:
    """A rare word beside it is found all the same, and so is one that was not there before.

    What others say than those who are asked for makes no word common.
    """
    table = MessageTable(None)
    _said(table, ["the hotel", "a hotel", "hotel", "hotel in Bremen"])

    assert _found(table, "hotel Bremen") == [4]
    assert _found(table, "hotel") == []
    _said(table, ["hotel in Lyon"], first=5)
    assert _found(table, "hotel Lyon") == [5]

    table.forget("s")
    _said(table, ["the hotel"])
    _said(table, ["hotel"] * 5, first=2, role="tool")
    assert _found(table, "hotel") == [1]
    table.close()


class _Logs:
    """A log of ten thousand messages; says what was read of it."""

    def __init__(self) -> None:
        self.read = list[tuple[int, int]]()

    async def history(self, session_id: str, *, after: int, limit: int) -> Sequence[Event]:
        self.read.append((after + 1, after + limit))
        last = min(after + limit, 10_000)
        return [
            Event(seq=seq, at=NOW, body=ModelReplied(text=f"word {seq}"))
            for seq in range(after + 1, last + 1)
        ]

    async def result(self, session_id: str, name: str) -> str | None:
        return None


async def test_messages_that_lie_close_together_are_read_at_once() -> None:
    """In the order in which they fit, each with the one before and after it."""
    logs = _Logs()
    seqs = (9_999, 31, 1, 27, 50_000)

    found = await read_together([MessageMatch("s", seq) for seq in seqs], ("word",), logs, 5)

    assert [each.event.seq for each in found] == [9_999, 31, 1, 27]
    assert [(each.before and each.before.seq, each.after and each.after.seq) for each in found] == [
        (9_998, 10_000),
        (30, 32),
        (None, 2),
        (26, 28),
    ]
    assert logs.read == [(1, 6), (22, 36), (9_994, 10_004), (49_995, 50_005)]
