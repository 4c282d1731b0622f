"""The files of a session and of a job, damaged in any way: refused by place, and nothing is lost.

In the suite each test has few examples, the same ones each time. A long run, with others:

    FUZZ_EXAMPLES=20000 pytest --timeout=0 tests/property/test_fuzz_*.py
"""

from __future__ import annotations

import json
import re
import tempfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.histories import delivered_log, outage_log, rich_log
from support.mutations import as_json, mutated, torn
from support.run_records import armed, done, hour, standing_after

from everturn.testing._histories import SESSION_ID, replay, simple_log
from everturn_actors.errors import CorruptJournalError, JournalError, UnknownFormatError
from everturn_actors.journal.doctor.findings import check_files
from everturn_actors.journal.doctor.repairs import repair_files
from everturn_actors.journal.loading import load_session
from everturn_actors.journal.log.codec import BadLineError, decode, encode, seed
from everturn_actors.journal.log.layout import Layout, SessionFiles
from everturn_actors.journal.snapshot.reader import (
    BadSnapshotError,
    decode_header,
    decode_state,
    read_yaml,
)
from everturn_actors.journal.snapshot.state_yaml import encode_state
from everturn_actors.state.recovery import recover
from everturn_gateway.scheduler.rules.records import Kept
from everturn_gateway.scheduler.run_logs import lines as record_lines

START: Final = seed(SESSION_ID)
LOGS: Final = (rich_log(), delivered_log(), outage_log(), simple_log(3))
LINES: Final = [encode(SESSION_ID, log).splitlines(keepends=True) for log in LOGS]
STATES: Final = [encode_state(replay(log)) for log in LOGS] + [
    encode_state(replay(LOGS[0][:at])) for at in (9, 14, 20)
]
YAML_TOKENS: Final = (
    *(b"- ", b": ", b"&a ", b"*a", b"!!bool ", b"!!timestamp x", b"|", b">", b"? ", b"\t", b"#"),
    *(b"<<: ", b"[", b"{", b"---\n", b"...\n", b"%YAML 1.1\n", b"'", b'"', b"\\u", b"\xc2\x85"),
    *(b"[" * 3_000, b"- " * 3_000, b"{a: " * 500),
)


def sealed(body: bytes) -> bytes:
    """Return a line with a right checksum around a body without its closing brace."""
    return body + b',"crc":"%08x"}' % zlib.crc32(body, START)


@st.composite
def forged_lines(draw: st.DrawFn) -> tuple[int, list[bytes]]:
    """Return a log in which one line says something else, and whose checksum is right."""
    lines = list(draw(st.sampled_from(LINES)))
    at = draw(st.integers(0, len(lines) - 1))
    if draw(st.booleans()):
        record = json.loads(lines[at])
        del record["crc"]
        changed = draw(mutated(record))
        body = as_json(changed)[:-1] if isinstance(changed, dict) else b'{"v":2,"seq":1'
    else:
        body = draw(torn(lines[at][:-17])).replace(b"\n", b" ")
    lines[at] = sealed(body) + b"\n"
    return at, lines


@examples(20)
@given(forged_lines())
def test_a_line_that_lies_is_an_event_or_refused(forged: tuple[int, list[bytes]]) -> None:
    """A checksum tells damage, not a faulty writer; whatever it wrote must not crash the reader."""
    at, lines = forged
    try:
        event = decode(lines[at][:-1], START)
    except (BadLineError, UnknownFormatError):
        return
    (line,) = encode(SESSION_ID, [event]).splitlines()

    assert decode(line, START) == event


@contextmanager
def workspace(log: bytes, state: bytes | None) -> Generator[SessionFiles]:
    """Return the files of a session, written as they are."""
    with tempfile.TemporaryDirectory() as folder:
        files = Layout(workspace=Path(folder)).session(SESSION_ID)
        files.folder.mkdir(parents=True)
        files.log.write_bytes(log)
        if state is not None:
            files.state.write_bytes(state)
        yield files


def contents(files: SessionFiles) -> dict[str, bytes]:
    """Return every file of a session."""
    return {path.name: path.read_bytes() for path in files.folder.iterdir()}


def is_kept(before: dict[str, bytes], after: dict[str, bytes]) -> bool:
    """Whether each file of before is there: as it was, set aside, or with its end set aside."""
    return all(
        any(after.get(name, b"") + aside == data for aside in (b"", *after.values()))
        or data in after.values()
        or after.get(name, b"") == data + b"\n"
        for name, data in before.items()
    )


def use(files: SessionFiles) -> None:
    """Load a session as a start does; it must be the same when it was kept and loaded again."""
    found = load_session(files)
    recovered = recover(found[0].snapshot, found[0].events) if found else None
    if recovered is not None:
        written = encode_state(recovered.state)

        assert encode_state(decode_state(written)) == written


def refusal(files: SessionFiles) -> JournalError | None:
    """Return why a session cannot be loaded; None where it can."""
    try:
        use(files)
    except JournalError as error:
        return error
    return None


