"""What is wrong with the files of one session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from everturn_actors.errors import UnknownFormatError
from everturn_actors.gaps import Gap
from everturn_actors.journal.doctor.stored import (
    LogLine,
    Stored,
    Usable,
    good_lines,
    read_stored,
    told_gaps,
    usable_of,
)
from everturn_actors.journal.log.archive import missing_of, spans_text
from everturn_actors.journal.log.files import REPAIR_HINT
from everturn_actors.journal.log.layout import Layout, SessionFiles

FINDINGS_MAX = 20  # for each file; the first ones tell what happened


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a session."""

    session_id: str
    path: Path
    line: int
    "From 1; 0 = the whole file."
    text: str
    "What is wrong, in words."
    blocks: bool
    "Whether the session cannot be loaded until it is repaired."


def check_with_mark(layout: Layout, files: SessionFiles) -> tuple[Finding, ...]:
    """Check a session, and that a start would know that it has an open turn."""
    mark = layout.marker(files.session_id)
    was_marked = mark.exists()
    try:
        session = read_stored(files)
    except UnknownFormatError as error:
        return (_unknown_format(files, error),)
    usable = usable_of(session)  # once for both questions: a replay is a third of the look
    findings = findings_of(files, session, usable)
    if findings or was_marked:
        return findings
    state = usable.state
    has_open_turn = state is not None and state.is_due
    if not has_open_turn or mark.exists():  # a gateway that runs has just marked it
        return ()
    text = (
        "the mark is missing, and the session has an open turn: it would go on with the next "
        f"message, not by itself. `{REPAIR_HINT}` puts the mark back"
    )
    return (_finding(files, mark, 0, text, blocks=False),)


def check_files(files: SessionFiles) -> tuple[Finding, ...]:
    """Return what is wrong with the files of a session."""
    try:
        session = read_stored(files)
    except UnknownFormatError as error:
        return (_unknown_format(files, error),)
    return findings_of(files, session, usable_of(session))


def _unknown_format(files: SessionFiles, error: UnknownFormatError) -> Finding:
    return _finding(files, error.path or files.folder, 0, str(error))


def findings_of(files: SessionFiles, session: Stored, usable: Usable) -> tuple[Finding, ...]:
    """Return what is wrong with a session that was read, and can be followed so far."""
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
        findings += _check_whole(files, session, usable)
        findings += _check_archive(files, session)
    return tuple(findings)


def _check_archive(files: SessionFiles, session: Stored) -> list[Finding]:
    """Check that the archive holds what is behind the log, but for gaps that were told of."""
    record = session.record
    if record is None:
        return []
    spans = missing_numbers(session, told_gaps(record))
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


def missing_numbers(session: Stored, gaps: Sequence[Gap]) -> list[tuple[int, int]]:
    """Return the runs of events before the log that are neither archived nor in a gap."""
    if session.snapshot is None:
        return []  # it is rebuilt from event 1 on, or not at all
    log = good_lines(session.log)
    need = min(log, default=session.snapshot.last_seq + 1) - 1
    return missing_of(set(good_lines(session.archive)), gaps, need)


def _check_lines(
    files: SessionFiles,
    path: Path,
    lines: tuple[LogLine, ...],
    *,
    is_log: bool,
    may_jump: bool = False,
) -> list[Finding]:
    """Check each line of a file; `may_jump`: holes in the numbers are judged elsewhere."""
    findings: list[Finding] = []
    previous = 0
    for line in lines:
        if len(findings) == FINDINGS_MAX:
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


def _check_whole(files: SessionFiles, session: Stored, usable: Usable) -> list[Finding]:
    """Check that the files, each good by itself, fit together."""
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
