"""`state.yaml`, read. Pure.

A file that looks as `snapshot` writes it is read line by line as JSON, and only its small header as
YAML. Anything else - edited by hand, indented in another way, with comments - goes through the YAML
parser as a whole and means the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from everturn_actors.errors import UnknownFormatError
from everturn_actors.journal.log.archive import ArchiveRecord
from everturn_actors.journal.log.codec import load_json
from everturn_actors.journal.snapshot.fields import (
    BadSnapshotError,
    Fields,
    instant_of,
    names_of,
    seen_of,
    waiting_of,
)
from everturn_actors.journal.snapshot.outbox import ambient_of, items_of
from everturn_actors.journal.snapshot.reductions import reductions_of, replaced_of, summary_of
from everturn_actors.journal.snapshot.state_yaml import FORMAT, OLDER_FORMATS, SECTIONS
from everturn_actors.journal.snapshot.turns import open_turn_of, turns_of
from everturn_actors.journal.snapshot.yaml_text import BadYamlError, parse_mapping
from everturn_actors.model import (
    ConversationKey,
    PromptFingerprint,
    Reductions,
    SessionStatus,
    Turn,
    Usage,
)
from everturn_actors.state.serialization import read_value
from everturn_actors.state.session_state import SessionState

_FIRST_SECTION = f"\n{SECTIONS[0]}:".encode()


_ROW_FIELDS = (
    b"format",
    b"session",
    b"conversation",
    b"status",
    b"created",
    b"last_seq",
    b"archive",
    b"principal",
    b"shared_with",
)


_NAME = re.compile(rb"[a-z_]+")


_SECTION_LINES = {f"{name}:{rest}".encode(): name for name in SECTIONS for rest in ("", " []")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the list of sessions shows, and what is known of the archive."""

    session_id: str
    key: ConversationKey
    status: SessionStatus
    created_at: datetime
    last_seq: int
    archive: ArchiveRecord | None = None
    "None = it was not written down."
    principal: str = ""
    shared_with: tuple[str, ...] = ()


def decode_state(data: bytes) -> SessionState:
    """Return the state that a `state.yaml` holds.

    Raises:
        BadSnapshotError: It is damaged, or was edited into something else.
        UnknownFormatError: It is of another version.
    """
    document = read_fast(data)
    if document is None:
        document = read_yaml(data)
    header = Fields(document, data)
    _check_format(document)
    for name in document:
        if name not in _KNOWN:
            raise header.fault(name, f"there is no field {name!r}")
    header.archive()
    seen = header.section("seen", seen_of)
    checkpointed = header.section("checkpointed", turns_of)
    pending = header.section("pending", turns_of)
    state = SessionState(
        session_id=header.text("session"),
        key=header.key(),
        status=header.status(),
        ended_reason=header.text("ended_reason", ""),
        created_at=header.instant("created"),
        updated_at=header.instant("updated"),
        last_seq=header.number("last_seq"),
        checkpoint_seq=header.number("checkpoint_seq"),
        window_messages=header.number("window_messages"),
        turns=header.number("turns"),
        logged_messages=header.number("logged_messages"),
        usage=header.usage("usage"),
        instructions=header.text("instructions", ""),
        seen=seen,
        waiting=header.section("waiting", waiting_of),
        open_turn=header.section("open_turn", lambda lines: open_turn_of(lines, instant_of)),
        checkpointed=checkpointed,
        checkpointed_messages=_size_messages(checkpointed),
        pending=pending,
        pending_messages=_size_messages(pending),
        reductions=replace(
            header.read("reductions", lambda value: reductions_of(value, instant_of), Reductions()),
            summary=header.section("summary", summary_of),
            replaced=header.section("replaced", replaced_of),
        ),
        fingerprint=header.read(
            "fingerprint", lambda value: read_value(PromptFingerprint, value), PromptFingerprint()
        ),
        reported=header.usage("reported", Usage()),
        cache_misses=header.number("cache_misses", 0),
        ambient=header.section("ambient", lambda lines: ambient_of(lines, instant_of)),
        outbox=header.section("outbox", lambda lines: items_of(lines, instant_of)),
        principal=header.text("principal", ""),
        shared_with=header.read("shared_with", names_of, ()),
    )
    _check_numbers(state, header)
    return state