@st.composite
def damaged_sessions(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """Return a log and perhaps a snapshot, one of them damaged."""
    number = draw(st.integers(0, len(LOGS) - 1))
    log, lines = LOGS[number], LINES[number]
    at = draw(st.integers(1, len(log)))
    state = encode_state(replay(log[:at])) if draw(st.booleans()) else None
    match draw(st.integers(0, 3)):
        case 0:
            return draw(torn(b"".join(lines), tokens=(b"\n", *lines[:3]))), state
        case 1 if state is not None:
            return b"".join(lines), draw(torn(state, tokens=YAML_TOKENS))
        case 2 if state is not None:  # a snapshot that knows more than its log, or begins later
            cut = draw(st.integers(0, len(lines)))
            return b"".join(lines[:cut] if draw(st.booleans()) else lines[cut:]), state
        case _:
            return b"".join(draw(forged_lines())[1]), state


@examples(15)
@given(damaged_sessions())
def test_a_damaged_session_is_read_or_refused_and_repaired_without_loss(
    damaged: tuple[bytes, bytes | None],
) -> None:
    """No damage is worse than one session that says where, and keeps all that it was."""
    with workspace(*damaged) as files:
        before = contents(files)
        findings = check_files(files)
        refused = refusal(files)
        loaded = contents(files)
        is_repaired = False
        with suppress(CorruptJournalError, UnknownFormatError):
            repair_files(files)
            is_repaired = True

        assert is_kept(before, loaded)
        assert is_kept(loaded, contents(files))
        if refused is not None:
            assert refused.path or "doctor --repair" in str(refused)
            assert findings
            assert not is_repaired or refusal(files) is None


@examples(30)
@given(st.sampled_from(STATES).flatmap(lambda data: torn(data, tokens=YAML_TOKENS)))
def test_a_snapshot_of_any_bytes_is_a_state_or_refused_by_line(data: bytes) -> None:
    """It may be edited by hand, by people who know no YAML."""
    read_state(data)


DOCUMENTS: Final = [read_yaml(data) for data in STATES]


def written(document: Any) -> bytes:
    """Return a document in the form of a snapshot: a field a line, an entry of a list a line."""
    if not isinstance(document, dict):
        return as_json(document)
    lines: list[bytes] = []
    for name, value in document.items():
        if isinstance(value, list) and value:
            lines += [as_json(name)[1:-1] + b":", *(b"- " + as_json(item) for item in value)]
        else:
            lines.append(as_json(name)[1:-1] + b": " + as_json(value))
    return b"\n".join(lines) + b"\n"


@examples(30)
@given(st.sampled_from(DOCUMENTS).flatmap(mutated), st.booleans())
def test_a_snapshot_with_any_values_is_a_state_or_refused_by_line(
    document: object,
    by_hand: bool,
) -> None:
    """Each value is checked where it is read: a wrong one would fail a turn, days later."""
    read_state(written(document) + (b"# by hand\n" if by_hand else b""))


def read_state(data: bytes) -> None:
    """Read a snapshot; check that a refusal says where, and that a state can be kept again."""
    state, refused = None, "line "
    try:
        state = decode_state(data)
    except BadSnapshotError as error:
        refused = str(error)
    except UnknownFormatError:
        pass

    assert refused.startswith("line ")
    if state is not None:
        again = encode_state(state)
        kept = decode_state(again)  # halves of a character, side by side, have become one by then
        assert kept == state or re.search(r"\\ud[89ab]..\\ud[c-f]", repr(state))
        assert decode_state(encode_state(kept)) == kept
        assert decode_header(again).last_seq == state.last_seq
        recover(state, ())


RECORDS: Final = (armed(), *done(1), *done(2, outcome="failed", error="no"), *done(3)[:2])
RUN_LINES: Final = [record_lines.to_line(each) for each in RECORDS] + [
    record_lines.to_line(Kept(at=hour(4), job_state=standing_after(RECORDS)))
]


@st.composite
def forged_run_logs(draw: st.DrawFn) -> bytes:
    """Return a run log of which a line says something else, or any bytes do."""
    lines = list(RUN_LINES)
    if draw(st.booleans()):
        return draw(torn(b"".join(lines), tokens=(b"\n", *lines)))
    at = draw(st.integers(0, len(lines) - 1))
    record = json.loads(lines[at])
    del record["crc"]
    body = as_json(draw(mutated(record)))[:-1]
    lines[at] = body + b',"crc":"%08x"}\n' % zlib.crc32(body)
    return b"".join(lines)


@examples(45)
@given(forged_run_logs())
def test_a_run_log_is_a_standing_or_refused_by_line(data: bytes) -> None:
    """A job that cannot be read stops, and no other; one that can must be able to go on."""
    try:
        story = record_lines.read_log(data)
    except record_lines.DamagedError:
        return
    kept = record_lines.to_line(Kept(at=hour(9), job_state=story.job_state))

    assert record_lines.read_log(kept).job_state == story.job_state
