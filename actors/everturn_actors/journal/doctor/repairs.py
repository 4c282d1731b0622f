"""The files of one session, rebuilt from what is good in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from everturn_actors.errors import CorruptJournalError
from everturn_actors.gaps import Gap, GapCause, with_gap
from everturn_actors.journal.disk import quarantine_path, replace_file, sync_directory, write_error
from everturn_actors.journal.doctor.findings import check_files
from everturn_actors.journal.doctor.stored import (
    LogLine,
    Stored,
    good_lines,
    read_stored,
    told_gaps,
    usable_of,
)
from everturn_actors.journal.loading import load_session, read_optional
from everturn_actors.journal.log.archive import ArchiveRecord, missing_of
from everturn_actors.journal.log.files import REPAIR_HINT
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.snapshot.state_yaml import encode_state
from everturn_actors.state.recovery import recover


def repair_files(files: SessionFiles) -> tuple[str, ...]:
    """Rebuild a session from what is good; return what was done."""
    session = read_stored(files)
    if not check_files(files):
        return ()
    usable = usable_of(session)
    base = session.snapshot.last_seq if session.snapshot else 0
    if session.snapshot is None and not usable.run:
        message = (
            "nothing that is good reaches back to the session's beginning, so that it cannot be "
            f"rebuilt; `everturn sessions delete {files.session_id}` removes it"
        )
        raise CorruptJournalError(message, path=files.folder)
    end = base + len(usable.run)
    good = {**good_lines(session.log), **good_lines(session.archive)}
    in_archive = {
        seq for seq in good if seq <= base or (seq <= end and seq in good_lines(session.archive))
    }
    archive = _join(good, in_archive)
    log = _join(good, {seq for seq in good if seq <= end} - in_archive)
    done: list[str] = []
    try:
        done += _replace(files.archive, archive)
        done += _replace(files.log, log)
        if session.snapshot_fault:
            kept = quarantine_path(files.state, "damaged")
            files.state.rename(kept)
            sync_directory(files.folder)
            done.append(f"state.yaml ({session.snapshot_fault}) is kept as {kept.name}")
        done += _write_down(files, session, archive, in_archive)
    except OSError as error:
        raise write_error(error, files.folder) from error
    done += _left_out(session, good, end, usable.why)
    _prove(files)
    return tuple(done)


def _write_down(
    files: SessionFiles, session: Stored, archive: bytes, in_archive: set[int]
) -> list[str]:
    """Note in the snapshot what the archive holds now, and which events are lost for good.

    Nothing else of the snapshot changes; the one before is kept all the same.
    """
    if session.snapshot is None:
        return []
    record, done = session.record, list[str]()
    gaps = told_gaps(record) if record else ()
    cause: GapCause = "lost" if record else "unknown"
    # What the snapshot holds was all put into the archive, as far as it was found.
    for first, last in missing_of(in_archive, gaps, session.snapshot.last_seq):
        gap = Gap(first=first, last=last, cause=cause, is_reported=True)
        gaps = with_gap(gaps, gap)
        done.append(
            f"{files.state.name} says now that {gap.text}. Nothing was brought back; the history "
            "shows the gap"
        )
    record = ArchiveRecord(last_seq=max(in_archive, default=0), size_bytes=len(archive), gaps=gaps)
    if record != session.record:
        kept = quarantine_path(files.state, "damaged")
        replace_file(kept, files.state.read_bytes())
        replace_file(files.state, encode_state(session.snapshot, record))
        done.append(f"{files.state.name} says what the archive holds; the old one is {kept.name}")
    return done


def _join(good: Mapping[int, LogLine], numbers: set[int]) -> bytes:
    return b"".join(good[number].raw + b"\n" for number in sorted(numbers))


def _replace(path: Path, data: bytes) -> list[str]:
    old = read_optional(path)
    if old == data or (old is None and not data and path.name != "events.jsonl"):
        return []
    done: list[str] = []
    if old is not None:
        kept = quarantine_path(path, "damaged")
        replace_file(kept, old)
        what = "was rebuilt" if data else "held nothing that is good, and is empty now"
        done.append(f"{path.name} {what}; the damaged one is kept as {kept.name}")
    else:
        done.append(f"{path.name} was missing and was rebuilt")
    replace_file(path, data)
    return done


def _left_out(session: Stored, good: Mapping[int, LogLine], end: int, why: str) -> list[str]:
    text: list[str] = []
    bad = sum(1 for line in (*session.log, *session.archive) if line.event is None)
    if bad:
        text.append(f"{bad} damaged line(s) were left out")
    lost = sorted(seq for seq in good if seq > end)
    if lost:
        text.append(
            f"{len(lost)} good event(s), {lost[0]} to {lost[-1]}, were left out: {why}, and they "
            "cannot stand without it"
        )
    return text


def _prove(files: SessionFiles) -> None:
    """Load what was rebuilt, as the gateway will.

    Raises:
        JournalError: It still cannot be loaded.
    """
    found = load_session(files)
    if found is None or recover(found[0].snapshot, found[0].events) is None:
        message = f"it could not be rebuilt; `{REPAIR_HINT}` did not help"
        raise CorruptJournalError(message, path=files.folder)
