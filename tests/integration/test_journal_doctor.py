"""`everturn doctor`: what is wrong is said, what can be rebuilt is rebuilt, nothing is deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.tables import table

from everturn.testing._histories import (
    KEY,
    OTHER_ID,
    SESSION_ID,
    moment,
    replay,
    simple_log,
    started,
)
from everturn_actors.errors import CorruptJournalError, JournalError, UnknownFormatError
from everturn_actors.events import Event, Received, SessionEnded, SessionStarted, StatusChanged
from everturn_actors.journal.doctor import check, rebuild_index, repair, session_ids
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.log.codec import encode
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import Compaction
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState

LOG = simple_log(3)  # 16 events
LINES = encode(SESSION_ID, LOG).splitlines(keepends=True)
FLIPPED = LINES[8].replace(b"test-model", b"best-model")
OTHER_LINES = encode(OTHER_ID, simple_log(3, session_id=OTHER_ID)).splitlines(keepends=True)


async def write_session(
    store: FileStore, *, snapshot_at: int = 0, compaction: Compaction = "archive"
) -> SessionFiles:
    """Write `LOG` and, if asked for, a snapshot; nothing of it stays in memory."""
    await store.append(SESSION_ID, LOG, expected_seq=0)
    if snapshot_at:
        await store.save_snapshot(replay(LOG[:snapshot_at]), compaction=compaction)
    await store.mark_passive(SESSION_ID)
    return store.layout.session(SESSION_ID)


async def state_in(store: FileStore) -> SessionState:
    """Return what a restart brings back."""
    loaded = await store.load(SESSION_ID)
    assert loaded is not None
    recovered = recover(loaded.snapshot, loaded.events)
    assert recovered is not None
    return recovered.state


def kept(files: SessionFiles) -> dict[str, bytes]:
    """Return the files that a repair set aside, by the name they had."""
    return {
        path.name.partition(".damaged-")[0]: path.read_bytes()
        for path in files.folder.glob("*.damaged-*")
    }


@table("compaction", ["archive", "discard", "disabled"])
@table("snapshot_at", [0, 6, 16])
async def test_a_good_session_has_no_findings_and_is_left_alone(
    tmp_path: Path, snapshot_at: int, compaction: Compaction
) -> None:
    """A doctor that finds fault with the healthy is soon not asked any more.

    It runs before the first start as well, and needs no lock for looking.
    """
    assert await session_ids(tmp_path / "none") == ()
    assert await check(tmp_path / "none", SESSION_ID) == ()
    async with open_file_store(tmp_path) as store:
        files = await write_session(store, snapshot_at=snapshot_at, compaction=compaction)
        before = {path: path.read_bytes() for path in files.folder.iterdir()}

        assert await session_ids(tmp_path) == (SESSION_ID,)
        assert await check(tmp_path, SESSION_ID) == ()
        assert await repair(store, SESSION_ID) == ()
        assert {path: path.read_bytes() for path in files.folder.iterdir()} == before


async def test_every_bad_line_is_named_and_thousands_in_a_few_lines(tmp_path: Path) -> None:
    """Loading stops at the first fault, and the operator wants to see all of them.

    A thousand findings would hide the one that matters.
    """
    async with open_file_store(tmp_path) as store:
        files = await write_session(store)
        lines = [*LINES[:2], b"rubbish\n", *LINES[3:8], FLIPPED, *LINES[9:12], *LINES[13:]]
        files.log.write_bytes(b"".join(lines) + b'{"v":2,')
        findings = await check(tmp_path, SESSION_ID)
        files.log.write_bytes(b"rubbish\n" * 5000)
        of_rubbish = await check(tmp_path, SESSION_ID)

    assert [(f.line, f.blocks) for f in findings if "follows" not in f.text] == [
        (3, True),
        (9, True),
        (16, False),
    ]
    assert [f.line for f in findings if "event 14 follows event 12" in f.text] == [13]
    assert {f.path for f in findings} == {files.log}
    assert len(of_rubbish) < 30
    assert of_rubbish[-1].text == "and so on"


@table(
    ("lines", "good", "said"),
    [
        pytest.param([*LINES[:8], FLIPPED, *LINES[9:]], 8, "7 good event(s), 10 to 16", id="flip"),
        pytest.param([*LINES[:8], *LINES[9:]], 8, "event 9 is missing", id="hole"),
        pytest.param([*LINES[:8], LINES[7], *LINES[8:]], 16, "rebuilt", id="twice"),
        pytest.param([*LINES[:8], b"x\n", *LINES[8:]], 16, "1 damaged line(s)", id="inserted"),
        pytest.param([*LINES[8:], *LINES[:8]], 16, "rebuilt", id="out of order"),
        pytest.param([*LINES[:8], *OTHER_LINES[8:]], 8, "8 damaged line(s)", id="half of another"),
    ],
)
async def test_a_damaged_log_is_rebuilt_from_its_longest_good_beginning(
    tmp_path: Path, lines: list[bytes], good: int, said: str
) -> None:
    """What cannot stand is left out and told; the session works again; the old file is kept."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store)
        damaged = b"".join(lines)
        files.log.write_bytes(damaged)
        assert await check(tmp_path, SESSION_ID)
        with pytest.raises(CorruptJournalError):
            await store.load(SESSION_ID)
        report = await repair(store, SESSION_ID)

        assert said in "\n".join(report)
        assert kept(files) == {"events.jsonl": damaged}
        assert await state_in(store) == replay(LOG[:good])
        await rebuild_index(store)  # what was cut off may leave a turn open
        assert await check(tmp_path, SESSION_ID) == ()
        await store.append(SESSION_ID, LOG[good:], expected_seq=good)
        assert await state_in(store) == replay(LOG)


