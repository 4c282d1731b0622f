"""`state.yaml`, read. Pure.

A file that looks as `state_yaml` writes it is put together to one text of JSON, and read as that.
Anything else - edited by hand, indented in another way, with comments - goes through the YAML
parser as a whole and means the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NoReturn, TypeVar

import msgspec

from everturn_actors.codec import Codec, CodecError, Timestamp
from everturn_actors.errors import UnknownFormatError
from everturn_actors.journal.log.archive import ArchiveRecord
from everturn_actors.journal.snapshot.checks import find_fault
from everturn_actors.journal.snapshot.state_yaml import FIRST_SECTION, FORMAT
from everturn_actors.journal.snapshot.yaml_text import BadYamlError, line_of, parse_mapping
from everturn_actors.json_values import is_list, is_object
from everturn_actors.model import ConversationKey, Labels, SessionStatus, Turn
from everturn_actors.state.session_state import SessionState

T = TypeVar("T")

_NAME: Final = re.compile(rb"\n([a-z_]+):")
_SECTIONS: Final = f"\n{FIRST_SECTION}:".encode()
_OLDER: Final = re.compile(r"everturn/state-v[1-5]")
_BEFORE: Final = "everturn/state-v6"
"Read as well: it is this format with other names of a few fields."
_RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "outbox": {"owed_at": "pending_since"},
    "open_turn": {
        "told_of_outage": "notified_of_outage",
        "told_of_drops": "notified_of_drops",
    },
}
"By field of the header: what the fields in it were called, and are called now."


class BadSnapshotError(Exception):
    """A `state.yaml` that cannot be read; the text names the line. Never leaves `journal`."""


class Header(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"session_id": "session", "key": "conversation", "created_at": "created"},
):
    """What the list of sessions shows, and what is known of the archive."""

    session_id: str
    key: ConversationKey
    status: SessionStatus = "active"
    created_at: Timestamp
    last_seq: int
    archive: ArchiveRecord | None = None
    "None = it was not written down."
    principal: str = ""
    shared_with: tuple[str, ...] = ()
    labels: Labels = Labels()


_STATE: Final = Codec[SessionState](SessionState)
_HEADER: Final = Codec[Header](Header)
_RECORD: Final = Codec[ArchiveRecord](ArchiveRecord)


def decode_state(data: bytes) -> SessionState:
    """Return the state that a `state.yaml` holds.

    Raises:
        BadSnapshotError: It is damaged, or was edited into something else.
        UnknownFormatError: It is of another version.
    """
    state = read_fast(data)
    if state is None:
        document = read_yaml(data)
        _load(_HEADER, document, data)  # for what it says of the archive
        state = _load(_STATE, {k: v for k, v in document.items() if k != "archive"}, data)
    state = msgspec.structs.replace(
        state,
        checkpointed_messages=_size_messages(state.checkpointed),
        pending_messages=_size_messages(state.pending),
    )
    if fault := find_fault(state):
        _refuse(data, *fault)
    return state


def decode_header(data: bytes) -> Header:
    """Return the header of a `state.yaml`, of which the beginning is enough where it is as written.

    Raises:
        BadSnapshotError: It is damaged, was edited into something else, or is not all there.
        UnknownFormatError: It is of another version.
    """
    fields = _fields_of(data[: data.find(_SECTIONS) + 1])
    if fields is not None:
        try:
            return _HEADER.decode(_joined(fields))
        except CodecError:
            pass  # fields may stand in another order: then all of it is read
    return _load(_HEADER, read_yaml(data), data)


def read_fast(data: bytes) -> SessionState | None:
    """Return the state of a file that looks as it is written, or None where it does not."""
    fields = _fields_of(data)
    if fields is None:
        return None
    try:
        if record := fields.pop(b"archive", None):
            _RECORD.decode(record)
        return _STATE.decode(_joined(fields))
    except CodecError:
        return None


def read_yaml(data: bytes) -> dict[str, object]:
    """Return the fields of a file through the YAML parser, without those that are null.

    Raises:
        BadSnapshotError: It is no YAML, or no mapping.
        UnknownFormatError: It is of another version.
    """
    try:
        document = parse_mapping(data)
    except BadYamlError as error:
        raise BadSnapshotError(str(error)) from error
    found = document.pop("format", None)
    if found == _BEFORE:
        for name, names in _RENAMED.items():
            document[name] = _renamed(document.get(name), names)
    else:
        _check_format(found)
    return {name: value for name, value in document.items() if value is not None}


def _fields_of(data: bytes) -> dict[bytes, bytes] | None:
    """Return the fields of a file as JSON, by name; None where it is not as it is written."""
    comment, *parts = _NAME.split(b"\n" + data)
    if any(line and not line.startswith(b"#") for line in comment.split(b"\n")):
        return None
    fields = dict(zip(parts[::2], parts[1::2], strict=True))
    found = fields.pop(b"format", b"").strip().decode(errors="replace")
    if found == _BEFORE:
        _rename(fields)
    elif found != FORMAT:
        return None
    for name, value in fields.items():
        if value.startswith(b"\n- "):
            fields[name] = b"[%b]" % value[3:].replace(b"\n- ", b"\n,")
    return fields


def _rename(fields: dict[bytes, bytes]) -> None:
    """Give the fields in `fields` the names of today. Inside of texts quotes are escaped."""
    for field, names in _RENAMED.items():
        name = field.encode()
        for then, now in names.items():
            if name in fields:
                fields[name] = fields[name].replace(
                    b'"%b":' % then.encode(), b'"%b":' % now.encode()
                )


def _renamed(value: object, names: Mapping[str, str]) -> object:
    """Return a mapping, or each of a list of them, with the names of today."""
    if is_list(value):
        return [_renamed(each, names) for each in value]
    if is_object(value):
        return {names.get(name, name): each for name, each in value.items()}
    return value


def _joined(fields: Mapping[bytes, bytes]) -> bytes:
    return b"{%b}" % b",".join([b'"%b":%b' % field for field in fields.items()])


def _load(codec: Codec[T], document: Mapping[str, object], data: bytes) -> T:
    try:
        return codec.load(document)
    except CodecError as error:
        _refuse(data, error.path, str(error))


def _refuse(data: bytes, path: str, why: str) -> NoReturn:
    msg = f"line {line_of(data, path)}: {why}"
    raise BadSnapshotError(msg)


def _check_format(found: object) -> None:
    if found == FORMAT:
        return
    if found is None:
        msg = f"line 1: the field 'format' is missing; this version of Everturn writes {FORMAT}"
        raise BadSnapshotError(msg)
    way_out = "use the version that wrote it, or a later one"
    if isinstance(found, str) and _OLDER.fullmatch(found):
        way_out = (
            "`everturn upgrade` makes the session anew from its log and archive, and keeps this"
            " file; or use the version that wrote it"
        )
    msg = (
        f"it has the format {found!r}, which this version of Everturn does not know (it knows "
        f"{FORMAT}); {way_out}"
    )
    raise UnknownFormatError(msg)


def _size_messages(turns: tuple[Turn, ...]) -> int:
    return sum(turn.size_messages for turn in turns)
