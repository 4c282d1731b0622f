"""A lost or damaged archive: seen at the load, told by doctor, written down, and shown as a gap."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from support.tables import table

from everturn.testing._histories import KEY, OTHER_ID, SESSION_ID, replay, simple_log
from everturn_actors.errors import CorruptJournalError
from everturn_actors.gaps import Gap
from everturn_actors.journal.doctor import check, repair
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.log.codec import encode
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.opening import open_file_store
from everturn_actors.journal.snapshot.state_yaml import encode_state
from everturn_actors.model import Compaction
from everturn_actors.ports import ToolContext
from everturn_actors.state.recovery import recover
from everturn_gateway.tools.recall.log import LogReader

LOG = simple_log(6)  # 31 events, five a turn
ARCHIVED = 21
LINES = encode(SESSION_ID, LOG).splitlines(keepends=True)
FOREIGN = encode(OTHER_ID, simple_log(6, session_id=OTHER_ID)).splitlines(keepends=True)

Damage = Callable[[Path], object]


def _keep(path: Path, begin: int, end: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[begin:end]))


def _leave_out(path: Path, begin: int, end: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:begin] + lines[end:]))


def _tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


DAMAGE: dict[str, tuple[Damage, list[tuple[int, int]]]] = {
    "lost": (Path.unlink, [(1, 21)]),
    "emptied": (lambda path: path.write_bytes(b""), [(1, 21)]),
    "halved": (lambda path: _keep(path, 0, 10), [(11, 21)]),
    "second half": (lambda path: _keep(path, 10, 21), [(1, 10)]),
    "middle": (lambda path: _leave_out(path, 5, 9), [(6, 9)]),
    "torn": (_tear, [(21, 21)]),
    "foreign": (lambda path: path.write_bytes(b"".join(FOREIGN[:21])), [(1, 21)]),
    "rubbish": (lambda path: path.write_bytes(b"rubbish\n" * 40), [(1, 21)]),
    "no newline at all": (lambda path: path.write_bytes(b"\0" * 4096), [(1, 21)]),
}
"How an archive is damaged, and what of it is gone then."
KINDS = table("kind", DAMAGE)


async def write_session(
    store: FileStore, *, at: int = ARCHIVED, compaction: Compaction = "archive"
) -> SessionFiles:
    """Write all of `LOG`, and a snapshot of its beginning; nothing of it stays in memory."""
    await store.append(SESSION_ID, LOG, expected_seq=0)
    await store.save_snapshot(replay(LOG[:at]), compaction=compaction)
    await store.mark_passive(SESSION_ID)
    return store.layout.session(SESSION_ID)


async def losses_at_load(store: FileStore) -> tuple[str, ...]:
    """Load the session, which must be whole, and return what it says is lost of its history."""
    loaded = await store.load(SESSION_ID)
    seen = await store.inspect(SESSION_ID)
    assert loaded is not None
    assert seen is not None
    recovered = recover(loaded.snapshot, loaded.events)
    assert recovered is not None
    assert recovered.state == replay(LOG)
    assert seen.losses == loaded.losses
    assert loaded.repairs == ()
    return loaded.losses


@KINDS
async def test_a_load_and_doctor_tell_of_it_and_a_repair_claims_nothing(
    tmp_path: Path, kind: str
) -> None:
    """What the model sees stands in the snapshot: the session works, and it is said what is gone.

    A load changes nothing, so that a backup can be put back; doctor names the events and blocks
    nothing. What is gone stays gone: a repair says so, once, and the history goes on showing it.
    """
    ((first, last),) = DAMAGE[kind][1]
    gone = f"event {first} is" if first == last else f"events {first} to {last} are"
    async with open_file_store(tmp_path) as store:
        files = await write_session(store)
        assert await losses_at_load(store) == ()
        assert await check(tmp_path, SESSION_ID) == ()
        DAMAGE[kind][0](files.archive)
        before = {path: path.read_bytes() for path in files.folder.iterdir()}

        (told,) = await losses_at_load(store)
        assert files.archive.name in told
        assert {path: path.read_bytes() for path in files.folder.iterdir()} == before

        findings = await check(tmp_path, SESSION_ID)
        assert not any(finding.blocks for finding in findings)
        assert {finding.path for finding in findings} == {files.archive}
        assert f"{gone} lost" in findings[-1].text

        report = "\n".join(await repair(store, SESSION_ID))
        assert f"{gone} missing: the archive that held them was lost or damaged" in report
        assert "Nothing was brought back" in report
        if (first, last) == (1, ARCHIVED):  # nothing is left that it could be rebuilt from
            assert "rebuilt" not in report
        assert await check(tmp_path, SESSION_ID) == ()
        assert await repair(store, SESSION_ID) == ()
        assert await losses_at_load(store) == ()
        held = tuple(event for event in LOG if not first <= event.seq <= last)
        assert await store.read(SESSION_ID, after=0, limit=99) == held
        (gap,) = await store.explain_gap(SESSION_ID, first, last)
        assert (gap.first, gap.last, gap.cause) == (first, last, "lost")


@KINDS
async def test_the_loss_is_still_known_when_the_archive_grew_again(
    tmp_path: Path, kind: str
) -> None:
    """What is archived later must not cover the hole up."""
    ((first, last),) = DAMAGE[kind][1]
    async with open_file_store(tmp_path) as store:
        files = await write_session(store)
        DAMAGE[kind][0](files.archive)
        try:
            await store.save_snapshot(replay(LOG), compaction="archive")
        except CorruptJournalError:  # nothing is put behind a line that is bad
            assert kind in {"foreign", "rubbish"}
            assert files.log.read_bytes() == b"".join(LINES[ARCHIVED:])
        else:
            assert files.log.read_bytes() == b""
        await store.mark_passive(SESSION_ID)

        (gap,) = await store.explain_gap(SESSION_ID, first, last)
        assert gap == Gap(first=first, last=last, cause="lost")
        assert any("lost" in finding.text for finding in await check(tmp_path, SESSION_ID))
        await repair(store, SESSION_ID)
        assert await check(tmp_path, SESSION_ID) == ()
        assert await losses_at_load(store) == ()
        held = tuple(event for event in LOG if not first <= event.seq <= last)
        assert await store.read(SESSION_ID, after=0, limit=99) == held
        await store.save_snapshot(replay(LOG), compaction="archive")
        assert await check(tmp_path, SESSION_ID) == ()


async def test_a_backup_that_was_put_back_is_no_loss(tmp_path: Path) -> None:
    """A loss that was noticed, but not given up, ends with the file that was found again."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store)
        backup = files.archive.read_bytes()
        files.archive.unlink()
        await store.save_snapshot(replay(LOG), compaction="archive")
        files.archive.write_bytes(backup + files.archive.read_bytes())

        assert await check(tmp_path, SESSION_ID) == ()
        assert await losses_at_load(store) == ()
        assert await store.read(SESSION_ID, after=0, limit=99) == LOG


