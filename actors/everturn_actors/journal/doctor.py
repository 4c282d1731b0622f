"""For `everturn doctor`: looks at every line of a session, and rebuilds one that is damaged.

A repair never deletes: each file it replaces is kept beside the new one as `*.damaged-<time>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from everturn_actors.errors import CorruptJournalError, JournalError, UnknownFormatError
from everturn_actors.events import Event
from everturn_actors.gaps import Gap, GapCause, with_gap
from everturn_actors.journal.disk import aside, replace_file, sync_directory, write_error
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.index import entries as index
from everturn_actors.journal.loading import decode_snapshot, load_session, read_optional
from everturn_actors.journal.log.archive import ArchiveRecord, missing_of, spans_text
from everturn_actors.journal.log.codec import BadLineError, decode, seed
from everturn_actors.journal.log.files import REPAIR_HINT
from everturn_actors.journal.log.layout import Layout, SessionFiles
from everturn_actors.journal.snapshot.reader import BadSnapshotError, decode_header
from everturn_actors.journal.snapshot.state_yaml import encode_state
from everturn_actors.model import ConversationKey
from everturn_actors.state.apply import apply
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState

_FINDINGS_MAX = 20  # for each file; the first ones tell what happened


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong with a session."""

    session_id: str
    path: Path
    line: int
    "From 1; 0 = the whole file."
    text: str
    "What is wrong, in words."
    blocks: bool
    "Whether the session cannot be loaded until it is repaired."


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What `rebuild_index` found."""

    sessions: int
    active: int
    "Sessions with something that was accepted, is not answered, and does not wait for its person."
    conversations: int
    "Conversations with a current session."
    unreadable: tuple[str, ...]
    "Sessions that could not be loaded; their marks were left as they are."


async def session_ids(workspace: Path) -> tuple[str, ...]:
    """Return the ids of all sessions of a workspace, newest first."""
    return tuple(await to_thread.run_sync(index.session_ids, Layout(workspace=workspace)))


async def check(workspace: Path, session_id: str) -> tuple[Finding, ...]:
    """Look at every line and the snapshot of a session. Changes nothing, needs no lock.

    Raises:
        UnknownSessionError: `session_id` is no session id.
    """
    layout = Layout(workspace=workspace)
    files = layout.session(session_id)
    return await to_thread.run_sync(_check_with_mark, layout, files)


async def repair(store: FileStore, session_id: str) -> tuple[str, ...]:
    """Rebuild a damaged session from what is good in its files; the damaged ones are kept.

    Returns:
        What was done and what was left out, in words; empty where nothing was wrong.

    Raises:
        CorruptJournalError: Nothing good reaches back to the beginning; no file was changed.
        UnknownFormatError: A file of another version; no file was changed.
        UnknownSessionError: `session_id` is no session id.
        JournalWriteError: The disk refused.
    """
    files = store.layout.session(session_id)
    return await store.alone(session_id, lambda: _repair(files))


async def rebuild_index(store: FileStore) -> IndexReport:
    """Read every session: which are active, and which one each conversation has."""
    layout = store.layout
    await store.rebuild_list()
    ids = await session_ids(layout.workspace)
    current: dict[ConversationKey, str] = {}
    active, unreadable = 0, list[str]()
    for session_id in ids:  # newest first: the first one of a conversation is its latest
        state = await _state_of(store, session_id)
        if state is None:
            unreadable.append(session_id)
            continue
        if state.is_due:
            active += 1
            await store.mark_active(session_id)
        else:
            await store.mark_passive(session_id)
        current.setdefault(state.key, "" if state.status == "ended" else session_id)
    known = frozenset(ids)
    for session_id in await store.active():
        if session_id not in known:
            await store.mark_passive(session_id)
    await to_thread.run_sync(index.remove_stray_pointers, layout, known)
    for key, session_id in current.items():
        if session_id:
            await store.bind(key, session_id)
    return IndexReport(
        sessions=len(ids),
        active=active,
        conversations=sum(1 for session_id in current.values() if session_id),
        unreadable=tuple(unreadable),
    )


async def _state_of(store: FileStore, session_id: str) -> SessionState | None:
    try:
        loaded = await store.load(session_id)
        found = recover(loaded.snapshot, loaded.events) if loaded else None
    except JournalError:
        return None
    return found.state if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One line of a log or archive."""

    number: int
    raw: bytes
    event: Event | None
    "None = it is bad."
    why: str = ""
    has_end: bool = True
    "Whether a newline ends it."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """All that the files of a session hold, good and bad."""

    log: tuple[_Line, ...]
    archive: tuple[_Line, ...]
    snapshot: SessionState | None
    snapshot_fault: str
    record: ArchiveRecord | None
    "What the snapshot says of the archive."


