"""The suite that holds a store of values to its contract."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from everturn.testing._on_a_store import OnAFolder
from everturn.testing._running import Row, in_loop
from everturn_actors.errors import ConflictError, InvalidInputError, JournalWriteError
from everturn_actors.ports import ABSENT, KeyedStore
from everturn_actors.ports.keyed import VALUE_MAX_BYTES

KEY = "usage/2026-11.json"
LINES = "runs/digest.jsonl"
NO_KEYS = (
    "",
    "a",
    "/a.json",
    "../a.json",
    "a/../b.json",
    "a//b.json",
    ".a.json",
    "a.json\n",
    "ä.json",
)
WRITERS = 4
CHANGES = 10


class KeyedStoreContract(OnAFolder):
    """Holds a store of values to `everturn_actors.ports.KeyedStore`.

    1. Subclass it in a test module, under a name that begins with `Test`.
    2. Implement `open_keyed`: it opens the store on what the last one of the same test left, also
       while another one is open. `self.folder` is an empty folder of the test.

    >>> class TestMyValues(KeyedStoreContract):
    ...     def open_keyed(self):
    ...         return open_my_values(self.folder / "values.db")
    """

    def open_keyed(self) -> AbstractAsyncContextManager[KeyedStore]:
        """Open the store; called again in a test, it opens what the last one left."""
        raise NotImplementedError

    @in_loop
    async def test_what_was_put_is_there_after_a_restart(self) -> None:
        """Who was let in stays let in."""
        async with self.open_keyed() as store:
            assert await store.get(KEY) is None
            assert await store.version(KEY) == ABSENT
            version = await store.put(KEY, b"first\x00\xff")
        async with self.open_keyed() as store:
            value = await store.get(KEY)

            assert value is not None
            assert (value.data, value.version) == (b"first\x00\xff", version)
            assert await store.version(KEY) == version != ABSENT

    @in_loop
    async def test_each_change_gives_another_version(self) -> None:
        """Whoever watches a value notices each change, also of another process."""
        async with self.open_keyed() as store, self.open_keyed() as other:
            seen = [await store.version(KEY)]
            for text in (b"one", b"two", b"six"):  # of one length, within a moment
                await other.put(KEY, text)
                seen.append(await store.version(KEY))
            await other.delete(KEY)

            assert len(set(seen)) == len(seen)
            assert await store.version(KEY) == ABSENT

    @in_loop
    async def test_of_two_writers_one_wins(self) -> None:
        """An approval must not take back the one that was given beside it."""
        async with self.open_keyed() as store, self.open_keyed() as other:
            first = await store.put(KEY, b"first", expected=ABSENT)
            with pytest.raises(ConflictError):
                await other.put(KEY, b"late", expected=ABSENT)
            await other.put(KEY, b"second", expected=first)
            with pytest.raises(ConflictError):
                await store.put(KEY, b"third", expected=first)
            value = await store.get(KEY)

            assert value is not None
            assert value.data == b"second"
            await store.put(KEY, b"third", expected=value.version)
            await store.delete(KEY)
            with pytest.raises(ConflictError):
                await store.put(KEY, b"late", expected=value.version)

    @in_loop
    async def test_no_change_of_several_writers_is_lost(self) -> None:
        """Each reads, changes and writes; whoever loses tries again."""
        async with self.open_keyed() as store, self.open_keyed() as other:

            async def count(own: KeyedStore) -> None:
                done = 0
                while done < CHANGES:
                    value = await own.get(KEY)
                    number = int(value.data) + 1 if value is not None else 1
                    expected = ABSENT if value is None else value.version
                    try:
                        await own.put(KEY, b"%d" % number, expected=expected)
                    except ConflictError:
                        continue
                    done += 1

            async with anyio.create_task_group() as tasks:
                for number in range(WRITERS):
                    tasks.start_soon(count, (store, other)[number % 2])
            value = await store.get(KEY)

        assert value is not None
        assert int(value.data) == WRITERS * CHANGES

    @in_loop
    async def test_a_reader_never_sees_half_a_value(self) -> None:
        """A list of tokens that is cut short would open nothing."""
        texts = [bytes([65 + n]) * (1 + 30_000 * n) for n in range(5)]
        seen = set[bytes]()
        async with self.open_keyed() as store, self.open_keyed() as other:
            await store.put(KEY, texts[0])
            with anyio.CancelScope() as reading:

                async def read() -> None:
                    while True:
                        value = await other.get(KEY)
                        assert value is not None
                        seen.add(value.data)

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(read)
                    for text in texts * 4:
                        await store.put(KEY, text)
                    reading.cancel()

        assert seen <= set(texts)

    @in_loop
    async def test_keys_are_listed_by_folder(self) -> None:
        """What was quarantined, and what stands in other folders, is not among them."""
        async with self.open_keyed() as store:
            assert await store.list("usage/") == ()
            for key in ("usage/b.json", "usage/a.json", "usage/deep/c.json", "usages.json", LINES):
                await (
                    store.append(key, b"x\n", expected_bytes=0)
                    if key == LINES
                    else store.put(key, b"x")
                )
            await store.put("usage/bad.json", b"x")
            await store.quarantine("usage/bad.json")

            assert await store.list("usage/") == ("usage/a.json", "usage/b.json")
            assert await store.list("runs/") == (LINES,)
            assert await store.list("nowhere/") == ()

    @in_loop
    async def test_damaged_data_are_put_aside_and_kept(self) -> None:
        """The operator finds them where the log says; the value begins anew."""
        async with self.open_keyed() as store:
            places = set[str]()
            for text in (b"{", b"["):
                await store.put(KEY, text)
                places.add(await store.quarantine(KEY))

                assert await store.get(KEY) is None
            await store.append(LINES, b"?\n", expected_bytes=0)
            places.add(await store.quarantine(LINES))

            assert await store.read([LINES]) == (b"",)
            assert len(places) == 3
            await store.quarantine(KEY)  # there is nothing
            await store.put(KEY, b"anew", expected=ABSENT)

    @in_loop
    async def test_what_is_deleted_is_gone(self) -> None:
        """A job that was forgotten must not come back with a restart."""
        async with self.open_keyed() as store:
            await store.put(KEY, b"x")
            await store.append(LINES, b"x\n", expected_bytes=0)
            for key in (KEY, LINES, KEY, "never/there.json"):
                await store.delete(key)
        async with self.open_keyed() as store:
            assert await store.get(KEY) is None
            assert await store.read([LINES]) == (b"",)

    @in_loop
    async def test_lines_are_kept_in_order(self) -> None:
        """What happened to a job is read as it happened."""
        async with self.open_keyed() as store:
            await store.append(LINES, b"one\n", expected_bytes=0)
            await store.append(LINES, b"two\nthree\n", expected_bytes=4)
        async with self.open_keyed() as store:
            assert await store.read(["runs/none.jsonl", LINES]) == (b"", b"one\ntwo\nthree\n")
            await store.rewrite(LINES, b"all\n", expected_bytes=14)
            await store.append(LINES, b"four\n", expected_bytes=4)
        async with self.open_keyed() as store:
            assert await store.read([LINES]) == (b"all\nfour\n",)

    @in_loop
    async def test_lines_of_a_writer_who_does_not_know_the_end_are_refused(self) -> None:
        """Two schedulers must not both believe that they began a run."""
        async with self.open_keyed() as store, self.open_keyed() as other:
            await store.append(LINES, b"one\n", expected_bytes=0)
            with pytest.raises(ConflictError):
                await store.append("runs/other.jsonl", b"x\n", expected_bytes=4)
            await other.append(LINES, b"two\n", expected_bytes=4)
            for expected_bytes in (0, 4, 7, 9):
                with pytest.raises(ConflictError):
                    await store.append(LINES, b"x\n", expected_bytes=expected_bytes)
                with pytest.raises(ConflictError):
                    await store.rewrite(LINES, b"x\n", expected_bytes=expected_bytes)

            assert await store.read([LINES]) == (b"one\ntwo\n",)

    @in_loop
    async def test_what_is_no_key_is_refused(self) -> None:
        """A name that comes from outside must not lead out of the store."""
        async with self.open_keyed() as store:
            for key in NO_KEYS:
                with Row(key):
                    for asking in (store.get, store.version, store.delete, store.quarantine):
                        with pytest.raises(InvalidInputError):
                            await asking(key)
                    with pytest.raises(InvalidInputError):
                        await store.put(key, b"x")
                    with pytest.raises(InvalidInputError):
                        await store.append(f"{key}l", b"x\n", expected_bytes=0)
            with pytest.raises(InvalidInputError):
                await store.put(LINES, b"x")

    @in_loop
    async def test_what_is_too_large_is_refused_before_it_is_written(self) -> None:
        """What a store writes it can read again."""
        async with self.open_keyed() as store:
            await store.put(KEY, b"small")
            with pytest.raises(JournalWriteError):
                await store.put(KEY, bytes(VALUE_MAX_BYTES + 1))
            value = await store.get(KEY)

        assert value is not None
        assert value.data == b"small"