async def test_what_was_let_go_on_purpose_is_no_loss(tmp_path: Path) -> None:
    """`compaction: discard` is a wish; only what is gone against it is told of."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store, at=6, compaction="discard")
        assert await losses_at_load(store) == ()
        await store.save_snapshot(replay(LOG[:11]), compaction="archive")
        await store.save_snapshot(replay(LOG[:16]), compaction="discard")
        await store.save_snapshot(replay(LOG[:21]), compaction="archive")
        await store.save_snapshot(replay(LOG[:26]), compaction="disabled")

        assert await losses_at_load(store) == ()
        assert await check(tmp_path, SESSION_ID) == ()
        held = (*range(7, 12), *range(17, 32))
        assert [e.seq for e in await store.read(SESSION_ID, after=0, limit=99)] == [*held]
        files.archive.unlink()
        assert len(await losses_at_load(store)) == 1
        (finding,) = await check(tmp_path, SESSION_ID)
        assert "events 7 to 11, 17 to 21 are lost" in finding.text
        assert [(g.first, g.last, g.cause) for g in await store.explain_gap(SESSION_ID, 1, 21)] == [
            (1, 6, "discarded"),
            (7, 11, "lost"),
            (12, 16, "discarded"),
            (17, 21, "lost"),
        ]


@table("compaction", ["archive", "discard"])
@table("archived", [0, 6, 9, 11])
async def test_a_crash_between_snapshot_archive_and_log_is_no_loss(
    tmp_path: Path, archived: int, compaction: Compaction
) -> None:
    """The snapshot is written first: until the log is, it holds what the archive lacks."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store, at=6)
        log, archive = files.log.read_bytes(), files.archive.read_bytes()
        await store.save_snapshot(replay(LOG[:11]), compaction=compaction)
        await store.mark_passive(SESSION_ID)
        # killed before the log was rewritten, with part of the archive written
        files.log.write_bytes(log)
        files.archive.write_bytes(archive + b"".join(LINES[6:archived])[:-3])
        files.archive.write_bytes(archive if archived <= 6 else files.archive.read_bytes())

        assert await losses_at_load(store) == ()
        assert await store.read(SESSION_ID, after=0, limit=99) == LOG
        await store.save_snapshot(replay(LOG[:16]), compaction="archive")
        assert await losses_at_load(store) == ()
        assert await check(tmp_path, SESSION_ID) == ()
        assert await store.read(SESSION_ID, after=0, limit=99) == LOG


async def test_a_snapshot_that_does_not_say_is_believed(tmp_path: Path) -> None:
    """An older snapshot knows nothing of the archive: no alarm, and the next one writes it down."""
    async with open_file_store(tmp_path) as store:
        files = await write_session(store)
        files.state.write_bytes(encode_state(replay(LOG[:ARCHIVED])))
        _keep(files.archive, 10, 21)

        assert await losses_at_load(store) == ()
        assert [gap.cause for gap in await store.explain_gap(SESSION_ID, 1, 10)] == ["unknown"]
        await store.save_snapshot(replay(LOG), compaction="archive")
        assert await check(tmp_path, SESSION_ID) == ()
        assert await store.explain_gap(SESSION_ID, 1, 10) == (
            Gap(first=1, last=10, cause="unknown"),
        )
        files.archive.unlink()
        (finding,) = await check(tmp_path, SESSION_ID)
        assert "events 11 to 31 are lost" in finding.text


async def test_a_model_reads_back_what_stands_before_a_gap(tmp_path: Path) -> None:
    """A hole as long as a page must not look like the beginning of the conversation."""
    log = simple_log(400)  # 2,001 events
    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, log, expected_seq=0)
        await store.save_snapshot(replay(log[:1801]), compaction="archive")
        files = store.layout.session(SESSION_ID)
        _keep(files.archive, 0, 101)
        context = ToolContext(session_id=SESSION_ID, key=KEY, store=store)
        async with aclosing(LogReader(context).backward(2001)) as chunks:
            read = [said.seq async for chunk in chunks for said in chunk]

    assert min(read) <= 5
    assert max(read) > 1801
    assert not [seq for seq in read if 101 < seq <= 1801]