def _read(files: SessionFiles) -> _Session:
    snapshot, fault, record = None, "", None
    saved = read_optional(files.state)
    if saved is not None:
        try:
            snapshot = decode_snapshot(files, saved)
            record = decode_header(saved).archive
        except (BadSnapshotError, CorruptJournalError) as error:
            fault = str(error)
    return _Session(
        log=_read_lines(files, files.log),
        archive=_read_lines(files, files.archive),
        snapshot=snapshot,
        snapshot_fault=fault,
        record=record,
    )


def _read_lines(files: SessionFiles, path: Path) -> tuple[_Line, ...]:
    data = read_optional(path)
    if not data:
        return ()
    start = seed(files.session_id)
    lines: list[_Line] = []
    pieces = data.removesuffix(b"\n").split(b"\n")
    for number, raw in enumerate(pieces, 1):
        try:
            lines.append(_Line(number=number, raw=raw, event=decode(raw, start)))
        except BadLineError as error:
            has_end = number < len(pieces) or data.endswith(b"\n")
            why = str(error)
            lines.append(_Line(number=number, raw=raw, event=None, why=why, has_end=has_end))
        except UnknownFormatError as error:
            message = f"line {number}: {error}"
            raise UnknownFormatError(message, path=path) from error
    return tuple(lines)


def _check_with_mark(layout: Layout, files: SessionFiles) -> tuple[Finding, ...]:
    """Check a session, and that a start would know that it has an open turn."""
    mark = layout.marker(files.session_id)
    was_marked = mark.exists()
    try:
        session = _read(files)
    except UnknownFormatError as error:
        return (_unknown_format(files, error),)
    findings = _findings(files, session)
    if findings or was_marked:
        return findings
    state = _usable(session).state
    has_open_turn = state is not None and state.is_due
    if not has_open_turn or mark.exists():  # a gateway that runs has just marked it
        return ()
    text = (
        "the mark is missing, and the session has an open turn: it would go on with the next "
        f"message, not by itself. `{REPAIR_HINT}` puts the mark back"
    )
    return (_finding(files, mark, 0, text, blocks=False),)


def _check(files: SessionFiles) -> tuple[Finding, ...]:
    try:
        return _findings(files, _read(files))
    except UnknownFormatError as error:
        return (_unknown_format(files, error),)


def _unknown_format(files: SessionFiles, error: UnknownFormatError) -> Finding:
    return _finding(files, error.path or files.folder, 0, str(error))


def _findings(files: SessionFiles, session: _Session) -> tuple[Finding, ...]:
    findings = [
        *_check_lines(files, files.log, session.log, is_log=True),
        *_check_lines(
            files,
            files.archive,
            session.archive,
            is_log=False,
            may_jump=session.record is not None,
        ),
    ]
    if session.snapshot_fault:
        findings.append(_finding(files, files.state, 0, session.snapshot_fault))
    if not any(finding.blocks for finding in findings):
        findings += _check_whole(files, session)
        findings += _check_archive(files, session)
    return tuple(findings)


def _check_archive(files: SessionFiles, session: _Session) -> list[Finding]:
    """Check that the archive holds what is behind the log, but for gaps that were told of."""
    record = session.record
    if record is None:
        return []
    spans = _missing(session, _told(record))
    if not spans:
        return []
    text = (
        f"{_state_of_file(files.archive)}{spans_text(spans)} lost. The session works without "
        f"them, its history has a gap; `{REPAIR_HINT}` brings nothing back, it writes the loss down"
    )
    return [_finding(files, files.archive, 0, text, blocks=False)]


def _state_of_file(path: Path) -> str:
    if not path.exists():
        return "it is missing: "
    return "" if path.stat().st_size else "it is empty: "


def _missing(session: _Session, gaps: Sequence[Gap]) -> list[tuple[int, int]]:
    """Return the runs of events before the log that are neither archived nor in a gap."""
    if session.snapshot is None:
        return []  # it is rebuilt from event 1 on, or not at all
    log = _good(session.log)
    need = min(log, default=session.snapshot.last_seq + 1) - 1
    return missing_of(set(_good(session.archive)), gaps, need)


def _check_lines(
    files: SessionFiles,
    path: Path,
    lines: tuple[_Line, ...],
    *,
    is_log: bool,
    may_jump: bool = False,
) -> list[Finding]:
    """Check each line of a file; `may_jump`: holes in the numbers are judged elsewhere."""
    findings: list[Finding] = []
    previous = 0
    for line in lines:
        if len(findings) == _FINDINGS_MAX:
            findings.append(_finding(files, path, line.number, "and so on", blocks=is_log))
            break
        if line.event is None:
            # The next archiving cuts off a line without its end; the log still holds its event.
            is_torn = line is lines[-1] and (is_log or not line.has_end)
            why = f"{line.why}; as the last line it is cut off by itself" if is_torn else line.why
            blocks = is_log and not is_torn
            findings.append(_finding(files, path, line.number, why, blocks=blocks))
            continue
        seq = line.event.seq
        if previous and seq != previous + 1 and not (may_jump and seq > previous):
            why = f"event {seq} follows event {previous}"
            findings.append(_finding(files, path, line.number, why, blocks=is_log))
        previous = seq
    return findings