async def test_events_that_cannot_follow_each_other_are_left_out(tmp_path: Path) -> None:
    """Whole lines in order can still tell an impossible story: a bug wrote them."""
    impossible = replace(LOG[5], seq=7)  # the turn ended already
    async with open_file_store(tmp_path) as store:
        files = await write_session(store)
        files.log.write_bytes(b"".join(LINES[:6]) + encode(SESSION_ID, [impossible]))
        findings = await check(tmp_path, SESSION_ID)
        report = await repair(store, SESSION_ID)

        assert ["cannot stand here" in f.text for f in findings] == [True]
        assert "1 good event(s), 7 to 7, were left out" in report[-1]
        assert await state_in(store) == replay(LOG[:6])


async def test_lines_behind_the_snapshot_are_saved_beyond_the_damage(tmp_path: Path) -> None:
    """Damage in what the snapshot holds already must not cost anything that came later."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store, snapshot_at=11, compaction="disabled")
        files.log.write_bytes(b"".join([*LINES[:8], FLIPPED, *LINES[9:]]))
        report = await repair(store, SESSION_ID)

        assert "1 damaged line(s) were left out" in report
        assert await state_in(store) == replay(LOG)
        assert await store.read(SESSION_ID, after=0, limit=99) == (*LOG[:8], *LOG[9:])
        await store.save_snapshot(replay(LOG), compaction="archive")
        assert await state_in(store) == replay(LOG)


@table(
    ("log", "at", "compaction", "read"),
    [
        pytest.param(None, 11, "archive", LOG[:11], id="missing"),
        # The history that is there stays readable, and nothing is appended after a hole.
        pytest.param(LINES[:9], 16, "disabled", LOG[:9], id="too old"),
        # Nothing of the stranger's words is taken over.
        pytest.param(OTHER_LINES, 6, "archive", LOG[:6], id="of another session"),
    ],
)
async def test_a_log_that_is_lost_goes_on_from_the_snapshot(
    tmp_path: Path,
    log: list[bytes] | None,
    at: int,
    compaction: Compaction,
    read: tuple[Event, ...],
) -> None:
    """Better the state of the last snapshot than nothing."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store, snapshot_at=at, compaction=compaction)
        if log is None:
            files.log.unlink()
        else:
            files.log.write_bytes(b"".join(log))
        findings = await check(tmp_path, SESSION_ID)
        await repair(store, SESSION_ID)

        assert len(findings) == (len(OTHER_LINES) if log is OTHER_LINES else 1)
        assert (findings[0].text == "the log is missing") == (log is None)
        if log is OTHER_LINES:
            assert kept(files) == {"events.jsonl": b"".join(OTHER_LINES)}
        assert await state_in(store) == replay(LOG[:at])
        assert await store.read(SESSION_ID, after=0, limit=99) == read
        if at < len(LOG):
            await store.append(SESSION_ID, LOG[at:], expected_seq=at)
            assert await state_in(store) == replay(LOG)


@table("compaction", ["archive", "disabled"])
async def test_a_damaged_snapshot_is_set_aside(tmp_path: Path, compaction: Compaction) -> None:
    """The log has everything."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store, snapshot_at=11, compaction=compaction)
        files.state.write_bytes(b"rubbish")
        findings = await check(tmp_path, SESSION_ID)
        report = await repair(store, SESSION_ID)

        assert [f.path for f in findings] == [files.state]
        assert kept(files) == {"state.yaml": b"rubbish"}
        assert "state.yaml" in report[0]
        assert await state_in(store) == replay(LOG)


async def test_a_torn_end_of_the_archive_is_said_to_go_by_itself_and_does(tmp_path: Path) -> None:
    """A kill while old events are archived leaves one; nothing is lost, and nothing to repair."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store, snapshot_at=6)
        files.archive.write_bytes(b"".join(LINES[:6]) + LINES[6][:40])
        findings = await check(tmp_path, SESSION_ID)
        await store.save_snapshot(await state_in(store), compaction="archive")

        assert [(each.path, each.line, each.blocks) for each in findings] == [
            (files.archive, 7, False)
        ]
        assert "as the last line it is cut off by itself" in findings[0].text
        assert await check(tmp_path, SESSION_ID) == ()
        assert files.archive.read_bytes() == b"".join(LINES)


