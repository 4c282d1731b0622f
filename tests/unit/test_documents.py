"""Values of a store as what they mean: read when they change, written when it is time."""

from __future__ import annotations

import logging

import pytest
from support.stores import FullDisk

from everturn_actors.documents import Document, Form, WriteBehind, written_behind
from everturn_actors.errors import DamagedValueError
from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.ports import KeyedStore
from everturn_actors.supervisor import Supervisor
from everturn_actors.testing import ManualClock

KEY = "words/all.json"
PAUSE_S = 5.0


def decode(data: bytes) -> tuple[str, ...]:
    """Return words, of which none is empty."""
    words = tuple(data.decode().split(","))
    if "" in words:
        msg = "a word is empty"
        raise ValueError(msg)
    return words


WORDS = Form[tuple[str, ...]](
    encode=lambda words: ",".join(words).encode(), decode=decode, empty=(), remedy="write a word"
)


def document(store: KeyedStore) -> Document[tuple[str, ...]]:
    """Return words that are kept."""
    return Document(store, KEY, WORDS)


async def test_what_has_not_changed_is_the_same_object() -> None:
    """Whoever builds something of it need not do so with each message."""
    store = MemoryKeyedStore()
    own, other = document(store), document(store)
    nothing = await own.read()
    await other.write(("a",))
    first, again = await own.read(), await own.read()
    await other.change(lambda words: (*words, "b"))
    second = await own.read()

    assert (nothing, first, second) == ((), ("a",), ("a", "b"))
    assert first is again


async def test_damage_is_named_with_its_place_and_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Or done with, where nothing hangs on it."""
    # Whoever reads it goes to that place.
    store = MemoryKeyedStore()
    await store.put(KEY, b"a,,b")
    for act in (document(store).read(), document(store).change(lambda words: words)):
        with pytest.raises(
            DamagedValueError, match=r"^memory/words/all\.json is damaged: a word .*; write a word$"
        ):
            await act

    # A hint that is damaged begins anew. Nothing is thrown away: the log says where it is kept.
    store = MemoryKeyedStore()
    await store.put(KEY, b"a,,b")
    words = await document(store).load("words are lost")

    assert words == ()
    assert await store.get(KEY) is None
    assert "words are lost" in caplog.text


async def test_what_is_new_is_written_in_time_and_again_until_that_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A full disk is emptied some day; until then the log says it once."""
    store, clock, words = FullDisk(), ManualClock(), ["a"]
    writer = WriteBehind(document(store), lambda: tuple(words), clock, pause_s=PAUSE_S)
    found: list[tuple[str, ...]] = []

    async def pass_time() -> None:
        await clock.until_sleeping(PAUSE_S)
        clock.advance(PAUSE_S)
        await clock.until_sleeping(PAUSE_S)
        found.append(await document(store).read())

    caplog.set_level(logging.WARNING)
    async with written_behind(writer, Supervisor(clock), "words", close_s=1.0):
        await pass_time()
        writer.changed()
        store.is_full = True
        await pass_time()
        await pass_time()
        store.is_full = False
        await pass_time()
        words.append("b")
        writer.changed()

    assert found == [(), (), (), ("a",)]
    assert caplog.text.count("not saved") == 1
    assert await document(store).read() == ("a", "b"), "the last of it is written at the end"