def _check_whole(files: SessionFiles, session: _Session) -> list[Finding]:
    """Check that the files, each good by itself, fit together."""
    usable = _usable(session)
    after = session.snapshot.last_seq if session.snapshot else 0
    last = max((line.event.seq for line in session.log if line.event), default=0)
    if last and last < after:
        text = f"it ends at event {last}, but state.yaml holds event {after} already"
        return [_finding(files, files.log, 0, text)]
    if not files.log.exists() and (session.snapshot is not None or session.archive):
        return [_finding(files, files.log, 0, "the log is missing")]
    if last > after + len(usable.run):
        return [_finding(files, files.log, 0, usable.why)]
    return []


def _finding(
    files: SessionFiles, path: Path, line: int, text: str, *, blocks: bool = True
) -> Finding:
    return Finding(session_id=files.session_id, path=path, line=line, text=text, blocks=blocks)


def _good(lines: tuple[_Line, ...]) -> dict[int, _Line]:
    """Return the good lines by number; the first one of each number counts."""
    good: dict[int, _Line] = {}
    for line in lines:
        if line.event is not None:
            good.setdefault(line.event.seq, line)
    return good


@dataclass(frozen=True, slots=True, kw_only=True)
class _Usable:
    """How far a session can be followed."""

    run: tuple[Event, ...]
    "The longest run of events that can follow the snapshot."
    state: SessionState | None
    "The state at its end."
    why: str
    "Why it ends there."


def _usable(session: _Session) -> _Usable:
    good = {**_good(session.log), **_good(session.archive)}
    state = session.snapshot
    run: list[Event] = []
    while True:
        number = (state.last_seq if state else 0) + 1
        line = good.get(number)
        if line is None or line.event is None:
            why = f"event {number} is missing or damaged"
            return _Usable(run=tuple(run), state=state, why=why)
        try:
            state = apply(state, line.event)
        except CorruptJournalError as error:
            return _Usable(run=tuple(run), state=state, why=str(error))
        run.append(line.event)


def _repair(files: SessionFiles) -> tuple[str, ...]:
    session = _read(files)
    if not _check(files):
        return ()
    usable = _usable(session)
    base = session.snapshot.last_seq if session.snapshot else 0
    if session.snapshot is None and not usable.run:
        message = (
            "nothing that is good reaches back to the session's beginning, so that it cannot be "
            f"rebuilt; `everturn sessions delete {files.session_id}` removes it"
        )
        raise CorruptJournalError(message, path=files.folder)
    end = base + len(usable.run)
    good = {**_good(session.log), **_good(session.archive)}
    in_archive = {
        seq for seq in good if seq <= base or (seq <= end and seq in _good(session.archive))
    }
    archive = _join(good, in_archive)
    log = _join(good, {seq for seq in good if seq <= end} - in_archive)
    done: list[str] = []
    try:
        done += _replace(files.archive, archive)
        done += _replace(files.log, log)
        if session.snapshot_fault:
            kept = aside(files.state, "damaged")
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
    files: SessionFiles, session: _Session, archive: bytes, in_archive: set[int]
) -> list[str]:
    """Note in the snapshot what the archive holds now, and which events are lost for good.

    Nothing else of the snapshot changes; the one before is kept all the same.
    """
    if session.snapshot is None:
        return []
    record, done = session.record, list[str]()
    gaps = _told(record) if record else ()
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
        kept = aside(files.state, "damaged")
        replace_file(kept, files.state.read_bytes())
        replace_file(files.state, encode_state(session.snapshot, record))
        done.append(f"{files.state.name} says what the archive holds; the old one is {kept.name}")
    return done


def _told(record: ArchiveRecord) -> tuple[Gap, ...]:
    """Return the gaps that are no news: let go on purpose, or told of by a repair."""
    return tuple(gap for gap in record.gaps if gap.cause != "lost" or gap.is_reported)


def _join(good: Mapping[int, _Line], numbers: set[int]) -> bytes:
    return b"".join(good[number].raw + b"\n" for number in sorted(numbers))


def _replace(path: Path, data: bytes) -> list[str]:
    old = read_optional(path)
    if old == data or (old is None and not data and path.name != "events.jsonl"):
        return []
    done: list[str] = []
    if old is not None:
        kept = aside(path, "damaged")
        replace_file(kept, old)
        what = "was rebuilt" if data else "held nothing that is good, and is empty now"
        done.append(f"{path.name} {what}; the damaged one is kept as {kept.name}")
    else:
        done.append(f"{path.name} was missing and was rebuilt")
    replace_file(path, data)
    return done


def _left_out(session: _Session, good: Mapping[int, _Line], end: int, why: str) -> list[str]:
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
