"""Chats that were given another id: kept durably, and translated at the edge."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scripted_adapter import ScriptedAdapter
from support.stores import FullDisk
from support.tables import table

from everturn_actors.errors import JournalWriteError
from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.ports import KeyedStore
from everturn_channels.access.rules import evaluate, find_route
from everturn_channels.adapter import ChatRef, Message, Outbound, Person
from everturn_channels.chats.aliases import ChatAliases, open_aliases
from everturn_channels.chats.moved_chats import MovingAdapter, moved_event
from everturn_channels.errors import ChatMovedError, NotSentError, RefusedError, SetupError
from everturn_channels.settings import AccessRules, GroupRules, Route

ANN = Person(id="1")
MOVES = [("a", "b"), ("b", "c"), ("c", "d")]


class MovingPlatform(ScriptedAdapter):
    """A platform whose chats move: whoever writes to an old id is told the new one."""

    def __init__(self, moved: dict[str, str]) -> None:
        super().__init__()
        self.moved = moved

    def _check(self, chat: str) -> None:
        if chat in self.moved:
            msg = "it was upgraded"
            raise ChatMovedError(msg, to=self.moved[chat])


def message(chat: str, number: str = "7") -> Message:
    """Return a message of Ann."""
    at = datetime(2026, 1, 2, tzinfo=UTC)
    return Message(id=number, chat=ChatRef(id=chat, type="group"), sender=ANN, at=at, text="hi")


async def known(*moves: tuple[str, str], store: KeyedStore | None = None) -> ChatAliases:
    """Return aliases that were told these moves."""
    aliases = await open_aliases(store or MemoryKeyedStore(), "telegram")
    for old, new in moves:
        await aliases.add(old, new)
    return aliases


# --- kept ---


@table("moves", [*permutations(MOVES)])
async def test_moves_may_be_told_in_any_order_and_twice(moves: list[tuple[str, str]]) -> None:
    """A chat keeps its first id however its moves are learnt."""
    aliases = await known(*moves, *moves)

    assert [aliases.first(chat) for chat in "abcd"] == ["a"] * 4
    assert [aliases.current(chat) for chat in "abcd"] == ["d"] * 4
    assert aliases.others("a") == ("b", "c", "d")
    assert aliases.others("c") == ("a", "b", "d")
    assert aliases.first("other") == aliases.current("other") == "other"


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=12))
async def test_whatever_is_told_ends_and_joins_no_two_chats(moves: list[tuple[str, str]]) -> None:
    """A platform that talks nonsense must not make a loop, nor lead one chat into two."""
    store = MemoryKeyedStore()
    aliases = await open_aliases(store, "test")
    for old, new in moves:
        first, other = aliases.first(old), aliases.first(new)
        if not await aliases.add(old, new):
            assert (aliases.first(old), aliases.first(new)) == (first, other)
    for chat in "abcdef":
        names = (chat, *aliases.others(chat))
        assert len({aliases.first(name) for name in names}) == 1
        assert len({aliases.current(name) for name in names}) == 1
        assert aliases.current(chat) in names
    assert (await open_aliases(store, "test")).moves == aliases.moves


async def test_a_move_is_durable_before_it_holds() -> None:
    """Nothing else knows it: what is not kept is told again, and what is kept survives."""
    disk = FullDisk()
    aliases = await known(("-1", "-100"), store=disk)
    disk.is_full = True
    with pytest.raises(JournalWriteError, match="disk is full"):
        await aliases.add("-2", "-200")
    assert aliases.first("-200") == "-200"
    assert (await open_aliases(disk, "telegram")).first("-100") == "-1"

    disk.is_full = False
    await aliases.add("-2", "-200")
    assert (await open_aliases(disk, "telegram")).moves == {"-1": "-100", "-2": "-200"}


@table(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 2, "moves": {}}',
        '{"version": 1, "moves": {"a": 1}}',
        '{"version": 1, "moves": {"a": "b", "b": "a"}}',
        '{"version": 1, "moves": {"a": "c", "b": "c"}}',
    ],
)
async def test_damage_stops_the_channel_and_says_what_to_do(text: str) -> None:
    """Without it conversations would begin anew without a word."""
    store = MemoryKeyedStore()
    await store.put("channels/telegram.aliases.json", text.encode())
    with pytest.raises(SetupError, match=r"telegram\.aliases\.json.*put a copy of it back"):
        await open_aliases(store, "telegram")


# --- what comes ---


async def test_what_comes_from_the_new_chat_is_of_the_old_one_and_not_the_same_message() -> None:
    """The new chat counts its messages from 1 again: its seventh is not the seventh before."""
    aliases = await known(("-1", "-100"))
    old, new = moved_event(message("-1"), aliases), moved_event(message("-100"), aliases)
    other = moved_event(message("-3"), aliases)

    assert (old.chat.id, new.chat.id) == ("-1", "-1")
    assert isinstance(old, Message)
    assert isinstance(new, Message)
    assert (old.id, new.id) == ("7", "-100/7")
    assert other == message("-3")


@table("named", ["-1", "-100"])
async def test_lists_and_routes_may_name_either_id(named: str) -> None:
    """What stands in the configuration goes on to hold, and so does what is changed in it."""
    aliases = await known(("-1", "-100"))
    chat = moved_event(message("-100"), aliases).chat
    routes = (Route(agent="helper", chat_id=named), Route(agent="other"))
    rules = AccessRules(groups=GroupRules(allowlist=(f"telegram:{named}",)))
    route = find_route(routes, channel="t", platform="telegram", chat=chat, sender=ANN)
    decision = evaluate(
        rules,
        places=("t", "telegram"),
        chat=chat,
        sender=ANN,
        is_addressed=True,
        let_in=None,
    )

    assert route == routes[0]
    assert decision.action == "answer"


# --- what goes ---


async def test_what_is_sent_to_a_chat_that_moved_arrives_in_the_new_one() -> None:
    """Or is owed, where the move cannot be kept."""
    # No service message came: the refusal tells it, and the reply is not lost.
    aliases = ChatAliases("test")
    adapter = MovingPlatform({"-1": "-100", "-100": "-200"})
    moving = MovingAdapter(adapter, aliases)
    sent = await moving.send(Outbound(chat_id="-1", payload="hello", reply_to="7"))

    [shown] = adapter.world.messages.values()
    assert (shown.message.chat_id, shown.message.reply_to, sent) == ("-200", "", "-200/m1")
    assert aliases.first("-200") == "-1"

    await moving.edit("-1", "", sent, "changed")
    await moving.send(Outbound(chat_id="-1", payload="again", reply_to="-200/7"))
    assert adapter.world.texts == ["changed", "again"]
    assert adapter.world.messages["m2"].message.reply_to == "7"
    for old in ("m1", "-100/m1"):
        with pytest.raises(RefusedError, match="before the chat was given another id"):
            await moving.edit("-1", "", old, "not there")

    # A move that cannot be kept leaves the message owed. It is surely not sent, so it is tried
    # again, and then the move is told again.
    disk = FullDisk()
    moving = MovingAdapter(MovingPlatform({"-1": "-100"}), await known(store=disk))
    disk.is_full = True
    with pytest.raises(NotSentError):
        await moving.send(Outbound(chat_id="-1", payload="hello"))
    disk.is_full = False
    assert await moving.send(Outbound(chat_id="-1", payload="hello")) == "-100/m1"
