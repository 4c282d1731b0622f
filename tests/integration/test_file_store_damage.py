"""Files that a crash, a disk or a person changed: each kind of damage has one defined outcome."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace
from support.histories import line_of_version
from support.tables import table

from everturn.testing._histories import OTHER_ID, SESSION_ID, moment, replay, simple_log, started
from everturn_actors.errors import CorruptJournalError, JournalError, UnknownFormatError
from everturn_actors.events import Event, Received
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.log.codec import encode
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import Compaction
from everturn_actors.ports import Loaded
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState

LOG = simple_log(3)  # 16 events
LINES = encode(SESSION_ID, LOG).splitlines(keepends=True)


@asynccontextmanager
async def a_session(
    workspace: Path,
    *,
    log: bytes | None = b"".join(LINES),
    snapshot_at: int = 0,
    compaction: Compaction = "archive",
) -> AsyncGenerator[tuple[FileStore, SessionFiles]]:
    """Open a store in which the session's log was replaced by `log` behind its back.

    With `snapshot_at`, all of `LOG` was appended and a snapshot saved at that event before.
    """
    async with open_file_store(workspace) as store:
        files = store.layout.session(SESSION_ID)
        await store.append(SESSION_ID, LOG, expected_seq=0)
        if snapshot_at:
            await store.save_snapshot(replay(LOG[:snapshot_at]), compaction=compaction)
        await store.mark_passive(SESSION_ID)
        if log is None:
            files.log.unlink()
        elif not snapshot_at:
            files.log.write_bytes(log)
        yield store, files


def state_of(loaded: Loaded | None) -> SessionState:
    """Return what a restart makes of it."""
    assert loaded is not None
    recovered = recover(loaded.snapshot, loaded.events)
    assert recovered is not None
    return recovered.state


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def test_a_log_cut_at_any_byte_loads_and_goes_on(tmp_path: Path) -> None:
    """IN-08: wherever a crash stops the disk, at most the line it was writing is lost."""
    data = b"".join(LINES[:4])
    ends = [len(b"".join(LINES[:n])) for n in range(5)]
    async with open_file_store(tmp_path) as store:
        files = store.layout.session(SESSION_ID)
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.mark_passive(SESSION_ID)
        for size in range(ends[1], len(data) + 1):
            files.log.write_bytes(data[:size])
            whole = sum(end - 1 <= size for end in ends[1:])  # a newline alone is not missed

            loaded = await store.load(SESSION_ID)
            assert loaded is not None
            assert loaded.events == LOG[:whole]
            assert bool(loaded.repairs) == (size not in ends)
            assert files.log.read_bytes() == data[: ends[whole]]
            if size % 20 == 0:
                await store.append(SESSION_ID, LOG[whole:], expected_seq=whole)
                again = await store.load(SESSION_ID)
                assert again is not None
                assert (again.events, again.repairs) == (LOG, ())


async def test_a_first_line_cut_at_any_byte_is_no_session(tmp_path: Path) -> None:
    """Nobody was told that there is one, and a new try with the same id works."""
    async with open_file_store(tmp_path) as store:
        files = store.layout.session(SESSION_ID)
        files.folder.mkdir()
        for size in range(len(LINES[0]) - 1):
            files.log.write_bytes(LINES[0][:size])
            assert await store.load(SESSION_ID) is None
            assert files.log.read_bytes() == b""
        await store.append(SESSION_ID, LOG, expected_seq=0)

        assert state_of(await store.load(SESSION_ID)).last_seq == 16


async def test_what_was_cut_off_is_kept_and_named(tmp_path: Path) -> None:
    """The operator can look at what the crash left, also after the second one."""
    torn = LINES[6][:50]
    async with a_session(tmp_path, log=b"".join(LINES[:6]) + torn) as (store, files):
        first = await store.load(SESSION_ID)
        with files.log.open("ab") as log:
            log.write(b"\x00" * 4096)
        second = await store.load(SESSION_ID)

        assert first is not None
        assert second is not None
        kept = sorted(files.folder.glob("events.jsonl.torn-*"))
        assert len(kept) == 2
        assert {path.read_bytes() for path in kept} == {torn, b"\x00" * 4096}
        for path in kept:
            assert re.fullmatch(r"events\.jsonl\.torn-\d{8}T\d{12}Z(-\d)?", path.name)
            assert path.name in " ".join((*first.repairs, *second.repairs))
        assert "50 bytes" in first.repairs[0]


@table(
    "last",
    [
        pytest.param(LINES[15].replace(b"answered", b"answerd "), id="checksum"),
        pytest.param(b"{}\n", id="no event"),
        pytest.param(b"\n", id="empty line"),
        pytest.param(b"\xff\xfe\n", id="no UTF-8"),
    ],
)
async def test_a_bad_last_line_is_cut_off(tmp_path: Path, last: bytes) -> None:
    """A line can be written out of order: its end is there, its middle is not."""
    async with a_session(tmp_path, log=b"".join(LINES[:15]) + last) as (store, _):
        loaded = await store.load(SESSION_ID)

        assert loaded is not None
        assert loaded.events == LOG[:15]
        assert len(loaded.repairs) == 1


FLIPPED = LINES[4].replace(b"answer 1", b"answer 2")
OTHER_LINES = encode(OTHER_ID, simple_log(3, session_id=OTHER_ID)).splitlines(keepends=True)


@table(
    ("log", "line", "said"),
    [
        pytest.param([*LINES[:4], FLIPPED, *LINES[5:]], 5, "checksum", id="checksum"),
        pytest.param([*LINES[:4], b"\x00" * 99 + b"\n", *LINES[5:]], 5, "damaged", id="zeros"),
        pytest.param([*LINES[:4], b"\n", *LINES[4:]], 5, "damaged", id="empty line"),
        pytest.param([*LINES[:4], LINES[4][:30], *LINES[5:]], 5, "checksum", id="two lines in one"),
        pytest.param([*LINES[:4], *LINES[5:]], 5, "event 5 is missing", id="hole"),
        pytest.param([*LINES[:4], LINES[3], *LINES[4:]], 5, "event 5 is missing", id="twice"),
        pytest.param([*LINES[:15], LINES[3]], 16, "event 16 is missing", id="twice at the end"),
        pytest.param(OTHER_LINES, 1, f"log of session '{OTHER_ID}'", id="another session"),
        pytest.param(OTHER_LINES[:1], 1, f"log of session '{OTHER_ID}'", id="another, begun"),
        pytest.param(
            [*LINES[:4], *OTHER_LINES[4:]], 5, "belongs to another log", id="half of another"
        ),
        pytest.param(
            [encode(SESSION_ID, [started(OTHER_ID)]), *LINES[1:]],
            1,
            f"starts session '{OTHER_ID}'",
            id="wrong id",
        ),
    ],
)
async def test_damage_in_the_middle_stops_the_session_and_names_the_place(
    tmp_path: Path, log: list[bytes], line: int, said: str
) -> None:
    """Silent loss is worse than a stop: the operator decides, and everything is still there."""
    async with a_session(tmp_path, log=b"".join(log)) as (store, files):
        before = contents(files.folder)
        with pytest.raises(CorruptJournalError, match=re.escape(said)) as caught:
            await store.load(SESSION_ID)
        await store.append(OTHER_ID, simple_log(1, session_id=OTHER_ID), expected_seq=0)

        assert caught.value.path == files.log
        assert f"events.jsonl: line {line}: " in str(caught.value)
        assert "everturn doctor --repair" in str(caught.value)
        assert contents(files.folder) == before
        assert await store.load(OTHER_ID) is not None  # and no other session


@table("file", ["events.jsonl", "state.yaml"])
async def test_what_another_version_wrote_is_refused(tmp_path: Path, file: str) -> None:
    """An older Everturn must not cut off what a newer one wrote, nor rebuild it: it is no damage.

    What the other version knew would be lost.
    """
    async with a_session(tmp_path, snapshot_at=6) as (store, files):
        if file == "events.jsonl":
            files.log.write_bytes(line_of_version(3, LOG[6]))
            said = r"events\.jsonl: line 1: .* format 3"
        else:
            data = files.state.read_bytes().replace(b"everturn/state-v7", b"everturn/state-v8")
            files.state.write_bytes(data)
            said = r"state\.yaml: .*state-v7"
        before = contents(files.folder)
        with pytest.raises(UnknownFormatError, match=said):
            await store.load(SESSION_ID)

        assert contents(files.folder) == before


@table(
    ("at", "compaction", "log", "said"),
    [
        *[
            pytest.param(6, each, None, r"events\.jsonl: the log is missing", id=f"missing, {each}")
            for each in ("archive", "discard", "disabled")
        ],
        # An old copy was put back: appended to, it would have a hole for ever.
        pytest.param(
            16, "disabled", LINES[:9], r"ends at event 9, but .* event 16", id="too short"
        ),
        # The lines that need not be replayed are history too.
        pytest.param(
            11,
            "disabled",
            [*LINES[:4], FLIPPED, *LINES[5:]],
            "line 5: its checksum is wrong",
            id="damaged before the snapshot",
        ),
    ],
)
async def test_a_log_that_lacks_what_the_snapshot_needs_stops_the_session(
    tmp_path: Path, at: int, compaction: Compaction, log: list[bytes] | None, said: str
) -> None:
    """What was logged after the snapshot is gone, and nobody knows what it was."""
    async with a_session(tmp_path, snapshot_at=at, compaction=compaction) as (store, files):
        if log is None:
            files.log.unlink()
        else:
            files.log.write_bytes(b"".join(log))
        with pytest.raises(CorruptJournalError, match=said):
            await store.load(SESSION_ID)


@table("compaction", ["archive", "discard"])
async def test_an_old_snapshot_is_bridged_by_the_archive_alone(
    tmp_path: Path, compaction: Compaction
) -> None:
    """A backup of state.yaml that was put back costs nothing where the archive has the rest.

    Where the events in between were discarded, the session cannot be whole.
    """
    async with a_session(tmp_path, snapshot_at=6, compaction=compaction) as (store, files):
        old = files.state.read_bytes()
        await store.save_snapshot(replay(LOG[:11]), compaction=compaction)
        files.state.write_bytes(old)
        if compaction == "discard":
            with pytest.raises(CorruptJournalError, match="event 7 is missing; the next one is 12"):
                await store.load(SESSION_ID)
            return
        loaded = await store.load(SESSION_ID)

        assert loaded is not None
        assert loaded.events == LOG[6:]
        assert state_of(loaded) == replay(LOG)


DAMAGES = [
    pytest.param(b"", id="empty"),
    pytest.param(b"\x00" * 2000, id="zeros"),
    pytest.param(b"format: everturn/state-v7\nsession: [\n", id="no YAML"),
    pytest.param(b"format: everturn/state-v7\nsession: x\n", id="fields missing"),
]


@table("compaction", ["archive", "disabled"])
@table("at", [6, 16])
@table("damage", DAMAGES)
async def test_a_damaged_snapshot_is_rebuilt_from_the_log(
    tmp_path: Path, damage: bytes, at: int, compaction: Compaction
) -> None:
    """The log is the truth: where it reaches back to the beginning, nothing is lost."""
    async with a_session(tmp_path, snapshot_at=at, compaction=compaction) as (store, files):
        files.state.write_bytes(damage)
        loaded = await store.load(SESSION_ID)

        assert loaded is not None
        assert state_of(loaded) == replay(LOG)
        assert loaded.snapshot is None
        kept = list(files.folder.glob("state.yaml.bad-*"))
        assert [path.read_bytes() for path in kept] == [damage]
        assert kept[0].name in loaded.repairs[0]
        assert re.search(r"line \d+", loaded.repairs[0])
        more = Event(seq=17, at=moment(1), body=Received(text="on"))
        await store.append(SESSION_ID, (more,), expected_seq=16)
        again = await store.load(SESSION_ID)
        assert again is not None
        assert again.events == (*LOG, more)
        await store.save_snapshot(replay(again.events), compaction=compaction)
        assert state_of(await store.load(SESSION_ID)).last_seq == 17


@table("damage", DAMAGES)
@table("at", [6, 16])
async def test_a_damaged_snapshot_without_its_log_stops_the_session(
    tmp_path: Path, damage: bytes, at: int
) -> None:
    """Only the snapshot held the beginning: the person who can mend it is told where."""
    async with a_session(tmp_path, snapshot_at=at, compaction="discard") as (store, files):
        files.state.write_bytes(damage)
        before = contents(files.folder)
        with pytest.raises(CorruptJournalError, match=r"state\.yaml: line \d+: "):
            await store.load(SESSION_ID)

        assert contents(files.folder) == before


async def test_a_missing_snapshot_is_rebuilt_from_the_archive(tmp_path: Path) -> None:
    """Somebody deleted the wrong file; the archive still has everything."""
    async with a_session(tmp_path, snapshot_at=16) as (store, files):
        files.state.unlink()
        loaded = await store.load(SESSION_ID)

        assert state_of(loaded) == replay(LOG)
        assert loaded is not None
        assert "state.yaml is missing" in loaded.repairs[0]


async def test_a_snapshot_of_another_session_stops_the_session(tmp_path: Path) -> None:
    """Copied into the wrong folder, it would show one person the words of another."""
    async with a_session(tmp_path, snapshot_at=6, compaction="disabled") as (store, files):
        log = simple_log(2, session_id=OTHER_ID)
        await store.append(OTHER_ID, log, expected_seq=0)
        await store.save_snapshot(replay(log), compaction="disabled")
        files.state.write_bytes(store.layout.session(OTHER_ID).state.read_bytes())
        with pytest.raises(CorruptJournalError, match=rf"state\.yaml: .*'{OTHER_ID}'"):
            await store.load(SESSION_ID)


async def test_a_snapshot_edited_by_hand_is_what_counts(tmp_path: Path) -> None:
    """A person may correct what the agent remembers."""
    async with a_session(tmp_path, snapshot_at=16) as (store, files):
        document = yaml.safe_load(files.state.read_text())
        document["instructions"] = "Answer in Latin."
        files.state.write_text("# by hand\n" + yaml.safe_dump(document, indent=2))
        loaded = await store.load(SESSION_ID)
        rows = await store.sessions(after="", limit=9)

        assert loaded is not None
        assert loaded.repairs == ()
        assert state_of(loaded).instructions == "Answer in Latin."
        assert state_of(loaded).pending == replay(LOG).pending
        assert [row.session_id for row in rows] == [SESSION_ID]


async def test_a_damaged_archive_stops_only_who_needs_it(tmp_path: Path) -> None:
    """The session goes on; its history says where it cannot be read."""
    async with a_session(tmp_path, snapshot_at=11) as (store, files):
        lines = files.archive.read_bytes().splitlines(keepends=True)
        files.archive.write_bytes(b"".join([*lines[:4], FLIPPED, *lines[5:]]))

        assert state_of(await store.load(SESSION_ID)) == replay(LOG)
        assert await store.read(SESSION_ID, after=11, limit=9) == LOG[11:]
        with pytest.raises(CorruptJournalError, match=r"archive\.jsonl: line 5: its checksum"):
            await store.read(SESSION_ID, after=0, limit=9)


def long_log() -> tuple[Event, ...]:
    """Return 4001 events, one of them far longer than the others."""
    log = simple_log(800)[:2000]
    long = Event(seq=2001, at=log[0].at, body=Received(text="long " * 40_000))
    texts = ("x" * (seq % 300) for seq in range(2002, 4002))
    short = (
        Event(seq=seq, at=log[0].at, body=Received(text=text))
        for seq, text in enumerate(texts, 2002)
    )
    return (*log, long, *short)


async def test_a_long_history_is_found_by_bisection(tmp_path: Path) -> None:
    """IN-07 at length: a page from the middle of thousands of lines is the right one."""
    log = long_log()
    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, log, expected_seq=0)
        for after in (0, 1, 2, 777, 1999, 2000, 2001, 2002, 2500, 3998, 3999, 4000, 4001, 9999):
            assert await store.read(SESSION_ID, after=after, limit=3) == log[after : after + 3]
        path = store.layout.session(SESSION_ID).log
        data = path.read_bytes()
        half = data.index(b'{"v":2,"seq":3000')
        path.write_bytes(data[:half] + b"rubbish\n" + data[half:])
        with pytest.raises(JournalError, match="line 3000: it is cut short or damaged"):
            await store.read(SESSION_ID, after=2997, limit=9)


async def test_a_long_log_is_cut_exactly_behind_the_snapshot(tmp_path: Path) -> None:
    """Each event is in the log or in the archive, in one of them, and in order."""
    log = long_log()
    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, log, expected_seq=0)
        files = store.layout.session(SESSION_ID)
        for at in (250, 251, 1000, 1990, 2001, 2002, 3333, 4001):
            state = replace(replay(log[:1]), last_seq=at)  # what it holds does not matter here
            await store.save_snapshot(state, compaction="archive")
            assert files.archive.read_bytes().count(b"\n") == at
            assert files.log.read_bytes().count(b"\n") == 4001 - at

        assert await store.read(SESSION_ID, after=0, limit=9999) == log
