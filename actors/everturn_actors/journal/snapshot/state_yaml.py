"""`state.yaml`, written: a line for each field, and then one for each message. Pure.

JSON is a part of YAML's flow style except for a few characters that YAML 1.1 cannot hold raw or
reads as line breaks; those are escaped, so that every YAML parser reads the file as it was written,
while the lines are written at the speed of JSON.
Source: YAML 1.1, sections 5.1 (character set) and 5.4 (line breaks), https://yaml.org/spec/1.1/,
read 2026-11-21; checked against PyYAML 6.0.3, which refuses U+FEFF inside a document as well.
"""

from __future__ import annotations

import re
from typing import Final, cast

import msgspec

from everturn_actors.codec import encode
from everturn_actors.journal.log.archive import ArchiveRecord
from everturn_actors.model import Reductions
from everturn_actors.state.session_state import SessionState

FORMAT: Final = "everturn/state-v7"
FIRST_SECTION: Final = "seen"
"The first field that is not of the header; it is always there."
COUNTED: Final = ("checkpointed_messages", "pending_messages")
"What is counted anew when a file is read."
_ALWAYS: Final = ("status", FIRST_SECTION)
_LISTS: Final = ("waiting", "checkpointed", "pending", "ambient", "outbox")
"Fields with a line, or several, for each entry."

_COMMENT = """\
# What this session knew at event `last_seq`. The log, events.jsonl, is the truth; with this file
# only what was logged later has to be replayed. Below the header stand turns and messages, each
# message on a line of its own, and what the model sees in place of messages. While Everturn is
# stopped, the file may be edited by hand: any valid YAML of the same fields will do.
"""
_HOSTILE = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef(?:\xbb\xbf|\xbf[\xbe\xbf])")
_FIELDS = tuple(
    (each.name, each.encode_name, each.default)
    for each in msgspec.structs.fields(SessionState)
    if each.name not in COUNTED
)


def encode_state(state: SessionState, archive: ArchiveRecord | None = None) -> bytes:
    """Return the bytes of `state.yaml`; fields that hold their default are left out.

    Args:
        state: What the session knows.
        archive: What its archive has to hold; None = not known.
    """
    parts = [_COMMENT.encode(), b"format: %b\n" % FORMAT.encode()]
    if archive is not None:
        parts.append(b"archive: %b\n" % encode(archive))
    for name, shown, default in _FIELDS:
        value: object = getattr(state, name)
        if value == default and name not in _ALWAYS:
            continue
        if name in _LISTS:
            parts.append(b"%b:\n" % shown.encode())
            entries = cast("tuple[object, ...]", value)
            parts += [b"- %b\n" % encode(entry) for entry in entries]
        elif isinstance(value, Reductions):
            parts.append(b"%b: %b\n" % (shown.encode(), _reductions(value)))
        else:
            parts.append(b"%b: %b\n" % (shown.encode(), encode(value)))
    # Inside of texts the quotes of JSON are escaped: this is found before messages alone.
    data = b"".join(parts).replace(b'{"role":"', b'\n  {"role":"').replace(b"- \n ", b"-")
    if data.isascii() and b"\x7f" not in data:
        return data
    return _HOSTILE.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), data)


def _reductions(reductions: Reductions) -> bytes:
    """Return what is hidden; sorted, for the order in which that was done says nothing.

    What stands for a message has a line of its own, so that a person can take it out.
    """
    fields = msgspec.structs.asdict(reductions)
    replaced = sorted(fields.pop("replaced").items())
    fields["dropped"] = sorted(reductions.dropped)
    lines = b",".join([b'\n  "%d":%b' % (seq, encode(each)) for seq, each in replaced])
    rest = encode({name: value for name, value in fields.items() if value})
    rest = rest.replace(b'"summary":{', b'\n  "summary":{')
    if not lines:
        return rest
    return b'{"replaced":{%b\n  }%b%b' % (lines, b"," if rest != b"{}" else b"", rest[1:])
