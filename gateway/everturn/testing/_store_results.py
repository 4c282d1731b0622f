"""What a store owes large results, and files that came with messages."""

from __future__ import annotations

from typing import get_args

import anyio
import pytest

from everturn.testing._histories import (
    LOG,
    NO_IDS,
    OTHER_ID,
    SESSION_ID,
    next_event,
    replay,
    simple_log,
    state_in,
)
from everturn.testing._on_a_store import OnAStore
from everturn.testing._running import Row, in_loop
from everturn_actors.errors import (
    InvalidInputError,
    UnknownSessionError,
)
from everturn_actors.model import Compaction
from everturn_actors.ports import SessionStore

COMPACTIONS: tuple[Compaction, ...] = get_args(Compaction)


NO_NAMES = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc/passwd",
    f"../{OTHER_ID}/events.jsonl",
    "a\\b",
    ".hidden",
    "end.",
    "a b",
    "a\n",
    "a\x00",
    "ä",
    "a:b",
    "x" * 101,
]


class ResultContract(OnAStore):
    """Results and files are durable, belong to their session, and go with it."""

    @in_loop
    async def test_a_result_is_there_after_a_restart(self) -> None:
        """The event that names it comes right after: what it names must not be lost before it."""
        results = {
            "a": "",
            "call_1.txt": "plain",
            "x" * 100: "a\ud800b \x00\u2028\r\n",
            "a.b-C_9": "\ud83d\ude00",  # surrogates that stand as a pair
            "a..b": "漢字👩‍👩‍👧" * 50_000,
        }
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            for name, text in results.items():
                with Row(name):
                    await store.save_result(SESSION_ID, name, text)
        async with self.open_store() as store:
            for name, text in results.items():
                with Row(name):
                    assert await store.read_result(SESSION_ID, name) == text
            assert await state_in(store) == replay(LOG)

    @in_loop
    async def test_a_result_of_the_same_name_is_replaced(self) -> None:
        """A call that is run again after a crash gives its result anew."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            await store.save_result(SESSION_ID, "call_1", "a long first text")
            await store.save_result(SESSION_ID, "call_2", "another")
            await store.save_result(SESSION_ID, "call_1", "second")

            assert await store.read_result(SESSION_ID, "call_1") == "second"
            assert await store.read_result(SESSION_ID, "call_2") == "another"

    @in_loop
    async def test_a_result_that_is_not_there_is_none(self) -> None:
        """The model may ask for what has gone meanwhile, or for what never was."""
        async with self.open_store() as store:
            assert await store.read_result(SESSION_ID, "call_1") is None
            await store.append(SESSION_ID, LOG, expected_seq=0)
            assert await store.read_result(SESSION_ID, "call_1") is None
            await store.append(OTHER_ID, simple_log(1, session_id=OTHER_ID), expected_seq=0)
            await store.save_result(OTHER_ID, "call_1", "of the other")

            assert await store.read_result(SESSION_ID, "call_1") is None
            assert await store.read_result(SESSION_ID, "call_2") is None

    @in_loop
    async def test_a_result_under_what_is_no_name_is_refused(self) -> None:
        """Names are made from what a model wrote: one that is a path must not leave its folder."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            await store.append(OTHER_ID, simple_log(1, session_id=OTHER_ID), expected_seq=0)
            for name in NO_NAMES:
                with pytest.raises(InvalidInputError):
                    await store.save_result(SESSION_ID, name, "text")
                assert await store.read_result(SESSION_ID, name) is None

            assert await state_in(store) == replay(LOG)

    @in_loop
    async def test_a_result_of_no_session_is_refused(self) -> None:
        """A tool that ends after its session was deleted must not bring a part of it back."""
        async with self.open_store() as store:
            with pytest.raises(UnknownSessionError):
                await store.save_result(SESSION_ID, "call_1", "text")
            for text in NO_IDS:
                with pytest.raises(UnknownSessionError):
                    await store.save_result(text, "call_1", "text")
                assert await store.read_result(text, "call_1") is None

            assert await store.load(SESSION_ID) is None
            assert await store.sessions(after="", limit=9) == ()

    @in_loop
    async def test_a_file_is_there_after_a_restart_as_it_was(self) -> None:
        """The log names it; any byte may be in it."""
        data = bytes(range(256)) * 1000
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            await store.save_media(SESSION_ID, "a.png", data)
            await store.save_media(SESSION_ID, "b.bin", b"first")
            await store.save_media(SESSION_ID, "b.bin", b"")
        async with self.open_store() as store:
            assert await store.read_media(SESSION_ID, "a.png") == data
            assert await store.read_media(SESSION_ID, "b.bin") == b""
            assert await store.read_media(SESSION_ID, "c.png") is None
            assert await store.read_media(OTHER_ID, "a.png") is None
            assert await store.read_result(SESSION_ID, "a.png") is None

    @in_loop
    async def test_a_file_under_what_is_no_name_is_refused(self) -> None:
        """A name comes back over HTTP: one that is a path must not leave its folder."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            for name in NO_NAMES:
                with pytest.raises(InvalidInputError):
                    await store.save_media(SESSION_ID, name, b"data")
                assert await store.read_media(SESSION_ID, name) is None

    @in_loop
    async def test_a_file_belongs_to_a_session_and_goes_with_it(self) -> None:
        """A deleted conversation leaves no picture behind, and none comes after it."""
        async with self.open_store() as store:
            for session_id in (SESSION_ID, OTHER_ID):
                with pytest.raises(UnknownSessionError):
                    await store.save_media(session_id, "a.png", b"early")
                await store.append(session_id, simple_log(1, session_id=session_id), expected_seq=0)
                await store.save_media(session_id, "a.png", session_id.encode())
            await store.delete(SESSION_ID)
            with pytest.raises(UnknownSessionError):
                await store.save_media(SESSION_ID, "a.png", b"late")

            assert await store.read_media(SESSION_ID, "a.png") is None
            assert await store.read_media(OTHER_ID, "a.png") == OTHER_ID.encode()
            for text in NO_IDS:
                assert await store.read_media(text, "a.png") is None

    @in_loop
    async def test_results_stay_when_the_log_is_compacted(self) -> None:
        """What was summarised stays readable, also where its events are gone."""
        async with self.open_store() as store:
            for compaction in COMPACTIONS:
                with Row(compaction):
                    await store.append(SESSION_ID, LOG, expected_seq=0)
                    await store.save_result(SESSION_ID, "call_1", compaction)
                    await store.save_snapshot(replay(LOG), compaction=compaction)
                    await store.mark_passive(SESSION_ID)

                    assert await store.read_result(SESSION_ID, "call_1") == compaction
                    await store.append(SESSION_ID, (next_event(16),), expected_seq=16)
                    await store.delete(SESSION_ID)

    @in_loop
    async def test_results_saved_side_by_side_are_all_kept(self) -> None:
        """Calls that run side by side end side by side, while the session is written to."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG[:6], expected_seq=0)
            async with anyio.create_task_group() as tasks:
                for name in "abcdefgh":
                    tasks.start_soon(store.save_result, SESSION_ID, name, name * 1000)
                for event in LOG[6:]:
                    await store.append(SESSION_ID, (event,), expected_seq=event.seq - 1)

            assert await held(store, "abcdefgh") == "abcdefgh"
            assert await state_in(store) == replay(LOG)

    @in_loop
    async def test_a_deleted_session_can_be_written_anew(self) -> None:
        """What the store remembered of the old one must not stand in the way."""
        async with self.open_store() as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            await store.save_result(SESSION_ID, "call_1", "of the old one")
            await store.delete(SESSION_ID)
            await store.append(SESSION_ID, LOG[:6], expected_seq=0)

            assert (await state_in(store)).last_seq == 6
            assert await store.read_result(SESSION_ID, "call_1") is None


async def held(store: SessionStore, names: str) -> str:
    """Return those of the names, each one letter, under which there is a result."""
    found = [name for name in names if await store.read_result(SESSION_ID, name) is not None]
    return "".join(found)