def _check_numbers(state: SessionState, header: Fields) -> None:
    """Check what is counted: a session must be able to go on from there."""
    running = state.open_turn
    last = 0
    for name, numbers in (
        ("checkpointed", [turn.number for turn in state.checkpointed]),
        ("pending", [turn.number for turn in state.pending]),
        ("open_turn", [running.number] if running else []),
    ):
        if numbers and numbers[0] <= last:
            why = f"{name} begins with turn {numbers[0]}, which stands after turn {last}"
            raise header.fault(name, why)
        last = numbers[-1] if numbers else last
    is_last = state.turns == last if running else state.turns >= last
    for name, is_right, what in (
        ("last_seq", state.last_seq > 0, "the number of an event, from 1 on"),
        ("checkpoint_seq", 0 <= state.checkpoint_seq <= state.last_seq, "from 0 to last_seq"),
        ("turns", is_last, f"the number of the last turn, {last}"),
    ):
        if not is_right:
            raise header.fault(name, f"{name} must be {what}")


def decode_header(data: bytes) -> Header:
    """Return the header of a `state.yaml`, of which the beginning is enough where it is as written.

    Raises:
        BadSnapshotError: It is damaged, was edited into something else, or is not all there.
        UnknownFormatError: It is of another version.
    """
    end = data.find(_FIRST_SECTION)
    if end >= 0:
        try:
            head = data[: end + 1]
            return _header_of(_quick_header(head) or _parse_yaml(head), data)
        except BadSnapshotError:
            pass  # fields may stand in another order: then all of it is read
    return _header_of(_parse_yaml(data), data)


def _quick_header(head: bytes) -> dict[str, Any] | None:
    """Return the fields of a list's row from a header as it is written; None where it is not.

    It is JSON line by line, which takes a tenth of the YAML parser's time.
    """
    fields: dict[str, Any] = {}
    try:
        for line in head.splitlines():
            name, colon, value = line.partition(b": ")
            if name in _ROW_FIELDS:
                fields[name.decode()] = value.decode() if name == b"format" else load_json(value)
            elif not line.startswith(b"#") and not (colon and _NAME.fullmatch(name)):
                return None
    except ValueError:
        return None
    return fields


def _header_of(document: Mapping[str, Any], data: bytes) -> Header:
    _check_format(document)
    header = Fields(document, data)
    return Header(
        session_id=header.text("session"),
        key=header.key(),
        status=header.status(),
        created_at=header.instant("created"),
        last_seq=header.number("last_seq"),
        archive=header.archive(),
        principal=header.text("principal", ""),
        shared_with=header.read("shared_with", names_of, ()),
    )


def read_fast(data: bytes) -> dict[str, Any] | None:
    """Return the fields of a file that looks as it is written, or None where it does not."""
    end = data.find(_FIRST_SECTION)
    if end < 0 or not data.endswith(b"\n"):
        return None
    lines = data[end + 1 : -1].split(b"\n")
    sections: dict[str, list[Any]] = {name: [] for name in SECTIONS}
    expected, entries = iter(SECTIONS), list[Any]()
    try:
        for line in lines:
            if line.startswith(b"- {") and line.endswith(b"}"):
                entries.append(load_json(line[2:]))
                continue
            if (name := _SECTION_LINES.get(line)) is None:
                return None
            while next(expected) != name:  # a section that is not there is empty
                pass
            entries = sections[name]
        return {**_parse_yaml(data[: end + 1]), **sections}
    except (ValueError, StopIteration, BadSnapshotError):
        return None


def read_yaml(data: bytes) -> dict[str, Any]:
    """Return the fields of a file through the YAML parser.

    Raises:
        BadSnapshotError: It is no YAML, or no mapping.
    """
    document = _parse_yaml(data)
    for name in SECTIONS:
        if document.get(name) is None:
            document[name] = []
    return document


def _parse_yaml(data: bytes) -> dict[str, Any]:
    try:
        return parse_mapping(data)
    except BadYamlError as error:
        raise BadSnapshotError(str(error)) from error


def _check_format(document: Mapping[str, Any]) -> None:
    found = document.get("format")
    if found is None:
        msg = f"line 1: the field 'format' is missing; this version of Everturn writes {FORMAT}"
        raise BadSnapshotError(msg)
    if found != FORMAT and found not in OLDER_FORMATS:
        msg = (
            f"it has the format {found!r}, which this version of Everturn does not know (it knows "
            f"{FORMAT}); use the version that wrote it, or a later one"
        )
        raise UnknownFormatError(msg)


_KNOWN = frozenset(
    (
        "format",
        "session",
        "conversation",
        "status",
        "ended_reason",
        "created",
        "updated",
        "last_seq",
        "checkpoint_seq",
        "window_messages",
        "turns",
        "logged_messages",
        "usage",
        "instructions",
        "reductions",
        "fingerprint",
        "reported",
        "cache_misses",
        "archive",
        "principal",
        "shared_with",
        *SECTIONS,
    )
)


def _size_messages(turns: tuple[Turn, ...]) -> int:
    return sum(turn.size_messages for turn in turns)