async def test_a_damaged_archive_is_rebuilt_from_what_is_good(tmp_path: Path) -> None:
    """History with a gap that is told beats history that cannot be read at all."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store, snapshot_at=16)
        damaged = b"".join([*LINES[:8], FLIPPED, *LINES[9:]])
        files.archive.write_bytes(damaged)
        findings = await check(tmp_path, SESSION_ID)
        await repair(store, SESSION_ID)

        assert (findings[0].path, findings[0].line) == (files.archive, 9)
        assert not any(finding.blocks for finding in findings)
        assert kept(files)["events.archive.jsonl"] == damaged
        assert set(kept(files)) == {"events.archive.jsonl", "state.yaml"}  # which names the loss
        assert await state_in(store) == replay(LOG)
        assert await store.read(SESSION_ID, after=0, limit=99) == (*LOG[:8], *LOG[9:])


async def test_what_reaches_back_to_nothing_is_left_as_it_is(tmp_path: Path) -> None:
    """There is no honest way to rebuild it, so that it is not touched."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store, snapshot_at=11, compaction="discard")
        files.state.write_bytes(b"rubbish")
        before = {path: path.read_bytes() for path in files.folder.iterdir()}
        with pytest.raises(CorruptJournalError, match="cannot be rebuilt"):
            await repair(store, SESSION_ID)

        assert {path: path.read_bytes() for path in files.folder.iterdir()} == before


async def test_another_version_is_reported_and_never_repaired(tmp_path: Path) -> None:
    """An old doctor must not treat what a new gateway wrote as damage."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store)
        files.log.write_bytes(LINES[0] + b'{"v":3,"seq":2}\n')
        findings = await check(tmp_path, SESSION_ID)
        with pytest.raises(UnknownFormatError, match="line 2"):
            await repair(store, SESSION_ID)

        assert len(findings) == 1
        assert "event format 3" in findings[0].text
        assert kept(files) == {}


async def test_the_indexes_are_rebuilt_from_the_sessions(tmp_path: Path) -> None:
    """The marks and pointers are copies; lost or wrong, they are made anew from the truth."""
    other_key = replace(KEY, chat="c2")
    sleeping, waiting, ended, paused, bad = (
        f"2026112{day}T224956123-3f9a2c1b" for day in range(1, 6)
    )
    asked = Event(seq=7, at=moment(9), body=Received(text="and?"))
    async with open_file_store(tmp_path) as store:
        await store.append(sleeping, simple_log(1, session_id=sleeping), expected_seq=0)
        log = (*simple_log(1, session_id=waiting), asked)
        await store.append(waiting, log, expected_seq=0)
        begun = SessionStarted(session_id=ended, key=other_key)
        end = Event(seq=2, at=moment(9), body=SessionEnded(reason="reset"))
        await store.append(ended, (replace(started(ended), body=begun), end), expected_seq=0)
        begun = SessionStarted(session_id=paused, key=replace(KEY, chat="c3"))
        pause = Event(seq=3, at=moment(9), body=StatusChanged(status="paused"))
        ask = replace(asked, seq=2)
        log = (replace(started(paused), body=begun), ask, pause)
        await store.append(paused, log, expected_seq=0)
        await store.append(bad, simple_log(1, session_id=bad), expected_seq=0)
        store.layout.session(bad).log.write_bytes(b"rubbish\n" * 2)
        await store.bind(KEY, sleeping)
        await store.bind(replace(KEY, chat="gone"), OTHER_ID)
        await store.mark_active(OTHER_ID)
        await store.mark_active(sleeping)
        await store.mark_active(bad)
        report = await rebuild_index(store)

        assert (report.sessions, report.active, report.conversations) == (5, 1, 2)
        assert report.unreadable == (bad,)
        assert await store.active() == (waiting, bad)
        assert await store.bound(KEY) == waiting
        assert await store.bound(other_key) == ""
        assert await store.bound(replace(KEY, chat="c3")) == paused
        assert len(list((tmp_path / "conversations").iterdir())) == 2


async def test_a_repair_that_the_disk_refuses_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the damaged files stay as they are."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store)
        files.log.write_bytes(b"".join([*LINES[:8], *LINES[9:]]))
        before = files.log.read_bytes()

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("os.pwrite", full)
            with pytest.raises(JournalError, match="the disk is full"):
                await repair(store, SESSION_ID)

        assert files.log.read_bytes() == before


async def test_an_open_turn_that_no_start_would_find_is_reported_and_found_again(
    tmp_path: Path,
) -> None:
    """Without its mark an accepted message waits for somebody to write again, perhaps for ever."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store)
        again = Event(seq=len(LOG) + 1, at=moment(len(LOG) + 1), body=Received(text="and?"))
        await store.append(SESSION_ID, [again], expected_seq=len(LOG))
        findings = await check(tmp_path, SESSION_ID)

        assert [finding.path for finding in findings] == [tmp_path / "active" / SESSION_ID]
        assert not findings[0].blocks
        before = files.log.read_bytes()
        assert await repair(store, SESSION_ID) == ()
        assert files.log.read_bytes() == before
        await rebuild_index(store)
        assert await check(tmp_path, SESSION_ID) == ()
        assert await store.active() == (SESSION_ID,)
